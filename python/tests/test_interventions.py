"""Changes inside a model do what they say, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import regard

TEXT = "the cat sat on the mat"


def test_an_ablated_head_says_nothing_and_others_go_on(gpt: regard.Model) -> None:
    plain, ablated = gpt(TEXT), gpt.run(TEXT, interventions=[regard.ablate(1, 2)])
    heads = ablated["layers.1.self.heads"]
    assert not heads[:, 2].any()
    np.testing.assert_allclose(heads[:, [0, 1, 3]], plain["layers.1.self.heads"][:, [0, 1, 3]], atol=1e-6)
    assert abs(ablated.logits - plain.logits).max() > 1e-3
    by_hook = gpt.run(TEXT, hooks={"layers.1.self.heads": lambda site, value: value * (np.arange(4) != 2)[:, None]})
    np.testing.assert_allclose(by_hook.logits, ablated.logits, atol=1e-6)
    mean = gpt.run(TEXT, interventions=[regard.ablate(1, 2, to="mean")])["layers.1.self.heads"][:, 2]
    np.testing.assert_allclose(mean, np.broadcast_to(plain["layers.1.self.heads"][:, 2].mean(0), mean.shape), atol=1e-6)


def test_patching_everything_gives_the_other_run(gpt: regard.Model) -> None:
    other = gpt("a dog saw the cat mat")
    site = "layers.1.residual.after"
    patched = gpt.run(TEXT, interventions=[regard.patch(site, other)])
    np.testing.assert_allclose(patched.logits, other.logits, atol=1e-5)
    some = gpt.run(TEXT, interventions=[regard.patch(site, other, positions=[0, -1])])
    np.testing.assert_allclose(some[site][[0, 5]], other[site][[0, 5]], atol=1e-6)
    np.testing.assert_allclose(some[site][1:5], gpt(TEXT)[site][1:5], atol=1e-6)


def test_one_head_can_be_patched(gpt: regard.Model) -> None:
    other = gpt("a dog saw the cat mat")
    site = "layers.2.self.heads"
    patched = gpt.run(TEXT, interventions=[regard.patch(site, other, heads=[3])])
    np.testing.assert_allclose(patched[site][:, 3], other[site][:, 3], atol=1e-6)
    np.testing.assert_allclose(patched[site][:, :3], gpt(TEXT)[site][:, :3], atol=1e-6)


def test_weights_can_be_set(gpt: regard.Model) -> None:
    weights = np.zeros((4, 6, 6), dtype=np.float32)
    weights[:, :, 0] = 1.0
    run = gpt.run(TEXT, interventions=[regard.patch("layers.0.self.weights", weights)])
    value = run["layers.0.self.value"]
    np.testing.assert_allclose(run["layers.0.self.heads"], np.broadcast_to(value[:1], value.shape), atol=1e-6)


def test_hooks_see_the_batch_and_every_site_in_order(gpt: regard.Model) -> None:
    seen: list[tuple[str, tuple[int, ...]]] = []
    gpt.run(["the cat", "a dog saw"], hooks={"layers.*.residual.after": lambda site, value: seen.append((site, value.shape))})
    assert seen == [(f"layers.{layer}.residual.after", (2, 3, 16)) for layer in range(3)]


def test_what_a_hook_raises_is_raised(gpt: regard.Model) -> None:
    def fails(site: str, value: object) -> None:
        raise ZeroDivisionError(site)

    with pytest.raises(ZeroDivisionError, match="layers.1.ffn.output"):
        gpt.run(TEXT, hooks={"layers.1.ffn.output": fails})
    assert gpt(TEXT).logits.shape[0] == 6, "and the model still works"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (regard.ablate(9, 0), "there are layers 0 to 2: there is no layer 9"),
        (regard.ablate(0, 9), "layers.0.self has 4 heads: there is no head 9"),
        (regard.steer("layers.0.residual.after", np.ones(3)), "must be"),
        (regard.steer("layers.0.residual.beyond", np.ones(16)), "the model has no site layers.0.residual.beyond"),
        (regard.patch("layers.0.residual.after", np.ones(16), positions=[77]), "there is no position 77"),
        (regard.patch("layers.0.residual.after", np.ones(16), heads=[0]), "has no heads"),
    ],
)
def test_impossible_changes_are_named(gpt: regard.Model, change: regard.Intervention, sentence: str) -> None:
    with pytest.raises(regard.Error) as raised:
        gpt.run(TEXT, interventions=[change])
    assert sentence in str(raised.value)


def test_gradients_agree_with_finite_differences(gpt: regard.Model) -> None:
    site = "layers.1.residual.before"
    found = gpt.gradient(TEXT, of="mat", wrt=[site, "layers.*.self.weights"])
    assert gpt.tokenizer is not None
    mat = gpt.tokenizer.id("mat")
    np.testing.assert_allclose(found.value, gpt(TEXT).logits[-1, mat], rtol=1e-5)
    generator = np.random.default_rng(0)
    direction = generator.normal(size=(6, 16)).astype(np.float32)
    step = 1e-2

    def at(scale: float) -> float:
        return float(gpt.run(TEXT, interventions=[regard.steer(site, direction, scale=scale)]).logits[-1, mat])

    slope = (at(step) - at(-step)) / (2 * step)
    np.testing.assert_allclose((found[site] * direction).sum(), slope, rtol=2e-2, atol=2e-3)
    assert found["layers.2.self.weights"].shape == (4, 6, 6)


def test_gradients_of_the_loss_with_respect_to_parameters(gpt: regard.Model) -> None:
    name = next(name for name in gpt.parameters if name.startswith("layers.0") and len(gpt.parameters[name]) == 2)
    found = gpt.gradient(TEXT, of="loss", wrt=[name])
    ids = gpt(TEXT).ids

    def loss(model: regard.Model) -> float:
        p = model(TEXT).probabilities
        return float(-np.log(p[np.arange(5), ids[1:]]).mean())

    np.testing.assert_allclose(found.value, loss(gpt), rtol=1e-4)
    direction = np.random.default_rng(1).normal(size=gpt.parameters[name]).astype(np.float32)
    value, step = gpt.parameter(name), 1e-2
    up, down = (gpt.with_parameters({name: value + sign * step * direction}) for sign in (1, -1))
    np.testing.assert_allclose((found[name] * direction).sum(), (loss(up) - loss(down)) / (2 * step), rtol=3e-2, atol=2e-3)


def test_one_intervention_and_one_position_need_no_list(gpt: regard.Model) -> None:
    ids = [3, 4, 5]
    one = gpt.run(ids, interventions=regard.ablate(-1, -1))
    np.testing.assert_array_equal(one.logits, gpt.run(ids, interventions=[regard.ablate(2, 3)]).logits)
    steered = regard.steer("layers.0.residual.after", np.ones(16), positions=-1)
    several = regard.steer("layers.0.residual.after", np.ones(16), positions=np.array([2]))
    np.testing.assert_array_equal(gpt.run(ids, interventions=steered).logits, gpt.run(ids, interventions=several).logits)


def test_what_has_no_effect_is_an_error(gpt: regard.Model) -> None:
    with pytest.raises(regard.Error, match="there are 3 queries and 3 keys"):
        gpt.run([3, 4, 5], interventions=regard.block(0, query=3, key=0))
    gpt.run([[3, 4, 5], [3, 4, 5, 6]], interventions=regard.block(0, query=3, key=0))
    with pytest.raises(regard.Error, match="layer is a whole number, not str"):
        gpt.run([3, 4], interventions=regard.ablate("0", 1))  # type: ignore[arg-type]
    with pytest.raises(regard.Error, match="hooks is a dictionary"):
        gpt.run([3, 4], hooks=[print])  # type: ignore[arg-type]
    with pytest.raises(regard.Error, match=r"the hook at layers\.0\.self\.heads is not a function"):
        gpt.run([3, 4], hooks={"layers.0.self.heads": 0})  # type: ignore[dict-item]
