"""Backbones keep the rules, equal their published peers, and refuse what they cannot be."""

import builtins
import re
import warnings
from typing import Any, ClassVar

import pytest
import torch
from spd_learn.models import SPDNet as PeerSPDNet
from torch import Tensor, nn
from torch.nn import functional

from rmixup import models, testing
from rmixup.errors import DataError, RMixupError
from rmixup.models.brainnetcnn import EdgeToEdge
from rmixup.models.gcn import Convolution
from rmixup.models.gin import Isomorphism
from rmixup.models.graph import adjacency, normalised

with warnings.catch_warnings():  # its import compiles with what torch now calls deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import DenseGCNConv, DenseGINConv

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in models.BACKBONES),
    ("transformer", {"readout": "pool", "layers": 1, "heads": 3}),
    ("gcn", {"threshold": 0.3, "signed": "absolute", "readout": "mean"}),
    ("gin", {"threshold": 0.3, "signed": "positive"}),
    ("brainnetcnn", {"layers": 1, "channels": 4}),
    ("mlp", {"hidden": ()}),
]


def networks(count: int, n: int, seed: int = 0) -> Tensor:
    series = torch.randn(count, n, 3 * n, generator=torch.Generator().manual_seed(seed))
    return torch.stack([one.corrcoef() for one in series])


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_every_backbone_keeps_the_rules(name: str, options: dict[str, Any]) -> None:
    testing.check_backbone(name, sizes=(100,) if (name, options) == ("transformer", {}) else (5, 37), **options)


@pytest.mark.parametrize("name", models.BACKBONES)
def test_two_nodes_are_enough(name: str) -> None:
    assert models.build(name, 2, 3)(networks(4, 2)).shape == (4, 3)


@pytest.mark.parametrize("n", [8, 100])
def test_the_encoder_is_torchs(n: int) -> None:
    ours = models.build("transformer", n, 2, dropout=0.0)
    peer = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(n, 4, 1024, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False
    )
    for theirs, layer in zip(peer.layers, ours.encoder, strict=True):
        renamed = {
            "self_attn.in_proj_": layer.attention.query_key_value,
            "self_attn.out_proj.": layer.attention.out,
            "linear1.": layer.expand,
            "linear2.": layer.contract,
            "norm1.": layer.norm_1,
            "norm2.": layer.norm_2,
        }
        theirs.load_state_dict({k + part: getattr(m, part) for k, m in renamed.items() for part in ("weight", "bias")})
    x = networks(3, n)
    features = x
    for layer in ours.encoder:
        features = layer(features, None)
    torch.testing.assert_close(features, peer(x), rtol=1e-5, atol=1e-5)


def test_the_transformers_readout_is_the_protocols() -> None:
    shapes = {
        name: tuple(p.shape) for name, p in models.build("transformer", 12, 2).named_parameters() if "head" in name
    }
    assert shapes["head.layers.0.weight"] == (256, 96)
    assert shapes["head.layers.1.weight"] == (32, 256)
    assert shapes["head.layers.2.weight"] == (2, 32)


def test_a_convolution_is_torch_geometrics_where_weights_are_positive() -> None:
    x, layer, peer = networks(3, 9), Convolution(9, 5), DenseGCNConv(9, 5)
    peer.load_state_dict({"lin.weight": layer.linear.weight, "bias": layer.linear.bias})
    graph = adjacency(x, signed="absolute")
    torch.testing.assert_close(layer(x, normalised(graph)), peer(x, graph), rtol=1e-5, atol=1e-5)


def test_an_isomorphism_layer_is_torch_geometrics() -> None:
    x, layer = networks(3, 9), Isomorphism(9, 5)
    nn.init.constant_(layer.epsilon, 0.3)
    peer = DenseGINConv(layer.net, eps=0.3)
    peer.eps.fill_(0.3)
    peer.nn.load_state_dict(layer.net.state_dict())
    graph = adjacency(x)
    torch.testing.assert_close(layer(x, graph), peer(x, graph), rtol=1e-5, atol=1e-5)


def test_edge_to_edge_is_the_published_pair_of_convolutions() -> None:
    x, layer = torch.randn(2, 3, 7, 7), EdgeToEdge(7, 3, 5)
    across = functional.conv2d(x, layer.row[:, :, None, :], layer.bias)  # 1×n: (B, out, n, 1)
    down = functional.conv2d(x, layer.column[:, :, :, None])  # n×1: (B, out, 1, n)
    torch.testing.assert_close(layer(x), across + down, rtol=1e-5, atol=1e-5)


def test_spdnet_with_one_map_is_spd_learns() -> None:
    ours = models.build("spdnet", 8, 2, widths=(4,))
    peer = PeerSPDNet(input_type="cov", n_chans=8, n_outputs=2, subspacedim=4)
    peer.bimap.load_state_dict(ours.spd[0].state_dict())
    peer.classifier.load_state_dict(ours.head.state_dict())
    x = networks(3, 8)
    torch.testing.assert_close(ours(x), peer(x))


def test_kept_signs_matter_and_absolute_ones_do_not() -> None:
    x = networks(3, 9)
    flipped = x * (2 * torch.eye(9) - 1)
    assert not torch.allclose(adjacency(x), adjacency(flipped))
    assert torch.equal(adjacency(x, signed="absolute"), adjacency(flipped, signed="absolute"))
    assert torch.equal(adjacency(x, signed="positive"), adjacency(x).clamp(min=0))
    assert torch.linalg.matrix_norm(normalised(adjacency(x)), 2).max() <= 1 + 1e-6


@pytest.mark.parametrize("threshold", [0.01, 0.2, 0.5, 1.0])
def test_the_threshold_keeps_the_strongest_share(threshold: float) -> None:
    x = networks(4, 21)
    kept = adjacency(x, threshold)
    upper = torch.triu_indices(21, 21, 1)
    counts = (kept[:, upper[0], upper[1]] != 0).sum(-1)
    assert counts.tolist() == [max(1, round(threshold * 210))] * 4
    dropped = (x - kept)[:, upper[0], upper[1]].abs().amax(-1)
    assert (dropped <= torch.where(kept == 0, torch.inf, kept.abs()).amin((-2, -1))).all()


def test_building_names_what_is_wrong() -> None:
    with pytest.raises(DataError, match="expected a backbone among transformer, gcn"):
        models.build("resnet", 5, 2)
    with pytest.raises(DataError, match=re.escape("MLP has the options hidden, dropout, got depth, width")):
        models.build("mlp", 5, 2, width=3, depth=2)
    with pytest.raises(DataError, match="at least 2 nodes, got n_nodes=1"):
        models.build("mlp", 1, 2)
    with pytest.raises(DataError, match="at least 1 output, got n_outputs=0"):
        models.build("mlp", 5, 0)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("transformer", {"readout": "sum"}, "readout to be one of flatten, pool, got 'sum'"),
        ("transformer", {"dropout": 1.0}, "dropout in"),
        ("gcn", {"threshold": 0.0}, "share of edges kept, in"),
        ("gin", {"signed": "no"}, "signed to be one of keep, absolute, positive"),
        ("gcn", {"readout": "flatten"}, "readout to be one of sum, mean"),
        ("spdnet", {"widths": (9,)}, "widths that never grow from 5 nodes"),
    ],
)
def test_options_that_mean_nothing_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        models.build(name, 5, 2, **options)


def test_spdnet_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("spd_learn"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(RMixupError, match=r"pip install 'rmixup\[spdnet\]'"):
        models.build("spdnet", 5, 2)


class Careless(models.Backbone):
    """Breaks the rule that its fault names."""

    calls: Tensor

    def __init__(self, n_nodes: int, n_outputs: int, *, fault: str) -> None:
        super().__init__(n_nodes, n_outputs)
        self.linear = nn.Linear(n_nodes * n_nodes, n_outputs)
        self.unused = nn.Linear(1, 1) if fault == "unused" else None
        if fault == "fixed start":
            nn.init.constant_(self.linear.weight, 0.1)
            nn.init.constant_(self.linear.bias, 0.1)
        self.register_buffer("calls", torch.zeros(()))
        self.fault = fault

    def forward(self, x: Tensor, word: Tensor | None = None) -> Tensor:
        y: Tensor = self.linear(x.flatten(1))
        if self.fault == "batch statistics":
            y = y - y.mean(0)
        if self.fault == "shape":
            y = y.mean(-1)
        if self.fault == "dtype":
            y = y.double()
        if self.fault == "always drops":
            y = functional.dropout(y, 0.5)
        if self.fault == "own dropout" and word is not None:
            y = functional.dropout(y, 0.5)
        if self.fault == "singular":
            y = y / torch.linalg.det(x)[:, None]
        if self.fault == "unstackable" and y.sum().item() > 0:
            y = y + 1
        if self.fault == "counts":
            self.calls += 1
        return y


class Anything(Careless):
    """Takes options that only it knows."""

    stackable: ClassVar[bool] = False

    def __init__(self, n_nodes: int, n_outputs: int, **options: Any) -> None:
        super().__init__(n_nodes, n_outputs, fault=options.pop("fault", ""))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("unused", "no gradient reaches unused.weight"),
        ("fixed start", "different seeds give the same initial parameters"),
        ("batch statistics", "depends on the others in its batch"),
        ("counts", "forward changes the module's own state"),
        ("shape", "expected outputs of shape"),
        ("dtype", "expected outputs of the networks' dtype"),
        ("always drops", "evaluating twice gives different outputs"),
        ("own dropout", "draws from torch's global generator"),
        ("singular", "outputs of singular networks are not finite"),
        ("unstackable", "cannot be stacked"),
    ],
)
def test_the_check_finds_each_broken_rule(fault: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        testing.check_backbone(Careless, sizes=(5,), fault=fault)


def test_a_sound_backbone_of_ones_own_passes() -> None:
    testing.check_backbone(Careless, sizes=(5,), fault="")
    testing.check_backbone(Anything, sizes=(5,))


def test_building_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    models.build("mlp", 5, 2, seed=3)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.gpu
@pytest.mark.parametrize("name", models.BACKBONES)
def test_the_gpu_gives_the_same_outputs(name: str) -> None:
    model, x, word = models.build(name, 20, 2), networks(4, 20), torch.tensor(5)
    expected = model(x, word)
    torch.testing.assert_close(model.cuda()(x.cuda(), word.cuda()).cpu(), expected, rtol=1e-3, atol=1e-4)
