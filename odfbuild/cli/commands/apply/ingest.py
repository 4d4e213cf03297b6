"""odfbuild ingest: push files into a root dataset, each as one commit."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odfbuild import app
from odfbuild.app.inspection.moment import moment
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Busy, LockTimeout, Name, OnBusy, TextFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.consent import refuse_unnamed
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.cli.render.run import diagnostics_of_notes, notes_json, notes_words
from odfbuild.cli.render.words import count
from odfbuild.cli.reservation import reservation
from odfbuild.cli.terminal.console import printable, printable_json
from odfbuild.errors import OdfBuildError, UsageRefusedError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.ingest.push.push import Pushed


STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushArguments:
    """What was asked of `ingest`; `files` may have one `-`, `ids` are as many as files or none.

    `called` is how messages call the one file, if not by its name.
    """

    files: tuple[str, ...]
    source: str | None = None
    format: str | None = None
    event_time: str | None = None
    ids: tuple[str, ...] = ()
    ids_from_content: bool = False
    json: bool = False
    lock_timeout: float = 10.0
    on_busy: str = OnBusy.WAIT
    called: str | None = None


@dataclass(frozen=True, slots=True)
class _Result:
    """What became of one file: what was pushed, or why it was not; neither if it was not tried."""

    file: str
    pushed: Pushed | None = None
    error: OdfBuildError | None = None


def ingest(
    given: ProjectArguments,
    name: Name,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Files, each one commit, in this order; - is standard input. Files that end with "
            ".gz, .bz2, .xz or .zst are decompressed.",
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="NAME",
            help="The push source. Default: the only one, or the one named default.",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "--media-type",
            metavar="FORMAT",
            help="csv, tsv, json, ndjson, geojson, ndgeojson, parquet, esrishapefile, or a media "
            "type such as text/csv. Default: by the file's name, else what the source reads.",
        ),
    ] = None,
    event_time: Annotated[
        str | None,
        typer.Option(
            "--event-time",
            metavar="TIME",
            help="Event time of rows without one: 2024-03-01T12:00:00Z, 2024-03-01, -12h, -1d. "
            "Default: now.",
        ),
    ] = None,
    id: Annotated[
        list[str] | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="The id of the push, one for each file, in their order. A push with an id that "
            "the dataset already has changes nothing, so it can be retried.",
        ),
    ] = None,
    id_from_content: Annotated[
        bool, typer.Option("--id-from-content", help="Use the hash of the file's bytes as the id.")
    ] = False,
    output: TextFormat = "text",
    lock_timeout: LockTimeout = 10.0,
    on_busy: Busy = OnBusy.WAIT,
    called: Annotated[str | None, typer.Option("--called", hidden=True)] = None,
) -> int:
    """Push files into a root dataset, each as one commit. Needs a push source."""
    options = PushArguments(
        files=tuple(files),
        source=source,
        format=format,
        event_time=event_time,
        ids=tuple(id or ()),
        ids_from_content=id_from_content,
        json=output == "json",
        lock_timeout=lock_timeout,
        on_busy=on_busy,
        called=called,
    )
    return ingest_files(given, name, options)


def ingest_files(given: ProjectArguments, name: str, options: PushArguments) -> int:
    """Push files in order until one fails; say what became of each.

    In a process with a Spark session of the user another process pushes, and reserves the dataset.
    """
    from odfbuild.executors.engine.spark.user_session import has_other_session

    _check(options)
    event_time = _event_time(options.event_time)
    project = open_given(given, lock_timeout=options.lock_timeout)
    refuse_unnamed(project, given, "ingest")
    alias = _workspace_spelling(project, name)
    if not options.json:
        sys.stdout.write(_header(project, alias))
        sys.stdout.flush()
    mine_alone = [] if has_other_session() else [alias]
    with reservation(project, mine_alone, command="ingest", on_busy=options.on_busy) as mine:
        if mine.busy:
            results = [_Result(file) for file in options.files]
        else:
            results = _push_all(project, name, options, event_time)
    notes = [(r.pushed.name, r.pushed.notes) for r in results if r.pushed is not None]
    problems = list(diagnostics_of_notes(alias, notes, None, {}))
    if problems:
        sys.stderr.write(render_diagnostics(problems) + "\n")
    if options.json:
        sys.stdout.write(_json(project, alias, results))
    return _exit_code(results)


def _push_all(
    project: app.Opened, name: str, options: PushArguments, event_time: Timestamp | None
) -> list[_Result]:
    results: list[_Result] = []
    with app.Pusher(project) as pusher:
        for number, file in enumerate(options.files):
            if results and results[-1].error is not None:
                results.append(_Result(file))
                continue
            result = _push_file(pusher, name, options, number, event_time)
            results.append(result)
            if result.pushed is not None and not options.json:
                sys.stdout.write(printable(_line(result.pushed)) + "\n")
                sys.stdout.flush()
    return results


def _push_file(
    pusher: app.Pusher,
    name: str,
    options: PushArguments,
    number: int,
    event_time: Timestamp | None,
) -> _Result:
    file = options.files[number]
    data: object = sys.stdin.buffer if file == STDIN else Path(file)
    try:
        done = pusher.push(
            name,
            data,
            source=options.source,
            format=options.format,
            event_time=None if event_time is None else str(event_time),
            id=options.ids[number] if options.ids else None,
            id_from_content=options.ids_from_content,
            called=options.called,
        )
    except OdfBuildError as error:
        return _Result(file, error=error)
    return _Result(file, done)


def _check(options: PushArguments) -> None:
    files, ids = options.files, options.ids
    if files.count(STDIN) > 1:
        raise UsageRefusedError(
            what="standard input is named twice",
            why="it can be read once",
            fix="name '-' once",
        )
    if ids and options.ids_from_content:
        raise UsageRefusedError(
            what="both --id and --id-from-content are given",
            why="a push has one id",
            fix="give one of the two",
        )
    if ids and len(ids) != len(files):
        raise UsageRefusedError(
            what=f"{count(len(files), 'file')} and {count(len(ids), 'id')}",
            why="each file is a separate push with its own id",
            fix="give one --id for each file, in their order, or --id-from-content",
        )
    if len(set(ids)) < len(ids):
        raise UsageRefusedError(
            what="two files have the same id",
            why="the second would be taken for a retry of the first",
            fix="give each file its own id",
        )


def _event_time(text: str | None) -> Timestamp | None:
    if text is None:
        return None
    now = Timestamp.from_millis(time_ns() // 1_000_000)
    return moment(text, now, why="it is the event time of rows without one")


def _workspace_spelling(project: app.Opened, name: str) -> DatasetAlias:
    """Return the name as the workspace spells it; a name that it lacks is reported later."""
    wanted = DatasetAlias.parse(name)
    return next((each for each in project.workspace.names() if each == wanted), wanted)


def _header(project: app.Opened, alias: DatasetAlias) -> str:
    workspace = _workspace(project)
    return printable(f"Target  {project.target} (workspace {workspace})   Dataset {alias}") + "\n"


def _workspace(project: app.Opened) -> str:
    return project.config.target(project.target).workspace.removeprefix("./")


def _line(done: Pushed) -> str:
    id = "" if done.id is None else f", id {done.id}"
    if done.repeated:
        return f"  = {done.name}: was pushed earlier{id}"
    if not done.blocks:
        return f"  = {done.name}: nothing new{notes_words([done.notes])}{id}"
    what = f"{count(done.blocks, 'block')}, {count(done.records, 'row')}{notes_words([done.notes])}"
    return f"  + {done.name}: {what}, head {done.head.short()}{id}"


def _exit_code(results: Sequence[_Result]) -> int:
    """Explain the failure, if there is one, and return the exit code."""
    failed = next((each for each in results if each.error is not None), None)
    if failed is None or failed.error is None:
        return exits.DONE
    sys.stderr.write(render_diagnostics(failed.error.diagnostics()) + "\n")
    if len(results) > 1:
        sys.stderr.writelines(printable(line) + "\n" for line in _pushed_lines(results))
    committed = any(each.pushed is not None and each.pushed.blocks for each in results)
    return exits.PARTLY if committed else exits.exit_code(failed.error)


def _pushed_lines(results: Sequence[_Result]) -> Iterator[str]:
    done = [each.file for each in results if each.pushed is not None]
    left = [each.file for each in results if each.pushed is None]
    yield f"Pushed: {', '.join(done) or 'none of these files'}."
    yield f"Not pushed: {', '.join(left)}."


def _json(project: app.Opened, alias: DatasetAlias, results: Sequence[_Result]) -> str:
    head = next((str(r.pushed.head) for r in reversed(results) if r.pushed is not None), None)
    error = next((each.error for each in results if each.error is not None), None)
    answer = {
        "dataset": str(alias),
        "target": project.target,
        "workspace": _workspace(project),
        "head": head,
        "inputs": [_entry(each) for each in results],
        "error": None if error is None else _error(error),
    }
    return printable_json(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n"


def _entry(result: _Result) -> dict[str, Any]:
    done = result.pushed
    if done is None:
        outcome = "not-tried" if result.error is None else "failed"
        return {"file": result.file, "outcome": outcome}
    outcome = "repeated" if done.repeated else "committed" if done.blocks else "nothing-new"
    return {
        "file": result.file,
        "outcome": outcome,
        "source": done.source,
        "id": done.id,
        "blocks": done.blocks,
        "records": done.records,
        **notes_json(done.notes),
    }


def _error(error: OdfBuildError) -> dict[str, str]:
    return {"code": error.code, "what": error.what, "why": error.why, "fix": error.fix}
