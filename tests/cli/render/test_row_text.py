"""Rows in lines: whoever reads a line knows each value, whatever texts and names are in it."""

import json
import math
import random
import re
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from odfbuild.cli.render.diff import row_lines, row_text
from odfbuild.cli.render.rows import write_rows
from odfbuild.cli.terminal.console import printable
from odfbuild.executors.verify.row_difference import RowChange, RowDifference
from tests.support.effort import examples

TEXTS = (
    *("null", "NULL", "", " ", "a", "a b", "a  b", " a", "a ", "a, v=b", "a,b", "a=b", '"', '"a"'),
    *("'a'", "\\", "\\n", "\n", "\r", "\t", "\x1b[31m", "\\x1b[31m", "\x9b", "\\x9b", "\u202e"),
    *("\\u202e", "\u2028", "<b>a</b>", "&lt;", "a → b", "→", "a  (2 times)", "(2 times)", "nan"),
    *("NaN", "-0.0", "0", "[1]", '{"a": null}', "é", "e\u0301", "\ud7ff", "\U0010ffff", "\ue000"),
    *("\x00", "\x7f", "\xa0", "a\xa0b", "=1+1"),
)
OTHERS: dict[str, tuple[Any, ...]] = {
    "float": (None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, 1e300, 5e-324),
    "int": (None, 0, 1, -1, 2**63 - 1, -(2**63)),
    "bool": (None, True, False),
    "decimal": (None, Decimal("0.00"), Decimal("-1.50"), Decimal("1.50")),
    "binary": (None, b"", b"null", b"\x00", bytes.fromhex("6e756c6c00")),
    "date": (None, date(2024, 1, 1), date(9999, 12, 31)),
    "timestamp": (
        *(None, datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, microsecond=1, tzinfo=UTC)),
        *(datetime(2024, 1, 1, microsecond=1000, tzinfo=UTC), datetime(2024, 1, 1)),
    ),
    "list": (None, [], [None], ["null"], [""], ["a", "b"], ["a, b"], [["a"], "b"]),
    "struct": (None, {"a": None}, {"a": "null"}, {"a": ""}, {"a": {"b": "\x1b"}}, {"a": "\\x1b"}),
}
VALUES = {"text": (None, *TEXTS), **OTHERS}


def identity(value: Any) -> str:
    """Return what two values have in common only if they are the same one."""
    return f"{type(value).__name__}:{value!r}"


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_a_column_that_differ_are_shown_otherwise(kind: str) -> None:
    shown = {identity(each): printable(row_text({"v": each})) for each in VALUES[kind]}
    assert len({*shown.values()}) == len(shown), sorted(shown.values())


@pytest.mark.parametrize("kind", VALUES)
def test_a_cell_of_a_table_is_empty_for_null_only_and_tells_values_apart(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cells: dict[str, Any] = {}
    for value in VALUES[kind]:
        if type(value) is str and printable(value) != value:
            continue  # escapes are shown as they are written
        write_rows((["v"], [(value,)]), "table", sys.stdout)
        _, *rows = capsys.readouterr().out.split("\n")
        cell = "\n".join(row.strip(" ") for row in rows).strip("\u2500 \n")
        assert bool(cell) == (value is not None), value
        assert cells.setdefault(cell, identity(value)) == identity(value), value


@pytest.mark.parametrize("kind", VALUES)
def test_a_change_is_never_shown_as_nothing(kind: str) -> None:
    for before in VALUES[kind]:
        for after in VALUES[kind]:
            if identity(before) != identity(after):
                change = RowChange({"k": 1, "v": before}, {"k": 1, "v": after})
                found = RowDifference(
                    key=("k",), columns=("k", "v"), slices=1, changed=1, shown=(change,)
                )
                line = next(row_lines(found))
                assert re.match(r"  ~ k=1: v .+ → .", line), (before, after, line)
                assert line.isprintable()


def test_rows_of_any_names_and_texts_can_be_read_back() -> None:
    draw = random.Random(3)
    for _ in range(examples(2_000, 50_000)):
        names = draw.sample([each for each in TEXTS if each], 3)
        row = {name: draw.choice(VALUES["text"]) for name in names}
        assert read(row_text(row)) == row


def read(line: str) -> dict[str, str | None]:
    """Read a line as a person does: words end at `=` and `, `, and JSON at its quote."""
    found: dict[str, str | None] = {}
    at = 0

    def word(end: str) -> str | None:
        nonlocal at
        text: str | None
        if line.startswith('"', at):
            text, after = json.JSONDecoder().raw_decode(line, at)
        else:
            after = line.find(end, at) if end in line[at:] else len(line)
            text = line[at:after]
            text = None if text == "null" else text
        assert line.startswith(end, after) or after == len(line), line[after:]
        at = after + len(end)
        return text

    while at < len(line):
        name = word("=")
        assert name is not None
        found[name] = word(", ")
    return found
