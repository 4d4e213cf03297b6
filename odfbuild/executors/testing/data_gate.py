"""Checks before a commit: the new rows of a step are refused unless they pass.

The checks on new rows of a dataset run on its staged slices, all that one swap of its head would
add; if one fails, none of them is committed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from odfbuild.errors import Diagnostic, Level, OdfBuildError
from odfbuild.executors.data.seal import Sealed
from odfbuild.executors.data.views import DatasetView
from odfbuild.executors.engine.context import Site
from odfbuild.executors.engine.querier import Querier
from odfbuild.executors.testing.evaluate import CheckedRows, asking, evaluate, workspace_views
from odfbuild.executors.testing.model import On, RowCheck
from odfbuild.executors.testing.results import Result, result_diagnostic
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan.policy import Severity
from odfbuild.values import dataclass

_FIX = (
    "correct the source or the query, or the check; the rows are not committed until it passes "
    "(with `gates: {data: warn}` they are committed and reported)"
)
_LOOK = "inspect these rows, or the check"


class DataCheckError(OdfBuildError):
    """Rows were not committed: they fail a check of the project."""

    code = "data-check"

    def __init__(self, found: tuple[Diagnostic, ...]) -> None:
        super().__init__(found[0].what, found[0].why, found[0].fix, found[0].span)
        self.found = found

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self.found


@dataclass(frozen=True, slots=True)
class DataGate:
    """The checks on new rows by dataset; `level` is whether failures refuse rows or only warn."""

    level: Severity
    checks: Mapping[DatasetAlias, tuple[RowCheck, ...]]

    def check(
        self, site: Site, dataset: DatasetId, state: ChainState, sealed: Sealed, source: str
    ) -> tuple[Diagnostic, ...]:
        """Run the checks on rows that are to be committed; see `engine.context.gate_findings`."""
        checks = self._checks(site, dataset)
        if not checks:
            return ()
        view = DatasetView(
            paths=tuple(each.path for each in sealed.slices),
            schema=sealed.schema,
            vocab=state.vocab,
        )
        with site.workspace.staging() as staging:
            others = workspace_views(site.workspace)
            results = evaluate(
                checks,
                CheckedRows(view=view, on=On.NEW_ROWS),
                others=others,
                now=site.clock(),
                ask=asking(cast(Querier, site.engine), checks[0].dataset, others, staging),
            )
        refused = [each for each in results if _refuses(each, self.level)]
        if refused:
            raise DataCheckError(tuple(_refusal(each, source) for each in refused))
        return tuple(_warning(each) for each in results if not each.passed)

    def _checks(self, site: Site, dataset: DatasetId) -> tuple[RowCheck, ...]:
        names = (name for name, id in site.workspace.names().items() if id == dataset)
        return next((self.checks[name] for name in names if name in self.checks), ())


def _refusal(result: Result, source: str) -> Diagnostic:
    found = result_diagnostic(result, Level.ERROR, _FIX)
    if result.error is not None:
        return found
    of = f" of {source}" if source else ""
    return replace(found, why=f"the rows{of} would have got these offsets, and were not committed")


def _warning(result: Result) -> Diagnostic:
    found = result_diagnostic(result, Level.WARNING, _LOOK)
    what = f"{result.check.dataset}: {found.what}"
    return replace(found, what=what, level=Level.WARNING)


def _refuses(result: Result, level: Severity) -> bool:
    return level is Severity.ERROR and result.refused
