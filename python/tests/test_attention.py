"""Attention, positions and masks on arrays."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

import regard
from regard.attention import scaled_dot_product


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights @ v, weights


class OnlyDlpack:
    """An array of some other framework, which gives nothing but DLPack."""

    def __init__(self, values: np.ndarray, device: int | None = None) -> None:
        self.values = values
        self.device = device

    def __dlpack__(self, **settings: Any) -> Any:
        return self.values.__dlpack__(**settings)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0) if self.device else self.values.__dlpack_device__()


@pytest.mark.parametrize("masked", [False, True])
def test_scaled_dot_product(masked: bool) -> None:
    generator = np.random.default_rng(0)
    q, k, v = generator.normal(size=(2, 5, 8)), generator.normal(size=(2, 7, 8)), generator.normal(size=(2, 7, 3))
    mask = regard.masks.causal(5, 7) if masked else None
    output, weights = scaled_dot_product(q, k, v, mask)
    expected, expected_weights = reference(q, k, v, mask)
    np.testing.assert_allclose(output, expected, atol=1e-5)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-5)
    unscaled = scaled_dot_product(q, k, v, mask, scale=1.0).weights
    np.testing.assert_allclose(unscaled, reference(q * np.sqrt(8), k, v, mask)[1], atol=1e-5)


def test_gradients_agree_with_finite_differences() -> None:
    generator = np.random.default_rng(3)
    q, k, v, upstream = (generator.normal(size=(4, 6)).astype(np.float32) for _ in range(4))
    mask = regard.masks.causal(4)
    found = regard.attention.gradient(q, k, v, upstream, mask)
    for number, name in enumerate(("query", "key", "value")):
        direction, step = generator.normal(size=(4, 6)), 1e-4

        def at(scale: float) -> float:
            inputs = [x.astype(np.float64) for x in (q, k, v)]
            inputs[number] = inputs[number] + scale * direction
            return float((reference(inputs[0], inputs[1], inputs[2], mask)[0] * upstream).sum())

        slope = (at(step) - at(-step)) / (2 * step)
        np.testing.assert_allclose((found[number] * direction).sum(), slope, rtol=1e-4, err_msg=name)
    with pytest.raises(regard.Error, match="upstream must be"):
        regard.attention.gradient(q, k, v, np.ones((2, 2)))


def test_arrays_of_any_kind() -> None:
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    expected = scaled_dot_product(values, values, values).output
    given: list[Any] = [
        values.tolist(),
        values.astype(np.float64),
        np.asfortranarray(values),
        values.astype(np.float16),
        OnlyDlpack(values),
        memoryview(values),
        np.arange(12, dtype=np.float32).reshape(3, 4)[:, :2] * 0 + values,
    ]
    for kind in given:
        np.testing.assert_allclose(scaled_dot_product(kind, kind, kind).output, expected, atol=1e-6)
    row = array.array("f", [1.0, 2.0])
    assert scaled_dot_product([row], [row], [row]).output.shape == (1, 2)
    with pytest.raises(regard.Error, match="move it to the host"):
        scaled_dot_product(OnlyDlpack(values, device=2), values, values)
    with pytest.raises(regard.Error, match="numbers were expected"):
        scaled_dot_product([["a"]], values, values)
    with pytest.raises(regard.Error, match="expected"):
        scaled_dot_product(values, np.ones((3, 5)), values)


def test_multi_head_attention_is_its_heads_joined() -> None:
    attend = regard.MultiHeadAttention(8, 2, seed=3)
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    output, weights = attend(x, mask=regard.masks.causal(5))
    p = attend.parameters
    project = {name: x @ p[f"{name}.weight"].T + p[f"{name}.bias"] for name in ("query", "key", "value")}
    joined = []
    for head in range(2):
        q, k, v = (project[name][:, 4 * head : 4 * head + 4] for name in ("query", "key", "value"))
        said, expected = reference(q, k, v, regard.masks.causal(5))
        np.testing.assert_allclose(weights[head], expected, atol=1e-5)
        joined.append(said)
    np.testing.assert_allclose(output, np.concatenate(joined, -1) @ p["output.weight"].T + p["output.bias"], atol=1e-5)
    memory = np.ones((2, 3, 8), dtype=np.float32)
    assert attend(np.stack([x, x]), memory).weights.shape == (2, 2, 5, 3)
    with pytest.raises(regard.Error, match="divisible"):
        regard.MultiHeadAttention(8, 3)


def test_positions() -> None:
    table = regard.positions.sinusoidal(50, 6)
    places = np.arange(50)[:, None] / 10_000 ** (np.arange(0, 6, 2) / 6)
    np.testing.assert_allclose(table[:, 0::2], np.sin(places), atol=1e-5)
    np.testing.assert_allclose(table[:, 1::2], np.cos(places), atol=1e-5)
    x = np.random.default_rng(0).normal(size=(4, 1, 6)).astype(np.float32)
    turned = regard.positions.rotary(x)
    angle = np.arange(4)[:, None] / 10_000 ** (np.arange(3) / 3)
    pair = (x[:, 0, :3] + 1j * x[:, 0, 3:]) * np.exp(1j * angle)
    np.testing.assert_allclose(turned[:, 0], np.concatenate([pair.real, pair.imag], -1), atol=1e-5)


def test_masks() -> None:
    assert not regard.masks.causal(3, 5)[0, 3:].any() and regard.masks.causal(3, 5)[0, :3].all()
    mask = regard.masks.longformer(100, 2, [0])
    i, j = np.indices((100, 100))
    np.testing.assert_array_equal(mask, (abs(i - j) <= 2) | (i == 0) | (j == 0))
    np.testing.assert_array_equal(regard.masks.strided(10, 3), abs(i - j)[:10, :10] % 3 == 0)
    assert regard.masks.big_bird(200, 2, seed=1).sum() > regard.masks.longformer(200, 2).sum()
    with pytest.raises(regard.Error, match="stride"):
        regard.masks.strided(4, 0)


def test_vectors_of_another_width() -> None:
    attend = regard.MultiHeadAttention(d_model=8, n_heads=2)
    for given in ({"x": np.ones((3, 7))}, {"x": np.ones(8)}, {"x": np.ones((3, 8)), "memory": np.ones((2, 9))}):
        with pytest.raises(regard.Error, match=r"is \(time, 8\) or \(batch, time, 8\)"):
            attend(**given)
