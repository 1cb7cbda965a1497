"""Augmentation: one file a method, one for pair policies; drawing apart from applying.

May not be here: data sets from disk, models, training; nothing beyond torch and NumPy.
"""
