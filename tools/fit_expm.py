"""Find the constants of `rmixup.spd.product.SCHEMES`: minimax fits of exp in few matrix products.

    python tools/fit_expm.py 4 18 60        products, width, seconds of search

prints the best scheme found. Three products carry every polynomial of degree 8, so those constants follow from its
coefficients; four reach only some of degree 16, which random starts and reweighted least squares search through.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.chebyshev import cheb2poly, chebinterpolate
from scipy.optimize import least_squares

from rmixup.spd.product import Scheme


def target(y, width):
    """exp on [-width, 0], moved to [-1, 1]."""
    return np.exp((y - 1) * width / 2)


def evaluate(x, products, y):
    """Value and Jacobian (points, parameters) of the scheme at numbers y; x holds first, pairs, ends."""
    Q = [y, y * y]
    D = [np.zeros((len(x), len(y))) for _ in Q]
    right, d_right = Q[1] + x[0] * y, np.zeros_like(D[0])
    d_right[0] = y
    Q.append(Q[1] * right)
    D.append(Q[1] * d_right)
    at = 1
    for m in range(2, products):
        basis = np.array(Q[:-1])
        halves = []
        for _ in "lr":
            slope = D[-1] + np.tensordot(x[at : at + m], np.array(D[:-1]), 1)
            slope[at : at + m] += basis
            halves.append((Q[-1] + x[at : at + m] @ basis, slope))
            at += m
        (left, d_left), (right, d_right) = halves
        Q.append(left * right)
        D.append(d_left * right + left * d_right)
    basis = np.array([np.ones_like(y), *Q])
    slope = np.tensordot(x[at + 1 :], np.array(D), 1)
    slope[at:] += basis
    return x[at:] @ basis, slope.T


def search(products, width, seconds, seed=0):
    """Return (error, x) of the best local minimax fit that random starts lead to."""
    rng = np.random.default_rng(seed)
    size = 1 + sum(2 * m for m in range(2, products)) + products + 2
    best, end = (np.inf, np.zeros(size)), time.monotonic() + seconds
    while time.monotonic() < end:
        best = min(best, local_fit(rng.normal(size=size), products, width), key=lambda found: found[0])
    return best


def local_fit(x, products, width, rounds=25):
    """Least squares, its weights moved to where the error is largest, round by round."""
    y = np.cos(np.pi * (np.arange(120) + 0.5) / 120)
    f, weight, best = target(y, width), np.ones(120), (np.inf, x)
    scale = 1e3
    for _ in range(rounds):
        x = least_squares(
            lambda x: (evaluate(x, products, y)[0] - f) * weight * scale,  # noqa: B023 -- used at once
            x,
            lambda x: evaluate(x, products, y)[1] * (weight * scale)[:, None],  # noqa: B023
            method="lm",
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
            max_nfev=1000,
        ).x
        error = np.abs(evaluate(x, products, y)[0] - f)
        if not error.max() < 1e-4:
            break
        best = min(best, (error.max(), x), key=lambda found: found[0])
        weight, scale = weight * np.sqrt(error / error.max() + 1e-3), 1 / error.max()
        weight /= weight.mean()
    return best


def degree_8(width):
    """The scheme in three products of the Chebyshev interpolant of degree 8, coefficient by coefficient."""
    c = cheb2poly(chebinterpolate(target, 8, (width,)))
    c8, (c3, c4, c5, c6, c7) = c[8], c[3:8] / c[8]
    b = c7 / 2
    s2 = c6 - b * b
    s1 = c5 - b * s2
    # y⁴ and y³ leave one number free; this d2 is away from 0, by which d1 divides, and makes one factor -1.
    d2 = s2 / 2 + 1
    e3 = c4 - b * s1 - s2 * s2 / 4 + d2 * d2
    d1 = (s1 * s2 / 2 + b * e3 - c3) / (2 * d2)
    left, right = (s1 / 2 + d1, s2 / 2 + d2), (s1 / 2 - d1, s2 / 2 - d2)
    y = Polynomial([0, 1])
    q3 = y**4 + b * y**3
    rest = Polynomial(c) / c8 - (q3 + left[1] * y**2 + left[0] * y) * (q3 + right[1] * y**2 + right[0] * y) - e3 * q3
    e0, e1, e2 = rest.coef[:3]
    return np.array([b, *left, *right, *(c8 * np.array([e0, e1, e2, e3])), c8])


def as_scheme(x, products, width):
    """The numbers in the order of `Scheme`, with the error measured on a fine grid."""
    y = np.linspace(-1, 1, 4001)
    error = np.abs(evaluate(x, products, y)[0] - target(y, width)).max()
    pairs, at = [], 1
    for m in range(2, products):
        pairs.append((tuple(x[at : at + m].tolist()), tuple(x[at + m : at + 2 * m].tolist())))
        at += 2 * m
    return Scheme(width, float(f"{error:.2g}"), float(x[0]), tuple(pairs), tuple(x[at:].tolist()))


if __name__ == "__main__":
    n_products, interval = int(sys.argv[1]), float(sys.argv[2])
    found = degree_8(interval) if n_products == 3 else search(n_products, interval, float(sys.argv[3]))[1]
    print(as_scheme(found, n_products, interval))  # noqa: T201
