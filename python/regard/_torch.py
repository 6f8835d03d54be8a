"""Conversion from and to PyTorch models, in memory. PyTorch and transformers are imported only here, when they are used."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ._arrays import Reals
from ._models import Model, Tokenizer
from ._regard import Error, from_parts, to_parts

_NEEDED = "needs PyTorch and transformers: pip install torch transformers"


def _values(name: str, tensor: Any) -> Reals:
    """A PyTorch tensor as an array of f32 in main memory."""
    try:
        array = np.asarray(tensor.detach().float().cpu().contiguous().numpy(), dtype=np.float32, order="C")
    except (AttributeError, TypeError, RuntimeError, ValueError) as error:
        raise Error(f"{name} is not a tensor that can be read: {error}") from None
    return array


def _is_real(tensor: Any) -> bool:
    """Whether it holds floating-point numbers: masks and positions in a state dict are not weights."""
    return bool(getattr(tensor, "is_floating_point", lambda: False)())


def _as_in_files(module: Any) -> dict[str, Any]:
    """Its weights by their names in checkpoint files: transformers 5 uses others in memory for some families."""
    state: dict[str, Any] = module.state_dict()
    try:
        revert = importlib.import_module("transformers.core_model_loading").revert_weight_conversion
    except (ImportError, AttributeError):
        return state
    return dict(revert(module, state))


def from_torch(
    module: Any, *, tokenizer: Any = None, device: str = "auto", precision: str = "f32"
) -> Model:
    """A copy of a transformers model, made in memory.

    The families are those that `regard.load` opens. `tokenizer` is the model's own (a fast one), or a `regard.Tokenizer`; without one
    the model takes token ids. Weights of any type become f32.

    ```python
    hf = transformers.AutoModelForCausalLM.from_pretrained("gpt2")
    model = regard.from_torch(hf, tokenizer=transformers.AutoTokenizer.from_pretrained("gpt2"))
    model("The cat sat").top(5)
    ```
    """
    config: Any = getattr(module, "config", None)
    if not hasattr(module, "state_dict") or not hasattr(config, "to_dict"):
        raise Error(f"from_torch takes a model of transformers, not {type(module).__name__}")
    settings: dict[str, Any] = dict(config.to_dict())
    # As in a config file: the class decides which head the model has.
    settings["architectures"] = [type(module).__name__]
    state = _as_in_files(module)
    tensors = [(name, _values(name, value)) for name, value in state.items() if _is_real(value)]
    name = str(getattr(config, "_name_or_path", "") or settings.get("model_type", "") or type(module).__name__)
    inner = _tokenizer(tokenizer)
    text = json.dumps(settings, default=str)
    return Model(from_parts(name, text, tensors, None if inner is None else inner._inner, device, precision))


def _tokenizer(tokenizer: Any) -> Tokenizer | None:
    if tokenizer is None or isinstance(tokenizer, Tokenizer):
        return tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not callable(getattr(backend, "to_str", None)):
        raise Error(f"tokenizer is a fast tokenizer of transformers or a regard.Tokenizer, not {type(tokenizer).__name__}")
    return Tokenizer.from_json(str(backend.to_str()))


def to_torch(model: Model) -> Any:
    """See `Model.to_torch`."""
    text, tensors = to_parts(model._inner)
    settings: dict[str, Any] = json.loads(text)
    kind = str(settings.pop("model_type"))
    if kind.startswith("regard-"):
        raise Error(f"transformers has no model like this {model.kind}: only those of its families can be converted")
    try:
        torch: Any = importlib.import_module("torch")
        transformers: Any = importlib.import_module("transformers")
    except ImportError:
        raise Error(f"to_torch {_NEEDED}") from None
    named = settings.get("architectures") or []
    factory = getattr(transformers, str(named[0]), None) if named else None
    if factory is None:
        raise Error(f"this version of transformers has no {' or '.join(map(str, named)) or kind}")
    config = transformers.AutoConfig.for_model(kind, **settings)
    state = {name: torch.from_numpy(np.array(values)) for name, values in tensors}
    with _quiet(transformers):
        module, about = factory.from_pretrained(
            None, config=config, state_dict=state, output_loading_info=True, dtype=torch.float32
        )
    # The mask token only replaces the patches that are masked in pre-training.
    missing = [key for key in about["missing_keys"] if not key.endswith("mask_token")]
    wrong = [*missing, *about["unexpected_keys"], *about.get("mismatched_keys", ())]
    if wrong:
        some = ", ".join(str(key) for key in sorted(wrong, key=str)[:5])
        raise Error(f"{type(module).__name__} of this version of transformers has other weights: {some}")
    return module.eval()


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Hides transformers' progress bar while weights are loaded from memory."""
    logging = transformers.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
