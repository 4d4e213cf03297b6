"""Versions of engines: by which one a transform in force was made, and what that means.  Pure.

The version that made a chain's rows is part of its transform: another one may round, cast or order
otherwise.  A chain that does not say one is taken as made by whatever is there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from odfbuild.errors import Diagnostic, Level
from odfbuild.odf.chain_state import RESTATE, ChainState
from odfbuild.odf.events import SetTransform, TransformSql
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan import Append, Step, Transform

__all__ = ["made_by_another", "outdated_notes", "upgraded"]


def made_by_another(transform: TransformSql, installed: str) -> bool:
    """Say whether a transform is recorded with another version than the installed one."""
    version = None if is_opaque(transform) else transform.version
    return version is not None and version.removesuffix(RESTATE) != installed


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
    """Say whose step will be refused, because another version of the engine made the dataset."""
    replaced = {step.target for step in steps if _sets_transform(step)}
    run = {step.target for step in steps if isinstance(step.work, Transform)} - replaced
    for each in declared if run else ():
        state = current.get(each.alias) if each.alias in run else None
        if state is None or state.transform is None or is_opaque(state.transform.transform):
            continue
        sql = state.transform.transform
        installed = engines.get(sql.engine)
        if installed is not None and made_by_another(sql, installed):
            yield Diagnostic(
                code="engine-version",
                what=f"{each.alias} was made by {sql.engine} {sql.version}, and {installed} is "
                f"installed; to see whether that gives the same: {_upgrade(each)}",
                why="another version may give other rows, and then verification could not tell why",
                fix=f"until then its steps are refused; run: {_upgrade(each)}",
                span=each.span(()),
                level=Level.WARNING,
            )


def _upgrade(each: Declared) -> str:
    return f"odfbuild engine upgrade {each.alias}"


def _sets_transform(step: Step) -> bool:
    return isinstance(step.work, Append) and any(
        isinstance(event, SetTransform) for event in step.work.events
    )
