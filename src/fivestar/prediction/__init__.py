"""Answers by name from a trained run."""
