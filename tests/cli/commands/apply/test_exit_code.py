"""A run ends with 0 only if every step of its plan ended well."""

import itertools
from pathlib import Path

import pytest

from odfbuild.cli import exits
from odfbuild.cli.commands.apply.apply import run_code
from odfbuild.errors import StateError
from odfbuild.executors.engine.context import Round
from odfbuild.executors.runs.report import Done, Failed, Interrupted, Outcome, RunReport, Skipped
from odfbuild.executors.runs.scheduler import UnreachableStepError, check_order
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Ingest, Plan, Step
from odfbuild.planner.plan.changes import Verdict
from tests.support.process.inside import lay_out, without_jvm
from tests.support.projects.texts import GOOD, derivative, root

ROUND = Round("1.csv", 1, 1)
OUTCOMES: tuple[Outcome | None, ...] = (
    Done(()),
    Done((ROUND,)),
    Failed(StateError("a", "b", "c"), ()),
    Interrupted((ROUND,)),
    Skipped("ingest:a"),
    None,  # nothing is known of it
)


def step(name: str, *after: str) -> Step:
    return Step(id=name, target=DatasetAlias.parse(name), work=Ingest(), after=after, reasons=())


def plan_of(*steps: Step) -> Plan:
    return Plan(
        odf_version="0.34.1",
        project_hash="",
        datasets={},
        steps=steps,
        unchanged=(),
        notes=(),
        verdict=Verdict("default", 0, 0, 0),
    )


@pytest.mark.parametrize("given", list(itertools.product(OUTCOMES, repeat=2)), ids=str)
def test_zero_means_that_each_step_is_done(given: tuple[Outcome | None, ...]) -> None:
    plan = plan_of(step("a"), step("b"))
    known = tuple((s, o) for s, o in zip(plan.steps, given, strict=True) if o is not None)
    whole = all(isinstance(each, Done) for each in given)
    assert (run_code(plan, RunReport(known)) == exits.DONE) == whole


def test_a_step_that_could_never_run_refuses_the_plan() -> None:
    check_order(plan_of(step("a"), step("b", "a")))
    for steps in [(step("a", "b"), step("b")), (step("a", "A"),), (step("a", "a"),)]:
        with pytest.raises(UnreachableStepError, match="is not a step before it"):
            check_order(plan_of(*steps))


@pytest.mark.parametrize("spelled", ["Q.ROOT", "q.root", "Q.root"])
def test_an_input_may_be_spelled_in_any_case(tmp_path: Path, spelled: str) -> None:
    files = {"datasets/a.yaml": root("q.root"), "data/1.csv": GOOD}
    project = lay_out(tmp_path, {**files, "datasets/b.yaml": derivative("q.out", spelled)})
    done = without_jvm("apply", "--yes", cwd=project)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].endswith("committed to 2 datasets, 4 rows.")
    assert without_jvm("plan", cwd=project).out.startswith("No changes.")
