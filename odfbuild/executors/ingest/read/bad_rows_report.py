"""Reports of bad rows and of columns that differ: their files, and their messages.

    bad-rows/<id of the dataset>/<name of the input>-<time>.ndjson    for its owner only
    cache/drift/<id of the dataset>                                  what was told of its columns

Both lie outside of the dataset's folder, which can be served.  The file of bad rows is in its place
before the commit, so that no crash loses them, and is taken back if nothing was committed.  A
difference of columns is told once: most are meant, and only what is new is news.
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


def reader_notes(options: IngestOptions, name: str, staging: Path) -> ReadNotes:
    """Return what to give a reader of one input; its bad rows go into the staging folder."""
    if options.bad_rows is BadRows.REFUSE:
        return ReadNotes()
    return ReadNotes(BadRowFile(staging / f"aside-{secrets.token_hex(8)}", name, options))


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
    """Give what there is to tell of an input, around its commit, and make it last."""
    if notes is None:
        yield InputNotes()
        return
    aside = notes.aside
    kept = None
    if aside is not None and aside.rows:
        kept = _in_place(aside.path, workspace.root / "bad-rows" / dataset.multibase, name, now)
    drift = _news(notes.drift, source)
    memory = workspace.cache / "drift" / dataset.multibase
    known = known_drift(memory)
    try:
        yield InputNotes(
            bad_rows=0 if aside is None else aside.rows,
            bad_rows_file=None if kept is None else str(kept),
            drifted=_drifted(drift, source.read, known),
            checks=times_cut(name, tuple(notes.fine_times.first.values())),
        )
    except OdfBuildError:
        if kept is not None:
            kept.unlink()
        raise
    if not _signs(drift) <= known:
        keep_drift(memory, known | _signs(drift))


def _in_place(path: Path, folder: Path, name: str, now: Timestamp) -> Path:
    """Move the side file to where it stays, under a name that no other has."""
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


def _news(drift: SchemaDrift, source: SetPollingSource | AddPushSource) -> SchemaDrift:
    """Return what may be news: who pushes is free to leave out columns."""
    is_shorter = isinstance(source, AddPushSource) and not drift.added
    return replace(drift, missing=()) if is_shorter else drift


def _signs(drift: SchemaDrift) -> frozenset[str]:
    return frozenset(
        (
            *(f"+{each.name}" for each in drift.added),
            *(f"~{each.name} {each.type}" for each in drift.grown),
            *(f"-{name}" for name in drift.missing),
            *(f"{there}>{ours}" for there, ours in drift.renamed),
        )
    )


def _drifted(drift: SchemaDrift, read: ReadStep, known: frozenset[str]) -> ColumnDrift | None:
    """Return what is new of a drift, as the schema of the source would have it."""
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
