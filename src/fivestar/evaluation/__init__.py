"""Evaluate models: ranks of true answers, metrics, top-k answers, calibrated probabilities."""
