"""Every notebook runs from top to bottom, offline."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))

# Sizes that are enough to see that a notebook runs.
QUICK: dict[str, dict[str, Any]] = {
    "inside_a_model": {"STEPS": 60, "TEXTS": 300},
    "three_classifiers": {"REVIEWS": 600, "STEPS": 60, "SEEDS": range(2)},
    "transformers_from_scratch": {"STEPS": 60, "TEXTS": 300},
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] != "code":
            continue
        assert not cell["outputs"], f"cell {number}: outputs are not committed"
        tree = ast.parse("".join(cell["source"]), f"{path.name}, cell {number}")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{path.name}, cell {number}", "exec"), names)
        # The first cell of code names the sizes.
        quick = QUICK.get(path.stem, {}) if number == 1 else {}
        assert quick.keys() <= names.keys()
        names |= quick
        if isinstance(last, ast.Expr):
            # As a notebook does it: the last value is shown.
            shown = eval(compile(ast.Expression(last.value), f"{path.name}, cell {number}", "eval"), names)
            for way in ("_repr_html_", "_repr_svg_"):
                if hasattr(type(shown), way):
                    assert len(getattr(shown, way)()) > 20


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS
