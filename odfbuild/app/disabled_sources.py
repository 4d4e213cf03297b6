"""Sources of imported chains, which are not used until their user enables them."""

from collections.abc import Collection, Mapping, Sequence

from odfbuild.app.outside_use import uses_of_source
from odfbuild.errors import Diagnostic, Level
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, polling_of
from odfbuild.project.opened import Opened
from odfbuild.state.disabled import is_disabled


def disabled_sources(
    project: Opened, declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]
) -> Collection[DatasetAlias]:
    """Return the declared datasets whose sources are those that were disabled."""
    marks = project.workspace.disabled()
    if not marks:
        return ()
    moved = {each.new: each.old for each in project.policy.moved}
    found = []
    for each in declared:
        state = current.get(each.alias) or current.get(moved.get(each.alias, each.alias))
        source = polling_of(each)
        if state is not None and source is not None and is_disabled(marks, state.dataset, source):
            found.append(each.alias)
    return found


def disabled_notes(
    project: Opened, declared: Sequence[Declared], disabled: Collection[DatasetAlias]
) -> tuple[Diagnostic, ...]:
    """Return a warning for each source that is not used, with what it would read and run."""
    found = []
    for each in declared:
        if each.alias in disabled and (source := polling_of(each)) is not None:
            uses = [f"{kind} {name}" for kind, name in uses_of_source(source, project.root)]
            asks = f"; it asks for: {', '.join(uses)}" if uses else ""
            found.append(
                Diagnostic(
                    code="source-disabled",
                    what=f"the source of {each.alias} is not used",
                    why=f"it came with a chain from elsewhere{asks}",
                    fix=f"odfbuild import {each.alias} --with-sources, if you trust it",
                    span=each.span(),
                    level=Level.WARNING,
                )
            )
    return tuple(found)
