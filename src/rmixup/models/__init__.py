"""Backbones: one file each, forward only. May not be here: losses, optimisers, data; nothing beyond torch and NumPy
(spdnet uses spd-learn where installed).

`BACKBONES` names them; add your own class to the dict and every part of rmixup can train it
(`rmixup.testing.check_backbone` says whether it keeps the rules). `build` makes one from a seed.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from rmixup import keys
from rmixup.errors import DataError
from rmixup.models.backbone import Backbone
from rmixup.models.brainnetcnn import BrainNetCNN
from rmixup.models.gcn import GCN
from rmixup.models.gin import GIN
from rmixup.models.mlp import MLP
from rmixup.models.spdnet import SPDNet
from rmixup.models.transformer import Transformer

__all__ = ["BACKBONES", "Backbone", "build", "find"]

BACKBONES: dict[str, type[Backbone]] = {
    "transformer": Transformer,
    "gcn": GCN,
    "gin": GIN,
    "brainnetcnn": BrainNetCNN,
    "spdnet": SPDNet,
    "mlp": MLP,
}


def find(backbone: str | type[Backbone]) -> type[Backbone]:
    """Return the class that a name stands for; a class stands for itself.

    >>> find("mlp").__name__
    'MLP'
    """
    if not isinstance(backbone, str):
        return backbone
    if backbone not in BACKBONES:
        raise DataError(f"expected a backbone among {', '.join(BACKBONES)}, got {backbone!r}")
    return BACKBONES[backbone]


def build(backbone: str | type[Backbone], n_nodes: int, n_outputs: int, seed: int = 0, **options: Any) -> Backbone:
    """Make a backbone whose initial parameters follow from the seed alone, on the CPU.

    Parameters
    ----------
    backbone : name in `BACKBONES`, or a class
    n_nodes : int
        The n of the n×n networks.
    n_outputs : int
        Number of classes (two for a binary task), or number of targets of a regression.
    seed : int
        The same seed gives the same parameters; torch's global generator is left as it was.
    **options
        What the class itself takes.

    Examples
    --------
    >>> import torch
    >>> model = build("mlp", n_nodes=5, n_outputs=2, seed=0, hidden=(8,))
    >>> model(torch.eye(5).expand(3, 5, 5)).shape
    torch.Size([3, 2])
    """
    cls = find(backbone)
    _check_options(cls, options)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # Not torch.manual_seed: that would also reset the generators of every GPU.
        torch.default_generator.manual_seed(keys.word(seed, "initial parameters"))
        return cls(n_nodes, n_outputs, **options)


def _check_options(cls: type[Backbone], options: dict[str, Any]) -> None:
    parameters = inspect.signature(cls).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    known = [name for name in parameters if name not in {"n_nodes", "n_outputs"}]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise DataError(f"{cls.__name__} has the options {', '.join(known) or 'none'}, got {', '.join(unknown)}")
