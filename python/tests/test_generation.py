"""Generated text."""

from __future__ import annotations

import warnings

import pytest

import regard


def test_the_best_token_each_time(gpt: regard.Model) -> None:
    said = gpt.generate("the cat", tokens=5, temperature=0, stop_at_end=False)
    pieces = list(said)
    ids = gpt("the cat").ids
    for id in said.ids:
        assert id == gpt(ids).top(1)[0].id, "with and without a cache"
        ids = [*ids, id]
    assert gpt.tokenizer is not None
    assert "".join(pieces).strip() == gpt.tokenizer.decode(said.ids).strip()
    assert str(said) == "".join(pieces), "a text can be read again"


def test_draws_depend_on_the_seed_alone(gpt: regard.Model) -> None:
    first, again, other = (str(gpt.generate("the", tokens=12, seed=seed)) for seed in (3, 3, 4))
    assert first == again != other


def test_it_streams(gpt: regard.Model) -> None:
    said = iter(gpt.generate("the", tokens=10))
    next(said)
    next(said)
    generation = gpt.generate("the", tokens=10)
    for number, _ in enumerate(generation):
        assert len(generation.ids) == number + 1


def test_it_goes_on_beyond_the_context_and_warns_once(gpt: regard.Model) -> None:
    said = gpt.generate("the cat", tokens=100, temperature=0, stop_at_end=False)
    with pytest.warns(UserWarning, match="context of 16 tokens") as warned:
        str(said)
    assert len(said.ids) == 100
    assert len(warned) == 1
    # The slow way: a quarter of the context leaves whenever it is full.
    window = list(gpt("the cat").ids)
    for id in said.ids:
        if len(window) > 16:
            del window[:4]
        assert gpt(window).top(1)[0].id == id
        window.append(id)


def test_answers_end_with_the_context(t5: regard.Model) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        str(t5.generate("the cat", tokens=40, temperature=0, stop_at_end=False))


def test_an_answer(t5: regard.Model) -> None:
    said = t5.generate("the cat sat", tokens=4, temperature=0, stop_at_end=False)
    str(said)
    answer: list[int] = []
    for id in said.ids:
        assert id == t5(t5("the cat sat").ids, answer).top(1)[0].id if answer else True
        answer = [*answer, id]
    assert len(said.ids) == 4


def test_settings_that_make_no_sense(gpt: regard.Model) -> None:
    with pytest.raises(regard.Error, match="temperature must be 0"):
        gpt.generate("the", temperature=-1)
    with pytest.raises(regard.Error, match="does not generate text"):
        regard.BERT(11, d_model=8, n_layers=1, n_heads=2, context=8).generate([1, 2])
