"""Reach of a change: columns that readers see otherwise, and the datasets affected.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from odfbuild.odf.events import SetTransform
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.evolution.columns.derive import DerivedColumns
from odfbuild.planner.evolution.columns.resolve import Resolver
from odfbuild.planner.evolution.columns.use import ALL, Reach, Reader, affected, readers_of
from odfbuild.planner.evolution.rules.queries import QUERY_CHANGED
from odfbuild.planner.evolution.rules.rule import class_of
from odfbuild.planner.evolution.rules.schemas import AssessedColumns
from odfbuild.planner.evolution.rules.subject import Subject
from odfbuild.planner.plan.changes import Assessment, ChangeClass, Hit
from odfbuild.sql.text.steps import steps_of

_OF_COLUMNS = frozenset(
    [f"ODF{number}" for number in (*range(201, 211), 213, 302, 306, 307, 308)]
)  # what they are about, the changes of the schema name
_VALUES = QUERY_CHANGED.code


class Reaches:
    """Collects how far changes reach while datasets are assessed."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._reaches: dict[DatasetAlias, Reach] = {}
        self._additive: set[DatasetAlias] = set()

    def note(self, subject: Subject, columns: AssessedColumns | None, hits: Sequence[Hit]) -> None:
        """Keep in mind which columns readers see otherwise: those named, or all of them."""
        least = ChangeClass.ADDITIVE.rank
        counted = [each for each in hits if each.change.rank >= least]
        if not counted:
            return
        alias = subject.alias
        about = [each for each in counted if each.code not in _OF_COLUMNS]
        unknown = columns is None or columns.change.unknown is not None
        if columns is None or unknown or any(each.code != _VALUES for each in about):
            self._reaches[alias] = ALL
            return
        reach = {each.column for each in columns.change.columns} | set(columns.untyped)
        reach |= _rewritten(subject, columns.now) if about else set()
        self._reaches[alias] = frozenset(reach - {""})
        if class_of(counted) is ChangeClass.ADDITIVE:
            self._additive.add(alias)

    def with_affected(
        self, found: Mapping[DatasetAlias, Assessment], declared: Sequence[Declared]
    ) -> dict[DatasetAlias, Assessment]:
        """Return the assessments with those whom each change affects."""
        done = dict(found)
        if not self._reaches:
            return done
        readers = readers_of(declared, self._resolver.by_id)
        order = {each.alias: number for number, each in enumerate(declared)}
        by_alias = {each.alias: each for each in declared}
        for alias, reach in self._reaches.items():
            direct = readers.get(alias, [])
            if alias in self._additive:
                direct = [each for each in direct if _may_take_all(by_alias[each.dataset])]
            if direct and alias in done:
                direct_first: dict[DatasetAlias, list[Reader]] = {**readers, alias: direct}
                reached = affected(alias, reach, direct_first, order, self._derived_columns)
                done[alias] = replace(done[alias], affected=reached)
        return done

    def _derived_columns(self, alias: DatasetAlias) -> Sequence[DerivedColumns]:
        """Return what the query of a dataset that is there makes, before and after."""
        before = self._resolver.columns_before(alias)
        if before is None:
            return ()
        after = self._resolver.columns_after(alias)
        return (before,) if after is None or after is before else (before, after)


def takes_all(transform: SetTransform) -> bool:
    """Tell whether a query may take in columns that it does not name."""
    if is_opaque(transform.transform):
        return True
    text = " ".join(step.text for step in steps_of(transform.transform)).lower()
    return "*" in text or "natural" in text


def _may_take_all(reader: Declared) -> bool:
    events = reader.snapshot.metadata
    return any(isinstance(event, SetTransform) and takes_all(event) for event in events)


def _rewritten(subject: Subject, now: DerivedColumns | None) -> set[str]:
    """Return the columns that a changed query makes in another way."""
    rewrite = subject.rewrite
    whole = rewrite.rows or not rewrite.changed or any("*" in each for each in rewrite.changed)
    if whole and now is not None:
        return {each.name for each in now.columns or ()}
    return set(rewrite.changed)
