"""One definition as text that stands for itself: no !include, and the name that a generator gives.

Every line keeps where it comes from.
"""

import re
from collections.abc import Iterator

from odfbuild.planner.declared import Declared
from odfbuild.project.config.variables import printed
from odfbuild.project.files.places import places_of
from odfbuild.project.template.rendered import LineOrigin, Rendering
from odfbuild.project.yaml import resolve_plain
from odfbuild.project.yaml.places import SourceText, Spot
from odfbuild.values import dataclass

_TAG = "!include"
_MARKS = ("---", "...")
_BREAKING = r"\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff"
_LITERAL = re.compile(rf"[^\s{_BREAKING}]([^{_BREAKING}]*[^\s{_BREAKING}])?\n?")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of output and where it comes from."""

    text: str
    origin: LineOrigin


@dataclass(frozen=True, slots=True)
class _Edit:
    """What is in the place of some characters of a line, or in a line of its own before it."""

    start: int
    stop: int
    text: str
    included: SourceText | None = None
    own_line: bool = False
    inline: bool = False


def written_out(declared: Declared, namer: LineOrigin) -> tuple[Line, ...]:
    """Return the lines of one definition; `namer` is where its name comes from if it lacks one."""
    places = places_of(declared)
    assert places is not None  # noqa: S101 - the file was read a moment ago
    source = places.source
    origins = Rendering(source).line_map()
    first, stop = _rows(source.text, declared.document)
    edits = _edits(places.root, str(declared.alias), source)
    lines: list[Line] = []
    for row in range(first, min(stop, len(origins))):
        _, text = source.line_at(row)
        lines += _edit_line(text, edits.get(row, []), origins[row], namer)
    return _trim(lines)


def _trim(lines: list[Line]) -> tuple[Line, ...]:
    """Leave out what divides documents, and empty lines at both ends."""
    kept = [each for each in lines if each.text.rstrip() not in _MARKS]
    while kept and not kept[-1].text.strip():
        kept.pop()
    while kept and not kept[0].text.strip():
        kept.pop(0)
    return tuple(kept)


def _rows(text: str, document: int) -> tuple[int, int]:
    """Return the first row of a document, and the one behind its last."""
    if "---" not in text:
        return 0, text.count("\n") + 1
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    starts = [
        each.start_mark.line
        for each in yaml.parse(text, Loader=loader)
        if isinstance(each, yaml.DocumentStartEvent) and each.start_mark is not None
    ]
    stop = starts[document + 1] if document + 1 < len(starts) else text.count("\n") + 1
    return (starts[document] if document else 0), stop


def _edits(root: Spot, name: str, source: SourceText) -> dict[int, list[_Edit]]:
    """Return what has to be put into the lines of a document, by row."""
    edits: dict[int, list[_Edit]] = {}
    # an alias repeats the very spot of its anchor
    taken = {id(spot): (spot, inline) for spot, inline in _included_spots(root, source.text)}
    for spot, inline in taken.values():
        assert spot.included is not None  # noqa: S101 - that is what they are
        row = source.row_of(spot.start)
        start, line = source.line_at(row)
        tag = line.rindex(_TAG, 0, spot.start - start)
        edit = _Edit(tag, spot.end - start, spot.included.text, spot.included, inline=inline)
        edits.setdefault(row, []).append(edit)
    content = (root.keys or {}).get("content")
    keys = None if content is None else content[2].keys
    if content is not None and keys and "name" not in keys:
        at = next(iter(keys.values()))[0]
        row = source.row_of(at)
        column = at - source.line_at(row)[0]
        flow = source.text[content[2].start : content[2].start + 1] == "{"
        text = f"name: {_quote(name)}" + (", " if flow else "")
        edits.setdefault(row, []).append(_Edit(column, column, text, own_line=not flow))
    return edits


def _included_spots(spot: Spot, text: str, *, inline: bool = False) -> Iterator[tuple[Spot, bool]]:
    """Yield the values below a spot that are taken from other files, and whether in brackets."""
    if spot.included is not None:
        yield spot, inline
    below = [entry[2] for entry in (spot.keys or {}).values()]
    if below or spot.items:
        inline = inline or text[spot.start] in "[{"
    for each in (*below, *(spot.items or ())):
        yield from _included_spots(each, text, inline=inline)


def _quote(name: str) -> str:
    return name if resolve_plain(name) == name else printed([name])[1:-1]


def _edit_line(
    line: str, edits: list[_Edit], origin: LineOrigin, namer: LineOrigin
) -> Iterator[Line]:
    for each in sorted(edits, key=lambda edit: -edit.start):
        before, behind = line[: each.start], line[each.stop :]
        if each.own_line:
            yield Line(before + each.text, namer)
        elif each.included is None:
            line = before + each.text + behind
        elif not each.inline and _LITERAL.fullmatch(each.text):
            yield from _literal(before, each.included, origin)
            return
        else:
            line = before + printed([each.text])[1:-1] + behind
    yield Line(line, origin)


def _literal(before: str, included: SourceText, origin: LineOrigin) -> Iterator[Line]:
    """Yield a text as a literal block below its key."""
    text = included.text
    yield Line(before + ("|" if text.endswith("\n") else "|-"), origin)
    indent = " " * (len(before) - len(before.lstrip(" -")) + 2)
    lines = text.removesuffix("\n").split("\n")
    for each, place in zip(lines, Rendering(included).line_map(), strict=False):
        yield Line(indent + each if each else "", place)
