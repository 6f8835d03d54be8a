"""Small models with random weights, made by the package itself."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard

SENTENCES = ["the cat sat on the mat", "a dog saw the cat", "the mat was red"]


@pytest.fixture(autouse=True, scope="session")
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as a terminal has it: shells let what runs in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def tokenizer() -> regard.Tokenizer:
    return regard.Tokenizer.words(SENTENCES)


@pytest.fixture(scope="session")
def gpt(tokenizer: regard.Tokenizer) -> regard.Model:
    return regard.GPT(tokenizer=tokenizer, d_model=16, n_layers=3, n_heads=4, context=16, deviation=0.3, seed=1)


@pytest.fixture(scope="session")
def t5(tokenizer: regard.Tokenizer) -> regard.Model:
    return regard.T5(tokenizer=tokenizer, d_model=16, n_layers=2, n_heads=2, seed=1)


@pytest.fixture
def folder(tmp_path: Path, gpt: regard.Model) -> Path:
    gpt.save(tmp_path / "model")
    return tmp_path / "model"
