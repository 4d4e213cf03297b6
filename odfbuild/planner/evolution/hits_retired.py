"""Datasets that are there and no longer declared: ODF115, ODF116.  Pure."""

from collections.abc import Mapping, Sequence

from odfbuild.odf.chain_state import ChainState
from odfbuild.odf.events import SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.changes import Affected, Assessment, ChangeClass, Usage
from odfbuild.planner.declared import Declared
from odfbuild.planner.evolution.hits import hit
from odfbuild.planner.evolution.renames import Renamed, find_renames
from odfbuild.planner.policy import Severity

__all__ = ["retired_hits"]


def retired_hits(
    declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState], *, against: bool
) -> dict[DatasetAlias, Assessment]:
    """Return the assessments of datasets that are no longer declared.

    Between revisions a definition was removed.  In a workspace a chain may just as well have been
    copied there: that is worth a word only if a declared dataset reads it, or if a new one looks
    like it.
    """
    names = {each.alias for each in declared}
    gone = sorted(alias for alias in current if alias not in names)
    if not gone:
        return {}
    renamed = {each.old: each for each in find_renames(declared, current)}
    by_alias = {each.alias: each for each in declared}
    readers = _readers(declared, {current[alias].dataset: alias for alias in gone}, set(gone))
    return {
        alias: _retired(alias, renamed.get(alias), readers.get(alias, []), by_alias, against)
        for alias in gone
    }


def _retired(
    alias: DatasetAlias,
    renamed: Renamed | None,
    readers: Sequence[DatasetAlias],
    declared: Mapping[DatasetAlias, Declared],
    against: bool,
) -> Assessment:
    severity = None if against else Severity.WARN
    if renamed is not None:
        message = f"{renamed.new} looks like {alias} under another name"
        span = declared[renamed.new].span()
        found = hit("ODF116", alias, message, other=renamed.new, span=span, severity=severity)
    else:
        read = f", and {_listed(readers)} it" if readers else ""
        message = f"it is no longer declared{read}"
        if not readers and not against:
            severity = Severity.OFF
        found = hit("ODF115", alias, message, severity=severity)
    return Assessment(
        change=ChangeClass.RETIRE,
        hits=(found,),
        affected=tuple(Affected(each, (), (Usage.VALUE, Usage.SHAPE), True) for each in readers),
    )


def _listed(readers: Sequence[DatasetAlias]) -> str:
    more = f" and {len(readers) - 1} more read" if len(readers) > 1 else " reads"
    return f"{readers[0]}{more}"


def _readers(
    declared: Sequence[Declared],
    by_id: Mapping[DatasetId, DatasetAlias],
    gone: set[DatasetAlias],
) -> dict[DatasetAlias, list[DatasetAlias]]:
    found: dict[DatasetAlias, list[DatasetAlias]] = {}
    for each in declared:
        for event in each.snapshot.metadata:
            if isinstance(event, SetTransform):
                for source in event.inputs:
                    ref = source.dataset_ref
                    alias = by_id.get(ref) if isinstance(ref, DatasetId) else ref
                    if alias is not None and alias in gone:
                        found.setdefault(alias, []).append(each.alias)
    return found
