"""A training run on disk: its settings, its model, and everything needed to use it."""
