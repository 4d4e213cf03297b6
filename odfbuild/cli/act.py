"""odfbuild apply and verify."""

import os
import select
import sys
from collections.abc import Iterator
from dataclasses import replace

from odfbuild import app
from odfbuild.cli import exits
from odfbuild.cli.decide import no_changes
from odfbuild.cli.diagnostics import render_diagnostics
from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given
from odfbuild.cli.outcome import report_text
from odfbuild.cli.render import plan_text
from odfbuild.errors import Diagnostic, OdfBuildError
from odfbuild.executors.report import Report
from odfbuild.planner.plan import Plan

__all__ = ["UsageRefusedError", "apply_project", "verify_datasets"]


class UsageRefusedError(OdfBuildError):
    """The command needs an answer that nobody is there to give."""

    code = "usage"


def apply_project(
    given: Given, *, yes: bool, jobs: int, progress: bool, lock_timeout: float
) -> int:
    """Plan, print, ask, and do that very plan."""
    project = open_given(given, lock_timeout=lock_timeout)
    quick = app.unchanged(project)
    if quick is not None:
        sys.stdout.write(no_changes(quick.datasets))
        return exits.DONE
    plan = app.make(project)
    _say(plan_text(plan))
    if not plan.steps:
        return exits.DONE
    if not plan.is_empty and not yes:
        _ask()
    report = _run(project, plan, jobs, progress)
    for each in _failures(plan, report):
        sys.stderr.write(render_diagnostics([each]) + "\n")
    _say(report_text(report))
    return _code(report)


def verify_datasets(given: Given, names: list[str]) -> int:
    """Recheck datasets, all of them by default, and print one line each."""
    from odfbuild.executors.verify import verify

    project = open_given(given)
    known = project.workspace.names()
    chosen = [app.find_name(project, name) for name in names] or sorted(known)
    width = max((len(str(name)) for name in chosen), default=0)
    broken = 0
    for name in chosen:
        found = verify(project.workspace.dataset(known[name]))
        mark = "FAILED" if found.findings else "ok"
        anew = f", {found.reencoded:,} encoded anew" if found.reencoded else ""
        sys.stdout.write(
            f"{name!s:<{width}}  {mark:<6}  {found.blocks:>6,} blocks  {found.files:>6,} files"
            f"  {found.bytes:>14,} bytes{anew}\n"
        )
        for finding in found.findings:
            place = "" if finding.block is None else f"block {finding.block}: "
            sys.stdout.write(f"  {place}{finding.what}\n")
        broken += bool(found.findings)
    word = "dataset" if len(chosen) == 1 else "datasets"
    sys.stdout.write(f"{len(chosen)} {word} verified, {broken} failed.\n")
    return exits.NOT_VERIFIED if broken else exits.DONE


def _say(text: str) -> None:
    """Write to stdout; a reader that went away is no reason to leave the work half done."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ask() -> None:
    """Ask on a terminal; refuse where nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageRefusedError(
            what="apply asks before it changes anything, and nobody can answer here",
            why="standard input is not a terminal",
            fix="look at the plan, then run: odfbuild apply --yes",
        )
    sys.stderr.write('Apply this plan? Only "yes" does it: ')
    sys.stderr.flush()
    if _answer() != "yes":
        raise UsageRefusedError(
            what="not applied", why='the answer was not "yes"', fix="nothing was changed"
        )


def _answer() -> str:
    """Return the next line; an interrupt that comes just before the wait ends it soon, too."""
    while not select.select([sys.stdin], [], [], 0.2)[0]:
        pass
    return sys.stdin.readline().strip()


def _run(project: app.Opened, plan: Plan, jobs: int, live: bool) -> Report:
    from odfbuild.cli.progress import watching

    with watching(len(plan.steps), live=live) as progress:
        return app.apply(project, plan, jobs=jobs, progress=progress)


def _failures(plan: Plan, report: Report) -> Iterator[Diagnostic]:
    """Yield what failed, each with its dataset, and where that is declared if nothing is nearer."""
    for step, failed in report.failures:
        declared = plan.datasets[step.target].place
        for each in failed.error.diagnostics():
            what = f"{step.target}: {each.what}"
            yield replace(each, what=what, span=each.span or declared)


def _code(report: Report) -> int:
    if not report.failures:
        return exits.DONE
    if report.committed:
        return exits.PARTLY
    codes = {exits.exit_code(failed.error) for _, failed in report.failures}
    return codes.pop() if len(codes) == 1 else exits.ERROR
