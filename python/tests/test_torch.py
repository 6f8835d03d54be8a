"""Models of PyTorch and back, with small stand-ins for torch and transformers: tools/python_peers has the real ones."""

from __future__ import annotations

import json
import sys
import types
from typing import Any

import numpy as np
import pytest

import regard
from regard import _regard


class Tensor:
    """The little of PyTorch's tensors that is used."""

    def __init__(self, values: np.ndarray, real: bool = True) -> None:
        self.values, self.real = values, real

    def is_floating_point(self) -> bool:
        return self.real

    def detach(self) -> Tensor:
        return self

    float = cpu = contiguous = detach

    def numpy(self) -> np.ndarray:
        return self.values


class Config:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def to_dict(self) -> dict[str, Any]:
        return self.settings


class GPT2LMHeadModel:
    def __init__(self, config: Config, state: dict[str, Any]) -> None:
        self.config, self.state = config, state

    def state_dict(self) -> dict[str, Any]:
        return self.state

    @classmethod
    def from_pretrained(cls, path: None, *, config: Config, state_dict: dict[str, Any], **_: Any) -> Any:
        assert path is None, "no file in between"
        missing = [] if "transformer.wte.weight" in state_dict else ["transformer.wte.weight"]
        return cls(config, state_dict), {"missing_keys": missing, "unexpected_keys": []}

    def eval(self) -> GPT2LMHeadModel:
        return self


@pytest.fixture
def ours() -> regard.Model:
    return regard.GPT(11, d_model=8, n_layers=2, n_heads=2, context=8, seed=5)


def theirs(model: regard.Model) -> GPT2LMHeadModel:
    config, tensors = _regard.to_parts(model._inner)
    state = {name: Tensor(values) for name, values in tensors}
    # As transformers 5 has it: tied weights under both names, masks among the state.
    state["lm_head.weight"] = state["transformer.wte.weight"]
    state["transformer.h.0.attn.bias"] = Tensor(np.ones((1, 1, 8, 8)), real=False)
    return GPT2LMHeadModel(Config(json.loads(config)), state)


def test_from_torch(ours: regard.Model) -> None:
    model = regard.from_torch(theirs(ours))
    np.testing.assert_array_equal(model([3, 1, 4]).logits, ours([3, 1, 4]).logits)
    with pytest.raises(regard.Error, match="no tokenizer"):
        model("text")


def test_from_torch_with_a_tokenizer() -> None:
    tokenizer = regard.Tokenizer.words(["the cat sat on the mat"])
    ours = regard.GPT(tokenizer=tokenizer, d_model=8, n_layers=1, n_heads=2, context=8)
    fast = types.SimpleNamespace(backend_tokenizer=types.SimpleNamespace(to_str=tokenizer.to_json))
    for given in (tokenizer, fast):
        assert regard.from_torch(theirs(ours), tokenizer=given)("the cat").tokens == ["the", "cat"]
    with pytest.raises(regard.Error, match="fast tokenizer"):
        regard.from_torch(theirs(ours), tokenizer="gpt2")


def test_what_cannot_be_taken_over_is_an_error(ours: regard.Model) -> None:
    with pytest.raises(regard.Error, match="takes a model of transformers, not str"):
        regard.from_torch("gpt2")
    without = theirs(ours)
    del without.state["transformer.wpe.weight"]
    with pytest.raises(regard.Error, match=r"transformer.wpe.weight is missing"):
        regard.from_torch(without)
    other = theirs(ours)
    other.config.settings = {"model_type": "rwkv"}
    with pytest.raises(regard.Error, match="rwkv"):
        regard.from_torch(other)
    odd = theirs(ours)
    odd.state["transformer.wpe.weight"] = Tensor(np.zeros((3, 3), dtype=np.float32))
    with pytest.raises(regard.Error, match="has shape"):
        regard.from_torch(odd)


@pytest.fixture(autouse=True)
def no_names_to_revert(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-ins below have the names of files, whatever is installed."""
    monkeypatch.setitem(sys.modules, "transformers.core_model_loading", None)


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, transformers = types.ModuleType("torch"), types.ModuleType("transformers")
    torch.from_numpy, torch.float32 = Tensor, np.float32  # type: ignore[attr-defined]
    quiet = types.SimpleNamespace(
        is_progress_bar_enabled=lambda: True, disable_progress_bar=lambda: None, enable_progress_bar=lambda: None
    )
    config = types.SimpleNamespace(for_model=lambda kind, **settings: Config({"model_type": kind, **settings}))
    transformers.logging, transformers.AutoConfig = quiet, config  # type: ignore[attr-defined]
    transformers.GPT2LMHeadModel = GPT2LMHeadModel  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "transformers", transformers)


@pytest.mark.usefixtures("packages")
def test_there_and_back(ours: regard.Model) -> None:
    module = ours.to_torch()
    assert isinstance(module, GPT2LMHeadModel) and module.config.settings["model_type"] == "gpt2"
    np.testing.assert_array_equal(regard.from_torch(module)([3, 1, 4]).logits, ours([3, 1, 4]).logits)
    # A copy: what one of them changes the other does not see.
    module.state["transformer.wpe.weight"].values[:] = 0
    assert abs(ours([3, 1, 4]).logits).max() > 0
    with pytest.raises(regard.Error, match="no model like this"):
        regard.Bag(11).to_torch()


def test_without_torch(ours: regard.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(regard.Error, match="pip install torch"):
        ours.to_torch()
