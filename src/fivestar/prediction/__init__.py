"""Predictions, explanations, completion and export of a trained model."""
