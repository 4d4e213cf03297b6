"""Datasets and projects as a notebook shows them: HTML without scripts, styles or links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from odfbuild.texts.redaction import excerpt
from odfbuild.texts.visible import visible
from odfbuild.values import dataclass

_MOST: Final = 40  # boxes of a picture
_LONGEST: Final = 60  # characters of a cell
_WIDE, _HIGH, _ACROSS, _BELOW = 190, 26, 60, 12  # of a box and between boxes, in pixels
_LETTERS: Final = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetPage:
    """What is shown: columns with their types, the last rows, and of each dataset its inputs."""

    name: str
    facts: Sequence[str]
    description: str | None
    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]
    edges: Mapping[str, Sequence[str]]

    def html(self) -> str:
        """Return the facts, the columns with the last rows, and the neighbours."""
        about = "" if self.description is None else f"<p>{_shown(self.description)}</p>"
        return (
            f"<div><p><b>{_shown(self.name)}</b>: {_shown(', '.join(self.facts))}</p>{about}"
            f"{self._rows()}{_drawing(self.name, self.edges)}</div>"
        )

    def _rows(self) -> str:
        if not self.columns:
            return "<p>It has no rows yet.</p>"
        heads = "".join(
            f"<th>{_shown(name)}<br><small>{_shown(kind)}</small></th>"
            for name, kind in self.columns.items()
        )
        body = "".join(
            f"<tr>{''.join(f'<td>{_cell(row[name])}</td>' for name in self.columns)}</tr>"
            for row in self.rows
        )
        return (
            f"<table><caption>The last {len(self.rows)} current "
            f"rows</caption><thead><tr>{heads}</tr></thead>"
            f'<tbody style="white-space: pre-wrap">{body}</tbody></table>'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPage:
    """What is shown of a project: of each dataset four facts, and its inputs.

    `more` counts datasets that are not listed.
    """

    name: str
    facts: Sequence[str]
    datasets: Mapping[str, Sequence[str]]
    more: int
    edges: Mapping[str, Sequence[str]]

    def html(self) -> str:
        """Return the datasets as a table, and as a picture with lines to those that read them."""
        heads = ("dataset", "kind", "records", "watermark", "description")
        rows = ((name, *facts) for name, facts in self.datasets.items())
        lines = "".join(
            f"<tr>{''.join(f'<td>{_shown(excerpt(each, _LONGEST))}</td>' for each in row)}</tr>"
            for row in rows
        )
        table = (
            f"<table><thead><tr>{''.join(f'<th>{each}</th>' for each in heads)}</tr></thead>"
            f"<tbody>{lines}</tbody></table>"
        )
        more = f"<p>And {self.more:,} more; names() lists all.</p>" if self.more else ""
        return (
            f"<div><p><b>{_shown(self.name)}</b>: {_shown(', '.join(self.facts))}</p>"
            f"{table if self.datasets else ''}{more}{_overview(self.edges)}</div>"
        )


def _shown(text: str) -> str:
    """Return a text as HTML, with control and format characters as escapes."""
    return escape(visible(text))


def _cell(value: object) -> str:
    if value is None:
        return "<i>null</i>"
    return _shown(excerpt(str(value), _LONGEST))


# The picture of the neighbours


def _drawing(chosen: str, edges: Mapping[str, Sequence[str]]) -> str:
    """Return what the dataset is made of, and what is made of it, as one picture."""
    made: dict[str, list[str]] = {}
    for name, inputs in edges.items():
        for each in dict.fromkeys(inputs):
            made.setdefault(each, []).append(name)
    levels, more = [[chosen]], []
    for step, neighbours in ((-1, edges), (1, made)):
        placed, edge, left, others = {chosen}, [chosen], _MOST // 2, 0
        while found := _next(edge, neighbours, placed):
            if shown := found[:left]:
                levels.insert(0 if step < 0 else len(levels), shown)
            left -= len(shown)
            others += len(found) - len(shown)
            placed.update(found)
            edge = found
        if others:
            more.append(f"{others:,} {'before' if step < 0 else 'after'} it")
    picture = "" if len(levels) == 1 else _svg(chosen, levels, edges)
    if more:
        picture += (
            f"<p>Not in the picture: {' and '.join(more)}. odfbuild lineage {_shown(chosen)} "
            "shows all.</p>"
        )
    return picture


def _overview(edges: Mapping[str, Sequence[str]]) -> str:
    """Return all datasets as one picture, each to the right of its inputs; none without lines."""
    known = {name: [each for each in inputs if each in edges] for name, inputs in edges.items()}
    if not any(known.values()):
        return ""
    depths: dict[str, int] = dict.fromkeys(known, 0)
    for _ in known:  # a circle of damaged chains ends, too
        moved = {
            name: max((depths[each] + 1 for each in inputs if each != name), default=0)
            for name, inputs in known.items()
        }
        if moved == depths:
            break
        depths = {name: min(depth, len(known)) for name, depth in moved.items()}
    levels = [
        [name for name in known if depths[name] == depth] for depth in sorted(set(depths.values()))
    ]
    return _svg(None, levels, known)


def _next(
    edge: Iterable[str], neighbours: Mapping[str, Sequence[str]], placed: set[str]
) -> list[str]:
    found = (name for each in edge for name in neighbours.get(each, ()))
    return [name for name in dict.fromkeys(found) if name not in placed]


def _svg(
    chosen: str | None, levels: Sequence[Sequence[str]], inputs: Mapping[str, Sequence[str]]
) -> str:
    places = {
        name: (1 + across * (_WIDE + _ACROSS), 1 + down * (_HIGH + _BELOW))
        for across, level in enumerate(levels)
        for down, name in enumerate(level)
    }
    width = len(levels) * (_WIDE + _ACROSS) - _ACROSS + 2
    height = max(map(len, levels)) * (_HIGH + _BELOW) - _BELOW + 2
    lines = "".join(
        _line(places[name], places[to])
        for to in places
        for name in inputs.get(to, ())
        if name in places
    )
    label = "Datasets" if chosen is None else f"Datasets before and after {chosen}"
    boxes = "".join(_box(name, *place, chosen=name == chosen) for name, place in places.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" '
        f'aria-label="{_shown(label)}" '
        f'style="font: 12px sans-serif; color: inherit">{lines}{boxes}</svg>'
    )


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    x, y = start[0] + _WIDE, start[1] + _HIGH // 2
    to, at = end[0], end[1] + _HIGH // 2
    middle = (x + to) // 2
    return (
        f'<path d="M{x} {y}C{middle} {y} {middle} {at} {to} {at}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.5"/>'
    )


def _box(name: str, x: int, y: int, *, chosen: bool) -> str:
    shown = name if len(name) <= _LETTERS else f"...{name[3 - _LETTERS :]}"
    weight = "bold" if chosen else "normal"
    return (
        f'<g><title>{_shown(name)}</title><rect x="{x}" y="{y}" width="{_WIDE}" height="{_HIGH}" '
        f'rx="4" fill="none" stroke="currentColor" stroke-width="{2 if chosen else 1}"/>'
        f'<text x="{x + 8}" y="{y + 17}" fill="currentColor" font-weight="{weight}">'
        f"{_shown(shown)}</text></g>"
    )
