"""A graph as one file of HTML that needs nothing else: no network, no server, no other file.

The data is in the page as JSON that no text in it can end; the script makes elements of it and
never markup.  The policy of the page allows its own script and style by their hashes, and nothing
else: no image, no font, no request.
"""

import html
import unicodedata
from collections.abc import Sequence
from functools import partial
from typing import Any

from odfbuild.cli.page.graph import Box, Graph, GraphColumn, Ref
from odfbuild.cli.page.layout import Arrangement, BoxSize, laid_out, links
from odfbuild.cli.page.markup import ascii_text, digest_of, safe_json, shown_lines
from odfbuild.cli.terminal.console import printable
from odfbuild.texts.page import joined_scripts, page_file

_HEAD, _ROW, _FOOT = 46, 20, 6
_LETTER, _COLUMN_LETTER, _BELOW_LETTER, _MARGIN = 8.8, 7.3, 6.6, 36
_NARROW, _WIDE = 140, 340
_file = partial(page_file, package="odfbuild.cli.page")
_SCRIPTS = ("paths.js", "geometry.js", "drawing.js", "view.js", "panel.js", "search.js", "start.js")

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def document(graph: Graph) -> str:
    """Return the page; it is ASCII, so that it is the same in every encoding."""
    style = _file("page.css")
    script = joined_scripts(map(_file, _SCRIPTS))
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src {digest_of(script)}; style-src {digest_of(style)}"
    )
    return _PAGE.format(
        policy=policy,
        title=ascii_text(html.escape(printable(graph.title))),
        style=style,
        body=_file("page.html"),
        data=safe_json(page_data(graph)),
        script=script,
    )


def page_data(graph: Graph) -> dict[str, Any]:
    """Return what the script of the page gets: everything by numbers, every place in pixels."""
    return {
        "title": printable(graph.title),
        "about": printable(graph.about),
        "root": next(number for number, box in enumerate(graph.boxes) if box.asked_for),
        "head": _HEAD,
        "row": _ROW,
        "boxes": [_box(box) for box in graph.boxes],
        "edges": [[each.source, each.derived, printable(each.classifier)] for each in graph.edges],
        "forms": _forms(graph),
        "links": links(graph),
    }


def _forms(graph: Graph) -> dict[str, Any]:
    """Return the layout with columns, and the one without if there are any."""
    arcs = [(each.source, each.derived) for each in graph.edges]
    arrangement = Arrangement(len(graph.boxes), arcs)
    opened = [size_of(box) for box in graph.boxes]
    closed = [BoxSize(each.width, _HEAD) for each in opened]
    return {
        "open": _form(opened, arrangement),
        "closed": None if closed == opened else _form(closed, arrangement),
    }


def _form(sizes: Sequence[BoxSize], arrangement: Arrangement) -> dict[str, Any]:
    layout = laid_out(sizes, arrangement)
    return {
        "size": [layout.size.width, layout.size.height],
        "places": [
            [*corner, each.width, each.height]
            for corner, each in zip(layout.corners, sizes, strict=True)
        ],
        "bends": layout.bends,
    }


def size_of(box: Box) -> BoxSize:
    """Return how large a dataset is drawn; what is longer than that is cut with an ellipsis."""
    columns = () if box.made is None else box.made.columns or ()
    widest = max(
        _letters(box.name) * _LETTER,
        _letters(_below(box)) * _BELOW_LETTER,
        *(_letters(each.name) * _COLUMN_LETTER for each in columns),
    )
    height = _HEAD + (len(columns) * _ROW + _FOOT if columns else 0)
    return BoxSize(round(min(max(widest + _MARGIN, _NARROW), _WIDE)), height)


def _below(box: Box) -> str:
    """Return what is below the name of a dataset."""
    home = None if box.home is None else f"in {box.home}"
    parts = (box.kind, "asked for" if box.asked_for else None, home)
    return " · ".join(filter(None, (*parts, "more not shown" if box.more else None)))


def _letters(text: str) -> int:
    """Return how wide a text is in letters; those of East Asia are two."""
    shown = printable(text)
    return sum(2 if unicodedata.east_asian_width(each) in "FW" else 1 for each in shown)


def _box(box: Box) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": printable(box.name),
        "below": printable(_below(box)),
        "kind": box.kind,
        "home": None if box.home is None else printable(box.home),
        "facts": [[printable(label), printable(text)] for label, text in box.facts],
        "query": None if box.query is None else shown_lines(box.query),
        "clauses": [printable(each) for each in box.clauses],
        "more": box.more,
    }
    if box.made is not None:
        columns, rows = box.made.columns, box.made.rows
        found["columns"] = None if columns is None else [_column(each) for each in columns]
        found["rows"] = None if rows is None else [_ref(each) for each in rows]
    return found


def _column(column: GraphColumn) -> list[Any]:
    return [printable(column.name), [_ref(each) for each in column.sources]]


def _ref(ref: Ref) -> list[str]:
    return [printable(each) for each in ref]
