"""Geometry of symmetric positive definite matrices: pure functions on (..., n, n) tensors.

May not be here: data sets, randomness, anything beyond torch and NumPy.
"""
