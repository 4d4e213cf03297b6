"""Tables away from a terminal: what rich would print, without its cost."""

import io
from contextlib import redirect_stdout

from hypothesis import given
from hypothesis import strategies as st
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from odfbuild.cli.terminal.console import print_table

words = st.text(st.sampled_from("ab ┃ü日ﬁ0-,"), min_size=1, max_size=6).map(
    lambda text: f"x{text}y"
)
tables = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(words, min_size=n, max_size=n),
        st.lists(st.lists(words, min_size=n, max_size=n), max_size=4),
        st.lists(st.booleans(), min_size=n, max_size=n),
    )
)


@given(tables)
def test_a_table_is_what_rich_makes_of_it(
    table: tuple[list[str], list[list[str]], list[bool]],
) -> None:
    columns, rows, right = table
    expected = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="")
    for column, to_right in zip(columns, right, strict=True):
        expected.add_column(Text(column), justify="right" if to_right else "left")
    for row in rows:
        expected.add_row(*map(Text, row))
    console = Console(width=10_000, file=io.StringIO())
    console.print(expected)
    written = console.file.getvalue()  # type: ignore[attr-defined]
    said = io.StringIO()
    with redirect_stdout(said):
        print_table(columns, rows, right)
    lines = said.getvalue().splitlines()
    assert lines == [line.rstrip() for line in written.splitlines()]
