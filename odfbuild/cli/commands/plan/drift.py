"""odfbuild drift: differences of chains from what the project declares and last applied."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odfbuild.app.inspection.drift import find_drift
from odfbuild.app.load_project import unsure_of
from odfbuild.app.plan.late_files import files_drift
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Exclude, Selection, TextFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.arguments.selection import selected_datasets
from odfbuild.cli.commands.plan.ignored import is_ignored, read_ignored
from odfbuild.cli.render.diff import event_difference
from odfbuild.cli.terminal.console import printable, printable_json
from odfbuild.cli.unreadable import load_readable, read_code
from odfbuild.odf.identity import DatasetId
from odfbuild.planner.plan.policy import last_names

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.app.inspection.diff import Names
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.drift import ChainDrift


def drift(
    given: ProjectArguments,
    selection: Selection = None,
    exclude: Exclude = None,
    ignore_file: Annotated[
        Path | None,
        typer.Option(
            "--ignore-file",
            metavar="FILE",
            help="A YAML list of {dataset, kind, until}: known drift that is accepted.",
        ),
    ] = None,
    output: TextFormat = "text",
) -> int:
    """Report changes to chains that this project did not make. Exit code 2 if any."""
    opened = open_given(given)
    project = replace(opened, workspace=opened.workspace.read_only())
    ignored = () if ignore_file is None else read_ignored(ignore_file)
    loaded = load_readable(project)
    declared = loaded.sound
    only = None
    if selection or exclude:
        only = (
            selected_datasets(project, loaded.declared, selection or (), exclude or ())
            - loaded.wrong.keys()
        )
    moved = project.policy.moved
    unread = {*loaded.wrong, *unsure_of(loaded, project.workspace.names(), last_names(moved))}
    found = (
        *find_drift(project.workspace, declared, moved=moved, only=only, unread=unread),
        *files_drift(project, _of(declared, only), project.workspace.states()),
    )
    left = [each for each in found if not is_ignored(each, ignored, project.policy.today)]
    looked = len(declared) if only is None else len(only)
    if output == "json":
        sys.stdout.write(_json(left, looked, len(found) - len(left)))
    else:
        sys.stdout.write(_text(left, looked, len(found) - len(left), _names(project)))
    return read_code(loaded, exits.CHANGES if left else exits.DONE)


def _of(declared: Sequence[Declared], only: Collection[DatasetAlias] | None) -> Sequence[Declared]:
    return [each for each in declared if only is None or each.alias in only]


def _names(project: app.Opened) -> Names:
    by_id = project.workspace.aliases()
    return lambda ref: by_id.get(ref, ref) if isinstance(ref, DatasetId) else ref


def _text(found: Sequence[ChainDrift], looked: int, ignored: int, names: Names) -> str:
    lines = list(_lines(found, names))
    more = f" {ignored:,} known {'difference' if ignored == 1 else 'differences'} ignored."
    noun = "dataset is" if looked == 1 else "datasets are"
    last = f"No drift. {looked:,} {noun} as this project left them."
    if found:
        datasets = len({each.dataset for each in found})
        last = f"Drift: {_count(len(found), 'difference')} in {_count(datasets, 'dataset')}."
    return "".join(f"{line}\n" for line in (*lines, last + (more if ignored else "")))


def _lines(found: Sequence[ChainDrift], names: Names) -> Iterator[str]:
    before: DatasetAlias | DatasetId | None = None
    for each in found:
        if each.dataset != before:
            yield str(each.dataset)
            before = each.dataset
        place = "" if each.span is None else f"  ({printable(str(each.span))})"
        block = "" if each.block is None else f"  block {each.block.short()}"
        yield f"  {each.kind.value}: {printable(each.what)}{block}{place}"
        if each.in_force is not None or each.declared is not None:
            lines = event_difference(each.declared, each.in_force, names)
            yield from (f"      {line}" for line in lines)
        yield f"    fix: {each.fix}"
    if found:
        yield ""


def _json(found: Sequence[ChainDrift], looked: int, ignored: int) -> str:
    body = {
        "format_version": "1.0",
        "drift": [_entry(each) for each in found],
        "summary": {"datasets": looked, "drift": len(found), "ignored": ignored},
    }
    return printable_json(json.dumps(body, indent=2, ensure_ascii=False)) + "\n"


def _entry(each: ChainDrift) -> Mapping[str, Any]:
    return {
        "dataset": str(each.dataset),
        "kind": each.kind.value,
        "what": each.what,
        "fix": each.fix,
        "block": None if each.block is None else str(each.block),
        "source": None if each.span is None else str(each.span),
    }


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
