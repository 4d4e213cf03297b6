"""odfbuild gc: free the space of what nobody needs, or say what would go."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from odfbuild.app.maintenance.collection import Collected, Collection, collect_garbage
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import TextFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.consent import refuse_unnamed
from odfbuild.cli.render.words import bytes_text, count
from odfbuild.cli.terminal.console import print_table, printable, printable_json
from odfbuild.errors import UsageRefusedError
from odfbuild.project.config.quantities import lag_text, parse_lag
from odfbuild.state.gc import Freed, Kind

_WORDS = {
    Kind.STAGING: "interrupted work",
    Kind.CREATION: "unfinished datasets",
    Kind.UNFINISHED: "unfinished files",
    Kind.CACHE: "caches of deleted objects",
}


def gc(
    given: ProjectArguments,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")
    ] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Keep objects that are younger, such as 30m. Default: 1d; in an object store 7d.",
        ),
    ] = None,
    keep_runs: Annotated[
        int, typer.Option("--keep-runs", min=0, help="Number of runs whose records are kept.")
    ] = 100,
    output: TextFormat = "text",
) -> int:
    """Delete objects that nothing refers to any more.

    Ends with 4 when a dataset was left alone, because it is being changed or is damaged.
    """
    age = None if older_than is None else _age(older_than)
    project = open_given(given)
    if age is None:
        age = _age("1d" if project.workspace.url is None else "7d")
    if not dry_run:
        refuse_unnamed(project, given, "gc")
    wanted = Collection(age=age / 1_000, keep_runs=keep_runs, dry_run=dry_run)
    found = collect_garbage(project, wanted)
    if output == "json":
        document = json.dumps(_document(found, dry_run=dry_run), indent=2, ensure_ascii=False)
        sys.stdout.write(printable_json(document) + "\n")
    else:
        _print_garbage(found, age, dry_run=dry_run)
    return exits.PARTLY if any(each.problem for each in found.datasets) else exits.DONE


def _age(text: str) -> int:
    """Return a length of time in milliseconds."""
    age = parse_lag(text)
    if age is None:
        raise UsageRefusedError(
            what=f"--older-than {text}: not a length of time",
            why="younger objects may belong to running work",
            fix="write a number with its unit, s, m, h, d or w, such as 1h; or 0",
        )
    return age


def _print_garbage(found: Collected, age: int, *, dry_run: bool) -> None:
    freed = [each for each in found.datasets if each.blocks or each.files]
    if freed:
        rows = [
            (_name(found, each), f"{each.blocks:,}", f"{each.files:,}", bytes_text(each.bytes))
            for each in freed
        ]
        print_table(("dataset", "blocks", "files", "bytes"), rows, (False, True, True, True))
        sys.stdout.write("\n")
    lines = [*_others(found), *_notes(found, age), _last(found, dry_run=dry_run)]
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def _name(found: Collected, each: Freed) -> str:
    return str(found.names.get(each.dataset, each.dataset))


def _others(found: Collected) -> Iterator[str]:
    for kind, word in _WORDS.items():
        of_kind = [each for each in found.leftovers if each.kind is kind]
        if of_kind:
            size = bytes_text(sum(each.bytes for each in of_kind))
            yield f"{word}: {len(of_kind):,}, {size}"
    for jobs in found.jobs:
        if jobs.files:
            yield f"files of jobs in {jobs.place}: {jobs.files:,}, {bytes_text(jobs.bytes)}"
    if found.runs.runs:
        yield f"records of runs: {len(found.runs.runs):,}, {bytes_text(found.runs.bytes)}"


def _notes(found: Collected, age: int) -> Iterator[str]:
    young = sum(each.young for each in found.datasets)
    if young:
        yield f"kept: {count(young, 'object')} younger than {lag_text(age)} (--older-than)"
    for each in found.unnamed:
        yield f"kept: {each} has a head but no name; odfbuild import names it"
    for freed in found.datasets:
        if freed.problem is not None:
            yield f"skipped: {_name(found, freed)}: {freed.problem}"
    for jobs in found.jobs:
        if jobs.problem is not None:
            yield f"skipped: jobs in {jobs.place}: {jobs.problem}"


def _last(found: Collected, *, dry_run: bool) -> str:
    looked = count(len(found.datasets), "dataset")
    jobs = any(each.files for each in found.jobs)
    if not found.bytes and not found.leftovers and not found.runs.runs and not jobs:
        return f"Nothing to free in {looked}."
    if dry_run:
        return f"Would free {bytes_text(found.bytes)}. Nothing was deleted."
    return f"Freed {bytes_text(found.bytes)}."


def _document(found: Collected, *, dry_run: bool) -> dict[str, Any]:
    return {
        "format_version": "1.0",
        "dry_run": dry_run,
        "bytes": found.bytes,
        "datasets": [
            {
                "dataset": None if (alias := found.names.get(each.dataset)) is None else str(alias),
                "did": str(each.dataset),
                "blocks": each.blocks,
                "files": each.files,
                "bytes": each.bytes,
                "young": each.young,
                "problem": each.problem,
            }
            for each in found.datasets
        ],
        "leftovers": [
            {"kind": each.kind.value, "path": str(each.path), "bytes": each.bytes}
            for each in found.leftovers
        ],
        "jobs": [
            {
                "place": each.place,
                "files": each.files,
                "bytes": each.bytes,
                "problem": each.problem,
            }
            for each in found.jobs
        ],
        "runs": {"deleted": list(found.runs.runs), "bytes": found.runs.bytes},
    }
