"""Knowledge graphs: vocabularies, triples, reading, writing, statistics and splits."""
