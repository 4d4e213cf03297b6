"""Reports of bad rows and of columns that differ: their files and messages.

    bad-rows/<id of the dataset>/<name of the input>-<time>.ndjson    readable by its owner only
    cache/drift/<id of the dataset>                                  differences already reported

Both are outside the dataset's folder, which may be served.  The file of bad rows is moved to its
place before the commit, so that a crash does not lose it, and is deleted if the commit fails.  A
difference of columns is reported once, since most are intended.
"""

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.context import ColumnDrift, InputNotes
from odfbuild.executors.engine.cut_times import times_cut
from odfbuild.executors.ingest.read.notes import BadRowFile, ReadNotes, SchemaDrift
from odfbuild.odf.events import AddPushSource, ReadStep, SetPollingSource
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.manifest.yaml import yaml_text
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.odf.schema.ddl import DdlError, column_lines, to_ddl
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan.policy import BadRows, IngestOptions
from odfbuild.state.files.disk import Disk
from odfbuild.state.memory.drift import keep_drift, known_drift
from odfbuild.state.workspace import Workspace
from odfbuild.texts.redaction import redacted

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME: Final = 120
_PLAIN: Final = re.compile(r"(?!(?:null|true|false|yes|no|on|off|y|n)\Z)[A-Za-z_]\w*", re.I | re.A)


def reader_notes(options: IngestOptions, name: str, staging: Path, held: int) -> ReadNotes:
    """Return the notes for a reader of one input; bad rows are written to the staging folder."""
    if options.bad_rows is BadRows.REFUSE:
        return ReadNotes(held=held)
    bad_rows = BadRowFile(staging / f"bad-rows-{secrets.token_hex(8)}", name, options)
    return ReadNotes(bad_rows, held=held)


@contextmanager
def reported_notes(
    notes: ReadNotes | None,
    *,
    workspace: Workspace,
    dataset: DatasetId,
    source: SetPollingSource | AddPushSource,
    name: str,
    now: Timestamp,
) -> Iterator[InputNotes]:
    """Yield the notes of an input for its commit; move or delete their files accordingly."""
    if notes is None:
        yield InputNotes()
        return
    bad_rows = notes.bad_rows
    stored = None
    if bad_rows is not None and bad_rows.rows:
        stored = _move_to(bad_rows.path, workspace.root / "bad-rows" / dataset.multibase, name, now)
    drift = _reported_drift(notes.drift, source)
    drift_file = workspace.cache / "drift" / dataset.multibase
    known = known_drift(drift_file)
    try:
        yield InputNotes(
            bad_rows=0 if bad_rows is None else bad_rows.rows,
            bad_rows_file=None if stored is None else str(stored),
            drifted=_new_drift(drift, source.read, known),
            checks=times_cut(name, tuple(notes.fine_times.first.values())),
        )
    except OdfBuildError:
        if stored is not None:
            stored.unlink()
        raise
    if not _drift_keys(drift) <= known:
        keep_drift(drift_file, known | _drift_keys(drift))


def _move_to(path: Path, folder: Path, name: str, now: Timestamp) -> Path:
    """Move the file of bad rows to its final folder, under an unused name."""
    disk = Disk()
    for each in (folder.parent, folder):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)
    stem = _NOT_IN_NAMES.sub("_", name).strip("._")[-_LONGEST_NAME:] or "rows"
    time = str(now).replace(":", "").replace("-", "")
    for number in range(1, 1 << 20):
        more = "" if number == 1 else f"-{number}"
        target = folder / f"{stem}-{time}{more}.ndjson"
        with suppress(FileExistsError):
            disk.write(target, b"", 0o600)
            disk.rename(path, target)
            disk.sync(folder)
            return target
    raise AssertionError("a folder has no million files of one millisecond")


def _reported_drift(drift: SchemaDrift, source: SetPollingSource | AddPushSource) -> SchemaDrift:
    """Return the differences to report: a push may leave out columns."""
    is_shorter = isinstance(source, AddPushSource) and not drift.added
    return replace(drift, missing=()) if is_shorter else drift


def _drift_keys(drift: SchemaDrift) -> frozenset[str]:
    return frozenset(
        (
            *(f"+{each.name}" for each in drift.added),
            *(f"~{each.name} {each.type}" for each in drift.grown),
            *(f"-{name}" for name in drift.missing),
            *(f"{there}>{ours}" for there, ours in drift.renamed),
        )
    )


def _new_drift(drift: SchemaDrift, read: ReadStep, known: frozenset[str]) -> ColumnDrift | None:
    """Return the differences not reported yet, as the source's schema would declare them."""
    line = _odf_line if read.schema is not None else _ddl_line
    found = ColumnDrift(
        added=tuple(redacted(line(e)) for e in drift.added if f"+{e.name}" not in known),
        grown=tuple(redacted(line(f)) for f in drift.grown if f"~{f.name} {f.type}" not in known),
        missing=tuple(name for name in drift.missing if f"-{name}" not in known),
        renamed=tuple((redacted(e[0]), e[1]) for e in drift.renamed if ">".join(e) not in known),
    )
    return found if found != ColumnDrift() else None


def _ddl_line(field: pa.Field) -> str:
    schema = from_arrow(pa.schema([field]))
    try:
        text = to_ddl(schema)[0]
    except DdlError:
        text = column_lines(schema)[0]
    return yaml_text([text]).strip()


def _odf_line(field: pa.Field) -> str:
    (found,) = from_arrow(pa.schema([field])).fields
    return f"- {_flow(to_mapping(found))}"


def _flow(value: Any) -> str:
    """Return plain values as YAML in one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_flow(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)
