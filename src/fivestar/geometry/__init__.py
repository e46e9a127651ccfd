"""Tensors in, tensors out: the mathematics of the Riemann sphere. Imports nothing of ours."""
