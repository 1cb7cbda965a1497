"""Small cohorts in which known edges differ between the classes, or none, and models that learn them in a moment."""

import numpy as np

import rmixup
from rmixup.train.cohort import Settings, train
from rmixup.train.protocol import Protocol

N_PEOPLE, N_NODES = 100, 14
# Edge -> what the second class has more of.
PLANTED = {(0, 7): 0.3, (3, 11): 0.3, (4, 12): -0.3}
QUICK = Protocol(epochs=8, learning_rate=1e-2)
MLP, GCN = ("mlp", {"hidden": (16,)}), ("gcn", {})


def with_edges(planted, seed=0, **options):
    """Simulated people without an effect; planted edges are changed in the second class, and nothing else."""
    drawn = rmixup.simulate(n_subjects=N_PEOPLE, n_nodes=N_NODES, n_frames=100, effect=0.0, seed=seed, **options)
    matrices = 0.6 * np.array(drawn.matrices) + 0.4 * np.eye(N_NODES)
    amount = drawn.y if drawn.task == "classification" else drawn.y[:, None].squeeze()
    for (i, j), size in planted.items():
        matrices[:, i, j] += size * amount
        matrices[:, j, i] = matrices[:, i, j]
    kept = {name: getattr(drawn, name) for name in ("subjects", "groups", "nodes", "classes", "target", "table")}
    return rmixup.Networks(matrices, drawn.y, **kept)


def fitted(ds, backbone="linear", options=None, protocol=QUICK):
    """A model of these people; linear ones with a penalty that makes them quick to solve."""
    options = {"C": 0.03} if options is None and backbone in {"linear", "tangent"} else options or {}
    return train(ds, Settings(backbone, options, "none", protocol=protocol, device="cpu"))
