"""odfbuild status: where the datasets of the workspace stand, and who is changing one just now."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odfbuild.app.plan.changed_inputs import changed_inputs
from odfbuild.app.plan.late_files import files_of, left_unread
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Exclude, Selection, StoreOffline, TableFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.cli.terminal.console import printable
from odfbuild.cli.unreadable import is_damaged, read_code
from odfbuild.planner.staleness import InputLag, Lag, lag_of
from odfbuild.state.memory.applied import Applied, recall_applied
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.errors import Diagnostic
    from odfbuild.executors.ingest.fetch.late_files import SkippedFiles
    from odfbuild.odf.chain.state import ChainState
    from odfbuild.odf.identity import DatasetId
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.odf.timestamp import Timestamp
    from odfbuild.project.load import Project
    from odfbuild.state.files.lock import Holder

_COLUMNS = ("dataset", "head", "watermark", "lag", "result")
_RIGHT = [name == "lag" for name in _COLUMNS]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DatasetStatus:
    """One dataset: its chain, its lag, how the last apply left it, who holds its lock."""

    alias: DatasetAlias
    state: ChainState
    lag: Lag | None
    applied: Applied | None
    holder: Holder | None
    passed: SkippedFiles


def status(
    given: ProjectArguments,
    selection: Selection = None,
    exclude: Exclude = None,
    offline: StoreOffline = False,
    output: TableFormat = "table",
) -> int:
    """Show the state of datasets: head, watermark, lag, last result. Also who holds a lock."""
    project = open_given(given, offline=offline)
    chosen, loaded = _chosen(project, selection or (), exclude or ())
    states = project.workspace.states()
    found = _statuses(project, chosen, states)
    changed = {a: each for a, each in changed_inputs(project, states).items() if a in chosen}
    if output == "json":
        names = project.workspace.aliases()
        _print_json([_json(each, names, changed.get(each.alias, ())) for each in found])
    else:
        _print_table(found)
        if changed:
            every = [problem for each in changed.values() for problem in each]
            sys.stderr.write(render_diagnostics(every) + "\n")
    damaged = is_damaged(project.workspace, chosen, all_of=not selection)
    return exits.ERROR if damaged else read_code(loaded)


def _statuses(
    project: app.Opened,
    chosen: Collection[DatasetAlias],
    states: Mapping[DatasetAlias, ChainState],
) -> list[_DatasetStatus]:
    from odfbuild.app.plan.input_history import rewritten_inputs

    by_id = {state.dataset: state for state in states.values()}
    rewritten = rewritten_inputs(project.workspace, states)
    wanted = {alias: state for alias, state in states.items() if alias in chosen}
    applied = recall_applied(project.workspace.root, wanted)
    locks = project.workspace.locks()
    return [
        _DatasetStatus(
            alias=alias,
            state=state,
            lag=lag_of(state, by_id, rewritten.get(alias, ())),
            applied=applied.get(alias),
            holder=locks.get(state.dataset),
            passed=files_of(project, state),
        )
        for alias, state in sorted(wanted.items())
    ]


def _chosen(
    project: app.Opened, selectors: Sequence[str], exclude: Sequence[str]
) -> tuple[Collection[DatasetAlias], Project | None]:
    if not selectors and not exclude:
        return project.workspace.names(), None
    from odfbuild.cli.arguments.selection import chosen_readable

    return chosen_readable(project, selectors, exclude)


def _print_table(found: Sequence[_DatasetStatus]) -> None:
    from odfbuild.cli.terminal.console import print_table

    rows = [
        (
            str(each.alias),
            each.state.head.short(),
            "-" if each.state.watermark is None else _to_seconds(each.state.watermark),
            "-" if each.lag is None else _lag_text(each.lag),
            "-" if each.applied is None else each.applied.result,
        )
        for each in found
    ]
    print_table(_COLUMNS, rows, _RIGHT)
    sys.stdout.write(f"{_count(len(rows), 'dataset')}\n")
    for each in found:
        if each.holder is not None:
            sys.stdout.write(printable(f"  {each.alias} is locked by {each.holder}") + "\n")
        for line in left_unread(each.passed):
            sys.stdout.write(printable(f"  {each.alias} has {line}") + "\n")
    if any(each.passed for each in found):
        sys.stdout.write("  For unread files see: odfbuild drift\n")
    if any(each.applied is not None and each.applied.result != "ok" for each in found):
        sys.stdout.write("  For the failure see: odfbuild runs last\n")


def _to_seconds(time: Timestamp) -> str:
    return str(time)[:19] + "Z"


def _lag_text(lag: Lag) -> str:
    """Return the first thing to know about a lag; JSON has all of them."""
    if any(each.rewritten for each in lag.inputs):
        return "rewritten"
    if any(each.present is None for each in lag.inputs):
        return "no input"
    if lag.restates:
        return "restates"
    if lag.records:
        return _count(lag.records, "row")
    return "none" if lag.watermark is None else "watermark"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _json(
    each: _DatasetStatus, names: Mapping[DatasetId, DatasetAlias], changed: Sequence[Diagnostic]
) -> dict[str, Any]:
    state, holder = each.state, each.holder
    return {
        "dataset": str(each.alias),
        "id": str(state.dataset),
        "kind": state.kind.value.lower(),
        "head": str(state.head),
        "blocks": state.sequence + 1,
        "records": state.next_offset,
        "watermark": _text(state.watermark),
        "last_block": str(state.system_time),
        "lag": None if each.lag is None else _lag_json(each.lag, names),
        "last_result": None if each.applied is None else each.applied.result,
        "late_files": list(each.passed.late),
        "changed_files": list(each.passed.changed),
        "other_entries": [path for path, _ in each.passed.others],
        "changed_inputs": [{"code": one.code, "what": one.what} for one in changed],
        "locked_by": None
        if holder is None
        else {"pid": holder.pid, "host": holder.host, "since": holder.since},
    }


def _lag_json(lag: Lag, names: Mapping[DatasetId, DatasetAlias]) -> dict[str, Any]:
    return {
        "records": lag.records,
        "watermark": _text(lag.watermark),
        "restates": lag.restates,
        "inputs": [_input_json(each, names.get(each.dataset)) for each in lag.inputs],
    }


def _input_json(each: InputLag, name: DatasetAlias | None) -> dict[str, Any]:
    return {
        "dataset": None if name is None else str(name),
        "id": str(each.dataset),
        "read": each.read,
        "present": each.present,
        "rewritten": each.rewritten,
    }


def _text(time: Timestamp | None) -> str | None:
    return None if time is None else str(time)


def _print_json(value: object) -> None:
    import json

    from odfbuild.cli.terminal.console import printable_json

    sys.stdout.write(printable_json(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")
