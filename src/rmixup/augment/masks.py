"""Masks from words: one number an edge or a node, made on the device, the same on every device."""

from __future__ import annotations

import torch
from torch import Tensor

from rmixup import keys


def edge_uniforms(words: Tensor, nodes: int, index: Tensor) -> Tensor:
    """Symmetric matrices (B, n, n) of uniform numbers in (0, 1); `index` is `bank.triangle(nodes)`."""
    drawn = keys.uniform(words, nodes * (nodes + 1) // 2)
    return drawn.index_select(1, index).view(-1, nodes, nodes)


def entry_uniforms(words: Tensor, nodes: int) -> Tensor:
    """Matrices (B, n, n) of uniform numbers, each entry its own: not symmetric, as some published masks are."""
    return keys.uniform(words, nodes * nodes).view(-1, nodes, nodes)


def diagonal_mask(nodes: int, device: torch.device) -> Tensor:
    """True on the diagonal (n, n)."""
    return torch.eye(nodes, dtype=torch.bool, device=device)
