"""Tables and pictures."""

from __future__ import annotations

import csv
import html
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._arrays import reals
from ._regard import Columns, Error
from ._regard import Figure as _Figure
from ._regard import lines as _lines
from ._regard import maps as _maps


class Figure:
    """A picture: a notebook shows it, `save` writes it as .svg or .png.

    >>> import regard
    >>> figure = regard.line_chart("Loss", {"training": [(0, 2.0), (1, 1.5)]}, x="step", y="loss")
    >>> figure.png()[1:4]
    b'PNG'
    """

    def __init__(self, inner: _Figure) -> None:
        self._inner = inner

    @property
    def svg(self) -> str:
        """The picture as SVG."""
        return self._inner.svg

    def png(self, *, dark: bool = False, scale: float = 2.0) -> bytes:
        """The picture as PNG, `scale` pixels per unit."""
        return self._inner.png(dark, scale)

    def save(self, path: str | PathLike[str], *, dark: bool = False) -> Path:
        """Writes the picture in the format of the suffix."""
        written = Path(path)
        if written.suffix == ".svg":
            written.write_text(self._inner.dark if dark else self._inner.svg, encoding="utf-8")
        elif written.suffix == ".png":
            written.write_bytes(self.png(dark=dark))
        else:
            raise Error(f"{written}: a picture ends in .svg or .png")
        return written

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return "<regard.Figure: a notebook shows it, save(path) writes it>"


class Table:
    """Columns of numbers and texts, by name.

    pandas, polars and pyarrow open it through the Arrow interface: `polars.DataFrame(table)`,
    `pandas.DataFrame.from_arrow(table)`, `pyarrow.table(table)`.

    >>> from regard import Table
    >>> table = Table({"head": [0, 1], "mean": [0.25, 0.5]})
    >>> len(table), table["mean"].max(), table.where(head=1).rows()
    (2, np.float64(0.5), [{'head': 1, 'mean': 0.5}])
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]] | Columns) -> None:
        self._columns = columns if isinstance(columns, Columns) else Columns([_column(n, v) for n, v in columns.items()])

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._columns.names()

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column as an array."""
        if not isinstance(name, str):
            raise Error(f"a table has columns by name, and not {name!r}: its rows are in rows()")
        return np.asarray(self._columns.get(name))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        names = self.columns
        return [dict(zip(names, row)) for row in zip(*(self._columns.get(name) for name in names))]

    def where(self, **values: Any) -> Table:
        """The rows that have these values."""
        for name in values:
            self[name]
        kept = [row for row in self.rows() if all(row.get(name) == value for name, value in values.items())]
        return Table({name: [row[name] for row in kept] for name in self.columns})

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the table as CSV."""
        written = Path(path)
        with written.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(row.values() for row in self.rows())
        return written

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._columns.__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        most = 60
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        rows = self.rows()
        body = "".join("<tr>" + "".join(f"<td>{_cell(v)}</td>" for v in row.values()) + "</tr>" for row in rows[:most])
        more = f"<p>{len(rows)} rows, the first {most} of them shown</p>" if len(rows) > most else "" if rows else "<p>no rows</p>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def __repr__(self) -> str:
        return f"<regard.Table of {len(self)} rows: {', '.join(self.columns)}>"


def _column(name: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
    """The values of a column, which are all numbers or all texts. What is not known is None or NaN."""
    column = [value.item() if isinstance(value, np.generic) else value for value in values]
    if all(isinstance(value, str) for value in column):
        return name, column
    if not all(value is None or isinstance(value, (int, float)) for value in column):
        raise Error(f"the values of the column {name} are neither all numbers nor all texts")
    return name, [float("nan") if value is None else value for value in column]


def _cell(value: Any) -> str:
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))


class _Words:
    """The labels of a map, in the form that the extension takes."""

    def __init__(
        self,
        title: str,
        rows: list[str] | None,
        columns: list[str] | None,
        names: tuple[str, str],
        causal: bool,
        framed: list[tuple[int, int]],
    ) -> None:
        self.title, self.rows, self.columns = title, rows, columns
        self.names, self.causal, self.framed = names, causal, framed


class _Map:
    """One map of a picture."""

    def __init__(self, values: Any, words: _Words) -> None:
        self.values, self.words = reals(values), words


class _Colours:
    def __init__(self, label: str, diverging: bool, range: tuple[float, float] | None) -> None:
        self.label, self.diverging, self.range = label, diverging, range


def heat_maps(
    title: str,
    maps: Sequence[tuple[str, Any]],
    *,
    subtitle: str = "",
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    names: tuple[str, str] = ("query", "key"),
    label: str = "weight",
    diverging: bool = False,
    range: tuple[float, float] | None = None,
    in_a_row: int = 1,
    causal: bool = False,
    small: bool = False,
    framed: Sequence[tuple[int, int]] = (),
) -> Figure:
    """Matrices as heat maps, with words or numbers as labels; small ones share their labels.

    >>> import numpy as np, regard
    >>> regard.heat_maps("Two maps", [("left", np.eye(2)), ("right", np.ones((2, 2)))], in_a_row=2).svg.startswith("<svg")
    True
    """
    words = None if rows is None else list(rows), None if columns is None else list(columns)
    drawn = [_Map(values, _Words(name, *words, names, causal, list(framed))) for name, values in maps]
    return Figure(_maps(title, subtitle, drawn, _Colours(label, diverging, range), in_a_row, small))


def line_chart(
    title: str, curves: Mapping[str, Sequence[tuple[float, float]]], *, x: str, y: str, subtitle: str = ""
) -> Figure:
    """Curves over one axis.

    >>> import regard
    >>> regard.line_chart("Loss", {"training": [(0, 2.0), (1, 1.5)]}, x="step", y="loss").svg.startswith("<svg")
    True
    """
    points = [(name, [(float(a), float(b)) for a, b in curve]) for name, curve in curves.items()]
    return Figure(_lines(title, subtitle, (x, y), points))
