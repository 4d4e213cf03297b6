"""Checks of a project that new rows must pass before they are committed."""

from typing import TYPE_CHECKING

from odfbuild.errors import ProjectErrors
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan.policy import Severity
from odfbuild.project.opened import Opened

if TYPE_CHECKING:
    from odfbuild.executors.testing.data_gate import DataGate
    from odfbuild.executors.testing.model import RowCheck


def gate_of(project: Opened) -> "DataGate | None":
    """Return the gate, None if it is off or the project has no checks on new rows.

    Raises ProjectErrors with all problems in the files of checks.
    """
    level = project.config.gates.data
    if level is Severity.OFF:
        return None
    from odfbuild.executors.testing.data_gate import DataGate
    from odfbuild.executors.testing.files import load_tests
    from odfbuild.executors.testing.model import On

    tests = load_tests(project.root, unit=False)
    if tests.found:
        raise ProjectErrors(tests.found)
    checks: dict[DatasetAlias, tuple[RowCheck, ...]] = {}
    for each in tests.checks:
        if each.on is On.NEW_ROWS:
            checks[each.dataset] = (*checks.get(each.dataset, ()), each)
    return DataGate(level, checks) if checks else None
