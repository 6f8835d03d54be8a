"""Models from scratch, with random weights."""

from __future__ import annotations

import json
from typing import Any

from ._arrays import number
from ._models import Model, Tokenizer
from ._regard import Error
from ._regard import Model as _Model


def _build(
    kind: str, vocab_size: int | None, tokenizer: Tokenizer | None, seed: int, device: str, settings: dict[str, Any]
) -> Model:
    precision = settings.pop("precision", "f32")
    if vocab_size is None:
        if tokenizer is None:
            raise Error("give vocab_size or a tokenizer")
        vocab_size = len(tokenizer)
    everything = {"kind": kind, "vocabulary": vocab_size, **settings}
    inner = None if tokenizer is None else tokenizer._inner
    return Model(_Model.build(_settings(everything), inner, seed, device, precision))


def _settings(settings: dict[str, Any]) -> str:
    for name, value in settings.items():
        if isinstance(value, float):
            number(value, name)
    return json.dumps(settings)


def GPT(
    vocab_size: int | None = None,
    d_model: int = 768,
    n_layers: int = 12,
    n_heads: int = 12,
    *,
    context: int = 1024,
    tokenizer: Tokenizer | None = None,
    seed: int = 0,
    device: str = "auto",
    **settings: Any,
) -> Model:
    """A causal language model (Radford et al., 2019).

    More settings: `d_hidden`, `dropout`, `positions` (`"learned"`, `"sinusoidal"`, `"rotary"`, `"rotary-interleaved"`,
    `"alibi"`, `"relative"`, `"none"`), `norm` (`"pre"`, `"post"`, …), `activation`, `attention` (`"softmax"`, `"zero-sink"`,
    `"learned-sink"`, `"sigmoid"`, `"linear"`, `"additive"`), `window`, `scaled`, `tied`.

    >>> import regard
    >>> regard.GPT(vocab_size=11, d_model=8, n_layers=2, n_heads=2, context=8, positions="rotary")
    <regard.Model gpt: gpt, 1,848 parameters on cpu>
    """
    sizes = {"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads, "context": context}
    return _build("gpt", vocab_size, tokenizer, seed, device, {**sizes, **settings})


def Llama(
    vocab_size: int | None = None,
    d_model: int = 256,
    n_layers: int = 4,
    n_heads: int = 8,
    *,
    n_kv_heads: int | None = None,
    context: int = 256,
    tokenizer: Tokenizer | None = None,
    seed: int = 0,
    device: str = "auto",
    **settings: Any,
) -> Model:
    """A causal language model with rotary positions, RMS norms and a gated feed-forward layer (Touvron et al., 2023).

    More settings: `d_head`, `d_hidden`, `activation`, `rotary_base`, `tied`, `dropout`.

    >>> import regard
    >>> regard.Llama(11, d_model=8, n_layers=2, n_heads=2, n_kv_heads=1, d_hidden=16, context=8).n_heads
    2
    """
    sizes = {"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads, "context": context}
    sizes["n_kv_heads"] = n_kv_heads or n_heads
    return _build("llama", vocab_size, tokenizer, seed, device, {**sizes, **settings})


def BERT(
    vocab_size: int | None = None,
    d_model: int = 768,
    n_layers: int = 12,
    n_heads: int = 12,
    *,
    d_hidden: int | None = None,
    context: int = 512,
    classes: int | None = None,
    tokenizer: Tokenizer | None = None,
    seed: int = 0,
    device: str = "auto",
    **settings: Any,
) -> Model:
    """A bidirectional encoder that predicts masked words, or `classes` of a text (Devlin et al., 2018).

    More settings: `n_types`, `activation`, `dropout`.

    >>> import regard
    >>> bert = regard.BERT(11, d_model=8, n_layers=2, n_heads=2, context=8, classes=3)
    >>> bert([1, 2, 3]).logits.shape
    (3,)
    """
    sizes = {"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads, "context": context}
    sizes["d_hidden"] = d_hidden or 4 * d_model
    return _build("bert", vocab_size, tokenizer, seed, device, {**sizes, "classes": classes, **settings})


def T5(
    vocab_size: int | None = None,
    d_model: int = 512,
    n_layers: int = 6,
    n_heads: int = 8,
    *,
    d_head: int | None = None,
    d_hidden: int | None = None,
    n_decoder_layers: int | None = None,
    tokenizer: Tokenizer | None = None,
    seed: int = 0,
    device: str = "auto",
    **settings: Any,
) -> Model:
    """An encoder and a decoder that attends to it (Raffel et al., 2019). Call it on a source and an answer.

    More settings: `activation`, `gated`, `buckets`, `max_distance`, `tied`, `scale_output`, `start`, `dropout`.

    >>> import regard
    >>> t5 = regard.T5(11, d_model=8, n_layers=2, n_heads=2)
    >>> run = t5([1, 2, 3], [4])
    >>> run.attention(0, 0, kind="cross").shape      # two tokens of the answer, with its start token, and three of the source
    (2, 3)
    """
    sizes = {"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads}
    sizes["d_head"] = d_head or max(1, d_model // n_heads)
    sizes["d_hidden"] = d_hidden or 4 * d_model
    sizes["n_decoder_layers"] = n_decoder_layers or n_layers
    return _build("t5", vocab_size, tokenizer, seed, device, {**sizes, **settings})


def ViT(
    image: int | tuple[int, int] = 28,
    patch: int = 4,
    *,
    channels: int = 1,
    classes: int = 10,
    d_model: int = 64,
    n_layers: int = 4,
    n_heads: int = 4,
    seed: int = 0,
    device: str = "auto",
    **settings: Any,
) -> Model:
    """A transformer that reads a picture as a sequence of patches (Dosovitskiy et al., 2020).

    Call it on an array (channels, height, width), or on a batch of them.

    >>> import numpy as np, regard
    >>> vit = regard.ViT(image=8, patch=4, d_model=8, n_layers=1, n_heads=2)
    >>> run = vit(np.zeros((1, 8, 8)))
    >>> run.tokens, run.logits.shape
    (['[class]', '1,1', '1,2', '2,1', '2,2'], (10,))
    """
    sides = [image, image] if isinstance(image, int) else list(image)
    sizes = {"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads}
    rest = {"kind": "vit", "image": sides, "patch": patch, "channels": channels, "classes": classes}
    precision = settings.pop("precision", "f32")
    return Model(_Model.build(_settings({**rest, **sizes, **settings}), None, seed, device, precision))


def Sentiment(
    vocab_size: int | None = None,
    pooling: str = "max",
    *,
    d_embedding: int = 100,
    d_hidden: int = 128,
    n_heads: int = 4,
    tokenizer: Tokenizer | None = None,
    seed: int = 0,
    device: str = "auto",
    **settings: Any,
) -> Model:
    """A classifier over a BiLSTM: `pooling` is `"max"`, `"additive"` (attention) or `"heads"` (self-attention).

    >>> import regard
    >>> model = regard.Sentiment(11, "additive", d_embedding=4, d_hidden=4)
    >>> model([1, 2, 3])["pool.weights"].shape
    (3,)
    """
    sizes = {"d_embedding": d_embedding, "d_hidden": d_hidden, "n_heads": n_heads}
    return _build("sentiment", vocab_size, tokenizer, seed, device, {"pooling": pooling, **sizes, **settings})


def Bag(
    vocab_size: int | None = None,
    d_embedding: int = 16,
    n_heads: int = 0,
    *,
    tokenizer: Tokenizer | None = None,
    seed: int = 0,
    device: str = "auto",
    **settings: Any,
) -> Model:
    """A classifier of the mean of word vectors, with attention over them if `n_heads` is above 0.

    >>> import regard
    >>> regard.Bag(11, d_embedding=4)([1, 2, 3]).logits.shape
    (2,)
    """
    sizes = {"d_embedding": d_embedding, "n_heads": n_heads}
    return _build("bag", vocab_size, tokenizer, seed, device, {**sizes, **settings})


def Tagger(
    vocab_size: int | None = None,
    d_model: int = 64,
    n_heads: int = 1,
    *,
    classes: int = 2,
    tokenizer: Tokenizer | None = None,
    seed: int = 0,
    device: str = "auto",
    **settings: Any,
) -> Model:
    """One attention layer that classifies every word.

    >>> import regard
    >>> regard.Tagger(11, d_model=4)([1, 2, 3]).logits.shape
    (3, 2)
    """
    sizes = {"d_model": d_model, "n_heads": n_heads, "classes": classes}
    return _build("tagger", vocab_size, tokenizer, seed, device, {**sizes, **settings})
