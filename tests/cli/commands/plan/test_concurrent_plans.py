"""What a plan says is remembered for the very state that it was made of, whoever comes last."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odfbuild.app.plan import file_snapshot as project_files
from odfbuild.app.plan import make_plan as planning
from odfbuild.cli.commands.plan import plan as decide
from tests.support.process.inside import Inside, lay_out, without_jvm
from tests.support.projects import Done

NEW = {"data/2.csv": "t,k,v\n2024-01-03,c,3\n"}
MOMENTS = ["before the chains", "before the definitions", "before the answer"]


def changed(project: Path) -> None:
    """Change all that a plan is made of, and have somebody else plan that meanwhile."""
    text = (project / "datasets/raw/src.yaml").read_text()
    lay_out(project, {**NEW, "datasets/raw/src.yaml": text.replace("v BIGINT", "v BIGINT, w INT")})
    settings = (project / "odfbuild.yaml").read_text()
    lay_out(project, {"odfbuild.yaml": f"{settings}gates: {{breaking: warn}}\n"})
    assert planned(project, without_jvm).code == 2


def planned(project: Path, run: Callable[..., Done] | Inside) -> Done:
    if isinstance(run, Inside):
        return run("plan", "--detailed-exitcode")
    return run("plan", "-C", str(project), "--detailed-exitcode", cwd=project)


def then(first: Callable[[], None], do: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does something else first, once."""
    left = [first]

    def both(*given: Any, **named: Any) -> Any:
        if left:
            left.pop()()
        return do(*given, **named)

    return both


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_slower_plan_does_not_leave_its_answer_for_a_newer_state(
    moment: str, market: Path, ask: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, name = {
        MOMENTS[0]: (project_files, "fingerprint"),
        MOMENTS[1]: (planning, "load"),
        MOMENTS[2]: (decide, "plan_output"),
    }[moment]
    shutil.rmtree(market / ".odfbuild/cache")
    with monkeypatch.context() as patch:
        patch.setattr(place, name, then(lambda: changed(market), getattr(place, name)))
        planned(market, ask)
    remembered = planned(market, ask)
    shutil.rmtree(market / ".odfbuild/cache")
    assert remembered == planned(market, ask)
    assert remembered.code == 2
