"""Your module, your loop, rmixup's batches: methods compared on paired splits, the best model kept.

A small graph network is trained from the same initial weights on the same people with each method; the epoch is chosen
on validation people, and test people are looked at once. A tangent-space logistic regression stands beside it.

Run it on simulated people:  python pytorch.py --small
Run it on yours:             python pytorch.py my-cohort --target diagnosis --splits 10 --out trained
"""

from __future__ import annotations

import argparse
import copy
import sys
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import save_file
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

import rmixup
from rmixup import MixupCollate, NetworkClassifier, Networks
from rmixup.augment import METHODS
from rmixup.study.statistics import corrected_t

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BATCH = 16
TANGENT = "tangent"


class GraphNet(nn.Module):
    """Rows of the network -> features of each node, passed along the edges once -> all nodes -> classes."""

    def __init__(self, n_nodes: int, n_classes: int, width: int = 8) -> None:
        super().__init__()
        self.own, self.passed = nn.Linear(n_nodes, width), nn.Linear(width, width)
        self.out = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(n_nodes * width, n_classes))

    def forward(self, x: Tensor) -> Tensor:
        """Networks (B, n, n) -> logits (B, C)."""
        features = functional.leaky_relu(self.own(x))
        passed = functional.leaky_relu(self.passed(x @ features / x.shape[-1]))
        return self.out(features + passed)


def arguments() -> argparse.Namespace:
    """What was typed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, help="what rmixup.load reads; simulated people if left out")
    parser.add_argument("--target", help="column to predict: classes")
    parser.add_argument("--groups", help="column of sites: each side gets its share of each")
    parser.add_argument("--regularize", help="shrink=0.05, where there are fewer frames than nodes")
    parser.add_argument("--methods", nargs="+", default=["none", "vmixup", "rmixup"], choices=METHODS, metavar="METHOD")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--workers", type=int, default=0, help="of the DataLoader; the batches are the same")
    parser.add_argument("--small", action="store_true", help="few people and epochs: see it run, conclude nothing")
    parser.add_argument("--out", type=Path, default=Path("trained"), help="folder of scores and weights")
    return parser.parse_args()


def cohort(given: argparse.Namespace) -> Networks:
    """Labelled networks, positive definite."""
    if given.data is None:
        ds = rmixup.simulate(n_subjects=80 if given.small else 200, n_nodes=20, n_frames=60)
    else:
        ds = rmixup.load(given.data, target=given.target, groups=given.groups)
        ds = ds if ds.has_matrices else ds.connectivity("correlation")
    if ds.task != "classification":
        sys.exit(f"pytorch.py: expected classes to tell apart, but the task is {ds.task}: name a column with --target")
    return ds.regularize(given.regularize) if given.regularize else ds


def whole_batch(networks: Networks) -> tuple[Tensor, Tensor]:
    """Everybody at once, as they are."""
    x, codes = (torch.stack(part).to(DEVICE) for part in zip(*networks.to_torch(), strict=True))
    return x, codes


def train(method: str, parts: tuple[Networks, Networks], seed: int, given: argparse.Namespace) -> GraphNet:
    """The model of the epoch with the smallest validation loss."""
    known, held_out = parts
    torch.manual_seed(seed)  # the same initial weights and order for every method
    net = GraphNet(known.n_nodes, len(known.classes)).to(DEVICE)
    collate = MixupCollate(method, train=known, seed=seed)
    loader = DataLoader(known.to_torch(), batch_size=BATCH, shuffle=True, collate_fn=collate, num_workers=given.workers)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-3)
    x_held_out, codes = whole_batch(held_out)
    best, least = copy.deepcopy(net), float("inf")
    for epoch in range(given.epochs):
        collate.set_epoch(epoch)
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(net(x.to(DEVICE)), y.to(DEVICE)).backward()  # y: class probabilities
            optimizer.step()
        with torch.no_grad():
            loss = float(functional.cross_entropy(net.eval()(x_held_out), codes))
        if loss < least:
            best, least = copy.deepcopy(net), loss
    return best.eval()


@torch.no_grad()
def score(net: GraphNet, test: Networks) -> float:
    """AUROC of a trained model on people it has not seen."""
    x, _ = whole_batch(test)
    return auroc(test, net(x).softmax(1).cpu().double())


def auroc(test: Networks, p: Tensor) -> float:
    """Of two classes, or the mean of each against the rest."""
    if len(test.classes) == 2:
        return float(roc_auc_score(test.y, p[:, 1]))
    return float(roc_auc_score(test.y, p / p.sum(1, keepdim=True), multi_class="ovr"))


def split_scores(ds: Networks, seed: int, given: argparse.Namespace) -> tuple[dict[str, float], dict[str, GraphNet]]:
    """Every method and the linear model on one split."""
    known, held_out, test = ds.split(seed=seed)
    nets = {method: train(method, (known, held_out), seed, given) for method in given.methods}
    linear = NetworkClassifier(TANGENT, random_state=seed).fit(known)
    scores = {method: score(net, test) for method, net in nets.items()}
    return scores | {TANGENT: auroc(test, torch.from_numpy(linear.predict_proba(test)))}, nets


def main() -> None:
    """Train on every split, write scores and weights, say what they show."""
    given = arguments()
    if given.small:
        given.splits, given.epochs = 2, 10
    ds = cohort(given)
    print(f"{ds}, on {DEVICE}")
    given.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in range(given.splits):
        scores, nets = split_scores(ds, seed, given)
        rows.append(scores)
        for method, net in nets.items():
            save_file(net.cpu().state_dict(), given.out / f"{method}-split-{seed}.safetensors")
        print(f"split {seed}: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))
    table = pd.DataFrame(rows).rename_axis("split")
    table.to_csv(given.out / "scores.csv")
    print(f"\nAUROC of {given.splits} splits\n{table.agg(['mean', 'std']).T.round(3)}\n")
    first, *others = table.columns
    for name in others:
        difference = table[name] - table[first]
        p = corrected_t(difference, test_to_train=0.2 / 0.7).p
        print(f"{name} against {first}: {difference.mean():+.3f}, p = {p:.2f} (corrected resampled t test)")
    print(f"\nWrote {given.out / 'scores.csv'} and the weights of {given.splits * len(given.methods)} models.")


if __name__ == "__main__":
    try:
        main()
    except rmixup.RMixupError as error:
        sys.exit(f"pytorch.py: {error}")
