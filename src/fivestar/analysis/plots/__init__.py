"""Plots. Each function returns a matplotlib `Figure` and keeps no state."""
