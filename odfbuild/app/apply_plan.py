"""Execution of plans."""

import os
from contextlib import suppress
from dataclasses import replace
from time import time_ns
from typing import TYPE_CHECKING

from odfbuild.app.plan.changed_inputs import remember_accepted
from odfbuild.app.plan.file_snapshot import ProjectChangedError, ProjectFiles
from odfbuild.app.plan.make_plan import PlanRequest, plan_result
from odfbuild.app.plan.planned_places import plan_placement
from odfbuild.app.plan.sources import merges, planned_work
from odfbuild.app.plan.step_placement import kept_jobs
from odfbuild.errors import Level, OdfBuildError, ProjectErrors
from odfbuild.executors.engine.registry import engine_of
from odfbuild.executors.runs.openlineage.listener import openlineage_events
from odfbuild.executors.testing.gate_checks import gate_of
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan import Append, Plan, Pull
from odfbuild.planner.plan.at_rest import examined
from odfbuild.planner.plan.subset import touched
from odfbuild.project.opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from odfbuild.executors.engine.context import Site
    from odfbuild.executors.engine.contract.job.steps import Placement
    from odfbuild.executors.engine.protocol import Engine
    from odfbuild.executors.engine.registry import EnginesByName
    from odfbuild.executors.runs.options import RunSettings
    from odfbuild.executors.runs.record import RunRequest
    from odfbuild.executors.runs.report import RunReport
    from odfbuild.executors.runs.scheduler import Progress
    from odfbuild.planner.declared import Declared
    from odfbuild.state.memory.applied import Result


def apply(
    project: Opened,
    plan: Plan,
    *,
    jobs: int = 4,
    progress: "Progress | None" = None,
    settle: bool = True,
    settings: "RunSettings | None" = None,
    asking: "RunRequest | None" = None,
    events: "Path | None" = None,
    files: ProjectFiles | None = None,
    declared: "Sequence[Declared] | None" = None,
) -> "RunReport":
    """Execute a plan, `jobs` steps at a time, and return what became of each step.

    `settle` remembers that nothing is left to do, for which the project's files are read again.
    The run is recorded as one that was asked for as `asking` says.  `events` is a file for events
    of the run, beside where the settings send them.  `files` are those that the plan was made of,
    None for a plan that was saved.  The engine is asked about new queries before the first block is
    written: of `declared` datasets, or of those of the plan where no definitions were read.

    Raises, with nothing done, StalePlanError when a dataset, or what a step uses outside of the
    project, changed since the plan was made, ProjectChangedError, NotPermittedError, and
    EngineFailedError; and InterruptedRun.
    """
    from odfbuild.executors.process.interrupt import interruptible
    from odfbuild.executors.runs.options import RunSettings
    from odfbuild.executors.runs.record import RunRequest
    from odfbuild.executors.runs.scheduler import InterruptedRun, Unwatched, check_heads
    from odfbuild.state.memory.applied import record_applied

    wrong = [each for each in plan.notes if each.level is Level.ERROR]
    wrong += [each for found in plan.refused.values() for each in found]
    if wrong:
        raise ProjectErrors(wrong)
    check_heads(touched(plan), project.workspace)
    placement = plan_placement(project, plan)
    remember_accepted(project, plan)
    if files is not None:
        files.check(project)
    settings = settings or RunSettings()
    asked = asking or RunRequest()
    report: RunReport | None = None
    try:
        with interruptible(settings.ending):  # a record is begun, written and ended in one piece
            report = _run_and_record(
                project,
                plan,
                declared,
                placement,
                jobs,
                progress or Unwatched(),
                settings,
                asked,
                events,
            )
    except InterruptedRun:
        raise
    except KeyboardInterrupt:  # when all was done
        if report is None:
            raise
        raise InterruptedRun(report) from None
    record_applied(project.workspace, *_results(report))
    if any(each.origin is not None for each in examined(plan.datasets).values()):
        from odfbuild.app.plan.remote_inputs import pin_inputs

        report = replace(report, notes=(*report.notes, *pin_inputs(project, plan)))
    if settle and report.is_complete:
        with suppress(ProjectErrors, ProjectChangedError):  # somebody edits files by now
            plan_result(project, PlanRequest())  # remembers that nothing is left to do
    return report


def _run_and_record(
    project: Opened,
    plan: Plan,
    declared: "Sequence[Declared] | None",
    placement: "Placement | None",
    jobs: int,
    progress: "Progress",
    settings: "RunSettings",
    asking: "RunRequest",
    events: "Path | None",
) -> "RunReport":
    """Run a plan and record it."""
    from odfbuild.executors.process.interrupt import broken_off_by_second, hurries
    from odfbuild.executors.runs.lineage import Recording
    from odfbuild.executors.runs.record import Recorder
    from odfbuild.executors.runs.scheduler import run

    engine = engine_of(project)
    site = replace(site_of(project, engine), placement=placement)
    recorder = Recorder(project, plan, asking, progress)
    recording = Recording(project.workspace, recorder)
    report: RunReport | None = None
    broken: OdfBuildError | None = None
    stopped = False
    try:
        with broken_off_by_second():
            refused = _prepared(project, plan, declared, engine, placement)
        settings = replace(settings, refused=refused)
        with openlineage_events(project, recording, events) as sink:
            report = run(plan, site, jobs=jobs, progress=sink.progress, settings=settings)
        report = replace(report, notes=(*sink.notes, *kept_jobs()))
    except KeyboardInterrupt:
        stopped = True
        raise
    except OdfBuildError as error:
        stopped = hurries()  # then what failed is what was killed
        if stopped:
            raise KeyboardInterrupt from error
        broken = error
        raise
    finally:
        recorder.close(report, stopped=stopped, error=broken)
        engine.close()
        recording.close()
    return report


def _prepared(
    project: Opened,
    plan: Plan,
    declared: "Sequence[Declared] | None",
    engine: "EnginesByName",
    placement: "Placement | None",
) -> "Mapping[DatasetAlias, ProjectErrors]":
    """Start the engine, and return what it refuses of the new definitions, by dataset."""
    checks = plan.checks
    if any(not isinstance(s.work, Append | Pull) and s.id not in checks for s in plan.steps):
        engine.prepare(
            *planned_work(project, plan, placement), merges=merges(project, plan, placement)
        )
    if not any(isinstance(step.work, Append) for step in plan.steps):
        return {}
    from odfbuild.app.plan.planned_definitions import planned_definitions
    from odfbuild.app.plan.query_errors import refused_by_engine

    states = project.workspace.states()
    asked = planned_definitions(plan, states) if declared is None else declared
    return refused_by_engine(project, asked, plan, engine, states)


def site_of(project: Opened, engine: "Engine") -> "Site":
    """Return where the steps of a project run."""
    from odfbuild.executors.engine.context import SLICE_ROWS, Site

    return Site(
        workspace=project.workspace,
        engine=engine,
        clock=lambda: Timestamp.from_millis(time_ns() // 1_000_000),
        project_dir=project.root,
        env=os.environ,
        permissions=project.permissions,
        slice_rows=project.spark.slice_rows or SLICE_ROWS,
        gate=gate_of(project),
        puller=_puller(project),
    )


def _puller(project: Opened) -> "Callable[[Pull, DatasetAlias], object]":
    """Return what brings datasets of repositories; nothing is imported before it is called."""

    def bring(work: Pull, alias: DatasetAlias) -> None:
        from odfbuild.app.plan.remote_inputs import pull_input

        pull_input(project, work, alias)

    return bring


def _results(
    report: "RunReport",
) -> "tuple[dict[DatasetAlias, Result], frozenset[DatasetAlias]]":
    """Return how the steps of datasets that were worked on ended, and those that were passed over.

    A dataset of which one step was done and another skipped was worked on, and is skipped.
    """
    from odfbuild.executors.runs.report import Skipped

    ours = [each for each in report.outcomes if not isinstance(each[0].work, Pull)]
    done = {step.target for step, outcome in ours if not isinstance(outcome, Skipped)}
    skipped = {step.target for step, outcome in ours if isinstance(outcome, Skipped)}
    results: dict[DatasetAlias, Result] = {
        each: "skipped" if each in skipped else "ok" for each in done
    }
    results |= {step.target: "failed" for step, _ in report.failures if step.target in done}
    return results, frozenset(skipped - done)
