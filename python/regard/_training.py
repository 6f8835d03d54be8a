"""The program's training runs and experiments, in a separate process."""

from __future__ import annotations

import csv
import html
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from ._models import Model, load
from ._progress import Progress
from ._regard import Error
from ._tables import Figure, Table, line_chart

_POLL = 0.2

_SIZES = ("smoke", "quick", "standard", "full")


def _program(arguments: Sequence[str], watch: Callable[[], None]) -> None:
    """Runs a command of the program and calls `watch` periodically. Ctrl-C is passed on, and raised when the program has ended."""
    command = [sys.executable, "-m", "regard", *arguments]
    # In a process group of its own, so that Ctrl-C in a terminal reaches it once, through this process.
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    errors = ""
    try:
        while True:
            try:
                _, errors = process.communicate(timeout=_POLL)
                break
            except subprocess.TimeoutExpired:
                watch()
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.communicate()
        raise
    watch()
    if process.returncode != 0:
        lines = [line for line in errors.splitlines() if line.strip()]
        last = next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1] if lines else "")
        raise Error(last.removeprefix("error: ") or f"the program ended with {process.returncode}")


def _compute(device: str | None, precision: str | None) -> list[str]:
    """The options for the device and the precision of the program."""
    options = (("--device", device), ("--precision", precision))
    return [word for option, value in options if value is not None for word in (option, value)]


class TrainingRun:
    """The folder of a training run."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        """Its path."""

    @property
    def metrics(self) -> Table:
        """The metrics that were logged every few steps."""
        path = self.folder / "metrics.csv"
        if not path.exists():
            raise Error(f"{self.folder} is not the folder of a run: it has no metrics.csv")
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        names = list(rows[0]) if rows else ["step", "train_loss"]
        whole = ("step", "examples", "tokens")
        columns: dict[str, list[Any]] = {
            name: [int(row[name]) if name in whole else float(row[name] or "nan") for row in rows] for name in names
        }
        return Table(columns)

    def plot(self) -> Figure:
        """The losses over the steps."""
        rows = self.metrics.rows()
        curves = {
            name: [(row["step"], row[column]) for row in rows if row.get(column) == row.get(column) and column in row]
            for name, column in (("training", "train_loss"), ("held out", "val_loss"))
        }
        return line_chart("Loss", {name: points for name, points in curves.items() if points}, x="step", y="loss")

    def load(self, device: str = "auto") -> Model:
        """The best model of the run."""
        return load(self.folder, device)

    def _repr_svg_(self) -> str:
        return self.plot().svg

    def __repr__(self) -> str:
        return f"<regard.TrainingRun in {self.folder}>"


def _steps(folder: Path) -> int | None:
    """The number of steps in a run's settings."""
    try:
        text = (folder / "train.toml").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"^steps\s*=\s*(\d+)", text, re.M)
    return int(found[1]) if found else None


class _Watch:
    """Shows the progress of a run from the metrics that it writes."""

    def __init__(self, run: TrainingRun) -> None:
        self.run = run
        self.size = 0
        self.show: Progress | None = None

    def __call__(self, *, last: bool = False) -> None:
        path = self.run.folder / "metrics.csv"
        size = path.stat().st_size if path.exists() else 0
        if size == self.size and not last:
            return
        self.size = size
        rows = self.run.metrics.rows()
        if rows:
            if self.show is None:
                self.show = Progress(_steps(self.run.folder))
            self.show(rows[-1]["step"], rows[-1]["train_loss"], self.run.plot, last=last)


def train(
    preset: str | None = None,
    *,
    out: str | PathLike[str],
    data: str | PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    device: str | None = None,
    precision: str | None = None,
    progress: bool = True,
) -> TrainingRun:
    """Trains a model by a preset, on your data or the built-in corpus, into a folder.

    `settings` are those of a preset: `{"train.steps": 200, "model.n_layers": 2}`. `device` is `auto` (by default), `cpu` or `cuda`,
    `precision` `f32` or `bf16`. Training runs in a separate process.
    Ctrl-C stops it after a step; the weights learned so far are kept, and `train(out=…, resume=True)` continues from there. In a
    notebook the curve is drawn while it grows. `regard train` lists the presets.

    >>> import regard, tempfile
    >>> out = tempfile.mkdtemp() + "/run"
    >>> run = regard.train("bag", out=out, settings={"train.steps": 4, "data.texts": 40, "run.log_every": 2}, progress=False)
    >>> run.metrics["step"].tolist()[-1], run.load().kind
    (4, 'bag')
    """
    if preset is None and not resume:
        raise Error("train: give a preset, or resume=True to continue the run in the folder (`regard train` lists the presets)")
    if not resume and (Path(out) / "train.toml").exists():
        raise Error(f"{fspath(out)} holds a run already: continue it with resume=True, or choose another folder for out")
    arguments = ["train"]
    if preset is not None:
        arguments.append(preset)
    arguments += ["--out", fspath(out)]
    if data is not None:
        arguments += ["--data", fspath(data)]
    for key, value in (settings or {}).items():
        arguments += ["--set", f"{key}={json.dumps(value) if isinstance(value, (bool, list)) else value}"]
    if resume:
        arguments.append("--resume")
    arguments += _compute(device, precision)
    run = TrainingRun(out)
    if not progress:
        _program(arguments, lambda: None)
        return run
    watch = _Watch(run)
    _program(arguments, watch)
    watch(last=True)
    return run


class Verdict(NamedTuple):
    """The outcome of testing a claim."""

    claim: str
    """Its id, such as `A1`."""
    outcome: str
    """`holds`, `in-part`, `fails`, `undecided`, `not-testable` or `not-measured`."""
    finding: str
    """The finding, in a sentence."""
    checks: list[dict[str, Any]]
    """The measurements that it is based on, with intervals."""

    def __repr__(self) -> str:
        return f"<regard.Verdict {self.claim} {self.outcome}: {self.finding}>"


class Experiment:
    """The results of an experiment."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        """The folder of its tables and figures."""
        self.results: dict[str, Any] = json.loads((self.folder / "verdict.json").read_text(encoding="utf-8"))
        """The contents of `verdict.json`."""

    @property
    def question(self) -> str:
        """The question that it answers."""
        return str(self.results["question"])

    @property
    def verdicts(self) -> list[Verdict]:
        """The outcome for each claim."""
        return [
            Verdict(found["claim"], str(found["outcome"]).lower(), found["finding"], found["checks"])
            for found in self.results["verdicts"]
        ]

    @property
    def figures(self) -> list[Path]:
        """Its figures."""
        return sorted(self.folder.glob("*.svg"))

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(verdict.claim)}</td><td>{html.escape(verdict.outcome)}</td>"
            f'<td style="text-align: left">{html.escape(verdict.finding)}</td></tr>'
            for verdict in self.verdicts
        )
        head = '<tr><th>claim</th><th>outcome</th><th style="text-align: left">finding</th></tr>'
        return f"<p>{html.escape(self.question)}</p><table><thead>{head}</thead><tbody>{rows}</tbody></table>"

    def __repr__(self) -> str:
        outcomes = "; ".join(f"{verdict.claim} {verdict.outcome}" for verdict in self.verdicts)
        return f"<regard.Experiment in {self.folder}: {outcomes}>"


def experiment(
    name: str,
    *,
    size: str = "quick",
    seeds: int | None = None,
    data: str | PathLike[str] | None = None,
    out: str | PathLike[str] = "outputs",
    device: str | None = None,
    precision: str | None = None,
) -> Experiment:
    """Tests a claim about attention, given the name of an experiment or the id of a claim.

    `size` is `"quick"`, `"standard"` (more seeds, larger models), `"full"` (published data, which `data` names) or `"smoke"` (seconds).
    Finished parts are kept in the folder, so that the same call continues where it stopped. `regard experiment` lists them all.

    >>> import regard, tempfile
    >>> found = regard.experiment("lookup", size="smoke", out=tempfile.mkdtemp())
    >>> [verdict.claim for verdict in found.verdicts]
    ['E1']
    """
    if size not in _SIZES:
        raise Error(f"size is {' or '.join(map(repr, _SIZES))}, not {size!r}")
    arguments = ["experiment", name, "--size", size, "--out", fspath(out)]
    if seeds is not None:
        arguments += ["--seeds", str(seeds)]
    if data is not None:
        arguments += ["--data", fspath(data)]
    arguments += _compute(device, precision)
    before = {path: path.stat().st_mtime_ns for path in Path(out).glob("*/verdict.json")}
    _program(arguments, lambda: None)
    written = [path for path in Path(out).glob("*/verdict.json") if before.get(path) != path.stat().st_mtime_ns]
    if not written:
        raise Error(f"{name} left no verdict in {out}")
    return Experiment(max(written, key=lambda path: path.stat().st_mtime_ns).parent)
