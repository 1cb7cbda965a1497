"""Backbones: one file each, forward only. May not be here: losses, optimisers, data; nothing beyond torch and NumPy
(spdnet and gcn use their own libraries where installed)."""
