"""What a trained model has learned: its relations as maps, patterns, shapes, clusters."""
