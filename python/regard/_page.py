"""The interactive page, inside a notebook or as a file."""

from __future__ import annotations

import html
import webbrowser
from os import PathLike
from pathlib import Path


class Page:
    """The page about one input as one document: it loads nothing, so that it works offline.

    A notebook shows it when it is the last value of a cell. Several pages in one notebook do not interfere: each has a
    frame of its own.

    >>> import regard
    >>> page = regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8)([3, 1, 4]).show(height=400)
    >>> page.height, page.html.startswith("<!doctype html>")
    (400, True)
    """

    def __init__(self, document: str, height: int = 640) -> None:
        self.html = document
        """The whole document."""
        self.height = height
        """The height of its frame in a notebook, in pixels."""

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the page as a file that any browser opens."""
        written = Path(path)
        written.write_text(self.html, encoding="utf-8")
        return written

    def open(self, path: str | PathLike[str]) -> None:
        """Writes the page and opens it in the browser."""
        webbrowser.open(self.save(path).resolve().as_uri())

    def _repr_html_(self) -> str:
        # Scripts run, downloads work, and the frame has no origin: it can reach neither the notebook nor other frames.
        inner = html.escape(self.html, quote=True)
        return (
            f'<iframe srcdoc="{inner}" sandbox="allow-scripts allow-downloads" '
            f'style="width: 100%; height: {self.height}px; border: 0" title="What happens inside the model"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<regard.Page of {len(self.html) // 1024} KiB: a notebook shows it, save(path) writes it>"
