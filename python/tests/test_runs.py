"""What a run says agrees with what NumPy computes from its parts."""

from __future__ import annotations

import array
from pathlib import Path

import numpy as np
import pytest

import regard


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_weights_are_the_softmax_of_scaled_dot_products(gpt: regard.Model) -> None:
    run = gpt("the cat sat on the mat")
    for layer in range(gpt.n_layers):
        query, key = run[f"layers.{layer}.self.query"], run[f"layers.{layer}.self.key"]
        assert query.shape == (6, 4, 4)
        for head in range(gpt.n_heads):
            scores = query[:, head] @ key[:, head].T / 2.0
            scores[~regard.masks.causal(6)] = -np.inf
            np.testing.assert_allclose(run.attention(layer, head), softmax(scores), atol=1e-5)


def test_logits_are_those_of_the_last_hidden_states(gpt: regard.Model) -> None:
    run = gpt("the cat sat")
    x = run["layers.2.residual.after"]
    parameters = gpt.parameters
    table = next(name for name, shape in parameters.items() if shape == (gpt.vocab_size, 16))
    normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run.logits, normed @ gpt.parameter(table).T, atol=1e-4)
    best = run.top(3)
    assert best[0].id == int(run.logits[-1].argmax())
    np.testing.assert_allclose([c.probability for c in best], np.sort(softmax(run.logits[-1]))[::-1][:3], atol=1e-6)


def test_a_batch_gives_what_each_text_gives_alone(gpt: regard.Model) -> None:
    texts = ["the cat sat on the mat", "a dog", "the mat was red"]
    runs = gpt(texts)
    for text, run in zip(texts, runs):
        alone = gpt(text)
        assert run.tokens == alone.tokens
        np.testing.assert_allclose(run.logits, alone.logits, atol=1e-5)
        np.testing.assert_allclose(run.attention(1, 2), alone.attention(1, 2), atol=1e-6)
        for site in alone.sites:
            assert run[site].shape == alone[site].shape, site
            np.testing.assert_allclose(run[site], alone[site], atol=1e-4, err_msg=site)


def test_only_some_rows_and_columns(gpt: regard.Model) -> None:
    run = gpt("the cat sat on the mat")
    whole = run.attention(2, 1)
    np.testing.assert_array_equal(run.attention(2, 1, rows=slice(1, 4), columns=slice(0, 3)), whole[1:4, 0:3])
    np.testing.assert_array_equal(run.attention(2, 1, rows=-1), whole[-1:])
    np.testing.assert_array_equal(run.attention(2, 1, rows=slice(None, None, -2)), whole[::-2])
    np.testing.assert_array_equal(run.attention(2, 1, columns=range(1, 6, 2)), whole[:, 1:6:2])
    assert run.attention(-1).shape == (4, 6, 6)


def test_ids_and_text_are_the_same(gpt: regard.Model) -> None:
    run = gpt("the cat sat")
    by_ids = gpt(run.ids)
    np.testing.assert_array_equal(run.logits, by_ids.logits)
    assert by_ids.tokens == run.tokens
    several = gpt(np.array([run.ids, run.ids], dtype=np.int64))
    assert len(several) == 2 and several[1].ids == run.ids


def test_an_encoder_decoder_model_reads_a_source_and_an_answer(t5: regard.Model) -> None:
    run = t5("the cat sat", "a dog")
    assert run.tokens == ["the", "cat", "sat"] and run.answer[1:] == ["a", "dog"]
    assert run.attention(0, 0, kind="encoder").shape == (3, 3)
    assert run.attention(1, 1, kind="cross").shape == (3, 3)
    assert run.logits.shape == (3, t5.vocab_size)
    pairs = t5([("the cat sat on the mat", "a"), ("a dog", "the red mat")])
    np.testing.assert_allclose(pairs[1].logits, t5("a dog", "the red mat").logits, atol=1e-5)
    assert pairs[1].attention(0, 0, kind="cross").shape == (4, 2)
    with pytest.raises(regard.Error, match="several attentions"):
        run.attention(0, 0)


def test_what_is_saved_is_what_is_loaded(gpt: regard.Model, folder: Path) -> None:
    again = regard.load(folder, device="cpu")
    text = "the cat sat on the mat"
    np.testing.assert_array_equal(again(text).logits, gpt(text).logits)
    assert again.tokenizer is not None and again.device == "cpu"


def test_arrays_can_only_be_read_and_outlive_their_run(gpt: regard.Model) -> None:
    weights = gpt("the cat sat").attention(0, 0)
    before = weights.copy()
    for _ in range(50):
        gpt("a dog saw the cat")
    np.testing.assert_array_equal(weights, before)
    with pytest.raises(ValueError):
        weights[0, 0] = 2.0


def test_a_device_that_only_copies_reach(gpt: regard.Model, folder: Path) -> None:
    apart = regard.load(folder, device="apart")
    text = "the cat sat on the mat"
    assert apart.device == "apart"
    np.testing.assert_array_equal(apart(text).logits, gpt(text).logits)
    np.testing.assert_array_equal(apart(text).attention(2, 3), gpt(text).attention(2, 3))
    ablation = [regard.ablate(1, 2)]
    np.testing.assert_array_equal(apart.run(text, interventions=ablation).logits, gpt.run(text, interventions=ablation).logits)


def test_collected_values_are_those_of_runs(gpt: regard.Model) -> None:
    texts = ["the cat sat", "a dog saw the cat", "red"]
    found = regard.collect(gpt, texts, ["layers.0.ffn.output"], batch=2)
    for text, values in zip(texts, found["layers.0.ffn.output"]):
        np.testing.assert_allclose(values, gpt(text)["layers.0.ffn.output"], atol=1e-5)


def test_rows_and_heads_by_any_numbers(gpt: regard.Model) -> None:
    run = gpt("the cat sat on the mat")
    whole = run.attention(2, 3)
    np.testing.assert_array_equal(run.attention(-1, -1), whole)
    np.testing.assert_array_equal(run.attention(np.int64(2), 3, rows=[4, -1, 1], columns=[0, 2]), whole[[4, 5, 1]][:, [0, 2]])
    np.testing.assert_array_equal(run.attention(2, 3, rows=np.int64(-2)), whole[4:5])
    np.testing.assert_array_equal(run.attention(2, 3, rows=slice(None, None, -2)), whole[::-2])
    with pytest.raises(regard.Error, match="rows: there are 6, so there is no"):
        run.attention(2, 3, rows=[0, 6])
    assert run.plot(layer=-1).svg == run.plot(layer=2).svg


def test_ids_of_any_kind(gpt: regard.Model) -> None:
    expected = gpt([3, 4, 5]).logits
    for ids in (array.array("i", [3, 4, 5]), memoryview(np.array([3, 4, 5])), np.array([3, 4, 5], dtype=np.uint8)):
        np.testing.assert_array_equal(gpt(ids).logits, expected)
    with pytest.raises(regard.Error, match="there is no token -1"):
        gpt([3, -1])
    with pytest.raises(regard.Error, match="not bytes"):
        gpt(b"the cat")


def test_a_second_text_is_read_or_an_error(gpt: regard.Model, tokenizer: regard.Tokenizer) -> None:
    for given in (("the cat", "sat"), [("the cat", "sat")]):
        with pytest.raises(regard.Error, match="reads one text"):
            gpt(given)
    with pytest.raises(regard.Error, match="reads one text"):
        gpt("the cat", "sat")
    bert = regard.BERT(tokenizer=tokenizer, d_model=8, n_layers=1, n_heads=2, context=8)
    assert bert("the cat", "sat").tokens == ["the", "cat", "sat"]
    assert repr(tokenizer) == f"<regard.Tokenizer of {len(tokenizer)} tokens>"


def test_sites_by_pattern_are_collected(gpt: regard.Model) -> None:
    found = regard.collect(gpt, [[3, 4], [5]], ["layers.*.residual.after", "embeddings"], batch=1)
    assert set(found) == {f"layers.{layer}.residual.after" for layer in range(3)} | {"embeddings"}
    assert [values.shape for values in found["layers.2.residual.after"]] == [(2, 16), (1, 16)]
    with pytest.raises(regard.Error, match="the model has no site layers"):
        regard.collect(gpt, [[3, 4]], ["layers.*.residual.aftr"])
    with pytest.raises(regard.Error, match="not one text"):
        regard.collect(gpt, "the cat", ["embeddings"])
