"""Chains that are sealed well and say what is not so: each command says so, none breaks down."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.odf.events import MetadataBlock
from odfbuild.odf.timestamp import Timestamp
from tests.cli.commands.check.test_verify import dataset
from tests.support.data.forger import Forger
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside

Forgery = Callable[[MetadataBlock, pa.Table], tuple[MetadataBlock, pa.Table | None]]


def column(name: str, values: list[Any], kind: pa.DataType | None = None) -> Forgery:
    """Return the forgery that puts other values, or another type, in the place of a column."""

    def forge(block: MetadataBlock, rows: pa.Table) -> tuple[MetadataBlock, pa.Table]:
        at = rows.schema.get_field_index(name)
        made = pa.array(values, kind or rows.schema.field(at).type)
        return block, rows.set_column(at, pa.field(name, made.type), made)

    return forge


def of_block(**fields: Any) -> Forgery:
    return lambda block, _: (replace(block, **fields), None)


FORGERIES: dict[str, Forgery] = {
    "offsets of other rows": column("offset", [7, 8]),
    "an operation that there is not": column("op", [0, 9]),
    "an operation below zero": column("op", [0, -1]),
    "no operation": column("op", [0, None]),
    "a -C alone": column("op", [0, 2]),
    "a +C alone": column("op", [3, 0]),
    "a -R of nothing": column("op", [0, 1]),
    "system times of 1970": column("system_time", [0, 0]),
    "system times of 2100": column("system_time", [4_102_444_800_000] * 2),
    "system times of no year": column("system_time", [1 << 62] * 2),
    "a text for a number": column("v", ["1", "2"], pa.string()),
    "a number for a text": column("k", [1, 2], pa.int64()),
    "a text for an operation": column("op", ["+A", "+A"], pa.string()),
    "no key": column("k", [None, "b"]),
    "a column less": lambda block, rows: (block, rows.drop_columns(["k"])),
    "no operations": lambda block, rows: (block, rows.drop_columns(["op"])),
    "rows less": lambda block, rows: (block, rows.slice(1)),
    "a block of 1970": of_block(system_time=Timestamp.from_millis(0)),
    "a block out of turn": of_block(sequence_number=99),
}
COMMANDS = (
    ("show", "{}"), ("show", "{}", "--log"), ("show", "{}", "--current"), ("log", "{}"),
    ("show", "{}", "-o", "json"), ("inspect", "{}"), ("status",), ("plan",), ("doctor",),
    ("sql", "select * from `{}`"),
)  # fmt: skip


@pytest.fixture
def ask(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
@pytest.mark.parametrize("name", ["src", "out"])
def test_no_command_breaks_down(
    name: str, forge: Forgery, ask: Inside, project: Path, tmp_path: Path
) -> None:
    forger = Forger(dataset(project, name), tmp_path)
    number = len(forger.blocks) - 1
    rows = forger.rows(number)
    assert rows is not None
    forger.forge(number, *forge(forger.blocks[number], rows))
    done = ask("verify", name)
    assert done.code == 7
    assert "FAILED" in done.out
    for command, *arguments in COMMANDS:
        done = ask(command, *(each.format(name) for each in arguments))
        assert "error[internal]" not in done.err, (command, arguments, done.err)
        assert "Traceback" not in done.out + done.err
    folder = dataset(project, name).slices()[0][1].parents[1]
    other = tmp_path / "other"
    other.mkdir()
    (other / "odfbuild.yaml").write_text("odfbuild: 1\n", "utf-8")
    done = replace_project(ask, other)("import", str(folder), "taken", "--no-definition")
    assert done.code != 0
    assert "error[internal]" not in done.err


def replace_project(ask: Inside, project: Path) -> Inside:
    return Inside(project, ask._capture, ask._patch)


def test_the_log_shows_an_operation_that_there_is_not(
    ask: Inside, project: Path, tmp_path: Path
) -> None:
    forger = Forger(dataset(project, "src"), tmp_path)
    number = len(forger.blocks) - 1
    rows = forger.rows(number)
    assert rows is not None
    forger.forge(number, *column("op", [0, 9])(forger.blocks[number], rows))
    assert "9?" in ask("show", "src", "--log").out
    done = ask("show", "src", "--current")
    assert (done.code, "error[invalid-changelog]" in done.err) == (1, True)
    assert "the operation 9" in done.err
