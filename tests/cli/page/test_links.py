"""Links between columns, by numbers."""

from odfbuild.cli.page.graph import Box, DatasetOrigin, Edge, Graph, GraphColumn, Ref
from odfbuild.cli.page.layout import ALL_COLUMNS, ROWS, UNKNOWN, VALUE, Link, links


def graph(*boxes: Box, edges: tuple[tuple[int, int], ...] = ()) -> Graph:
    return Graph(title="", about="", boxes=boxes, edges=[Edge(a, b, "x") for a, b in edges])


def box(name: str, *columns: GraphColumn, rows: tuple[Ref, ...] = ()) -> Box:
    return Box(name=name, made=DatasetOrigin(columns, rows))


SOURCE = box("a", GraphColumn("K"), GraphColumn("v"))


def test_values_and_rows_lead_from_column_to_column() -> None:
    out = box("b", GraphColumn("x", (("a", "k"), ("A", "v"))), rows=(("a", "v"),))
    assert links(graph(SOURCE, out, edges=((0, 1),))) == [
        Link(0, 0, 1, 0, VALUE),
        Link(0, 1, 1, 0, VALUE),
        Link(0, 1, 1, ALL_COLUMNS, ROWS),
    ]


def test_a_member_is_the_column_that_it_is_in() -> None:
    out = box("b", GraphColumn("x", (("a", "v.inner"),)))
    assert links(graph(SOURCE, out, edges=((0, 1),))) == [Link(0, 1, 1, 0, VALUE)]


def test_what_is_not_on_the_page_leads_nowhere() -> None:
    assert links(graph(box("b", GraphColumn("x", (("elsewhere", "k"),))))) == []


def test_a_source_without_known_columns_leads_as_a_whole() -> None:
    unknown = Box(name="a", made=DatasetOrigin(None, ()))
    out = box("b", GraphColumn("x", (("a", "k"),)))
    assert links(graph(unknown, out, edges=((0, 1),))) == [Link(0, ALL_COLUMNS, 1, 0, VALUE)]
    assert links(graph(Box(name="a"), out, edges=((0, 1),))) == [Link(0, ALL_COLUMNS, 1, 0, VALUE)]


def test_what_cannot_be_told_may_come_from_all_inputs() -> None:
    unknown = Box(name="b", made=DatasetOrigin(None, None))
    assert links(graph(SOURCE, unknown, box("c"), edges=((0, 1), (2, 1)))) == [
        Link(0, ALL_COLUMNS, 1, ALL_COLUMNS, UNKNOWN),
        Link(2, ALL_COLUMNS, 1, ALL_COLUMNS, UNKNOWN),
    ]
