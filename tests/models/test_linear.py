"""The affine map through convolutions: torch's own, but for rounding, alone and under vmap."""

import pytest
import torch
from torch.nn import functional

from rmixup.models import linear as module
from rmixup.models.linear import linear


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def results(function, x, weight, bias, grad):
    inputs = [part.clone().requires_grad_() for part in (x, weight, bias)]
    y = function(*inputs)
    return [y.detach(), *torch.autograd.grad(y, inputs, grad)]


@pytest.mark.parametrize("shape", [(300, 64), (4, 75, 100), (1, 256, 66)])
@pytest.mark.parametrize("out", [64, 130])
def test_values_and_gradients_are_torchs(shape: tuple[int, ...], out: int) -> None:
    x, weight, bias, grad = drawn(*shape), drawn(out, shape[-1]), drawn(out), drawn(*shape[:-1], out)
    assert module._pays(x, weight)
    exact = results(functional.linear, *(part.double() for part in (x, weight, bias, grad)))
    for ours, theirs in zip(results(linear, x, weight, bias, grad), exact, strict=True):
        assert ours.shape == theirs.shape
        assert (ours - theirs).norm() < 1e-6 * theirs.norm()


def test_it_reads_transposed_inputs_and_gradients() -> None:
    x, weight, bias, grad = drawn(64, 300).mT, drawn(64, 64).mT, drawn(64), drawn(64, 300).mT
    for ours, theirs in zip(
        results(linear, x, weight, bias, grad), results(functional.linear, x, weight, bias, grad), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)


def test_a_stack_equals_each_alone() -> None:
    x, weight, bias = (drawn(2, *shape).requires_grad_() for shape in ((3, 100, 64), (80, 64), (80,)))
    together = torch.func.vmap(linear)(x, weight, bias)
    alone = torch.stack([linear(x[k], weight[k], bias[k]) for k in range(2)])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)
    grad = drawn(*alone.shape)
    for one, other in zip(
        torch.autograd.grad(together, (x, weight, bias), grad),
        torch.autograd.grad(alone, (x, weight, bias), grad),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-3)


def test_gradients_may_be_taken_inside_the_stack() -> None:
    x, weight, bias = drawn(2, 3, 100, 64), drawn(2, 80, 64), drawn(2, 80)

    def loss(weight: torch.Tensor, bias: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return linear(x, weight, bias).square().sum()

    together = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2)))(weight, bias, x)
    alone = [torch.func.grad(loss, argnums=(0, 1, 2))(weight[k], bias[k], x[k]) for k in range(2)]
    for one, other in zip(together, zip(*alone, strict=True), strict=True):
        assert torch.equal(one, torch.stack(other))


def test_small_maps_double_precision_and_autocast_are_left_to_torch() -> None:
    x, weight = drawn(300, 64), drawn(64, 64)
    assert not module._pays(x[:10], weight)
    assert not module._pays(x, weight[:8])
    assert not module._pays(x.double(), weight.double())
    with torch.autocast("cpu", torch.bfloat16):
        assert not module._pays(x, weight)
        assert linear(x, weight, drawn(64)).dtype == torch.bfloat16
