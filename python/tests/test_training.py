"""Training runs and experiments from Python."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

import regard

SMALL = {"train.steps": 30, "run.log_every": 10}


def test_a_model_is_trained_opened_and_measured(tmp_path: Path) -> None:
    run = regard.train("bag", out=tmp_path / "run", settings=SMALL, device="cpu", precision="f32", progress=False)
    steps = run.metrics["step"].tolist()
    assert steps[-1] == 30 and run.plot().svg.startswith("<svg")
    model = run.load(device="cpu")
    assert model("a good film").logits.shape == (2,)


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    timer = threading.Thread(target=_interrupt_once, args=(out / "metrics.csv",))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        regard.train("bag", out=out, settings={"train.steps": 1_000_000}, progress=False)
    timer.join()
    assert (out / "state.safetensors").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _interrupt_once(file: Path) -> None:
    for _ in range(600):
        if file.exists():
            break
        time.sleep(0.1)
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGINT)


def test_the_program_s_sentence_is_raised(tmp_path: Path) -> None:
    with pytest.raises(regard.Error, match="preset"):
        regard.train("no-such-preset", out=tmp_path / "run")
    with pytest.raises(regard.Error, match="gpu"):
        regard.train("bag", out=tmp_path / "run", device="gpu")
    with pytest.raises(regard.Error, match="there is no experiment"):
        regard.experiment("no-such-experiment", out=tmp_path)


def test_settings_of_the_program_have_their_names_here(tmp_path: Path) -> None:
    with pytest.raises(regard.Error, match="give a preset, or resume=True"):
        regard.train(out=tmp_path / "run")
    regard.train("bag", out=tmp_path / "run", settings={"train.steps": 1, "data.texts": 20}, progress=False)
    with pytest.raises(regard.Error, match="continue it with resume=True, or choose another folder"):
        regard.train("bag", out=tmp_path / "run")
    with pytest.raises(regard.Error, match="size is 'smoke' or"):
        regard.experiment("lookup", size="smok")


def test_an_experiment_has_verdicts(tmp_path: Path) -> None:
    found = regard.experiment("scale-sweep", size="smoke", out=tmp_path)
    assert found.verdicts and all(verdict.outcome for verdict in found.verdicts)
    assert found.figures and found.question.endswith("?")
    first = found.verdicts[0]
    assert repr(first).startswith(f"<regard.Verdict {first.claim} {first.outcome}: ") and "bound" not in repr(first)
    assert first.claim in found._repr_html_() and "<table>" in found._repr_html_()


def test_progress_ends_with_the_last_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[int, bool]] = []

    class Shown:
        def __init__(self, steps: int | None) -> None:
            assert steps == 4

        def __call__(self, step: int, loss: float, curve: object, *, last: bool = False) -> None:
            shown.append((step, last))

    monkeypatch.setattr("regard._training.Progress", Shown)
    regard.train("bag", out=tmp_path / "run", settings={"train.steps": 4, "data.texts": 20, "run.log_every": 2})
    assert shown[-1] == (4, True)
