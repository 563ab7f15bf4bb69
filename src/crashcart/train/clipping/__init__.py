"""Gradients clipped, each module by a norm of its own."""
