"""Search for settings by validation MRR, with a number of trials or within a time budget."""
