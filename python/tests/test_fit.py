"""Training on data in memory: every kind of model learns what it is taught."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import regard

TEXTS = ["a good film", "a bad film", "good acting", "bad acting", "a good story", "a bad story"]
CLASSES = [1, 0, 1, 0, 1, 0]


@pytest.fixture(scope="module")
def words() -> regard.Tokenizer:
    return regard.Tokenizer.words(TEXTS)


def small(build: Any, *arguments: Any, **settings: Any) -> regard.Model:
    model: regard.Model = build(*arguments, d_model=16, n_layers=1, n_heads=2, context=16, **settings)
    return model


@pytest.mark.parametrize("build", [regard.GPT, regard.Llama])
def test_the_next_token_of_rows_and_of_one_long_text(build: Any) -> None:
    cycle = np.arange(400) % 7
    for inputs in (cycle, cycle.reshape(25, 16), [list(row) for row in cycle.reshape(25, 16)]):
        model = small(build, 11)
        fit = model.fit(inputs, steps=80, lr=0.01, progress=False)
        assert fit.end == "finished" and fit.steps == 80 and fit.loss < 0.5 < fit.history["loss"][0]
        assert model([3, 4, 5]).top(1)[0].id == 6


def test_targets_of_tokens_and_tokens_that_do_not_count() -> None:
    model = small(regard.GPT, 11)
    model.fit([[1, 2, 3]] * 4, [[-1, 5, 6]] * 4, steps=60, lr=0.01, progress=False)
    said = [model([1, 2, 3]).top(1, position)[0].id for position in (1, 2)]
    assert said == [5, 6]


def test_masked_tokens(words: regard.Tokenizer) -> None:
    rows = [[1, 2, 3, 4, 5, 6]] * 8
    model = small(regard.BERT, 11)
    assert model.fit(rows, mask=10, steps=150, lr=0.01, progress=False).loss < 0.5
    assert model([1, 2, 10, 4, 5, 6]).top(1, position=2)[0].id == 3
    small(regard.BERT, tokenizer=words).fit(TEXTS, steps=2, progress=False)
    with pytest.raises(regard.Error, match="mask="):
        small(regard.BERT, 11).fit(rows, steps=1, progress=False)


@pytest.mark.parametrize("pooling", ["max", "additive", "heads"])
def test_classes_of_texts(words: regard.Tokenizer, pooling: str) -> None:
    model = regard.Sentiment(tokenizer=words, pooling=pooling, d_embedding=8, d_hidden=8, n_heads=2)
    fit = model.fit(TEXTS, CLASSES, steps=60, lr=0.02, validation=(TEXTS, CLASSES), progress=False)
    assert fit.evaluations["accuracy"][-1] == 1.0 and len(fit.evaluations) == 10
    assert [run.top(1)[0].id for run in model(TEXTS)] == CLASSES
    assert "held out" in fit.plot().svg and fit._repr_svg_().startswith("<svg")


def test_other_classifiers(words: regard.Tokenizer) -> None:
    for model in (regard.Bag(tokenizer=words), small(regard.BERT, tokenizer=words, classes=2)):
        model.fit(TEXTS, np.array(CLASSES), steps=80, lr=0.01, progress=False)
        assert [run.top(1)[0].id for run in model(TEXTS)] == CLASSES


def test_classes_of_words() -> None:
    model = regard.Tagger(11, d_model=16)
    model.fit([[1, 2, 3], [4, 5]], [[0, 1, 0], [1, -1]], steps=80, lr=0.01, progress=False)
    assert model([1, 2, 3]).logits.argmax(-1).tolist() == [0, 1, 0]


def test_answers() -> None:
    model = regard.T5(11, d_model=16, n_layers=1, n_heads=2)
    model.fit([[2, 3, 4], [5, 6]], [[7, 8, 1], [9, 1]], steps=200, lr=0.01, progress=False)
    assert model.generate([2, 3, 4], tokens=3, temperature=0, stop_at_end=False).ids == []
    said = model.generate([2, 3, 4], tokens=3, temperature=0, stop_at_end=False)
    str(said)
    assert said.ids == [7, 8, 1]


def test_pictures() -> None:
    digits = regard.data.pictures(limit=60)
    model = regard.ViT(d_model=16, n_layers=1, n_heads=2)
    fit = model.fit(digits.pixels, digits.labels, steps=150, lr=0.01, progress=False)
    assert fit.loss < 1.5 < fit.history["loss"][0]


def test_the_first_update_is_the_gradient_s() -> None:
    model = small(regard.GPT, 11)
    name = next(name for name, shape in model.parameters.items() if shape == (11, 16))
    before = model.parameter(name).copy()
    slope = model.gradient([3, 1, 4, 1], of="loss", wrt=[name])[name]
    model.fit([[3, 1, 4, 1]], steps=1, lr=0.5, batch=1, optimiser="sgd", weight_decay=0.0, clip=0.0, progress=False)
    np.testing.assert_allclose(model.parameter(name), before - 0.5 * slope, atol=1e-6)


def test_the_same_seed_trains_the_same_model_and_earlier_runs_stay() -> None:
    models = [small(regard.GPT, 11) for _ in range(2)]
    before = models[0]([3, 1, 4])
    was = before.attention(0).copy()
    for model in models:
        model.fit(np.arange(200) % 11, steps=10, seed=3, progress=False)
    np.testing.assert_array_equal(models[0]([3, 1, 4]).logits, models[1]([3, 1, 4]).logits)
    np.testing.assert_array_equal(before.attention(0), was)
    assert abs(models[0]([3, 1, 4]).attention(0) - was).max() > 0


def test_data_that_does_not_fit_is_an_error(words: regard.Tokenizer) -> None:
    gpt, bag = small(regard.GPT, 11), regard.Bag(tokenizer=words)
    cases: list[tuple[regard.Model, tuple[Any, ...], dict[str, Any], str]] = [
        (gpt, ([[1, 99]],), {}, "no token 99"),
        (gpt, ([[1]],), {}, "two tokens"),
        (gpt, ([],), {}, "nothing to learn"),
        (gpt, (3.5,), {}, "expected"),
        (gpt, ([[1.5, 2.5]],), {}, "whole numbers"),
        (gpt, (["text"],), {}, "no tokenizer"),
        (gpt, (np.arange(9),), {"batch": 10**14}, "memory"),
        (gpt, (np.arange(9),), {"batch": 0}, "batch"),
        (gpt, (np.arange(9),), {"lr": float("nan")}, "lr"),
        (gpt, (np.arange(9),), {"steps": -1}, "steps"),
        (gpt, (np.arange(9),), {"decay": "steep"}, "decay"),
        (gpt, (np.arange(9),), {"lr": 1e30, "clip": 0.0, "optimiser": "sgd"}, "loss"),
        (bag, (TEXTS,), {}, "class for each"),
        (bag, (TEXTS, [0, 1]), {}, "6 inputs and 2 targets"),
        (bag, (TEXTS, [0, 1, 2, 3, 4, 5]), {}, "no target"),
        (bag, ("one text", [0]), {}, "list of texts"),
    ]
    for model, given, settings, sentence in cases:
        with pytest.raises(regard.Error, match=sentence):
            model.fit(*given, progress=False, **{"steps": 20, **settings})


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_keeps_what_was_learned() -> None:
    model = small(regard.GPT, 11)
    was = model([3, 1, 4]).logits.copy()
    timer = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.arange(400) % 7, steps=10**9, progress=False)
    timer.join()
    assert time.monotonic() - started < 30
    assert model([3, 1, 4]).top(1)[0].id == 5 or abs(model([3, 1, 4]).logits - was).max() > 0


def test_data_of_files(tmp_path: Any) -> None:
    table = tmp_path / "reviews.csv"
    table.write_text("text,label\n" + "".join(f"{t},{'pos' if c else 'neg'}\n" for t, c in zip(TEXTS, CLASSES)))
    read = regard.data.texts(table, columns=("text", "label"))
    assert read.texts == TEXTS and read.classes == ["neg", "pos"] and read.labels is not None
    assert read.labels.tolist() == CLASSES
    with pytest.raises(regard.Error, match="no column \"review\""):
        regard.data.texts(table, columns=("review", "label"))
    lines = tmp_path / "lines.txt"
    lines.write_text("one\n\ntwo\n")
    assert regard.data.texts(lines) == (["one", "two"], None, [])
    assert regard.data.texts(limit=3).texts == regard.data.texts(limit=5).texts[:3]
    assert regard.data.texts(limit=3, part="test").texts != regard.data.texts(limit=3).texts
    for call in (regard.data.texts, regard.data.tagged, regard.data.pairs, regard.data.pictures):
        with pytest.raises(regard.Error):
            call(tmp_path / "missing")
        with pytest.raises(regard.Error, match="part is"):
            call(part="all")
        with pytest.raises(regard.Error, match="limit"):
            call(limit=10**12)
