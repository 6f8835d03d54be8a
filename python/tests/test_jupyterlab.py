"""A notebook in a real JupyterLab, in headless Chromium.

`REGARD_SCREENSHOTS=FOLDER` saves screenshots: `REGARD_SCREENSHOTS=docs/pictures pytest python/tests/test_jupyterlab.py` makes
docs/pictures/notebook.png.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import chromium

pytestmark = [
    pytest.mark.skipif(chromium.find() is None, reason="there is no Chromium"),
    pytest.mark.skipif(importlib.util.find_spec("jupyterlab") is None, reason="there is no JupyterLab"),
]

CELLS = [
    """import regard

texts = regard.data.texts(limit=150).texts
model = regard.GPT(tokenizer=regard.Tokenizer.words(texts), d_model=32, n_layers=2, n_heads=4, context=32)
fit = model.fit(texts, steps=30, lr=5e-3, batch=16)""",
    'model("the film was wonderful but the ending was dull")',
    'model("a second text").show("lines", height=420)',
    'model("the film was dull").plot(layer=1)',
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with one notebook: the address where it is seen."""
    folder = tmp_path_factory.mktemp("lab")
    cells = [
        {"cell_type": "code", "id": f"cell-{i}", "metadata": {}, "source": cell, "execution_count": None, "outputs": []}
        for i, cell in enumerate(CELLS)
    ]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "notebook.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    settings = ["--no-browser", "--ServerApp.port=0", "--IdentityProvider.token=", "--ServerApp.open_browser=False"]
    settings += ["--LabApp.expose_app_in_browser=True", "--ServerApp.allow_root=True", f"--ServerApp.root_dir={folder}"]
    settings += ["--ServerApp.ip=127.0.0.1", "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    # Settings and files of its own: nothing of the user's is read or written.
    own = {"HOME": str(folder), "JUPYTER_PREFER_ENV_PATH": "1", "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}
    own |= {"IPYTHONDIR": str(folder / "ipython"), "JUPYTER_CONFIG_DIR": str(folder / "config"), "PYTHONUNBUFFERED": "1"}
    with (folder / "log.txt").open("w") as log:
        command = [sys.executable, "-m", "jupyterlab", *settings]
        server = subprocess.Popen(command, env={**os.environ, **own}, stdout=log, stderr=log, cwd=folder)
        try:
            yield _address(folder, server) + "/lab/tree/notebook.ipynb?reset"
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _address(folder: Path, server: subprocess.Popen[bytes]) -> str:
    for _ in range(900):
        assert server.poll() is None, (folder / "log.txt").read_text()
        for file in (folder / "runtime").glob("jpserver-*.json"):
            try:
                found = json.loads(file.read_text())
            except json.JSONDecodeError:
                continue
            return f"http://127.0.0.1:{found['port']}"
        time.sleep(0.1)
    raise AssertionError((folder / "log.txt").read_text())


@pytest.fixture(scope="module")
def page(lab: str) -> Iterator[chromium.Page]:
    """The notebook after all of its cells have run."""
    program = chromium.find()
    assert program is not None
    with chromium.open_page(program) as page:
        page.send("Page.navigate", url=lab)
        notebook = "[...jupyterapp.shell.widgets('main')].find(widget => widget.context?.path === 'notebook.ipynb')"
        page.wait(f"window.jupyterapp && Boolean({notebook}?.context.isReady)", seconds=120)
        page.wait(f"{notebook}.sessionContext?.session?.kernel?.status === 'idle'", seconds=120)
        page.value(f"jupyterapp.shell.activateById({notebook}.id)")
        page.wait("Boolean(jupyterapp.shell.currentWidget)")
        page.value("jupyterapp.shell.collapseLeft()")
        page.value("jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
        page.wait(f"document.querySelectorAll('.jp-OutputArea-output').length >= {len(CELLS)}", seconds=120)
        yield page


def test_pages_show_in_frames_that_fit_their_cells(page: chromium.Page) -> None:
    sizes = page.wait(
        """(() => {
            const frames = [...document.querySelectorAll('.jp-OutputArea iframe')];
            if (frames.length < 2) return null;
            return frames.map(frame => {
                const [own, cell] = [frame.getBoundingClientRect(), frame.closest('.jp-OutputArea').getBoundingClientRect()];
                return [own.width, own.height, cell.width];
            });
        })()"""
    )
    assert len(sizes) == 2, "one for each run"
    assert all(400 < width <= cell for width, _, cell in sizes) and [height for _, height, _ in sizes] == [640, 420]
    _screenshot(page)
    assert not page.problems


def _screenshot(page: chromium.Page) -> None:
    folder = os.environ.get("REGARD_SCREENSHOTS")
    if not folder:
        return
    page.value("document.querySelectorAll('.Toastify').forEach(notice => notice.remove())")
    page.value("document.querySelectorAll('.jp-Cell')[1].scrollIntoView({block: 'start'})")
    page.wait("document.querySelectorAll('#view svg, #view canvas').length > 0", frame=1)
    time.sleep(2)
    box = page.value("(({x, y, width, height}) => ({x, y, width, height}))(document.querySelector('.jp-Notebook').getBoundingClientRect())")
    Path(folder).mkdir(parents=True, exist_ok=True)
    page.screenshot(Path(folder) / "notebook.png", **box)


def tokens(page: chromium.Page, frame: int) -> str:
    page.wait("document.querySelector('#tokens')?.children.length > 0", frame)
    return str(page.value("document.querySelector('#tokens').innerText", frame))


def view(page: chromium.Page, frame: int) -> str:
    return str(page.wait("document.querySelector('[data-view][aria-selected=true]')?.dataset.view", frame))


def test_pages_do_not_disturb_each_other(page: chromium.Page) -> None:
    assert "wonderful" in tokens(page, 1) and "second" in tokens(page, 2)
    assert "second" not in tokens(page, 1)
    before = view(page, 2)
    assert (view(page, 1), before) == ("heads", "lines"), "each where it was opened"
    page.value("document.querySelector('[data-view=flow]').click()", 1)
    page.wait("document.querySelector('[data-view=flow]').getAttribute('aria-selected') === 'true'", 1)
    assert view(page, 2) == before
    # A frame has no origin: it cannot reach the notebook around it.
    assert page.value("self.origin", 1) == "null"
    assert page.value("(() => { try { return String(parent.document.title) } catch { return 'none' } })()", 1) == "none"
    assert not page.problems


def test_nothing_is_loaded(page: chromium.Page) -> None:
    for frame in (1, 2):
        assert page.value("performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:') && !e.name.startsWith('blob:')).length", frame) == 0


def test_curves_and_pictures_show(page: chromium.Page) -> None:
    shown = "[...document.querySelectorAll('.jp-OutputArea-output')]"
    assert page.value(f"{shown}.some(output => output.querySelector('progress')?.value === 1)"), "the bar is full"
    assert page.value(f"{shown}.some(output => output.querySelector('progress') && output.querySelector('svg'))"), "a curve"
    assert page.value(f"{shown}.some(output => output.querySelector('img[src*=svg], svg'))"), "a figure"
