"""The attention of watched models, with a small stand-in for transformers' attention interface: tools/python_peers has the real one."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import regard

B, H, G, T, D = 2, 4, 2, 6, 8


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def vectors(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


class Module:
    is_causal = True


def scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return q @ np.repeat(k, H // G, axis=1).swapaxes(-1, -2) / np.sqrt(D)


def test_grouped_queries_look_back() -> None:
    q, k, run = vectors(B, H, T, D), vectors(B, G, T, D), regard.Watched()
    run.record(Module(), q, k, None)
    expected = softmax(np.where(regard.masks.causal(T), scores(q, k), -np.inf))
    for example in range(B):
        np.testing.assert_allclose(run.attention(0, example=example), expected[example], atol=1e-6)
    np.testing.assert_allclose(run.attention(0, 3, rows=slice(2, 5), columns=slice(1, 3)), expected[0, 3, 2:5, 1:3], atol=1e-6)


def test_masks_sinks_caps_and_biases() -> None:
    q, k, run = vectors(B, H, T, D), vectors(B, G, T, D), regard.Watched()
    window = regard.masks.causal(T) & regard.masks.window(T, 2)
    bias, sinks = vectors(1, H, T, T), vectors(H)
    modules = [Module(), Module(), Module()]
    run.record(modules[0], q, k, window[None, None])
    run.record(modules[1], q, k, np.where(window, 0.0, -1e30)[None, None], position_bias=bias, scaling=1.0)
    run.record(modules[2], q, k, None, s_aux=sinks, softcap=2.0, is_causal=False)
    np.testing.assert_allclose(run.attention(0), softmax(np.where(window, scores(q, k), -np.inf))[0], atol=1e-6)
    biased = np.where(window, scores(q, k) * np.sqrt(D) + bias, -np.inf)
    np.testing.assert_allclose(run.attention(1), softmax(biased)[0], atol=1e-6)
    capped = 2.0 * np.tanh(scores(q, k) / 2.0)
    column = np.broadcast_to(sinks[None, :, None, None], (B, H, T, 1))
    np.testing.assert_allclose(run.attention(2), softmax(np.concatenate([capped, column], -1))[0, :, :, :-1], atol=1e-6)
    assert run.show([f"t{i}" for i in range(T)]).html.count("t5") > 0 and run.plot(0, 1).svg.startswith("<svg")


def test_the_steps_of_a_generation_are_one_map() -> None:
    q, k, run, module = vectors(1, H, T, D), vectors(1, G, T, D), regard.Watched(), Module()
    whole = softmax(np.where(regard.masks.causal(T), scores(q, k), -np.inf))
    run.record(module, q[:, :, :4], k[:, :, :4], None)
    for step in (4, 5):
        run.record(module, q[:, :, step : step + 1], k[:, :, : step + 1], None)
    np.testing.assert_allclose(run.attention(0), whole[0], atol=1e-6)
    np.testing.assert_allclose(run.attention(0, 1, rows=slice(3, 6)), whole[0, 1, 3:6], atol=1e-6)


def test_a_cache_with_a_window_keeps_the_places_of_its_keys() -> None:
    """As transformers does it: the first step sees all keys, later ones only the last of them."""
    q, k, run, module, window = vectors(1, H, T, D), vectors(1, G, T, D), regard.Watched(), Module(), 3
    near = regard.masks.causal(T) & regard.masks.window(T, window - 1)
    whole = softmax(np.where(near, scores(q, k), -np.inf))
    run.record(module, q[:, :, :4], k[:, :, :4], near[None, None, :4, :4])
    for step in (4, 5):
        run.record(module, q[:, :, step : step + 1], k[:, :, step + 1 - window : step + 1], None)
    np.testing.assert_allclose(run.attention(0), whole[0], atol=1e-6)
    np.testing.assert_allclose(run.attention(0, 1, rows=-1, columns=slice(2, 5)), whole[0, 1, -1:, 2:5], atol=1e-6)


def test_a_cache_with_room_for_more_keys() -> None:
    """PyTorch's kernel counts positions from the first key; keys that do not exist yet are hidden from it by that."""
    q, k, run, module = vectors(1, H, T, D), vectors(1, G, T, D), regard.Watched(), Module()
    whole = softmax(np.where(regard.masks.causal(T), scores(q, k), -np.inf))
    room = np.concatenate([k[:, :, :4], np.zeros((1, G, 2, D), np.float32)], axis=2)
    run.record(module, q[:, :, :4], room, None, kernel="sdpa")
    for step in (4, 5):
        room = np.concatenate([k[:, :, : step + 1], np.zeros((1, G, 5 - step, D), np.float32)], axis=2)
        run.record(module, q[:, :, step : step + 1], room, (np.arange(T) <= step)[None, None, None], kernel="sdpa")
    np.testing.assert_allclose(run.attention(0), whole[0], atol=1e-6)


def test_the_masks_of_flash_and_flex_attention() -> None:
    q, k, run = vectors(B, H, T, D), vectors(B, G, T, D), regard.Watched()
    near = regard.masks.causal(T) & regard.masks.window(T, 2)
    present = np.array([[1] * T, [1] * 4 + [0] * 2])
    modules = [Module(), Module(), Module()]
    run.record(modules[0], q, k, present, sliding_window=3, kernel="flash_attention_2")
    run.record(modules[1], q, k, None, sliding_window=3, kernel="flash_attention_2")
    block = types.SimpleNamespace(mask_mod=lambda b, h, query, key: (key <= query) & (query - key < 3) & (key < 6 - 2 * b))
    run.record(modules[2], q, k, block, sliding_window=3, kernel="flex_attention")
    everything = softmax(np.where(near, scores(q, k), -np.inf))
    padded = softmax(np.where(near & (present[:, None, None] == 1), scores(q, k), -1e30))
    np.testing.assert_allclose(run.attention(0, example=0), everything[0], atol=1e-6)
    np.testing.assert_allclose(run.attention(0, example=1)[:, :4], padded[1, :, :4], atol=1e-6)
    np.testing.assert_allclose(run.attention(1, example=1), everything[1], atol=1e-6)
    np.testing.assert_allclose(run.attention(2, 1, example=1, rows=slice(1, 5)), padded[1, 1, 1:5], atol=1e-6)


def test_a_generation_keeps_its_keys_once() -> None:
    q, k, run, module = vectors(1, H, T, D), vectors(1, G, T, D), regard.Watched(), Module()
    run.record(module, q[:, :, :2], k[:, :, :2], None)
    for step in range(2, T):
        run.record(module, q[:, :, step : step + 1], k[:, :, : step + 1], None)
    (site,) = run._sites.values()
    assert len(site.calls) == 5 and len({id(call.keys) for call in site.calls}) == 1


def test_without_a_cache_the_last_pass_counts() -> None:
    q, k, run, module = vectors(1, H, T, D), vectors(1, G, T, D), regard.Watched(), Module()
    ids = np.arange(T)[None]
    for count in (4, 5, 6):
        run.begin({"input_ids": ids[:, :count]})
        run.record(module, q[:, :, :count], k[:, :, :count], None)
        run.end()
    assert run.attention(0).shape == (H, T, T) and run.ids() == list(range(T))
    run.begin({"input_ids": ids + 1})
    run.record(module, q, k, None)
    run.end()
    for read in (lambda: run.attention(0), run.show, lambda: regard.heads(run)):
        with pytest.raises(regard.Error, match="several inputs one after the other"):
            read()


def test_beams_cannot_be_watched() -> None:
    q, k, run, module = vectors(B, H, T, D), vectors(B, G, T, D), regard.Watched(), Module()
    run.record(module, q[:, :, :4], k[:, :, :4], None)
    run.record(module, q[:, :, 4:5], k[::-1, :, :5], None)
    with pytest.raises(regard.Error, match="as in beam search"):
        run.attention(0, 0)


def test_layers_that_share_a_module() -> None:
    """As in ALBERT. What runs again to compute gradients is no layer."""
    q, k, run, module = vectors(2, 1, H, T, D), vectors(2, 1, G, T, D), regard.Watched(), Module()
    run.begin({})
    run.begin({})
    for layer in range(2):
        run.record(module, q[layer], k[layer], None)
    run.end()
    run.end()
    run.record(module, q[1], k[1], None)
    assert run.attentions == ["attention.0", "attention.1 (2)"]
    for layer in range(2):
        whole = softmax(np.where(regard.masks.causal(T), scores(q[layer], k[layer]), -np.inf))
        np.testing.assert_allclose(run.attention(layer), whole[0], atol=1e-6)


def test_as_many_tokens_as_the_model_has_read() -> None:
    run = regard.Watched()
    run.record(Module(), vectors(1, H, T, D), vectors(1, G, T, D), None)
    page = run.show([*"abcde", "read last", "not read"]).html
    assert "read last" in page and "not read" not in page
    with pytest.raises(regard.Error, match="the model read 6 tokens, and 2 are given"):
        run.show(["a", "b"])


def test_heads_of_a_watched_model_are_measured() -> None:
    """The same weights by both ways: a model of the package, and its queries and keys as a watched model has them."""
    tokenizer = regard.Tokenizer.words(["the cat sat on the mat", "a dog saw the cat"])
    model = regard.GPT(tokenizer=tokenizer, d_model=16, n_layers=2, n_heads=4, context=16, deviation=0.3, seed=1)
    runs, texts = [], ["the cat sat on the mat", "a dog saw the cat"]
    for text in texts:
        read, watched = model(text), regard.Watched()
        for layer in range(2):
            query, key = (read[f"layers.{layer}.self.{name}"].swapaxes(0, 1)[None] for name in ("query", "key"))
            watched.record(Module(), query, key, None)
        watched.note({"input_ids": np.array([read.ids])})
        assert watched.ids() == read.ids
        runs.append(watched)
    expected = regard.heads(model, texts).where(model="trained")
    found = regard.heads(runs)
    for row in found:
        same = expected.where(layer=row["layer"], head=row["head"], measure=row["measure"]).rows()[0]
        np.testing.assert_allclose([row["mean"], row["low"], row["high"]], [same["mean"], same["low"], same["high"]], atol=1e-5)
    assert {row["measure"] for row in found} == {row["measure"] for row in expected} - {"prefix-matching"}
    assert len(found.labels) == 0 and found.plot("previous").svg.startswith("<svg")
    compared = regard.heads(runs, tokens=[model(text).tokens for text in texts], baseline=runs)
    assert {row["model"] for row in compared} == {"trained", "untrained"} and len(compared.labels) == 0
    with pytest.raises(regard.Error, match="tokens of 1 texts"):
        regard.heads(runs, tokens=["the", "cat", "sat", "on", "the", "mat"])
    with pytest.raises(regard.Error, match="what regard.watch saw"):
        regard.heads([])


def test_padding_is_no_part_of_a_text() -> None:
    q, k, run = vectors(B, H, T, D), vectors(B, G, T, D), regard.Watched()
    present = np.array([[1] * T, [1] * 4 + [0] * 2])
    mask = regard.masks.causal(T)[None, None] & (present[:, None, None] == 1)
    run.record(Module(), q, k, mask)
    run.note({"input_ids": np.arange(B * T).reshape(B, T), "attention_mask": present})
    assert run.ids(1) == [6, 7, 8, 9] and run.batch == 2
    assert [weights.shape for weights in (run.maps(0)[0], run.maps(1)[0])] == [(H, T, T), (H, 4, 4)]
    counts = regard.heads(run).where(measure="entropy", head=0)["n"].tolist()
    assert counts == [2]


class Interface:
    """As transformers has it: names of functions, shared by all instances."""

    _global_mapping: dict[str, Any]

    def __init_subclass__(cls) -> None:
        cls._global_mapping = {}

    @classmethod
    def register(cls, name: str, function: Any) -> None:
        cls._global_mapping[name] = function

    def __getitem__(self, name: str) -> Any:
        return self._global_mapping[name]

    def __contains__(self, name: str) -> bool:
        return name in self._global_mapping


class AttentionInterface(Interface): ...


class AttentionMaskInterface(Interface): ...


class Config:
    _attn_implementation = "fused"


class Model:
    def __init__(self) -> None:
        self.config = Config()
        self.layer = Module()

    def named_modules(self) -> list[tuple[str, Any]]:
        return [("", self), ("layers.0.self_attn", self.layer)]

    def __call__(self, q: np.ndarray, k: np.ndarray) -> Any:
        chosen = AttentionInterface()[self.config._attn_implementation]
        return chosen(self.layer, q, k, k, None, scaling=0.5)


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("transformers")
    module.AttentionInterface = AttentionInterface  # type: ignore[attr-defined]
    module.AttentionMaskInterface = AttentionMaskInterface  # type: ignore[attr-defined]
    AttentionInterface._global_mapping = {"fused": lambda module, q, k, v, mask, **rest: ("said", rest["scaling"])}
    AttentionMaskInterface._global_mapping = {"fused": lambda: "mask"}
    monkeypatch.setitem(sys.modules, "transformers", module)


@pytest.mark.usefixtures("transformers")
def test_the_chosen_attention_is_called_and_everything_is_as_before_afterwards() -> None:
    model, q, k = Model(), vectors(1, H, T, D), vectors(1, G, T, D)
    with regard.watch(model) as run:
        assert model(q, k) == ("said", 0.5)
        inside = model.config._attn_implementation
        assert inside in AttentionMaskInterface._global_mapping
    assert model.config._attn_implementation == "fused" and inside not in AttentionInterface._global_mapping
    assert run.attentions == ["layers.0.self_attn"]
    expected = softmax(np.where(regard.masks.causal(T), scores(q, k) * np.sqrt(D) * 0.5, -np.inf))
    np.testing.assert_allclose(run.attention(0, 2), expected[0, 2], atol=1e-6)


@pytest.mark.usefixtures("transformers")
def test_what_cannot_be_watched_is_an_error_and_leaves_nothing_behind() -> None:
    model = Model()
    with pytest.raises(regard.Error, match="nothing was watched"), regard.watch(model):
        pass
    with pytest.raises(ZeroDivisionError), regard.watch(model):
        raise ZeroDivisionError
    assert model.config._attn_implementation == "fused" and list(AttentionInterface._global_mapping) == ["fused"]
    with pytest.raises(regard.Error, match="takes a model of transformers"), regard.watch("gpt2"):
        pass


def test_without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(regard.Error, match="pip install transformers"), regard.watch(Model()):
        pass
