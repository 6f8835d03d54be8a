"""Models: loading, calling, training, generation."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias, cast, overload

import numpy as np

from ._arrays import Reals, ids, is_ids, number, on_host, reals, whole
from ._fit import Fit
from ._fit import fit as _fit
from ._interventions import Hook, Intervention, as_changes, as_list
from ._regard import Error, Tokenizer as _Tokenizer
from ._regard import Generation as _Generation
from ._regard import Model as _Model
from ._run import Run, Token

_Example: TypeAlias = "tuple[str, str | None] | tuple[list[int], list[int] | None]"

Of: TypeAlias = "str | int | tuple[int, int | str] | None"
"""The value to differentiate: a token or class, a pair of position and token, `"loss"`, or None for the highest score."""


class Tokenizer:
    """Turns texts into token ids and back.

    >>> import regard
    >>> tokenizer = regard.Tokenizer.words(["the cat sat on the mat"])
    >>> tokenizer.decode(tokenizer.encode("The cat sat"))
    'the cat sat'
    """

    def __init__(self, inner: _Tokenizer) -> None:
        self._inner = inner

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Tokenizer:
        """From a `tokenizer.json`, or the folder of a model."""
        return cls(_Tokenizer.open(path))

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        """From the text of a `tokenizer.json`, as `to_json` and Hugging Face's `to_str` give it."""
        return cls(_Tokenizer.from_json(text))

    def to_json(self) -> str:
        """The text of a `tokenizer.json`."""
        return self._inner.to_json()

    @classmethod
    def characters(cls, texts: Sequence[str]) -> Tokenizer:
        """Every character that occurs is a token."""
        return cls(_Tokenizer.characters(_several(texts)))

    @classmethod
    def words(cls, texts: Sequence[str], maximum: int = 10_000, lowercase: bool = True) -> Tokenizer:
        """The most frequent words are tokens. `<PAD>`, `<UNK>` and `<MASK>` come first."""
        return cls(_Tokenizer.words(_several(texts), maximum, lowercase))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a `tokenizer.json`, which Hugging Face's libraries open too."""
        self._inner.save(path)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The ids of a text, with the special tokens that the tokenizer adds."""
        return self._inner.encode(text, special)

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of some ids."""
        return self._inner.decode([int(id) for id in ids], special)

    def id(self, piece: str) -> int | None:
        """The id of a piece of the vocabulary."""
        return self._inner.id(piece)

    def piece(self, id: int) -> str | None:
        """The piece of an id."""
        return self._inner.piece(id)

    def __len__(self) -> int:
        return len(self._inner)

    def __repr__(self) -> str:
        return f"<regard.Tokenizer of {len(self):,} tokens>"


def _index(value: Any, what: str) -> int:
    return whole(value, what, least=-(2**31), most=2**31)


def _several(texts: Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


class Gradients(dict[str, Reals]):
    """Gradients by the names of sites and parameters, and the `value` that was differentiated."""

    def __init__(self, value: float, gradients: Mapping[str, Reals]) -> None:
        super().__init__(gradients)
        self.value = value


class Generation:
    """A text that is being generated: iterate over it to stream its pieces, or use `str` to get them all.

    >>> import regard
    >>> model = regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8)
    >>> text = model.generate([3, 1], tokens=2, seed=0)
    >>> for piece in text:
    ...     pass
    >>> len(text.ids)
    2
    """

    def __init__(self, inner: _Generation) -> None:
        self._inner = inner
        self._pieces: list[str] = []
        self._warned = False

    def __iter__(self) -> Iterator[str]:
        yield from self._pieces
        for _, piece in self._inner:
            self._pieces.append(piece)
            if not self._warned and (context := self._inner.outgrown) is not None:
                self._warned = True
                warnings.warn(
                    f"the text is longer than the model's context of {context} tokens: the oldest ones left it",
                    stacklevel=2,
                )
            yield piece

    @property
    def ids(self) -> list[int]:
        """The ids of the tokens generated so far."""
        return self._inner.ids

    def __str__(self) -> str:
        return "".join(self)

    def __repr__(self) -> str:
        return f"<regard.Generation: {''.join(self._pieces)!r} so far>"


class Model:
    """A model: call it on a text, a pair of texts, a list of texts, or token ids.

    >>> import regard
    >>> tokenizer = regard.Tokenizer.words(["the cat sat on the mat"])
    >>> model = regard.GPT(tokenizer=tokenizer, d_model=8, n_layers=2, n_heads=2, context=8)
    >>> model("the cat sat").tokens
    ['the', 'cat', 'sat']
    >>> [run.tokens for run in model(["the cat", "on the mat"])]      # one batch
    [['the', 'cat'], ['on', 'the', 'mat']]
    """

    def __init__(self, inner: _Model) -> None:
        self._inner = inner
        self._about: dict[str, Any] = inner.about()
        self._attentions: list[tuple[str, str, int, int]] = self._about["attentions"]

    def _become(self, inner: _Model) -> None:
        """Replaces the weights by others of the same form. Runs keep the weights that they were made with."""
        self._inner = inner

    @property
    def reads(self) -> str:
        """Its kind of input: `tokens`, `source` (a text that its decoder answers) or `pictures`."""
        return str(self._about["reads"])

    @property
    def predicts(self) -> str:
        """Its kind of prediction: `next token`, `masked token`, `class`, `token class` or `nothing`."""
        return str(self._about["predicts"])

    @property
    def name(self) -> str:
        """The name it was opened by, or its kind."""
        return self._inner.name

    @property
    def kind(self) -> str:
        """The kind of model, such as `gpt2`."""
        return str(self._about["kind"])

    @property
    def device(self) -> str:
        """The device it is on: `cpu`, `cuda`, …"""
        return str(self._about["device"])

    @property
    def context(self) -> int | None:
        """The largest number of tokens that it can read."""
        context: int | None = self._about["context"]
        return context

    @property
    def vocab_size(self) -> int | None:
        """The number of tokens in its vocabulary."""
        size: int | None = self._about["vocabulary"]
        return size

    @property
    def attentions(self) -> list[str]:
        """The names of its attentions, such as `layers.0.self`."""
        return [name for name, *_ in self._attentions]

    @property
    def n_layers(self) -> int:
        """The number of layers with attention, of the kind that comes first."""
        return 1 + max((layer for _, kind, layer, _ in self._attentions if kind == self._attentions[0][1]), default=-1)

    @property
    def n_heads(self) -> int:
        """The number of heads of a layer; the largest if layers differ."""
        return max((heads for *_, heads in self._attentions), default=0)

    @property
    def n_parameters(self) -> int:
        """The number of learned values."""
        return int(self._about["parameters"])

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Its tokenizer; None if it takes only ids."""
        inner = self._inner.tokenizer
        return None if inner is None else Tokenizer(inner)

    @property
    def parameters(self) -> dict[str, tuple[int, ...]]:
        """The names and shapes of all parameters."""
        return {name: tuple(shape) for name, shape in self._inner.parameters()}

    def parameter(self, name: str) -> Reals:
        """The values of a parameter, read-only."""
        return self._inner.parameter(name)

    def with_parameters(self, values: Mapping[str, Any]) -> Model:
        """A copy of the model in which some parameters have other values.

        >>> import numpy as np, regard
        >>> model = regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8)
        >>> name = next(name for name, shape in model.parameters.items() if shape == (11, 8))
        >>> silent = model.with_parameters({name: np.zeros((11, 8))})
        >>> float(abs(silent([3, 1, 4]).logits).max())
        0.0
        """
        return Model(self._inner.with_parameters([(name, reals(value, name)) for name, value in values.items()]))

    def save(self, folder: str | PathLike[str]) -> None:
        """Writes a folder that `regard.load` and, for known families, Hugging Face's transformers open."""
        self._inner.save(folder)

    def tokens(self, text: str, second: str | None = None) -> list[Token]:
        """The tokens of a text as the model reads them, without running it."""
        return [Token(*token) for token in self._inner.tokens((text, second))]

    def name_of(self, id: int) -> str:
        """The text of a token, or the number of a class."""
        tokenizer = self._inner.tokenizer
        if tokenizer is None or self._about["predicts"] not in ("next token", "masked token"):
            return str(id)
        return tokenizer.decode([id], True) or tokenizer.piece(id) or str(id)

    def attention_name(self, layer: int, kind: str | None = None) -> str:
        """The name of a layer's attention: `layers.3.self`."""
        kinds = list(dict.fromkeys(known for _, known, *_ in self._attentions))
        if not kinds:
            raise Error(f"this {self.kind} has no attention heads")
        if kind is None and len(kinds) > 1:
            raise Error(f"this {self.kind} has several attentions: choose one with kind={' or kind='.join(map(repr, kinds))}")
        wanted = kind or kinds[0]
        layers = {number: name for name, known, number, _ in self._attentions if known == wanted}
        if not layers:
            raise Error(f"this {self.kind} has no attention of the kind {wanted!r}: it has {', '.join(kinds)}")
        number = _index(layer, "layer")
        number += len(layers) if number < 0 else 0
        if number not in layers:
            raise Error(f"there are layers 0 to {len(layers) - 1}: there is no layer {layer}")
        return layers[number]

    def layers_of(self, kind: str | None = None) -> int:
        """The number of layers with an attention of a kind; of the only one, if not given."""
        self.attention_name(0, kind)
        return sum(1 for _, known, *_ in self._attentions if known == (kind or self._attentions[0][1]))

    def heads_of(self, attention: str) -> int:
        """The number of heads of an attention."""
        return next((heads for name, _, _, heads in self._attentions if name == attention), 0)

    def head_number(self, attention: str, head: int) -> int:
        """The number of a head of an attention, which is counted from the end if negative."""
        heads, number = self.heads_of(attention), _index(head, "head")
        number += heads if number < 0 else 0
        if not 0 <= number < heads:
            raise Error(f"{attention} has {heads} heads: there is no head {head}")
        return number

    def numbers(self, layer: int | None, head: int | None, kind: str | None = None) -> tuple[int | None, int | None]:
        """A layer and a head of a kind of attention (the first, if not given), which are counted from the end if negative."""
        if not self._attentions or (layer is None and head is None):
            return layer, head
        site = self.attention_name(0 if layer is None else layer, kind or self._attentions[0][1])
        number = next(number for name, _, number, _ in self._attentions if name == site)
        return None if layer is None else number, None if head is None else self.head_number(site, head)

    @overload
    def __call__(self, text: str, second: str | None = None) -> Run: ...
    @overload
    def __call__(self, text: tuple[str, str]) -> Run: ...
    @overload
    def __call__(self, text: list[int]) -> Run: ...
    @overload
    def __call__(self, text: list[str] | list[tuple[str, str]] | list[list[int]]) -> list[Run]: ...
    @overload
    def __call__(self, text: Any, second: Any = None) -> Any: ...
    def __call__(self, text: Any, second: Any = None) -> Any:
        """Runs the model on a text (or a pair of texts, or ids, or a picture) and returns a `Run`; for a list, one for each.

        For an encoder–decoder model, `second` is the decoder's prefix.
        """
        return self.run(text, second)

    @overload
    def run(
        self,
        text: str | tuple[str, str] | list[int],
        second: str | list[int] | None = None,
        *,
        interventions: Intervention | Sequence[Intervention] = (),
        hooks: Mapping[str, Hook] | None = None,
        record: Sequence[str] = (),
    ) -> Run: ...
    @overload
    def run(
        self,
        text: list[str] | list[tuple[str, str]] | list[list[int]],
        *,
        interventions: Intervention | Sequence[Intervention] = (),
        hooks: Mapping[str, Hook] | None = None,
        record: Sequence[str] = (),
    ) -> list[Run]: ...
    @overload
    def run(
        self,
        text: Any,
        second: Any = None,
        *,
        interventions: Intervention | Sequence[Intervention] = (),
        hooks: Mapping[str, Hook] | None = None,
        record: Sequence[str] = (),
    ) -> Any: ...
    def run(
        self,
        text: Any,
        second: Any = None,
        *,
        interventions: Intervention | Sequence[Intervention] = (),
        hooks: Mapping[str, Hook] | None = None,
        record: Sequence[str] = (),
    ) -> Any:
        """Runs the model with interventions, and with hooks: functions that are called with the values at sites.

        A hook is called as `function(site, values)` with values of the whole batch, (batch, …), for every site that its
        pattern names (`*` stands for any one part of a name). Its result replaces the values, unless it is None. Values at
        the sites of `record` are kept, so that reading them later takes no other pass.

        >>> import regard
        >>> model = regard.GPT(11, d_model=8, n_layers=2, n_heads=2, context=8)
        >>> seen = []
        >>> run = model.run([3, 1, 4], hooks={"layers.*.self.heads": lambda site, value: seen.append(site)})
        >>> seen
        ['layers.0.self.heads', 'layers.1.self.heads']
        """
        examples, pictures, single = self._examples(text, second)
        given = as_list(interventions)
        computed = self._inner.run(examples, pictures, as_changes(self, given, hooks), list(record))
        for intervention in given:
            intervention.check(self, computed)
        runs = [Run(self, computed, number) for number in range(len(computed))]
        return runs[0] if single else runs

    def gradient(
        self,
        text: Any,
        second: Any = None,
        *,
        wrt: Sequence[str],
        of: Of = None,
        position: int = -1,
        interventions: Intervention | Sequence[Intervention] = (),
    ) -> Gradients:
        """The gradient of a score, or of the loss, with respect to sites and parameters.

        `of` is a token (its text or id) or a class whose score at `position` is differentiated, a pair of position and token,
        `"loss"` for the mean loss of the text, or None for the highest score. `wrt` names sites and parameters; `*` stands for
        any one part of a name.

        >>> import regard
        >>> model = regard.GPT(11, d_model=8, n_layers=2, n_heads=2, context=8)
        >>> found = model.gradient([3, 1, 4], of=5, wrt=["layers.*.self.weights"])
        >>> {site: gradient.shape for site, gradient in found.items()}
        {'layers.0.self.weights': (2, 3, 3), 'layers.1.self.weights': (2, 3, 3)}
        """
        examples, pictures, single = self._examples(text, second)
        if not single:
            raise Error("gradient: one text or picture at a time")
        changes = as_changes(self, as_list(interventions), None)
        names = [wrt] if isinstance(wrt, str) else list(wrt)
        example = examples[0] if examples else None
        value, found = self._inner.gradient(example, pictures, self._target(of, position), names, changes)
        return Gradients(value, dict(found))

    def generate(
        self,
        prompt: Any,
        tokens: int = 50,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        stop_at_end: bool = True,
    ) -> Generation:
        """Continues a text, or answers one: iterate over the result to stream it.

        A temperature of 0 always takes the best token. Samples depend on the seed alone. A text that outgrows the model's
        context is continued without its oldest tokens, with one warning; answers of encoder–decoder models end with the context.

        >>> import regard
        >>> tokenizer = regard.Tokenizer.words(["the cat sat on the mat"])
        >>> model = regard.GPT(tokenizer=tokenizer, d_model=8, n_layers=2, n_heads=2, context=8)
        >>> text = model.generate("the cat", tokens=3, seed=1)
        >>> len(list(text)), len(text.ids)
        (3, 3)
        """
        examples, pictures, single = self._examples(prompt, None)
        if pictures is not None or not single:
            raise Error("generate: one prompt at a time")
        for name, value in (("temperature", temperature), ("top_p", top_p), ("repetition_penalty", repetition_penalty)):
            number(value, name)
        whole(tokens, "tokens")
        whole(top_k, "top_k")
        whole(seed, "seed")
        settings = {
            "greedy": False,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "repetition_penalty": repetition_penalty,
            "seed": seed,
        }
        return Generation(self._inner.generate(examples[0], tokens, json.dumps(settings), stop_at_end))

    def fit(
        self,
        inputs: Any,
        targets: Any = None,
        *,
        steps: int = 1000,
        lr: float = 1e-3,
        batch: int = 32,
        validation: Any = None,
        evaluate_every: int = 0,
        warmup: int = 0,
        decay: str = "constant",
        optimiser: str = "adamw",
        weight_decay: float = 0.01,
        clip: float = 1.0,
        accumulate: int = 1,
        patience: int = 0,
        mask: int | None = None,
        seed: int = 0,
        progress: bool = True,
    ) -> Fit:
        """Trains the model on data in memory, with a progress bar; in a notebook with a curve that grows.

        The form of the data depends on what the model predicts:

        - the next token: a list of texts or rows of ids, or one long text, of which random windows are read;
        - masked tokens: texts or rows, with 15 % of the tokens masked as in BERT (`mask` is the id of the mask token, if there is no
          tokenizer);
        - classes of texts or pictures: inputs, and a class for each, from 0;
        - classes of tokens: inputs, and a row of classes for each; tokens with a class below 0 are ignored;
        - answers: sources, and a text or row of ids for each.

        `validation` is such data, or a pair of inputs and targets, on which the model is evaluated every `evaluate_every` steps (ten
        times, if not given). `decay` is `"constant"`, `"linear"` or `"cosine"`, `optimiser` `"adamw"`, `"adam"` or `"sgd"`. Texts
        longer than the model reads are truncated. Ctrl-C stops after a step and keeps the weights learned so far. Earlier runs keep
        the weights that they were made with.

        >>> import regard
        >>> texts = ["a good film", "a bad film", "good acting", "bad acting"]
        >>> tokenizer = regard.Tokenizer.words(texts)
        >>> model = regard.Bag(tokenizer=tokenizer)
        >>> fit = model.fit(texts, [1, 0, 1, 0], steps=60, lr=0.05, batch=4)
        >>> model("a good film").top(1)[0].id
        1
        """
        settings = {
            "warmup": warmup,
            "decay": decay,
            "optimiser": optimiser,
            "weight_decay": weight_decay,
            "clip": clip,
            "accumulate": accumulate,
            "patience": patience,
            "seed": seed,
        }
        return _fit(
            self,
            inputs,
            targets,
            steps=steps,
            lr=lr,
            batch=batch,
            validation=validation,
            evaluate_every=evaluate_every,
            mask=mask,
            progress=progress,
            settings=settings,
        )

    def to_torch(self) -> Any:
        """A copy as a transformers model, made in memory, for the families that both support (`regard.from_torch` converts back).

        ```python
        hf = regard.load("runs/shakespeare").to_torch()      # a GPT2LMHeadModel
        hf.generate(...)
        ```
        """
        from ._torch import to_torch

        return to_torch(self)

    def _target(self, of: Of, position: int) -> tuple[int, int | None] | str:
        if of == "loss":
            return "loss"
        if isinstance(of, tuple):
            position, of = of
        if isinstance(of, str):
            return (position, self._id(of))
        return (position, of)

    def _id(self, token: str) -> int:
        tokenizer = self.tokenizer
        if tokenizer is None:
            raise Error(f"{self.name} has no tokenizer; give token ids instead of text")
        found = tokenizer.encode(token, special=False)
        known = tokenizer.id(token)
        if len(found) == 1:
            return found[0]
        if known is not None:
            return known
        raise Error(f"{token!r} is {len(found)} tokens; name one, or give its id")

    def _examples(self, text: Any, second: Any) -> tuple[list[_Example], Reals | None, bool]:
        """The input in the form that the extension takes: texts or pictures, and whether it was a single one."""
        if type(text) is list and text and second is None and self._about["reads"] != "pictures":
            # A fast path for the most frequent kind of call.
            if all(type(item) is int and item >= 0 for item in text):
                return [(text, None)], None, True
        if isinstance(text, str):
            if second is not None and not isinstance(second, str):
                raise Error("a text and its second text are both strings")
            self._ensure_pairs(second)
            return [(text, second)], None, True
        if isinstance(text, tuple) and len(text) == 2 and not is_ids(text):
            self._ensure_pairs(text[1])
            return [_pair(text)], None, True
        if self._about["reads"] == "pictures":
            pictures = reals(text, "pictures")
            single = pictures.ndim == 3
            return [], pictures[np.newaxis] if single else pictures, single
        if is_ids(text):
            array = on_host(text)
            if array.ndim == 2:
                return [(ids(row), None) for row in array], None, False
            return [(ids(array), None if second is None else ids(second))], None, True
        if (isinstance(text, Sequence) or hasattr(text, "__iter__")) and not isinstance(text, (bytes, bytearray)):
            several: list[_Example] = []
            for item in text:
                examples, _, single = self._examples(item, None)
                if not single:
                    raise Error("a list holds texts, pairs of texts, or rows of token ids")
                several += examples
            if second is not None:
                raise Error("a list holds pairs as tuples")
            return several, None, False
        raise Error(f"a model reads a text, a pair of texts, a list of texts, or token ids, not {type(text).__name__}")

    def _ensure_pairs(self, second: Any) -> None:
        """Raises an error if the model would not read a second text."""
        if isinstance(second, str) and second.strip() and not self._about["pairs"]:
            raise Error(f"this {self.kind} reads one text: it has no use for a second one")

    def __repr__(self) -> str:
        return f"<regard.Model {self.name}: {self.kind}, {self.n_parameters:,} parameters on {self.device}>"


def _pair(pair: tuple[Any, Any]) -> _Example:
    first, second = pair
    if isinstance(first, str) and isinstance(second, str):
        return (first, second)
    if is_ids(first):
        return (ids(first), ids(second))
    raise Error("a pair is two texts, or two rows of token ids")


def load(name: str | PathLike[str], device: str = "auto", *, precision: str = "f32") -> Model:
    """Opens a model: the folder of a checkpoint or of a run, or a name in the Hugging Face cache such as `gpt2`.

    `device` is `"cpu"`, `"cuda"`, `"cuda:1"`, … or `"auto"`, which takes a GPU if there is one. `precision` is the type of
    activations: `"f32"`, or `"bf16"` on a GPU.

    >>> import regard, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> regard.GPT(11, d_model=8, n_layers=1, n_heads=2, context=8).save(folder)
    >>> regard.load(folder, device="cpu").n_heads
    2
    """
    return Model(_Model.load(fspath(name), device, precision))


def collect(
    model: Model,
    texts: Iterable[Any],
    sites: Sequence[str],
    batch: int = 16,
    *,
    out: str | PathLike[str] | None = None,
) -> dict[str, list[Reals]]:
    """The values at some sites for many texts, read in batches: for each site, one array per text.

    With `out` they are written while texts are read, one file per text (`OUT/SITE/000000.npy`), and the arrays are mapped from there:
    no more than a batch is in memory. `texts` may be an iterator. In the names of sites, `*` stands for any one part.

    >>> import regard
    >>> model = regard.GPT(11, d_model=8, n_layers=2, n_heads=2, context=8)
    >>> found = regard.collect(model, [[3, 1], [4, 1, 5]], ["layers.1.residual.after"])
    >>> [values.shape for values in found["layers.1.residual.after"]]
    [(2, 8), (3, 8)]
    """
    patterns = [sites] if isinstance(sites, str) else list(sites)
    if isinstance(texts, str):
        raise Error("collect: texts is a list of texts, not one text")
    whole(batch, "batch", least=1)
    found: dict[str, list[Reals]] = {site: [] for site in patterns if "*" not in site}
    remaining = iter(texts)
    while part := list(itertools.islice(remaining, batch)):
        runs: list[Run] = model.run(cast("list[str]", part), record=patterns)
        for site in _named(patterns, runs[0].sites):
            found.setdefault(site, [])
        for run in runs:
            for site in found:
                # A copy, so that one text does not keep the values of its whole batch in memory.
                values = run[site].copy()
                found[site].append(values if out is None else _stored(out, site, len(found[site]), values))
    return found


def _named(patterns: Sequence[str], sites: Sequence[str]) -> list[str]:
    """The sites that patterns name."""
    named: list[str] = []
    for pattern in patterns:
        parts = pattern.split(".")
        fitting = [
            site
            for site in sites
            if len(parts) == site.count(".") + 1 and all(part in ("*", of) for part, of in zip(parts, site.split(".")))
        ]
        if "*" in parts and not fitting:
            raise Error(f"the model has no site {pattern} (run.sites lists all)")
        named += fitting if "*" in parts else [pattern]
    return named


def _stored(out: str | PathLike[str], site: str, number: int, values: Reals) -> Reals:
    """Writes an array and returns it mapped from its file."""
    path = Path(out) / site / f"{number:06}.npy"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values)
    mapped: Reals = np.load(path, mmap_mode="r")
    return mapped
