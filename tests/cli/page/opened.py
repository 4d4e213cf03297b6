"""A page that is open in a browser, with words for what is done with it and what it shows."""

import json
from pathlib import Path
from typing import Any

import networkx as nx

from odfbuild.cli.page.document import document
from odfbuild.cli.page.graph import Box, DatasetOrigin, Edge, Graph, GraphColumn
from tests.cli.page.graphs import made_up
from tests.support.process.chromium import Browser

__all__ = ["BOXES", "LARGE", "MIDDLE", "SMALL", "Opened", "dataset_graph"]

MIDDLE = made_up(60, 6, 5)
LARGE = made_up(2000, 20, 8)
BOXES = "[...document.querySelectorAll('.box')].map((each, n) => [each, n])"
SMALL = Graph(
    title="Lineage of b",
    about="as made up",
    boxes=[
        Box(name="a", kind="root", made=DatasetOrigin((GraphColumn("k"), GraphColumn("v")), ())),
        Box(
            name="b",
            kind="derivative",
            facts=(("DID", "did:odf:fed01"),),
            query="select k, v from a\nwhere v > 0",
            clauses=("filter",),
            asked_for=True,
            made=DatasetOrigin(
                (GraphColumn("k", (("a", "k"),)), GraphColumn("w", (("a", "v"),))), (("a", "v"),)
            ),
        ),
        Box(name="c", made=DatasetOrigin((GraphColumn("n", (("b", "w"),)),), ())),
        Box(name="d", made=DatasetOrigin(None, None)),
    ],
    edges=[Edge(0, 1, "source"), Edge(1, 2, "reads"), Edge(1, 3, "other")],
)


class Opened:
    """A page that was opened from disk, with words for what is done with it."""

    def __init__(self, browser: Browser, path: Path, graph: Graph, **how: Any) -> None:
        path.write_text(document(graph), "utf-8")
        self.url = path.as_uri()
        self.graph = graph
        self.page = browser.open(self.url, **how)
        self.numbers = {each.name: number for number, each in enumerate(graph.boxes)}

    def place(self) -> tuple[float, float, float]:
        """Return where the graph begins on the screen, and how large it is."""
        found = self.page.evaluate(
            "(() => { const m = new DOMMatrix(getComputedStyle(document.getElementById('world'))"
            ".transform); const c = document.getElementById('canvas').getBoundingClientRect();"
            " return [m.e + c.x, m.f + c.y, m.a]; })()"
        )
        return float(found[0]), float(found[1]), float(found[2])

    def selector(self, dataset: str, column: str | None = None) -> str:
        number = self.numbers[dataset]
        made = self.graph.boxes[number].made
        names = [each.name for each in (made.columns or ())] if made else []
        at = -1 if column is None else names.index(column)
        return f'[data-box="{number}"][data-column="{at}"]'

    def find(self, text: str) -> None:
        self.page.press("Escape", "/")
        self.page.type(text)
        self.page.press("Enter")

    def marked(self, how: str) -> set[str]:
        """Return the datasets that are marked as a whole in one way."""
        found = self.page.evaluate(
            f"{BOXES}.filter(([e]) => e.classList.contains('{how}')).map(([e, n]) => n)"
        )
        return {self.graph.boxes[number].name for number in found}

    def marked_columns(self, how: str) -> set[tuple[str, str]]:
        """Return the columns that are marked so; each has been in sight before."""
        found = self.page.evaluate(
            f"[...document.querySelectorAll('.column.{how}')]"
            ".map(e => [+e.dataset.box, e.firstChild.textContent])"
        )
        return {(self.graph.boxes[box].name, name) for box, name in found}

    def focused(self) -> str:
        return str(self.page.evaluate("document.activeElement.getAttribute('aria-label')"))

    def is_in_sight(self, selector: str) -> bool:
        return bool(
            self.page.evaluate(
                f"(() => {{ const r = document.querySelector({json.dumps(selector)})"
                ".getBoundingClientRect(), c = document.getElementById('canvas')"
                ".getBoundingClientRect(); return r.left >= c.left && r.right <= c.right &&"
                " r.top >= c.top && r.bottom <= c.bottom && r.height > 8; })()"
            )
        )


def dataset_graph(graph: Graph) -> "nx.DiGraph[str]":
    found: nx.DiGraph[str] = nx.DiGraph()
    found.add_nodes_from(each.name for each in graph.boxes)
    found.add_edges_from(
        (graph.boxes[each.source].name, graph.boxes[each.derived].name) for each in graph.edges
    )
    return found
