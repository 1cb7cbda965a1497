"""A model as a folder: `model.safetensors` with its numbers, `model.json` with all that is known of it.

A folder is whole or it is not there. `model.json` carries its own checksum and that of the numbers; reading verifies
both, the schema, and the size of every tensor against the backbone, before anything is built. Nothing is unpickled.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
import safetensors
import torch
from safetensors.torch import load, save
from torch import Tensor

from rmixup import __version__, models
from rmixup.data.connectivity import KINDS
from rmixup.data.store import MANIFEST as NETWORKS
from rmixup.errors import FormatError, RMixupError, StoreError
from rmixup.files import digest, place_folder, seal, sweep, unseal
from rmixup.models import BACKBONES
from rmixup.spd.repair import parse_regularizer
from rmixup.train.baselines import BASELINES
from rmixup.train.losses import Scaler
from rmixup.train.model import Model, is_baseline
from rmixup.train.predictor import Predictor
from rmixup.train.preparation import ESTIMATORS, Form, Preparation

SCHEMA = 1
FORMAT = "rmixup model"
CARD = "model.json"
WEIGHTS = "model.safetensors"
# Far above any network that these backbones can be trained on.
_MAX_CARD = 64 << 20
_STATE, _SCALER = "state/", "scaler/"


# ---- writing


def save_model(path: str | Path, predictor: Predictor, overwrite: bool = False) -> Path:
    """Write a model as a folder; returns its path.

    Parameters
    ----------
    path : path
        A folder that is not there yet; an existing model is replaced only with `overwrite`, anything else never.
    predictor : Predictor
        Its backbone must have a name, so that it can be found again.

    >>> import rmixup, tempfile
    >>> from rmixup.train.cohort import Settings, train
    >>> trained = train(rmixup.simulate(n_subjects=40, n_nodes=5), Settings("linear"))
    >>> folder = save_model(Path(tempfile.mkdtemp()) / "model", trained)
    >>> load_model(folder)
    Predictor(linear, classification of class, networks of 5 nodes)
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 -- resolve() would replace a link by its target
    sweep(path)
    check_place(path, overwrite)
    weights = save(_tensors(predictor.model))
    files = {WEIGHTS: weights, CARD: seal(_card(predictor, weights))}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        placed = place_folder(files, path, overwrite)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}); nothing was left there") from error
    if not placed:
        raise StoreError(f"{path}: something was put there meanwhile; choose another name")
    return path


def check_place(path: Path, overwrite: bool) -> None:
    """Refuse a place where a model must not be written, before the work is done."""
    if not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    if not (path / CARD).is_file():
        raise StoreError(f"{path}: something else than a model is there; choose another name")
    if not overwrite:
        raise StoreError(f"{path}: there is a model already; choose another name, or ask to overwrite it")


def _tensors(model: Model) -> dict[str, Tensor]:
    tensors = {f"{_STATE}{name}": value.detach().cpu().contiguous() for name, value in model.state.items()}
    if model.scaler is not None:
        scaler = {"mean": model.scaler.mean, "scale": model.scaler.scale}
        tensors |= {f"{_SCALER}{name}": value.detach().cpu().contiguous() for name, value in scaler.items()}
    return tensors


def _card(predictor: Predictor, weights: bytes) -> dict[str, Any]:
    model = predictor.model
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "backbone": _name(model.backbone),
        "options": model.options,
        "task": model.task,
        "n_nodes": model.n_nodes,
        "n_outputs": model.n_outputs,
        "nodes": predictor.nodes,
        "classes": predictor.classes,
        "target": predictor.target,
        "preparation": asdict(predictor.preparation),
        "record": predictor.record,
        "weights": {"sha256": digest(weights), "size": len(weights)},
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "rmixup": __version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "safetensors": safetensors.__version__,
        },
    }


def _name(backbone: Any) -> str:
    """The name under which a backbone is found again."""
    names = [name for name, one in BACKBONES.items() if one is backbone] if isinstance(backbone, type) else [backbone]
    if not names:
        raise StoreError(
            f"a model of the class {backbone.__name__} cannot be written, because nothing says where to find it: "
            f"give it a name first, rmixup.models.BACKBONES['{backbone.__name__.lower()}'] = {backbone.__name__}"
        )
    return str(names[0])


# ---- reading


def load_model(path: str | Path) -> Predictor:
    """Read and verify a model that `save_model` wrote; what is wrong with it is said in one line."""
    path = Path(path)
    if not path.exists():
        sweep(path)
    card = _read_card(path)
    try:
        weights = _read_weights(path / WEIGHTS, card["weights"])
        return _predictor(card, weights)
    except RMixupError as error:
        raise type(error)(_about(path, str(error))) from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
        raise FormatError(
            f"{path}: {CARD} does not describe a model ({type(error).__name__}: {error}); train it again"
        ) from error


def _about(path: Path, message: str) -> str:
    return message if message.startswith(str(path)) else f"{path}: {message}"


def _read_card(path: Path) -> dict[str, Any]:
    file = path / CARD
    if not path.exists():
        raise StoreError(f"{path}: there is no such folder; rmixup train --out {path} writes one")
    if not file.is_file():
        other = "a data set, not a model" if (path / NETWORKS).is_file() or path.is_file() else f"{CARD} is missing"
        raise StoreError(f"{path}: expected a folder of rmixup train, but this is not one ({other})")
    if file.stat().st_size > _MAX_CARD:
        raise FormatError(f"{file}: {file.stat().st_size} bytes are too many for a description; the file is damaged")
    _refuse_newer(file)
    card = unseal(file)
    kind, schema = card.get("format"), card.get("schema")
    if kind != FORMAT or not isinstance(schema, int):
        raise FormatError(f"{file}: describes {kind!r}, expected {FORMAT!r}")
    return card


def _refuse_newer(file: Path) -> None:
    """Said before the checksum is looked at: a newer form may be sealed in another way."""
    try:
        schema = json.loads(file.read_bytes())["schema"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    if isinstance(schema, int) and schema > SCHEMA:
        raise FormatError(f"{file}: was written by a newer rmixup (schema {schema}, known {SCHEMA}); update rmixup")


def _read_weights(file: Path, stated: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors, from bytes that have the checksum they were written with."""
    if not file.is_file():
        raise StoreError(f"{file}: is missing; train the model again, or copy the whole folder")
    size = file.stat().st_size
    if size != stated["size"]:
        raise StoreError(f"{file}: has {size} bytes, expected {stated['size']}; copy it again")
    content = file.read_bytes()
    if digest(content) != stated["sha256"]:
        raise StoreError(f"{file}: is damaged: its checksum is not the one it was written with; copy it again")
    try:
        return load(content)
    except safetensors.SafetensorError as error:
        raise FormatError(f"{file}: is not a file of tensors ({error})") from error


def _predictor(card: Mapping[str, Any], tensors: dict[str, Tensor]) -> Predictor:
    classes, nodes = _names(card["classes"]), _names(card["nodes"])
    _require(card["task"] in {"classification", "regression"}, f"the task {card['task']!r} is unknown")
    _require((card["task"] == "classification") == (classes is not None), "classes and task do not fit together")
    _require(classes is None or len(classes) == card["n_outputs"], "classes and outputs are not as many")
    _require(nodes is None or len(nodes) == card["n_nodes"], "the names of the nodes are not as many as the nodes")
    state, scaler = (
        {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        for prefix in (_STATE, _SCALER)
    )
    _require(len(state) + len(scaler) == len(tensors), "there are tensors of unknown use")
    _check_shapes(state, _shapes(card, sum(value.numel() for value in state.values())), "state")
    trained_numbers = card["task"] == "regression" and not is_baseline(card["backbone"])
    scale = (1, card["n_outputs"])
    _check_shapes(scaler, {"mean": scale, "scale": scale} if trained_numbers else {}, "scaler")
    model = Model(
        backbone=card["backbone"],
        options=card["options"],
        n_nodes=card["n_nodes"],
        n_outputs=card["n_outputs"],
        task=card["task"],
        state=state,
        scaler=Scaler(**scaler) if scaler else None,
    )
    target = card["target"] if isinstance(card["target"], str) else _names(card["target"])
    preparation = _preparation(card["preparation"])
    return Predictor(model, nodes, classes, target, preparation, dict(card["record"]))


def _preparation(values: Mapping[str, Any]) -> Preparation:
    """What is done to new networks: names and numbers that the rest of rmixup can be handed."""
    found = Preparation(**values)
    frames = found.frames
    _require(found.kind is None or found.kind in {*KINDS, *ESTIMATORS}, f"the kind {found.kind!r} is unknown")
    _require(frames is None or (type(frames) is int and frames > 0), f"{frames!r} is no number of frames")
    _require(found.form in get_args(Form), f"the form {found.form!r} is unknown")
    if found.regularize is not None:
        parse_regularizer(str(found.regularize))
    return found


def _shapes(card: Mapping[str, Any], numbers: int) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor that the backbone has; nothing of a size that the file does not hold is made."""
    backbone, sizes = card["backbone"], (card["n_nodes"], card["n_outputs"])
    if is_baseline(backbone):
        return BASELINES[backbone](**card["options"]).shapes(*sizes)
    try:
        with torch.device("meta"):
            module: torch.nn.Module = models.find(backbone)(*sizes, **card["options"])
    except RuntimeError:  # orthogonal maps look at their own numbers, which must be there then
        _require(card["n_nodes"] ** 2 <= numbers, f"{numbers} numbers are too few for {card['n_nodes']} nodes")
        module = models.build(backbone, *sizes, **card["options"])
    beside = ((name, value) for name, value in module.named_buffers() if value.is_floating_point())
    return {name: tuple(value.shape) for name, value in (*module.named_parameters(), *beside)}


def _check_shapes(found: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]], what: str) -> None:
    for name in sorted({*found, *expected}):
        has = tuple(found[name].shape) if name in found else "missing"
        wants = expected.get(name, "none")
        _require(has == wants, f"{what} {name} is {has}, the backbone has {wants}")
        _require(found[name].is_floating_point(), f"{what} {name} holds {found[name].dtype}, not floats")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise FormatError(f"its files do not fit together ({message}); train the model again")


def _names(values: Any) -> tuple[str, ...] | None:
    return None if values is None else tuple(map(str, values))
