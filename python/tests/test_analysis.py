"""Tables of analyses agree with the program's, and other libraries open them."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import regard

TEXTS = ["the cat sat on the mat", "a dog saw the cat", "the mat was red", "the dog sat on the red mat"]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


def program(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "regard", *arguments], check=True, capture_output=True)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_heads_are_measured_as_the_program_does(gpt: regard.Model, folder: Path, lines: Path, tmp_path: Path) -> None:
    found = regard.heads(gpt, TEXTS)
    assert np.array_equal(found["mean"], regard.heads(gpt, str(lines))["mean"]), "a list or a file of the same texts"
    program("heads", str(folder), "--corpus", str(lines), "-o", str(tmp_path / "heads"))
    rows = [row for row in read(tmp_path / "heads" / "heads.csv")]
    assert len(rows) == len(found)
    for ours, theirs in zip(found, rows):
        assert (ours["model"], ours["measure"], str(ours["head"])) == (theirs["model"], theirs["measure"], theirs["head"])
        np.testing.assert_allclose(ours["mean"], float(theirs["mean"]), rtol=1e-5)
    assert found.plot().svg.startswith("<svg") and found.plot(found.measures[1]).png().startswith(b"\x89PNG")
    with pytest.raises(regard.Error, match="there is no measure nonsense"):
        found.plot("nonsense")


def test_a_measure_of_heads_is_that_of_their_weights(gpt: regard.Model) -> None:
    found = regard.heads(gpt, TEXTS[:1]).where(model="trained", measure="confidence")
    weights = gpt(TEXTS[0]).attention(1, 2)
    row = found.where(layer=1, head=2).rows()[0]
    # The first token has no choice and does not count.
    np.testing.assert_allclose(row["mean"], weights[1:].max(axis=-1).mean(), atol=1e-5)


def test_ablation_is_the_change_of_the_loss(gpt: regard.Model) -> None:
    found = regard.ablation(gpt, TEXTS)

    def loss(**changes: object) -> float:
        total, count = 0.0, 0
        for text in TEXTS:
            run = gpt.run(text, **changes)  # type: ignore[call-overload]
            p = run.probabilities[np.arange(len(run.ids) - 1), run.ids[1:]]
            total, count = total - float(np.log(p).sum()), count + len(p)
        return total / count

    np.testing.assert_allclose(found.loss, loss(), rtol=1e-4)
    row = found.where(model="trained", measure="zeroed", kind="all", layer=2, head=1).rows()[0]
    np.testing.assert_allclose(row["value"], loss(interventions=[regard.ablate(2, 1)]) - loss(), atol=1e-4)
    assert found.plot().svg.startswith("<svg")


def test_ablation_of_a_classifier_needs_labels(tokenizer: regard.Tokenizer) -> None:
    bert = regard.BERT(tokenizer=tokenizer, d_model=8, n_layers=1, n_heads=2, context=16, classes=2)
    found = regard.ablation(bert, TEXTS, labels=["0", "1", "0", "1"])
    assert 0.5 < found.loss < 0.9
    with pytest.raises(regard.Error):
        regard.ablation(bert, TEXTS)


def test_influence_of_words(gpt: regard.Model) -> None:
    found = regard.influence(gpt, "the cat sat on the mat")
    assert found.answer.strip() == gpt("the cat sat on the mat").top(1)[0].text.strip()
    assert "blank-out" in found.methods and len(found.methods) > 4
    assert found.where(method=found.methods[1])["token"].tolist() == ["the", "cat", "sat", "on", "the", "mat"]
    assert found.plot().svg.startswith("<svg")


def test_the_logit_lens_ends_at_the_prediction(gpt: regard.Model) -> None:
    run = gpt("the cat sat")
    lens = regard.logit_lens(run, count=3)
    assert len(lens) == 3 * 4
    assert lens.where(layer="2")["id"].tolist() == [best.id for best in run.top(3)]
    np.testing.assert_allclose(lens.where(layer="2")["logit"], [best.logit for best in run.top(3)], atol=1e-4)
    steered = gpt.run("the cat sat", interventions=[regard.ablate(0, 0)])
    assert not np.array_equal(regard.logit_lens(steered)["logit"], regard.logit_lens(run)["logit"])
    assert lens.plot().svg.startswith("<svg")


@pytest.fixture
def table() -> regard.Table:
    return regard.Table({"head": [0, 1, 2], "mean": [0.5, float("nan"), 0.25], "token": ["a", "", "über"]})


def test_pyarrow_opens_tables(table: regard.Table) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    arrow = pyarrow.table(table)
    assert arrow.to_pydict() == {"head": [0, 1, 2], "mean": [0.5, None, 0.25], "token": ["a", "", "über"]}
    assert pyarrow.table(regard.Table({"head": []})).num_rows == 0
    arrow.validate(full=True)
    for _ in range(100):  # what nobody takes is freed, and what is taken is freed once
        table.__arrow_c_stream__()
        pyarrow.table(table)


def test_polars_opens_tables(table: regard.Table) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(table)
    assert frame.rows() == [(0, 0.5, "a"), (1, None, ""), (2, 0.25, "über")]


def test_pandas_opens_tables(table: regard.Table) -> None:
    pandas = pytest.importorskip("pandas", minversion="3.0")
    assert pandas.DataFrame.from_arrow(table)["head"].tolist() == [0, 1, 2]


def test_tables_by_themselves(tmp_path: Path) -> None:
    table = regard.Table({"head": [0, 1], "mean": [0.5, 0.25]})
    assert table.columns == ["head", "mean"] and table["mean"].sum() == 0.75
    assert read(table.save(tmp_path / "table.csv")) == [{"head": "0", "mean": "0.5"}, {"head": "1", "mean": "0.25"}]
    assert "<td>0.25</td>" in table._repr_html_()
    with pytest.raises(regard.Error, match="there is no column heads; there are head, mean"):
        table["heads"]
    with pytest.raises(regard.Error, match="same length"):
        regard.Table({"a": [1], "b": [1, 2]})


def test_pictures(gpt: regard.Model, tmp_path: Path) -> None:
    run = gpt("the cat sat")
    path = tmp_path / "attention_layer1.png"
    assert run.plot(layer=1, path=path)._repr_svg_().count("head") >= 4
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "cat" in run.plot(1, 2).svg
    assert run.plot().svg.startswith("<svg")
    with pytest.raises(regard.Error, match=r"ends in .svg or .png"):
        run.plot(1, path=tmp_path / "attention.jpg")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_stops_an_analysis(gpt: regard.Model) -> None:
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            regard.ablation(gpt, TEXTS * 50)
    timer.join()
    assert len(regard.heads(gpt, TEXTS)) > 0


def test_the_parts_of_a_score_add_up_to_it(gpt: regard.Model) -> None:
    text = "the cat sat on the mat"
    found = regard.score_parts(gpt, text, layer=1, head=0, query=4, key=2)
    np.testing.assert_allclose(found["part"].sum() + found.distance, found.score, atol=1e-5)
    assert {"embeddings", "head 0.0", "feed-forward 0"} <= set(found["query_writer"].tolist())
    assert abs(found["part"][0]) == abs(found["part"]).max()
    assert found.plot().svg.startswith("<svg")
    with pytest.raises(regard.Error, match="layer 9"):
        regard.score_parts(gpt, text, layer=9, head=0, query=1, key=0)


def test_plots_in_the_documents_are_of_measures(gpt: regard.Model) -> None:
    root = Path(__file__).resolve().parents[2]
    named = {name for file in ("README.md", "docs/python.md") for name in re.findall(r'plot\("([^"]*)"\)', (root / file).read_text())}
    found = regard.heads(gpt, TEXTS)
    assert named and named <= set(found.measures)


def test_columns_that_are_not_there(gpt: regard.Model) -> None:
    found = regard.heads(gpt, TEXTS)
    with pytest.raises(regard.Error, match="there is no column mesure"):
        found.where(mesure="previous")
    with pytest.raises(regard.Error, match="columns by name"):
        found[0]  # type: ignore[index]
    with pytest.raises(regard.Error, match="the column a are neither"):
        regard.Table({"a": [1, "x"]})
    assert np.isnan(regard.Table({"a": [1, None]})["a"][1])


def test_texts_that_cannot_be_read(gpt: regard.Model) -> None:
    for texts, reason in (("no such file.txt", 'the path of a file, or "built-in"'), ([[3, 4]], "texts is a list of texts")):
        with pytest.raises(regard.Error, match=reason):
            regard.heads(gpt, texts)  # type: ignore[arg-type]
    with pytest.raises(regard.Error, match="limit is a whole number"):
        regard.heads(gpt, limit=-1)
    bare = regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8)
    for analyse in (regard.heads, regard.ablation):
        with pytest.raises(regard.Error, match="^gpt has no tokenizer"):
            analyse(bare, ["the cat"])
    with pytest.raises(regard.Error, match="^answer zebra: it is no single token"):
        regard.influence(gpt, "the cat", answer="zebra")
    with pytest.raises(regard.Error, match="takes a run of a model"):
        regard.logit_lens(gpt)  # type: ignore[arg-type]


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("other", [None, "polars"])
def test_the_influence_of_words_is_stopped_between_passes(other: str | None) -> None:
    """Also where another library, such as polars, stands before Python's handler of Ctrl-C."""
    if other is not None:
        pytest.importorskip(other)
    words = [f"w{number}" for number in range(256)]
    text = " ".join(words)
    model = regard.GPT(tokenizer=regard.Tokenizer.words([text]), d_model=128, n_layers=4, n_heads=4, context=256)
    started = time.monotonic()
    regard.influence(model, text)
    whole = time.monotonic() - started
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.1 * whole, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        regard.influence(model, text)
        time.sleep(10)
    assert time.monotonic() - sent[0] < 0.6 * whole
    timer.join()
