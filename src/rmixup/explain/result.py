"""`Explanation`: what a model goes by, as arrays and as tables in the names of the data. NumPy and pandas only.

Maps are packed as in `rmixup.explain.maps`. May not be here: torch, files, pictures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rmixup.explain.maps import Floats, membership, node_sums, off_diagonal, pair_sums, pairs, square, top_count, tops

if TYPE_CHECKING:
    import pandas as pd

# What is called significant.
LEVEL = 0.05


@dataclass(frozen=True)
class Stability:
    """How far the maps of refits agree.

    Attributes
    ----------
    agreement, lowest : mean and smallest correlation, about zero, of the maps of two refits of a pair
    chance : its mean over permutations; without permutations 0 for refits that share nobody, else None
    chance_high : what 95 % of permutations stay below, or None without permutations
    p : share of permutations that agree as much, or None
    above_chance : whether that is more than where there is nothing to learn
    overlap : share of the top edges of one that are top edges of the other
    overlap_chance : the same for edges drawn at random
    top : number of top edges
    shared : share of the people that a pair learned from in common
    """

    agreement: float
    lowest: float
    chance: float | None
    chance_high: float | None
    p: float | None
    above_chance: bool
    overlap: float
    overlap_chance: float
    top: int
    shared: float


@dataclass(frozen=True)
class Prediction:
    """How well the refits predict the people left out.

    Attributes
    ----------
    score : "auroc" or "r"
    mean, lowest, highest : over refits
    chance : what guessing reaches
    chance_high : what 95 % of permutations stay below; without permutations computed from the number of people
    p : share of permutations that predict as well, or None
    above_chance : whether the refits predict better than guessing
    """

    score: str
    mean: float
    lowest: float
    highest: float
    chance: float
    chance_high: float
    p: float | None
    above_chance: bool


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a model goes by.

    Attributes
    ----------
    nodes : (n,) names
    systems : (n,) names, or None
    coordinates : (n, 3) or None
    outputs : (K,) what each map is of: the second of two classes, each of more classes, or each target
    signed : (K, p) mean over refits; + where a stronger edge raises the output. Their mean sizes add up to 1
    absolute : (K, p) mean over refits of the sizes of attributions, of whichever sign; add up to 1
    pattern : (K, p) mean correlation of edge and output
    this_model : (K, p) the map of the model itself, scaled as `signed`
    stability_of_edges : (p,) share of refits in which the edge is a top one; None without refits
    same_sign : (K, p) share of refits with the sign of the mean; None without refits
    p : name ("edges", "nodes", "systems", "pairs") -> (2, …) p-values, uncorrected and corrected; empty without null
    stability, prediction : or None without refits
    cautions : what to know before anything is believed
    notes : what was done, in words
    record : the same for machines
    """

    nodes: tuple[str, ...]
    systems: tuple[str, ...] | None
    coordinates: Floats | None
    outputs: tuple[str, ...]
    signed: Floats
    absolute: Floats
    pattern: Floats
    this_model: Floats
    stability_of_edges: Floats | None
    same_sign: Floats | None
    p: dict[str, Floats]
    stability: Stability | None
    prediction: Prediction | None
    cautions: list[str]
    notes: list[str]
    record: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        of = f"{len(self.outputs)} outputs" if len(self.outputs) > 1 else self.outputs[0]
        return f"Explanation({of}, {len(self.nodes)} nodes, {self.record['refits']} refits)"

    @property
    def holds(self) -> bool | None:
        """Whether refits predict people they have not seen, and agree, beyond chance; None without refits."""
        if self.stability is None or self.prediction is None:
            return None
        return self.stability.above_chance and self.prediction.above_chance

    @property
    def importance(self) -> Floats:
        """(p,) mean size of `signed` over outputs; adds up to 1."""
        return np.asarray(np.abs(self.signed).mean(0))

    @property
    def top(self) -> int:
        """How many edges count as top ones."""
        return top_count(len(self.nodes))

    @property
    def is_top(self) -> npt.NDArray[np.bool_]:
        """(p,) which edges are top ones."""
        return np.asarray(tops(self.signed[None], len(self.nodes))[0])

    def matrix(self, packed: Floats | None = None) -> Floats:
        """(n, n) of a packed map (p,); by default `signed` where there is one output, else the importance."""
        if packed is None:
            packed = self.signed[0] if len(self.outputs) == 1 else self.importance
        return square(packed, len(self.nodes))

    # ---- tables

    def edges(self) -> pd.DataFrame:
        """One row an edge, the most important first."""
        import pandas as pd

        rows, columns = np.triu_indices(len(self.nodes))
        off = off_diagonal(len(self.nodes))
        names = np.array(self.nodes, dtype=object)
        table: dict[str, Any] = {"source": names[rows[off]], "target": names[columns[off]]}
        if self.systems is not None:
            systems = np.array(self.systems, dtype=object)
            table |= {"source_system": systems[rows[off]], "target_system": systems[columns[off]]}
        table["importance"] = self.importance[off]
        table |= self._each("signed", self.signed[:, off])
        if self.stability_of_edges is not None and self.same_sign is not None:
            table["stability"] = self.stability_of_edges[off]
            table |= self._each("same_sign", self.same_sign[:, off])
        if "edges" in self.p:
            table |= _p_columns(self.p["edges"][:, off])
        table |= self._each("pattern", self.pattern[:, off])
        table["absolute"] = self.absolute.mean(0)[off]
        table |= self._each("this_model", self.this_model[:, off])
        return _sorted(pd.DataFrame(table), "importance")

    def node_table(self) -> pd.DataFrame:
        """One row a node, the most important first: half of each of its edges, which add up to 1."""
        import pandas as pd

        n = len(self.nodes)
        table: dict[str, Any] = {"node": list(self.nodes)}
        if self.systems is not None:
            table["system"] = list(self.systems)
        table["importance"] = node_sums(self.importance, n)
        table |= self._each("signed", node_sums(self.signed, n))
        if "nodes" in self.p:
            table |= _p_columns(self.p["nodes"])
        table["absolute"] = node_sums(self.absolute.mean(0), n)
        if self.coordinates is not None:
            table |= dict(zip("xyz", self.coordinates.T, strict=True))
        return _sorted(pd.DataFrame(table), "importance")

    def system_table(self) -> pd.DataFrame | None:
        """One row a system; `per_node` is 1 where its nodes are as important as the average node."""
        import pandas as pd

        if self.systems is None:
            return None
        names, member = membership(self.systems)
        counts = member.sum(0)
        importance = node_sums(self.importance, len(self.nodes)) @ member
        table: dict[str, Any] = {"system": names, "nodes": counts.astype(int), "importance": importance}
        table["per_node"] = importance / counts * len(self.nodes)
        table |= self._each("signed", node_sums(self.signed, len(self.nodes)) @ member)
        if "systems" in self.p:
            table |= _p_columns(self.p["systems"])
        return _sorted(pd.DataFrame(table), "per_node")

    def pair_table(self) -> pd.DataFrame | None:
        """One row a pair of systems; `per_edge` is 1 where its edges are as important as the average edge."""
        import pandas as pd

        if self.systems is None:
            return None
        names, member = membership(self.systems)
        a, b, counts = pairs(member)
        table: dict[str, Any] = {"system_a": names[a], "system_b": names[b], "edges": counts.astype(int)}
        importance = pair_sums(self.importance, member)
        table["importance"] = importance
        table["per_edge"] = importance / counts * counts.sum()
        table |= self._each("signed", pair_sums(self.signed, member))
        if "pairs" in self.p:
            table |= _p_columns(self.p["pairs"])
        return _sorted(pd.DataFrame(table), "per_edge")

    def _each(self, name: str, values: Floats) -> dict[str, Floats]:
        """A column, or one an output."""
        if len(self.outputs) == 1:
            return {name: values[0]}
        return {f"{name}_{output}": one for output, one in zip(self.outputs, values, strict=True)}


def _p_columns(values: Floats) -> dict[str, Floats]:
    return {"p": values[0], "p_corrected": values[1]}


def _sorted(table: pd.DataFrame, by: str) -> pd.DataFrame:
    return table.sort_values(by, ascending=False, kind="stable", ignore_index=True)
