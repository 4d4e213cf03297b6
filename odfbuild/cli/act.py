"""odfbuild apply and verify."""

import sys
from pathlib import Path

from odfbuild import app
from odfbuild.cli import exits
from odfbuild.cli.decide import no_changes
from odfbuild.cli.diagnostics import render_diagnostics
from odfbuild.errors import OdfBuildError
from odfbuild.executors.report import Report
from odfbuild.planner.plan import Plan

__all__ = ["UsageRefusedError", "apply_project", "verify_datasets"]


class UsageRefusedError(OdfBuildError):
    """The command needs an answer that nobody is there to give."""

    code = "usage"


def apply_project(directory: Path | None, *, yes: bool, jobs: int, progress: bool) -> int:
    """Plan, print, ask, and do that very plan."""
    project = app.open_project(directory)
    quick = app.unchanged(project)
    if quick is not None:
        sys.stdout.write(no_changes(quick.datasets))
        return exits.DONE
    plan = app.make(project)
    _print(plan)
    if not plan.steps:
        return exits.DONE
    if not plan.is_empty and not yes:
        _ask()
    report = _run(project, plan, jobs, progress)
    return _tell(report)


def verify_datasets(directory: Path | None, names: list[str]) -> int:
    """Recheck datasets, all of them by default, and print one line each."""
    from odfbuild.executors.verify import verify

    project = app.open_project(directory)
    wanted = names or sorted(str(alias) for alias in project.workspace.names())
    width = max((len(name) for name in wanted), default=0)
    broken = 0
    for name in wanted:
        found = verify(app.find_dataset(project, name))
        mark = "FAILED" if found.findings else "ok"
        sys.stdout.write(
            f"{name:<{width}}  {mark:<6}  {found.blocks:>6,} blocks  {found.files:>6,} files"
            f"  {found.bytes:>14,} bytes\n"
        )
        for finding in found.findings:
            sys.stdout.write(f"  block {finding.block}: {finding.what}\n")
        broken += bool(found.findings)
    word = "dataset" if len(wanted) == 1 else "datasets"
    sys.stdout.write(f"{len(wanted)} {word} verified, {broken} failed.\n")
    return exits.NOT_VERIFIED if broken else exits.DONE


def _print(plan: Plan) -> None:
    from odfbuild.cli.render import plan_text

    sys.stdout.write(plan_text(plan))
    sys.stdout.flush()


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
    if sys.stdin.readline().strip() != "yes":
        raise UsageRefusedError(
            what="not applied", why='the answer was not "yes"', fix="nothing was changed"
        )


def _run(project: app.Opened, plan: Plan, jobs: int, live: bool) -> Report:
    from odfbuild.cli.progress import watching

    with watching(len(plan.steps), live=live) as progress:
        return app.apply(project, plan, jobs=jobs, progress=progress)


def _tell(report: Report) -> int:
    from odfbuild.cli.render import report_text

    for _, failed in report.failures:
        sys.stderr.write(render_diagnostics(failed.error.diagnostics()) + "\n")
    sys.stdout.write(report_text(report))
    if not report.failures:
        return exits.DONE
    if report.committed:
        return exits.PARTLY
    codes = {exits.exit_code(failed.error) for _, failed in report.failures}
    return codes.pop() if len(codes) == 1 else exits.ERROR
