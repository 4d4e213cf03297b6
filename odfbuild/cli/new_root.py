"""What a root is, guessed from a sample: key, event time, merge strategy, pattern of files."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from odfbuild.cli.new_text import Root

if TYPE_CHECKING:
    from odfbuild.executors.sampled import Sample, SampledColumn

__all__ = ["guessed_root", "unknown_root"]

_FEWEST_DIGITS = 4
_NUMBERS = re.compile(r"[0-9]+(?:[-_][0-9]+)*")


def guessed_root(name: str, sample: "Sample", fetch: Mapping[str, str], file: str) -> Root:
    """Return a root that reads what the sample shows; `file` is how it is called."""
    time = _time(sample.columns)
    merge, note = _merge(sample, time)
    rows = "row" if sample.rows == 1 else "rows"
    first = f"Guessed from {sample.rows:,} {rows} of {file}: look at the types, key and event time."
    return Root(
        name=name,
        notes=[first, *(f"Note: {each}." for each in sample.notes)],
        fetch=_pattern(fetch),
        prepare=sample.prepare,
        read=_read(sample),
        merge=merge,
        merge_note=note,
        columns=[each.name for each in sample.columns],
        time=None if time is None else time.name,
        time_note="" if time is None else "Guessed: the first column of times.",
        query=sample.query,
    )


def unknown_root(name: str) -> Root:
    """Return a root to be filled in."""
    folder = name.rpartition("/")[2].rpartition(".")[2]
    return Root(
        name=name,
        notes=["To be filled in: the files, their columns, the key."],
        fetch={"kind": "FilesGlob", "path": f"data/{folder}/*.csv"},
        read={"kind": "Csv", "schema": ["id BIGINT NOT NULL", "time TIMESTAMP"], "header": True},
        merge={"kind": "Ledger", "primaryKey": ["id"]},
        merge_note="A ledger only grows: a row whose key was seen before is left out.",
        columns=["id", "time"],
        time="time",
    )


def _read(sample: "Sample") -> Mapping[str, Any]:
    columns = sample.columns if sample.read_as is None else sample.read_as
    given = dict(sample.read)
    return {"kind": given.pop("kind"), "schema": [each.ddl for each in columns], **given}


def _pattern(fetch: Mapping[str, str]) -> Mapping[str, str]:
    """Return a fetch step of all files beside one that has a day or number in its name."""
    path = PurePosixPath(fetch.get("path", ""))
    if "*" in path.name or "?" in path.name:
        return fetch
    stem, dot, suffix = path.name.partition(".")
    longest = max(_NUMBERS.finditer(stem), key=lambda found: len(found[0]), default=None)
    if longest is None or sum(map(str.isdigit, longest[0])) < _FEWEST_DIGITS:
        return fetch
    return {**fetch, "path": str(path.with_name(f"{stem[: longest.start()]}*{dot}{suffix}"))}


def _time(columns: "Sequence[SampledColumn]") -> "SampledColumn | None":
    """Return the first column of times that is never null, else the first one."""
    times = [each for each in columns if each.is_time]
    return next((each for each in times if None not in each.values), next(iter(times), None))


def _merge(sample: "Sample", time: "SampledColumn | None") -> tuple[Mapping[str, Any], str]:
    """Return how rows are merged, and why that was guessed."""
    key = next((each for each in sample.columns if each.is_key), None)
    if key is None:
        return {"kind": "Append"}, "No column tells rows apart: every row is added as it comes."
    if time is None:
        note = f"Guessed: each file is the whole state, and {key.name} tells its rows apart."
        return {"kind": "Snapshot", "primaryKey": [key.name]}, note
    if key is not time and len(set(map(str, time.values))) == 1 and sample.rows > 1:
        note = f"Guessed: a file is about one {time.name}, and {key.name} tells its rows apart."
        return {"kind": "Ledger", "primaryKey": [time.name, key.name]}, note
    note = f"Guessed: rows never change, and {key.name} tells them apart."
    return {"kind": "Ledger", "primaryKey": [key.name]}, note
