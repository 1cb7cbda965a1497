"""The spec of a study: one TOML file, checked as a whole before anything runs.

All problems are reported together, each with its line; an unknown key with the nearest known one. Names of methods
and backbones are left to whoever runs them (`check_names`), because their registries need torch.
"""

from __future__ import annotations

import difflib
import re
import tomllib
import typing
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from rmixup.errors import FormatError
from rmixup.study.presets.datasets import filled


def _one_problem(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """A value that is none of several types is one problem, and not one for each type."""
    try:
        return check(value)
    except ValidationError:
        raise ValueError(
            "expected true, false, a finite number, a text, or a list of finite numbers or of texts"
        ) from None


Value = typing.Annotated[bool | int | float | str | list[int] | list[float] | list[str], WrapValidator(_one_problem)]
BASELINES = ("linear", "tangent")  # linear models that stand beside all others unless switched off by name


class _Part(BaseModel):
    # A cell's key is a hash of JSON text, in which there is no NaN and no infinity.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Choice(BaseModel):
    """A name with parameters: `"rmixup"` or `{name = "rmixup", alpha = 0.5}`."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, Value]
    name: str = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Value]:
        """The parameters beside the name."""
        return dict(self.__pydantic_extra__ or {})


class Data(_Part):
    """What is learned from, and what is predicted."""

    path: str | None = None
    preset: str | None = Field(default=None, validate_default=True)
    layout: str = "auto"
    target: str | list[str] | None = None
    groups: str | None = None
    nodes: int | list[str] | None = None
    frames: int | None = Field(default=None, ge=3)
    kind: str = "correlation"
    regularize: str | None = None
    options: dict[str, Value] = {}

    @model_validator(mode="before")
    @classmethod
    def _fill_in_preset(cls, given: Any) -> Any:
        return filled(given) if isinstance(given, dict) and given.get("preset") is not None else given

    @field_validator("preset")
    @classmethod
    def _something_to_read(cls, preset: str | None, info: ValidationInfo) -> str | None:
        if preset is None and info.data.get("path", "") is None:
            raise ValueError("expected `path` (a file or folder) or `preset` (a named data set)")
        return preset


class Split(_Part):
    """How subjects are divided, and how often anew."""

    scheme: Literal["holdout", "kfold", "leave-group-out"] = "holdout"
    sizes: tuple[float, float, float] = (0.7, 0.1, 0.2)
    folds: int = Field(default=5, ge=2)
    stratify: str = "y+group"
    seed: int = 0
    repeats: int = Field(default=5, ge=1)

    @field_validator("sizes")
    @classmethod
    def _sizes_are_shares(cls, sizes: tuple[float, float, float]) -> tuple[float, float, float]:
        if min(sizes) < 0 or sizes[0] <= 0 or abs(sum(sizes) - 1) > 1e-9:
            raise ValueError("expected the shares of train, validation and test, which add up to 1")
        return sizes


class Protocol(_Part):
    """How each network model is trained; the defaults are the paper's."""

    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: float = Field(default=1e-4, gt=0)
    weight_decay: float = Field(default=1e-4, ge=0)
    batch_size: int = Field(default=16, ge=1)
    epochs: int = Field(default=200, ge=1)
    schedule: Literal["constant", "cosine"] = "constant"
    select: str = "auto"
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    watch_test: bool = False


Fraction = typing.Annotated[float, Field(gt=0, le=1)]


class Grid(_Part):
    """What is compared: every method with every backbone, training size, series length and seed."""

    methods: list[Choice] = Field(min_length=1)
    backbones: list[Choice] = Field(default_factory=lambda: [Choice.model_validate("transformer")], min_length=1)
    train_sizes: list[Fraction] = Field(default=[1.0], min_length=1)
    lengths: list[typing.Annotated[int, Field(ge=3)]] = []
    shorten: Literal["first", "average"] = "average"
    seeds: list[int] = Field(default=[0], min_length=1)
    baselines: list[Literal["linear", "tangent"]] = ["linear", "tangent"]


class Spec(_Part):
    """A whole study."""

    name: str = "study"
    keep_weights: bool = False
    data: Data
    split: Split = Split()
    protocol: Protocol = Protocol()
    grid: Grid


def read_spec(path: Path) -> Spec:
    """Read and check a spec file. A relative data path is taken from the folder of the file."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: expected a TOML text in UTF-8, got byte {error.object[error.start]:#x}") from error
    spec = parse_spec(text, str(path))
    if spec.data.path is None:
        return spec
    found = (path.parent / Path(spec.data.path).expanduser()).absolute()
    return spec.model_copy(update={"data": spec.data.model_copy(update={"path": str(found)})})


def parse_spec(text: str, where: str = "spec") -> Spec:
    """Check the text of a spec.

    >>> spec = parse_spec('data.path = "x.npz"' + chr(10) + 'grid.methods = ["none", {name = "rmixup", alpha = 0.5}]')
    >>> spec.grid.methods[1].options
    {'alpha': 0.5}
    """
    try:
        return Spec.model_validate(tomllib.loads(text))
    except ValidationError as error:
        problems = sorted(_problem(text, dict(item)) for item in error.errors())
    except (ValueError, RecursionError) as error:  # TOML that is none, a number without end, brackets in brackets
        raise FormatError(f"{where}: expected TOML, but {error}") from error
    told = "; ".join(f"line {line}: {problem}" for line, problem in problems)
    raise FormatError(f"{where}: {len(problems)} problem{'s' * (len(problems) > 1)}: {told}")


def check_names(spec: Spec, methods: Collection[str], backbones: Collection[str]) -> None:
    """Refuse methods and backbones that nobody provides, all at once."""
    wanted = [("method", choice.name, methods) for choice in spec.grid.methods]
    wanted += [("backbone", choice.name, backbones) for choice in spec.grid.backbones]
    unknown = [f"{kind} {name!r}{_nearest(name, known)}" for kind, name, known in wanted if name not in known]
    if unknown:
        raise FormatError(f"{spec.name}: nobody provides {'; '.join(unknown)}")


def _problem(text: str, error: dict[str, Any]) -> tuple[int, str]:
    """What one pydantic error says: the line, and a sentence of place, what was expected, what came."""
    place = [str(part) for part in error["loc"]]
    line = _line(text, place)
    if error["type"] == "extra_forbidden":
        return line, f"unknown key {place[-1]!r}{_in(place)}{_nearest(place[-1], _known(place[:-1]))}"
    if error["type"] == "missing":
        return line, f"key {place[-1]!r} is missing{_in(place)}"
    message = error["msg"].removeprefix("Value error, ")
    came = "" if error["input"] is None or isinstance(error["input"], dict) else f", got {error['input']!r:.60}"
    return line, f"{'.'.join(place)}: {message[0].lower()}{message[1:]}{came}"


def _in(place: list[str]) -> str:
    return f" in [{place[0]}]" if len(place) > 1 else ""


def _nearest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known)}"


def _known(place: list[str]) -> list[str]:
    """The keys that may stand at a place; only tables with fixed keys refuse any."""
    model: type[BaseModel] = Spec
    for part in place:
        model = typing.cast("type[BaseModel]", model.model_fields[part].annotation)
    return list(model.model_fields)


def _line(text: str, place: list[str]) -> int:
    """The line a key stands on. TOML's reader keeps no positions, so the parts of the place are sought in order.

    >>> _line('a = 1' + chr(10) + '[grid]' + chr(10) + 'methods = []', ["grid", "methods"])
    3
    """
    lines = [line.partition("#")[0] for line in text.splitlines()]
    at = 0
    for part in place:
        pattern = re.compile(rf"(?<![\w-]){re.escape(part)}(?![\w-])")
        at = next((k for k in range(at, len(lines)) if pattern.search(lines[k])), at)
    return at + 1


TEMPLATE = """\
# A study of rmixup. Run it with:  rmixup study run {file} --out RESULTS
# Every key is shown; those behind a # have the default that is written there.
name = "study"
# keep_weights = false          # keep the trained weights of every cell

[data]
path = "networks.npz"           # a file or folder that `rmixup check` reads, relative to this file
# layout = "auto"               # which reader; "auto" asks each
target = "label"                # the column to predict
# groups = "site"               # the column of sites or scanners, for stratified and leave-group-out splits
# nodes = 100                   # so many nodes drawn at random, or a list of node names; all by default
# frames = 100                  # the first frames of each series; all by default
# kind = "correlation"          # or "covariance", "ledoit-wolf", "oas", "partial", from series
# regularize = "shrink=0.05"    # or "floor=1e-6"; nothing is repaired silently

[split]
# scheme = "holdout"            # or "kfold", "leave-group-out"
# sizes = [0.7, 0.1, 0.2]       # train, validation, test
# folds = 5                     # of "kfold"
# stratify = "y+group"
# seed = 0
repeats = {repeats}                     # so many splits, the same for every method: comparisons are paired

[protocol]
# optimizer = "adam"            # or "adamw"
# learning_rate = 1e-4
# weight_decay = 1e-4
# batch_size = 16
epochs = {epochs}
# schedule = "constant"         # or "cosine"
# select = "auto"               # the score that chooses the epoch on the validation part
# precision = "fp32"            # or "tf32", "bf16": quicker on a GPU
# watch_test = false            # record the test loss of each epoch; it never selects anything

[grid]
methods = {methods}
# a method with parameters: {{name = "rmixup", alpha = 0.5}}
# backbones = ["transformer"]
# train_sizes = [1.0]           # shares of the training part
# lengths = []                  # frames per series; needs series
# shorten = "average"           # how series are shortened: average blocks, or take the "first" frames
# seeds = [0]                   # initialisations for each split
# baselines = ["linear", "tangent"]   # [] switches the linear baselines off
"""


def template(file: str, quick: bool = False) -> str:
    """The text of a commented spec, valid as it stands."""
    methods = ["none", "rmixup"] if quick else ["none", "vmixup", "cmixup", "rmixup", "tangent"]
    listed = "[" + ", ".join(f'"{name}"' for name in methods) + "]"
    return TEMPLATE.format(file=file, repeats=3 if quick else 10, epochs=20 if quick else 200, methods=listed)
