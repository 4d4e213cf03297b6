"""Definitions as the chains have them: what runs data without a change of definitions.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from odfbuild.odf.chain import ChainState
from odfbuild.odf.events import MetadataEvent
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import diff
from odfbuild.planner.in_force import vocabulary_event

__all__ = ["InForce", "as_in_force"]


@dataclass(frozen=True, slots=True)
class InForce:
    """The declared datasets as their chains have them; of these, `pending` are declared otherwise.

    `missing` are declared and not made yet.  A dataset that is to get another name has its old one,
    and is among the pending.
    """

    declared: tuple[Declared, ...]
    pending: tuple[DatasetAlias, ...]
    missing: tuple[DatasetAlias, ...]


def as_in_force(
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
    moved: Mapping[DatasetAlias, DatasetAlias],
    engines: Mapping[str, str],
) -> InForce:
    """Return the definitions in force of declared datasets; `moved` has old names by new ones."""
    found, pending, missing = [], [], []
    for each in declared:
        old = moved.get(each.alias)
        alias = old if each.alias not in current and old in current else each.alias
        assert alias is not None  # noqa: S101 - an old name that is not there is not taken
        state = current.get(alias)
        if state is None:
            missing.append(each.alias)
            continue
        snapshot = replace(each.snapshot, name=alias, kind=state.kind, metadata=_events(state))
        if alias != each.alias or _differs(each, state, current, engines):
            pending.append(alias)
        found.append(replace(each, alias=alias, snapshot=snapshot))
    return InForce(tuple(found), tuple(pending), tuple(missing))


def _events(state: ChainState) -> tuple[MetadataEvent, ...]:
    given = (
        state.polling,
        *state.push.values(),
        state.transform,
        state.info,
        state.license,
        state.attachments,
        vocabulary_event(state),
    )
    return tuple(event for event in given if event is not None)


def _differs(
    each: Declared,
    state: ChainState,
    current: Mapping[DatasetAlias, ChainState],
    engines: Mapping[str, str],
) -> bool:
    """Say whether an apply would append to a chain, or refuse to."""
    from odfbuild.errors import PlanError

    names = {alias: known.dataset for alias, known in current.items()}
    try:
        return bool(
            diff(
                each.snapshot,
                state,
                lambda ref: names.get(ref, ref) if isinstance(ref, DatasetAlias) else ref,
                engines,
            )
        )
    except PlanError:
        return True
