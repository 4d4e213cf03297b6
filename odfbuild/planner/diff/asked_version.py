"""The version of an engine that a definition asks for: only an installed one runs its query.  Pure.

The version in force may be another one, as after an update of the engine: notes and `engine
upgrade` are for that, and what is declared equals it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odfbuild.errors import Diagnostic
from odfbuild.odf.chain.state import ChainState, plain_version
from odfbuild.odf.events import (
    AddPushSource,
    MetadataEvent,
    SetPollingSource,
    SetTransform,
    TransformSql,
)
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import own_versions
from odfbuild.planner.diff.query_change import is_other_version


def asked_version_problems(
    each: Declared, state: ChainState | None, engines: Mapping[str, str]
) -> Iterator[Diagnostic]:
    """Yield versions that queries name, that are not installed and not those of the chain.

    `engines` names engines and their versions; those of ours count.
    """
    own = own_versions(engines)
    for at, event in enumerate(each.snapshot.metadata):
        query = _query(event)
        if query is None or query.version is None:
            continue
        installed = own.get(query.engine)
        if not installed or not is_other_version(query, installed):
            continue
        if _recorded_version(event, query, state) == plain_version(query.version):
            continue
        key = "transform" if isinstance(event, SetTransform) else "preprocess"
        yield Diagnostic(
            code="engine-version",
            what=f"the query is for {query.engine} {query.version}, and {installed} is installed",
            why="another version may give other rows, and verification could not explain the "
            "difference",
            fix="omit the version, so that the installed one is recorded; or install this version",
            span=each.span(("metadata", at, key, "version")),
        )


def _query(event: MetadataEvent | None) -> TransformSql | None:
    match event:
        case SetTransform():
            found: object = event.transform
        case SetPollingSource() | AddPushSource():
            found = event.preprocess
        case _:
            return None
    return found if isinstance(found, TransformSql) else None


def _recorded_version(
    event: MetadataEvent, query: TransformSql, state: ChainState | None
) -> str | None:
    """Return the version that a chain records for the same engine and source."""
    if state is None:
        return None
    known: MetadataEvent | None = state.transform
    if isinstance(event, AddPushSource):
        known = state.push.get(event.source_name)
    elif isinstance(event, SetPollingSource):
        known = state.polling
    found = _query(known)
    if found is None or found.engine != query.engine:
        return None
    return plain_version(found.version or "")
