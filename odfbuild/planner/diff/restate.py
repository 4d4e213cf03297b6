"""Queries that restate: their changes are corrected in all rows written before.  Pure.

`on_query_change: restate` is recorded with the query, at the end of its version, so that whoever
runs the step again knows that it compared everything.  Once it has run there is nothing special
about the query any more.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from odfbuild.odf.chain.state import RESTATE, ChainState
from odfbuild.odf.events import MetadataEvent, SetTransform
from odfbuild.odf.opaque import is_opaque
from odfbuild.planner.plan.policy import OnQueryChange

if TYPE_CHECKING:
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.diff import EventChange


def restates(state: ChainState) -> bool:
    """Say whether the next step of a dataset has to correct what it holds.

    A dataset that has read nothing yet holds nothing to correct.
    """
    known = state.transform
    if known is None or not state.transform_is_new or not state.progress:
        return False
    return asks_to_restate(known)


def asks_to_restate(event: MetadataEvent) -> bool:
    """Say whether an event is a query that restates what was written before it."""
    if not isinstance(event, SetTransform) or is_opaque(event.transform):
        return False
    return (event.transform.version or "").endswith(RESTATE)


def with_restating(
    declared: "Declared", state: ChainState, changes: "Sequence[EventChange]"
) -> "tuple[EventChange, ...]":
    """Return the changes of a dataset, its new query marked if it is to restate.

    That is as its definition asks; or because the query that it replaces still has to.
    """
    wanted = declared.traits.on_query_change is OnQueryChange.RESTATE and state.progress
    if not (wanted or restates(state)):
        return tuple(changes)
    return tuple(replace(each, event=_with_mark(each.event)) for each in changes)


def restated(state: ChainState) -> SetTransform:
    """Return the query in force without the mark: there was nothing to correct."""
    assert state.transform is not None  # noqa: S101 - the caller looked
    version = state.transform.transform.version
    assert version is not None  # noqa: S101 - the mark is a part of it
    plain = version.removesuffix(RESTATE)
    return replace(state.transform, transform=replace(state.transform.transform, version=plain))


def _with_mark(event: MetadataEvent) -> MetadataEvent:
    if not isinstance(event, SetTransform) or asks_to_restate(event):
        return event
    version = f"{event.transform.version or ''}{RESTATE}"
    return replace(event, transform=replace(event.transform, version=version))
