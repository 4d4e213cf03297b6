"""odfbuild explain: why a dataset will or will not run, down to files and lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.app.plan.late_files import files_of, left_unread
from odfbuild.app.selection import column_use
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Name, StoreOffline
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.dataset import chain_summary, input_lines
from odfbuild.cli.render.diff import event_difference
from odfbuild.cli.render.plan import cause_lines
from odfbuild.cli.render.words import (
    affected_text,
    column_text,
    count,
    judged_word,
    kind_word,
    news_text,
)
from odfbuild.cli.terminal.console import printable
from odfbuild.cli.unreadable import read_code, refuse_wrong, report_wrong
from odfbuild.errors import ProjectErrors, StateError
from odfbuild.executors.ingest.fetch.late_files import SkippedFiles
from odfbuild.odf.events import (
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    MetadataEvent,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.diff import in_force
from odfbuild.planner.plan import Append, Ingest, Move, Plan, Pull, Step, Transform
from odfbuild.planner.plan.changes import Assessment, ChangeClass, Judgement
from odfbuild.planner.plan.policy import Reread
from odfbuild.planner.plan.reasons import (
    DefinitionChanged,
    FilesPassedOver,
    InputRewritten,
    SourceHasNews,
    SourceToAsk,
)
from odfbuild.project.config.quantities import lag_text
from odfbuild.project.opened import refuse_damaged
from odfbuild.sql.query_class import CLASSES
from odfbuild.state.memory.applied import recall_applied
from odfbuild.state.runs import list_runs, read_events, recorded_steps
from odfbuild.texts.suggest import did_you_mean

if TYPE_CHECKING:
    from odfbuild.app.inspection.diff import Names
    from odfbuild.odf.chain.state import ChainState
    from odfbuild.planner.declared import Declared
    from odfbuild.sql.query_class import QueryClass

_LATEST = 20
"""How many of the latest runs are searched for the steps of a dataset."""


class UnknownDatasetError(StateError):
    """No dataset of this name is declared or in the workspace."""

    code = "unknown-dataset"


def explain(
    given: ProjectArguments,
    name: Name,
    offline: StoreOffline = False,
) -> int:
    """Explain why a dataset will or will not run. Names files and lines."""
    project = open_given(given, offline=offline)
    made = app.plan_result(project, app.PlanRequest(diverged=True))
    loaded = made.loaded.declared
    declared = {each.alias: each for each in loaded}
    current = project.workspace.states()
    alias = DatasetAlias.parse(name)
    each, state = declared.get(alias), current.get(alias)
    report_wrong(made.loaded)
    refuse_wrong(made.loaded, alias)
    if each is None and state is None:
        refuse_damaged(project, alias)
        raise _unknown(name, [*map(str, {**declared, **current})])
    by_id = {state.dataset: alias for alias, state in current.items()}

    def names(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        return by_id.get(ref, ref) if isinstance(ref, DatasetId) else ref

    if each is not None and alias not in made.plan.datasets:
        raise ProjectErrors(made.left_out.get(alias, ()))
    if each is None:
        assert state is not None  # noqa: S101 - one of the two is there
        found = by_id[state.dataset]
        if (planned := made.plan.datasets.get(found)) is not None and planned.origin is not None:
            lines = list(_remote(made.plan, found, state, planned.origin))
        else:
            lines = list(_explain_undeclared(found, state))
    else:
        passed = SkippedFiles() if state is None else files_of(project, state)
        lines = list(_explain_declared(made.plan, each, state, names, passed))
    lines += _section("Last run", list(_last_run(project.workspace.root, alias)))
    lines += _chain(state)
    lines += input_lines(each, state, {**current}, names, _rewritten(made.plan, alias))
    lines += _query(column_use(project, loaded).query_class(alias))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return read_code(made.loaded)


def _rewritten(plan: Plan, alias: DatasetAlias) -> frozenset[DatasetId]:
    """Return the inputs of a dataset that no longer hold what was read of them."""
    reasons = (reason for step in plan.steps if step.target == alias for reason in step.reasons)
    return frozenset(each.dataset for each in reasons if isinstance(each, InputRewritten))


def _explain_undeclared(alias: DatasetAlias, state: ChainState) -> Iterator[str]:
    yield f"{alias}  ({kind_word(state.kind)}, in the workspace only)"
    yield ""
    yield "It will not run: no definition in this project declares it."


def _remote(plan: Plan, alias: DatasetAlias, state: ChainState, origin: str) -> Iterator[str]:
    steps = [step for step in plan.steps if step.target == alias]
    yield printable(f"{alias}  ({kind_word(state.kind)}, from {origin})")
    yield ""
    yield _verdict(plan, steps, pushed=False)
    yield from _section("Why", list(cause_lines(plan, alias)))


def _explain_declared(
    plan: Plan, each: Declared, state: ChainState | None, names: Names, passed: SkippedFiles
) -> Iterator[str]:
    planned = plan.datasets[each.alias]
    steps = [step for step in plan.steps if step.target == each.alias]
    instance = "" if each.instance is None else f" [{each.instance}]"
    place = f"{each.span(())}{instance}"
    yield printable(f"{each.alias}  ({kind_word(each.snapshot.kind)}, {place})")
    yield ""
    yield _verdict(plan, steps, pushed=_is_pushed(each), unread=bool(passed))
    if _rewritten(plan, each.alias):
        yield printable(f"To rebuild its data: odfbuild rebuild {each.alias} --downstream")
    yield from _section("Why", list(cause_lines(plan, each.alias)))
    for step in steps:
        yield from _section("Would be appended", list(_explain_append(step, state, names)))
    if planned.assessment is not None:
        yield from _section("Change", list(_change(planned.assessment)))
    yield from _section("Source", list(_source(each, steps, passed)))


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield title
        yield from (f"  {line}" for line in lines)


def _verdict(plan: Plan, steps: Sequence[Step], *, pushed: bool, unread: bool = False) -> str:
    if not steps and pushed:
        return "Nothing to do: the chain matches the definition, and its data is pushed."
    if any(isinstance(reason, InputRewritten) for step in steps for reason in step.reasons):
        return "It cannot run: an input no longer has the block that was read last."
    if not steps and unread:
        return "Nothing to do: the chain matches the definition; files of its source stay unread."
    if not steps:
        return (
            "Nothing to do: the chain matches the definition, and has all data of its source or "
            "inputs."
        )
    checks = plan.checks
    if all(step.id in checks for step in steps):
        return "It runs only if there is new data, for which the source has to be checked."
    verbs = {Append: "append to its chain", Move: "take its new name", Ingest: "ingest",
             Transform: "run its query", Pull: "be brought up to date"}  # fmt: skip
    said = [verbs[type(step.work)] for step in steps if step.id not in checks]
    return f"It will {' and '.join(said)}."


def _explain_append(step: Step, state: ChainState | None, names: Names) -> Iterator[str]:
    if not isinstance(step.work, Append):
        return
    changed = [why for why in step.reasons if isinstance(why, DefinitionChanged)]
    if step.work.creates is not None:
        yield "Seed"
    for number, event in enumerate(step.work.events):
        place = f"  ({changed[number].place})" if number < len(changed) else ""
        yield printable(f"{type(event).__name__}{place}")
        if state is not None:
            yield from (f"    {line}" for line in _changed_lines(event, state, names))


def _changed_lines(event: MetadataEvent, state: ChainState, names: Names) -> tuple[str, ...]:
    ends = isinstance(event, DisablePollingSource | DisablePushSource)
    return event_difference(in_force(event, state), None if ends else event, names)


def _change(found: Assessment) -> Iterator[str]:
    if found.change is not ChangeClass.NONE:
        yield found.change.value
    for column in () if found.schema is None else found.schema.columns:
        yield column_text(column)
    for hit in found.hits:
        place = "" if hit.span is None else f" ({hit.span})"
        yield printable(f"{hit.code} {hit.name}: {hit.message}{place}: {judged_word(hit.judged)}")
        if hit.judged is not Judgement.PASSED:
            yield from (f"  option: {printable(way)}" for way in hit.ways)
    if found.affected:
        yield f"used by {', '.join(map(affected_text, found.affected))}"


def _is_pushed(each: Declared) -> bool:
    return any(isinstance(event, AddPushSource) for event in each.snapshot.metadata)


def _source(each: Declared, steps: Sequence[Step], passed: SkippedFiles) -> Iterator[str]:
    """Say what is known of the source of a root: new data, none, or that it has to be checked."""
    from odfbuild.odf.events import SetPollingSource

    if (lag := each.traits.ingest.watermark_lag) and each.snapshot.kind is DatasetKind.ROOT:
        yield f"its watermark lags {lag_text(lag)} behind the latest event time (watermark_lag)"
    age = each.traits.ingest.watermark_age
    if age is not None and each.snapshot.kind is DatasetKind.ROOT:
        yield f"its watermark advances to {lag_text(age)} ago, even without new rows (watermark)"
    pushed = [e.source_name for e in each.snapshot.metadata if isinstance(e, AddPushSource)]
    if pushed:
        which = "" if len(pushed) == 1 else f" --source {'|'.join(sorted(pushed))}"
        yield printable(f"data is pushed to it: odfbuild ingest {each.alias} FILE{which}")
    if not any(isinstance(event, SetPollingSource) for event in each.snapshot.metadata):
        return
    reasons = [reason for step in steps for reason in step.reasons]
    asked = [reason for reason in reasons if isinstance(reason, SourceToAsk)]
    news = [reason for reason in reasons if isinstance(reason, SourceHasNews)]
    again = [reason for reason in reasons if isinstance(reason, FilesPassedOver)]
    for reason in again:
        yield from _name_lines("file to read by `reread: " + reason.rule + "`", reason.names)
    yield from (printable(line) for line in left_unread(passed))
    if passed and each.traits.ingest.reread is not Reread.NEVER:
        yield printable(f"for unread files see: odfbuild drift {each.alias}")
    if asked:
        yield printable(f"{asked[0].origin} has to be checked")
    elif news and news[0].is_absent:
        yield printable(news_text(news[0]))
    elif news:
        yield from _name_lines("new file", news[0].names)
    elif not again and not passed:
        yield "nothing new: all of its files were read"
    elif not again:
        yield "no new file"


def _name_lines(noun: str, names: Sequence[str]) -> Iterator[str]:
    yield count(len(names), noun)
    yield from (f"  {printable(name)}" for name in names)


def _last_run(workspace: Path, alias: DatasetAlias) -> Iterator[str]:
    """Say which step of a dataset the last run did not do, and why, if it left one undone."""
    left = recall_applied(workspace, [alias]).get(alias)
    if left is None or left.result == "ok":
        return
    for run in list_runs(workspace, _LATEST).runs:
        steps = [each for each in recorded_steps(read_events(workspace, run.id))
                 if each.dataset == str(alias)]  # fmt: skip
        for step in steps:
            if step.outcome in ("failed", "skipped"):
                because = "" if step.because is None else f", because {step.because} failed"
                yield printable(f"{step.outcome} {step.id} in {run.id}{because}")
                yield from (printable(f"  {each.get('what')}") for each in step.errors)
        if steps:
            return


def _chain(state: ChainState | None) -> Iterator[str]:
    yield from _section("Chain", [chain_summary(state)])


def _query(found: QueryClass | None) -> Iterator[str]:
    if found is not None:
        because = "" if found.because is None else f", because of {found.because}"
        lines = [printable(f"{found.name}{because}")]
        if found.name in CLASSES:
            lines.append(f"a step reads {CLASSES[found.name].reads}")
        yield from _section("Query", lines)


def _unknown(name: str, known: Sequence[str]) -> UnknownDatasetError:
    return UnknownDatasetError(
        what=f"no dataset named '{name}'",
        why="it is neither declared nor in the workspace",
        fix=did_you_mean(name, known) or "odfbuild list shows the datasets",
    )
