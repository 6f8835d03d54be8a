"""Attention of other frameworks in the page."""

from __future__ import annotations

import numpy as np
import pytest
from test_page import contents, weights

import regard


def test_the_page_holds_what_was_given(gpt: regard.Model) -> None:
    run = gpt("the cat sat on the mat")
    maps = tuple(run.attention(layer)[np.newaxis] for layer in range(3))
    held = contents(regard.view(maps, run.tokens, layer=1, head=3, show="lines").html)
    assert [token["text"] for token in held["reading"]["source"]] == run.tokens
    assert held["start"] == {"layer": 1, "head": 3, "view": "lines"}
    for layer in range(3):
        for head in range(4):
            found = weights(held, f"layers.{layer}.self", head, 6)
            np.testing.assert_array_equal(found, run.attention(layer, head))
    measures = contents(run.show().html)["measures"]["layers.1.self"]
    assert held["measures"]["layers.1.self"]["names"] == measures["names"]
    ours, theirs = held["measures"]["layers.1.self"]["heads"], measures["heads"]
    np.testing.assert_allclose(np.array(ours, dtype=float), np.array(theirs, dtype=float), atol=1e-5)
    assert contents(regard.view(np.stack([m[0] for m in maps]), run.tokens).html)["heads"] == held["heads"]


def test_encoder_and_decoder(t5: regard.Model) -> None:
    run = t5("the cat sat", "a dog")
    parts = {kind: [run.attention(layer, kind=kind) for layer in range(2)] for kind in ("encoder", "decoder", "cross")}
    page = regard.view(tokens=run.tokens, answer=run.answer, **parts, kind="cross", layer=0, head=1)
    held = contents(page.html)
    assert held["reading"]["groups"] == ["encoder", "decoder", "cross"] and held["start"]["group"] == "cross"
    flat = np.frombuffer(__import__("base64").b64decode(held["heads"]["decoder.layers.0.cross/1"]["weights"]), "<f4")
    np.testing.assert_array_equal(flat.reshape(3, 3), run.attention(0, 1, kind="cross"))


def test_one_map_is_enough() -> None:
    page = regard.view(np.eye(2), ["a", "b"])
    assert contents(page.html)["reading"]["source"][1]["text"] == "b"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"attentions": np.ones((1, 2, 3, 3)), "tokens": ["a", "b"]}, "there are 2 × 2 tokens and weights of 3 × 3"),
        ({"attentions": [np.ones((2, 2, 3, 3))], "tokens": ["a", "b", "c"]}, "choose one text of the batch of 2"),
        ({"cross": np.ones((1, 2, 2, 2)), "tokens": ["a", "b"]}, "needs the tokens of the answer"),
        ({"attentions": [], "tokens": ["a"]}, "transformers gives them with attn_implementation"),
        ({"attentions": (None, None)}, "transformers gives them with attn_implementation"),
        ({}, "there are no weights to show"),
        ({"attentions": np.full((2, 2), np.nan), "tokens": ["a", "b"]}, "no numbers"),
        ({"attentions": np.eye(2), "tokens": ["a", "b"], "show": "why"}, "needs more than weights"),
        ({"attentions": np.eye(2), "tokens": ["a", "b"], "layer": 4}, "there is no such head"),
    ],
)
def test_what_cannot_be_shown_is_named(given: dict, sentence: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(regard.Error) as raised:
        regard.view(**given)
    assert sentence in str(raised.value)


def test_without_tokens_there_are_numbers() -> None:
    assert regard.view(np.full((1, 2, 3, 3), 1 / 3)).html == regard.view(np.full((1, 2, 3, 3), 1 / 3), ["0", "1", "2"]).html
