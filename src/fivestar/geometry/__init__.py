"""Möbius maps, the Riemann sphere and the Poincaré ball: tensors in, tensors out."""
