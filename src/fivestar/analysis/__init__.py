"""Analyses of trained models: relations as maps, patterns, shapes, clusters and plots of them."""
