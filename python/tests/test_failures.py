"""Failures are regard.Error with one sentence; Ctrl-C stops work; nothing ends the interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import regard


def test_sentences(gpt: regard.Model, tmp_path: Path) -> None:
    with pytest.raises(regard.Error, match="there is no model no-such-model"):
        regard.load("no-such-model")
    with pytest.raises(regard.Error, match="it has no config.json"):
        regard.load(tmp_path)
    with pytest.raises(regard.Error, match="auto"):
        gpt.save(tmp_path / "model")
        regard.load(tmp_path / "model", device="tpu")
    with pytest.raises(regard.Error, match="there is no token 999"):
        gpt([1, 999])
    with pytest.raises(regard.Error, match="too long: it has 17 tokens"):
        gpt(list(range(10)) + list(range(7)))
    with pytest.raises(regard.Error, match="the text is empty"):
        gpt("")
    with pytest.raises(regard.Error, match="has no tokenizer|no tokenizer"):
        regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8)("text")
    with pytest.raises(regard.Error, match="unknown field"):
        regard.GPT(11, d_modell=8)
    with pytest.raises(regard.Error, match="divisible"):
        regard.GPT(11, d_model=10, n_heads=3, n_layers=1)
    with pytest.raises(regard.Error, match="a model reads a text"):
        gpt(3.5)
    with pytest.raises(regard.Error, match="no site layers.0.nothing"):
        gpt("the cat")["layers.0.nothing"]
    with pytest.raises(regard.Error, match="8 × 8, got"):
        regard.ViT(image=8, d_model=8, n_layers=1, n_heads=2)(np.zeros((1, 9, 9)))


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_stops_long_work_and_python_goes_on() -> None:
    model = regard.GPT(50, d_model=64, n_layers=64, n_heads=4, context=1024)
    ids = list(range(50)) * 20
    started = time.monotonic()
    model(ids)
    once, finished = time.monotonic() - started, 0
    timer = threading.Timer(0.3 * once, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            model(ids)
            finished += 1
    timer.join()
    assert finished <= 1, f"stopped in the middle, after {time.monotonic() - started:.1f} s"
    assert model([1, 2, 3]).logits.shape == (3, 50)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_work_at_the_same_time(gpt: regard.Model) -> None:
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: found.append(gpt("the cat sat").logits)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and all(np.array_equal(found[0], other) for other in found)


def test_the_program(tmp_path: Path) -> None:
    def program(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "regard", *arguments], capture_output=True, text=True, cwd=tmp_path)

    version = program("--version")
    assert (version.returncode, version.stdout) == (0, f"regard {regard.__version__}\n")
    assert program("nonsense").returncode == 2
    missing = program("tokens", "no-such-model", "text")
    assert missing.returncode == 1 and missing.stderr.startswith("error: there is no model no-such-model")
    assert program("heads", "--help").returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_the_program_with_130(tmp_path: Path) -> None:
    train = subprocess.Popen(
        [sys.executable, "-m", "regard", "train", "bag", "--out", str(tmp_path / "run"), "--set", "train.steps=1000000"],
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):
        if (tmp_path / "run" / "metrics.csv").exists():
            break
        time.sleep(0.1)
    time.sleep(1)
    train.send_signal(signal.SIGINT)
    _, said = train.communicate(timeout=60)
    assert train.returncode == 130, said
    assert (tmp_path / "run" / "state.safetensors").exists(), "what was learned is kept"
