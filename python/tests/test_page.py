"""The page: the numbers of the run, in a frame of its own."""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard

TEXT = "the cat sat on the mat"


def contents(document: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="held">(.*?)</script>', document, re.S)
    assert found is not None
    held: dict[str, Any] = json.loads(found[1].replace("<\\/", "</"))
    return held


def weights(held: dict[str, Any], site: str, head: int, count: int) -> np.ndarray:
    """Of attention that looks back the page holds what comes no later."""
    flat = np.frombuffer(base64.b64decode(held["heads"][f"{site}/{head}"]["weights"]), dtype="<f4")
    whole = np.zeros((count, count), dtype=np.float32)
    whole[np.tril_indices(count)] = flat
    return whole


def test_a_notebook_gets_the_page_in_a_frame(gpt: regard.Model) -> None:
    run = gpt(TEXT)
    shown = run._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "sandbox=" in shown and "allow-same-origin" not in shown
    inner = re.search(r'srcdoc="([^"]*)"', shown)
    assert inner is not None
    document = html.unescape(inner[1])
    assert "Content-Security-Policy" in document and "<script src" not in document and "<link rel=\"stylesheet\"" not in document
    held = contents(document)
    assert held["text"] == TEXT
    for head in range(4):
        np.testing.assert_allclose(weights(held, "layers.2.self", head, 6), run.attention(2, head), atol=1e-6)


def test_the_page_of_a_changed_run_shows_the_changes(gpt: regard.Model) -> None:
    run = gpt.run(TEXT, interventions=[regard.ablate(0, 0)], hooks={"layers.1.residual.before": lambda _, x: x * 2})
    held = contents(run.show().html)
    np.testing.assert_allclose(weights(held, "layers.2.self", 1, 6), run.attention(2, 1), atol=1e-6)
    assert abs(run.attention(2, 1) - gpt(TEXT).attention(2, 1)).max() > 1e-3


def test_where_the_page_opens(gpt: regard.Model, tmp_path: Path) -> None:
    run = gpt(TEXT)
    held = contents(run.show("why", layer=1, head=2, query=-1).html)
    assert held["start"] == {"layer": 1, "head": 2, "query": 5, "view": "why"}
    assert len(held["heads"]) == 12
    alone = contents(run.show(layer=1, head=2, all_heads=False).html)
    assert list(alone["heads"]) == ["layers.1.self/2"] and alone["start"]["view"] == "head"
    assert run.show().save(tmp_path / "page.html").stat().st_size > 10_000
    with pytest.raises(regard.Error, match="the page has no view wy; it has heads"):
        run.show("wy")
    for wrong in ({"layer": 7}, {"head": 4}, {"layer": 1, "query": 6}):
        with pytest.raises(regard.Error, match="there is no"):
            run.show(**wrong)
    last = contents(run.show("why", layer=-1, head=-1, query=0).html)
    assert last["start"] == {"layer": 2, "head": 3, "query": 0, "view": "why"}


def test_a_long_text_shows_what_fits() -> None:
    long = regard.GPT(11, d_model=32, n_layers=4, n_heads=32, context=400)(list(range(1, 11)) * 40)
    with pytest.raises(regard.Error, match=r"would fit: choose some with layer=, head= and all_heads=False"):
        long.show()
    shown = long._repr_html_()
    assert shown.startswith("<p>Layer 0 only: ") and shown.endswith("</iframe>") and "--layer" not in shown.split("<iframe")[0]


def test_ids_pictures_and_batches_have_pages() -> None:
    bare = regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8)
    assert contents(bare([3, 1, 4]).show().html)["reading"]["source"][0]["text"] == "3"
    second = bare([[3, 1, 4], [2, 7]])[1]
    np.testing.assert_allclose(weights(contents(second.show().html), "layers.0.self", 0, 2), second.attention(0, 0), atol=1e-6)
    vit = regard.ViT(image=8, d_model=8, n_layers=1, n_heads=2)
    assert "[class]" in vit(np.ones((1, 8, 8))).show().html
