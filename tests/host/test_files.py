"""Files are read, and JSON is parsed, through doors that a pipe or a deep nesting cannot break.

A FIFO makes `open` wait forever, a device may never end, and `json` raises RecursionError, which
nobody catches.  `host.files` and `host.json_text` refuse these with errors that callers handle.
"""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.host.files import open_regular
from tests.test_layers import MODULES, name_of, tree_of

DOORS = frozenset({"host/files.py", "state/files/disk.py", "host/json_text.py"})
RAW_OPEN = {  # os.open and open: who writes, makes folders lasting, or follows no link
    "cli/terminal/events.py": "/dev/null for a closed stream",
    "cli/files.py": "writes a new file",
    "cli/main.py": "/dev/null for a closed stream",
    "cli/commands/manage/key.py": "a descriptor that the user gives, which may be a pipe",
    "cli/terminal/streams.py": "/dev/null for a closed stream",
    "executors/process/sandbox_program.py": "a path only, to say that a program may use it",
    "executors/engine/contract/relay.py": "a namespace of Linux",
    "executors/ingest/fetch/container.py": "without links or waiting, then refuses what is no file",
    "executors/ingest/read/notes.py": "writes a new file",
    "state/remote/view/cache.py": "the same, of one process",
    "state/remote/cache.py": "a lock, made without following a link",
    "executors/engine/spark/jvm/archive.py": "writes a log and a lock of its own",
    "executors/engine/spark/jvm/launch.py": "writes a new file",
    "executors/testing/test_workspace.py": "writes a new file",
    "serve/files/uploads.py": "writes a new file",
    "state/chain/checked_files.py": "appends",
    "state/copy.py": "by the descriptor of a folder, then refuses what is no file",
    "state/lease.py": "for writing as well, which waits for nobody",
    "state/chain/head_table.py": "a folder",
    "state/files/lock.py": "a folder",
    "state/runs.py": "writes a new file",
}
READS = {  # reading methods of paths
    "state/files/lock_holder.py": "/proc",
    "app/push_rows.py": "an input that is pushed may be a pipe, which is copied first",
    "cli/commands/author/init.py": "files of this package",
    "cli/commands/author/schema.py": "files of this package",
    "cli/commands/plan/help.py": "files of this package",
    "cli/editor/schema.py": "files of this package",
    "texts/page/__init__.py": "files of this package",
    "cli/files.py": "a file that the command line names, `<(...)` too, read up to a limit",
    "executors/engine/protocol.py": "the metadata of an installed package",
    "executors/data/parquet.py": "a slice that was just written",
    "executors/engine/spark/admission/__init__.py": "a file of this package",
    "executors/engine/spark/cluster/connect/plugin.py": "files of this package",
    "executors/engine/spark/cluster/package_archive.py": "files of this package",
    "executors/engine/spark/jvm/keeper.py": "the log of its JVM, to truncate it",
    "executors/engine/spark/jvm/resident.py": "/proc",
    "host/machine.py": "/proc",
    "executors/ingest/prepare.py": "an entry of an archive, by its name",
}
JSON = {
    "executors/process/sandbox_program.py": "a program that imports nothing of this package",
    "repositories/smart/messages.py": "digits and commas, by their characters, which nest nothing",
}
NOT_FILES = frozenset({"workspace", "_workspace", "archive", "webbrowser", "self"})


def reads(call: ast.Call) -> str | None:
    """Return how a call reads a file without a door: `open`, `method` or `json`; else None."""
    function = call.func
    if isinstance(function, ast.Name):
        return "open" if function.id == "open" else None
    if not isinstance(function, ast.Attribute):
        return None
    of = ast.unparse(function.value)
    if of in {"json", "io", "os"}:
        name = f"{of}.{function.attr}"
        return {"json.load": "json", "json.loads": "json"}.get(name) or (
            "open" if name in {"io.open", "os.open"} else None
        )
    if function.attr in {"read_text", "read_bytes"}:
        return "method"
    if function.attr != "open" or of.rpartition(".")[2] in NOT_FILES:
        return None
    arguments = call.args
    if of in {"gzip", "tarfile", "zipfile"}:
        if any(each.arg == "fileobj" for each in call.keywords):
            return None
        arguments = call.args[1:]
    if not arguments:
        return "method"
    match arguments[0]:
        case ast.Constant(value=str(mode)):
            return None if set(mode) & set("wxa") else "method"
    return None


def found(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        kind = reads(call)
        if kind is not None:
            yield kind, call


@pytest.fixture(scope="module", name="calls")
def _calls() -> list[tuple[str, str, ast.Call]]:
    names = [(each, name_of(each)) for each in MODULES if name_of(each) not in DOORS]
    return [(name, kind, call) for path, name in names for kind, call in found(tree_of(path))]


def test_files_are_read_and_json_is_parsed_through_the_doors(
    calls: list[tuple[str, str, ast.Call]],
) -> None:
    for name, kind, call in calls:
        allowed = {"open": name in RAW_OPEN, "method": name in READS, "json": name in JSON}
        assert allowed[kind], f"{name}:{call.lineno}: {ast.unparse(call)}"


def test_no_exception_outlives_its_reason(calls: list[tuple[str, str, ast.Call]]) -> None:
    kinds = {(name, kind) for name, kind, _ in calls}
    assert {(each, "open") for each in RAW_OPEN} | {(each, "method") for each in READS} <= kinds


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("path.open()", "method"),
        ("path.open('rb')", "method"),
        ("path.open('r+b')", "method"),
        ("path.open(encoding='utf-8')", "method"),
        ("(folder / 'x').read_text()", "method"),
        ("gzip.open(path)", "method"),
        ("open(path)", "open"),
        ("os.open(path, os.O_RDONLY)", "open"),
        ("json.loads(text)", "json"),
        ("path.open('wb')", None),
        ("site.workspace.open(alias)", None),
    ],
)
def test_what_reads_a_file_is_seen(text: str, kind: str | None) -> None:
    assert [each for each, _ in found(ast.parse(text))] == ([] if kind is None else [kind])


def test_a_file_that_was_read_and_cannot_be_closed_is_no_error(tmp_path: Path) -> None:
    """As on a disk that fails: a generator that is given up would print it as ignored."""
    (tmp_path / "some").write_bytes(b"bytes")
    with open_regular(tmp_path / "some") as file:
        assert file.read() == b"bytes"
        os.close(file.fileno())
    assert file.closed
