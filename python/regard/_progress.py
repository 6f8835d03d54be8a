"""Training progress: a bar and a growing curve in a notebook, a line on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from ._tables import Figure

_BETWEEN = 1.0
_WIDTH = 30


class _Live:
    """The output of a notebook cell during training."""

    def __init__(self, line: str, share: float | None, svg: str) -> None:
        bar = "" if share is None else f'<progress value="{share:.4f}" max="1" style="width: 30em"></progress>'
        self._line = line
        self._html = f"<div>{bar} <code>{line}</code></div>{svg}"

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return self._line


class Progress:
    """Shows the step, the loss and the remaining time, at most once a second."""

    def __init__(self, steps: int | None) -> None:
        self.steps = steps
        self._started = time.monotonic()
        self._shown = self._started
        self._handle: Any = None
        # A notebook has loaded IPython; nothing else needs it.
        ipython: Any = sys.modules.get("IPython")
        shell = None if ipython is None else ipython.get_ipython()
        self._notebook = type(shell).__name__ == "ZMQInteractiveShell"
        self._terminal = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, step: int, loss: float, curve: Callable[[], Figure], *, last: bool = False) -> None:
        """Updates the output; `curve` is drawn only in a notebook."""
        now = time.monotonic()
        if not (self._notebook or self._terminal) or (now - self._shown < _BETWEEN and not last):
            return
        # Training of less than a second prints no line on a terminal; a notebook keeps its curve.
        if last and not self._notebook and self._shown == self._started:
            return
        self._shown = now
        share = None if not self.steps else min(step / self.steps, 1.0)
        line = self._line(step, loss, share, now)
        if self._notebook:
            shown = _Live(line, share, curve().svg)
            if self._handle is None:
                display: Any = sys.modules["IPython"].display
                self._handle = display.display(shown, display_id=True)
            else:
                self._handle.update(shown)
            return
        done = "" if share is None else "█" * int(_WIDTH * share) + "·" * (_WIDTH - int(_WIDTH * share)) + " "
        sys.stderr.write(f"\r{done}{line} " + ("\n" if last else ""))
        sys.stderr.flush()

    def _line(self, step: int, loss: float, share: float | None, now: float) -> str:
        of = "" if self.steps is None else f" of {self.steps:,}"
        line = f"step {step:,}{of}  loss {loss:.4f}"
        if share is not None and 0 < share < 1:
            left = (now - self._started) * (1 - share) / share
            line += f"  {int(left) // 60}:{int(left) % 60:02} left"
        return line
