"""Versions of engines: by which one a transform in force was made, and what that means.  Pure.

The version that made a chain's rows is part of its transform: another one may round, cast or order
otherwise.  A chain that does not say one is taken as made by whatever is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, Level
from odfbuild.odf.chain_schema import schema_in_force
from odfbuild.odf.chain_state import RESTATE, ChainState
from odfbuild.odf.events import DataSchema, SetTransform, TransformSql
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan import Append, Step, Transform

if TYPE_CHECKING:
    from odfbuild.planner.sql.affected import Cause

__all__ = ["made_by_another", "may_have_wrong_rows", "outdated_notes", "upgraded"]


def made_by_another(transform: TransformSql, installed: str) -> bool:
    """Say whether a transform is recorded with another version than the installed one."""
    version = None if is_opaque(transform) else transform.version
    return version is not None and version.removesuffix(RESTATE) != installed


def may_have_wrong_rows(
    state: ChainState, current: Mapping[DatasetAlias, ChainState], installed: str
) -> Cause | None:
    """Return why an earlier revision of the engine may have made rows that its query does not give.

    `current` are all datasets of the workspace.
    """
    known = state.transform
    if known is None or not state.progress or is_opaque(known.transform):
        return None
    if not made_by_another(known.transform, installed):
        return None
    from odfbuild.planner.sql.affected import affected
    from odfbuild.planner.sql.query import steps_of

    sources = {str(each.dataset): each for each in current.values()}
    inputs = {
        each.alias or ref: _seen(sources[ref])
        for each in known.inputs
        if (ref := str(each.dataset_ref)) in sources
    }
    return affected(steps_of(known.transform), inputs, known.transform.version)


def _seen(state: ChainState) -> DataSchema | None:
    """Return the columns of an input that queries see."""
    schema, vocab = schema_in_force(state), state.vocab
    if schema is None:
        return None
    hidden = (vocab.offset_column, vocab.operation_type_column, vocab.system_time_column)
    fields = tuple(each for each in schema.fields if each.name not in hidden)
    return replace(schema, fields=fields)


def upgraded(state: ChainState, installed: str) -> SetTransform | None:
    """Return the event that records the installed version; None if it is in force already.

    A query that has yet to restate what was written still does so afterwards.
    """
    known = state.transform
    if known is None or is_opaque(known.transform):
        return None
    if not made_by_another(known.transform, installed):
        return None
    restates = state.transform_is_new and (known.transform.version or "").endswith(RESTATE)
    version = f"{installed}{RESTATE if restates else ''}"
    return replace(known, transform=replace(known.transform, version=version))


def outdated_notes(
    declared: Sequence[Declared],
    steps: Sequence[Step],
    current: Mapping[DatasetAlias, ChainState],
    engines: Mapping[str, str],
) -> Iterator[Diagnostic]:
    """Say whose rows may be wrong, or whose step will be refused, as another version made them."""
    replaced = {step.target for step in steps if _sets_transform(step)}
    run = {step.target for step in steps if isinstance(step.work, Transform)} - replaced
    for each in declared:
        state = current.get(each.alias)
        if state is None or state.transform is None or is_opaque(state.transform.transform):
            continue
        sql = state.transform.transform
        installed = engines.get(sql.engine)
        if installed is None or not made_by_another(sql, installed):
            continue
        cause = may_have_wrong_rows(state, current, installed)
        if cause is not None:
            yield _wrong_rows(each, sql, cause)
        elif each.alias in run:
            yield Diagnostic(
                code="engine-version",
                what=f"{each.alias} was made by {sql.engine} {sql.version}, and {installed} is "
                f"installed; to see whether that gives the same: {_upgrade(each)}",
                why="another version may give other rows, and then verification could not tell why",
                fix=f"until then its steps are refused; run: {_upgrade(each)}",
                span=each.span(()),
                level=Level.WARNING,
            )


def _wrong_rows(each: Declared, sql: TransformSql, cause: Cause) -> Diagnostic:
    code, why = _WRONG_ROWS[cause.name]
    return Diagnostic(
        code=code,
        what=f"{each.alias} may have wrong rows: {sql.engine} {sql.version}, which made it, "
        f"{cause.value}; to make it anew: odfbuild rebuild {each.alias}",
        why=why,
        fix=f"odfbuild verify {each.alias} --recompute says whether it has; "
        f"odfbuild rebuild {each.alias} makes it anew",
        span=each.span(()),
        level=Level.WARNING,
    )


_WRONG_ROWS = {
    "COLUMNS": (
        "rows-of-other-keys",
        "a name that a star shows and the query also defines, or that only one side of a join "
        "shows, was taken for a column of the input: steps looked at the rows of other keys",
    ),
    "VERSIONS": (
        "rows-of-corrected-versions",
        "a version that had been corrected to another event time was in force again where its "
        "correction was retracted, or was earlier than it",
    ),
}


def _upgrade(each: Declared) -> str:
    return f"odfbuild engine upgrade {each.alias}"


def _sets_transform(step: Step) -> bool:
    return isinstance(step.work, Append) and any(
        isinstance(event, SetTransform) for event in step.work.events
    )
