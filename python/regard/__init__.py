"""A laboratory for attention: build it, train it, look inside any transformer.

>>> import regard
>>> tokenizer = regard.Tokenizer.words(["the cat sat on the mat"])
>>> model = regard.GPT(tokenizer=tokenizer, d_model=8, n_layers=2, n_heads=2, context=8)
>>> run = model("the cat sat on the mat")
>>> run.tokens
['the', 'cat', 'sat', 'on', 'the', 'mat']
>>> run.attention(layer=1, head=0).shape
(6, 6)

Models
    `load` opens a checkpoint from Hugging Face or a run, `from_torch` converts a transformers model; `GPT`, `BERT`, `T5`, `Llama`,
    `ViT`, `Sentiment`, `Bag` and `Tagger` build one with random weights, and `Model.fit` trains it on arrays; `data` reads files.
    Call a `Model` on a text to get a `Run`.
Inside
    A `Run` has tokens, logits, attention computed on demand and any value by the name of its site. A notebook shows it as the
    interactive page. `Model.run` takes interventions (`ablate`, `patch`, `steer`, `block`) and hooks; `Model.gradient`
    differentiates; `Model.generate` samples text; `collect` gathers values over many texts.
Analysis
    `heads`, `ablation`, `influence`, `score_parts` and `logit_lens` return tables that pandas and polars open, with a `plot`. `train` and
    `experiment` run the program's own presets and tests of claims.
Other frameworks
    `view` shows attention that another framework computed. `watch` records every head of a transformers model while it runs.
Attention by itself
    `attention`, `positions` and `masks` work on arrays of any framework; `MultiHeadAttention` is a layer of it.

Every failure is a `regard.Error` with a message of one sentence.
"""

import atexit as _atexit
import os as _os
import sys as _sys

from . import _regard, attention, data, masks, positions
from ._analysis import (
    Ablation,
    Heads,
    Influence,
    LogitLens,
    ScoreParts,
    ablation,
    heads,
    influence,
    logit_lens,
    score_parts,
)
from ._fit import Fit
from ._guard import guard_module
from ._interventions import Intervention, ablate, block, patch, steer
from ._models import Generation, Gradients, Model, Tokenizer, collect, load
from ._page import Page
from ._regard import Error, __version__
from ._run import Candidate, Run, Token
from ._tables import Figure, Table, heat_maps, line_chart
from ._torch import from_torch
from ._training import Experiment, TrainingRun, Verdict, experiment, train
from ._view import view
from ._watch import Watched, watch
from ._zoo import BERT, GPT, T5, Bag, Llama, Sentiment, Tagger, ViT
from .attention import MultiHeadAttention

_regard.set_file(str(_regard.__file__))
_atexit.register(_regard.end_work)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_regard.after_fork)

__all__ = [
    "BERT",
    "GPT",
    "T5",
    "Ablation",
    "Bag",
    "Candidate",
    "Error",
    "Experiment",
    "Figure",
    "Fit",
    "Generation",
    "Gradients",
    "Heads",
    "Influence",
    "Intervention",
    "Llama",
    "LogitLens",
    "Model",
    "MultiHeadAttention",
    "Page",
    "Run",
    "ScoreParts",
    "Sentiment",
    "Table",
    "Tagger",
    "Token",
    "Tokenizer",
    "TrainingRun",
    "Verdict",
    "ViT",
    "Watched",
    "__version__",
    "ablate",
    "ablation",
    "attention",
    "block",
    "collect",
    "data",
    "experiment",
    "from_torch",
    "heads",
    "heat_maps",
    "influence",
    "line_chart",
    "load",
    "logit_lens",
    "masks",
    "patch",
    "positions",
    "score_parts",
    "steer",
    "train",
    "view",
    "watch",
]

for _module in (attention, data, masks, positions):
    guard_module(_module, _module.__all__)
del _module
guard_module(_sys.modules[__name__], __all__)
