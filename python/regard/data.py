"""Training data: files in their published formats, and a built-in corpus.

Every function takes the path of a file or folder, or `"built-in"`: texts, sentences and digits that the package generates, as many
as you want, always the same for the same seed. `part` is `"train"`, `"validation"` or `"test"`.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import _regard
from ._arrays import Reals, whole
from ._regard import Error

__all__ = ["Pictures", "Tagged", "Texts", "pairs", "pictures", "tagged", "texts"]

Whole: TypeAlias = NDArray[np.int64]
"""An array of whole numbers."""


class Texts(NamedTuple):
    """Texts and the class of each."""

    texts: list[str]
    labels: Whole | None
    """The number of each text's class; None if they have none."""
    classes: list[str]
    """The names of the classes."""


class Tagged(NamedTuple):
    """Sentences as words, and a class for each word."""

    words: list[list[str]]
    classes: list[list[int]]
    """1 for content words (nouns, verbs, adjectives, adverbs), 0 for function words."""


class Pictures(NamedTuple):
    """Pictures and the class of each."""

    pixels: Reals
    """(pictures, 1, height, width), from 0 to 1."""
    labels: Whole


def texts(
    name: str | PathLike[str] = "built-in",
    limit: int = 1000,
    *,
    part: str = "train",
    seed: int = 0,
    columns: tuple[str, str] = ("sentence", "label"),
) -> Texts:
    """Texts with their classes: film reviews of the built-in corpus, IMDb's folder or archive, a table (.csv, .tsv) of which
    `columns` names the texts and the labels, or the lines of a file, which have no class. Of a file, a limit of 0 means all.

    >>> import regard
    >>> reviews = regard.data.texts(limit=4)
    >>> len(reviews.texts), reviews.classes
    (4, ['negative', 'positive'])
    """
    read, classes, labels = _regard.read_texts(_name(name), part, _limit(limit), _seed(seed), columns)
    return Texts(read, np.asarray(labels, dtype=np.int64) if labels else None, classes)


def tagged(
    name: str | PathLike[str] = "built-in", limit: int = 1000, *, part: str = "train", seed: int = 0
) -> Tagged:
    """Sentences of the built-in corpus or of a treebank (.conllu), with the class of each word: content or function.

    >>> import regard
    >>> words, classes = regard.data.tagged(limit=2)
    >>> len(words[0]) == len(classes[0])
    True
    """
    sentences = _regard.read_tagged(_name(name), part, _limit(limit), _seed(seed))
    words = [[word for word, _ in sentence] for sentence in sentences]
    return Tagged(words, [[word_class for _, word_class in sentence] for sentence in sentences])


def pairs(
    name: str | PathLike[str] = "built-in", limit: int = 1000, *, part: str = "train", seed: int = 0
) -> tuple[list[str], list[str]]:
    """Sources and their translations: of the built-in corpus, or of a folder with two files, line by line.

    >>> import regard
    >>> sources, targets = regard.data.pairs(limit=3)
    >>> len(sources), len(targets)
    (3, 3)
    """
    found: list[Any] = _regard.read_pairs(_name(name), part, _limit(limit), _seed(seed))
    return [source for source, _ in found], [target for _, target in found]


def pictures(
    name: str | PathLike[str] = "built-in", limit: int = 1000, *, part: str = "train", seed: int = 0
) -> Pictures:
    """Digits that the package draws, or the pictures of a folder with MNIST's files.

    >>> import regard
    >>> digits = regard.data.pictures(limit=5)
    >>> digits.pixels.shape, digits.labels.shape
    ((5, 1, 28, 28), (5,))
    """
    pixels, labels = _regard.read_pictures(_name(name), part, _limit(limit), _seed(seed))
    return Pictures(pixels, np.asarray(list(labels), dtype=np.int64))


def _name(name: str | PathLike[str]) -> str:
    try:
        return str(fspath(name))
    except TypeError:
        raise Error(f"a path or \"built-in\" was expected, got {type(name).__name__}") from None


def _limit(limit: int) -> int:
    return whole(limit, "limit")


def _seed(seed: int) -> int:
    return whole(seed, "seed")
