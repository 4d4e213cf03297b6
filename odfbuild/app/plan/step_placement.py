"""Placement of the steps of a project: which are carried out elsewhere, and what jobs left."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from odfbuild.errors import Diagnostic, Level
from odfbuild.executors.ingest.fetch.local import SOURCE_NAME, bytes_of, is_local, pending_bytes
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetPollingSource
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, polling_of
from odfbuild.planner.plan import Ingest, Plan
from odfbuild.planner.steps import RereadFiles
from odfbuild.project.config.outside_engines import OutsideEngine
from odfbuild.project.opened import Opened

if TYPE_CHECKING:
    from odfbuild.executors.engine.contract.job.steps import Placement

_NAMED: Final = 5  # datasets in one note


def ingest_notes(
    project: Opened,
    declared: Sequence[Declared],
    plan: Plan,
    current: Mapping[DatasetAlias, ChainState],
    reread: Mapping[DatasetAlias, RereadFiles],
) -> Iterator[Diagnostic]:
    """Yield where files of sources are read, as far as that may be elsewhere, and why.

    `reread` are those that are read again.
    """
    engines = [
        each
        for each in project.config.engines.values()
        if each.steps is not None and each.steps.counts_in(project.target)
    ]
    planned = {step.target for step in plan.steps if isinstance(step.work, Ingest)}
    if not engines or not planned:
        return
    found: dict[str, list[str]] = {}
    for each in declared:
        source = polling_of(each) if each.alias in planned else None
        if source is None:
            continue
        again = reread[each.alias].names if each.alias in reread else ()
        said = _place(project, engines, each, source, current.get(each.alias), again)
        if said is not None:
            found.setdefault(said, []).append(str(each.alias))
    for said, names in found.items():
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        yield Diagnostic(
            code="ingest-place",
            what=f"new files of {', '.join(names[:_NAMED])}{more} are read and merged {said}",
            why="`steps` of `engines` in odfbuild.yaml; this machine fetches the files, and "
            "commits the rows",
            fix="none is needed",
            level=Level.NOTE,
        )


def _place(
    project: Opened,
    engines: Sequence[OutsideEngine],
    each: Declared,
    source: SetPollingSource,
    state: ChainState | None,
    again: Sequence[str],
) -> str | None:
    """Return where the new files of a source are read; None where no engine is to read them."""
    known = None if state is None else state.source_state.get(SOURCE_NAME)
    reach = project.permissions.path_check(project.root)
    size = pending_bytes(source.fetch, known, project.root, reach)
    size += bytes_of(project.root / path for path in again)
    refused = None
    for engine in engines:
        why = engine.why_ingest(each.traits.tags, size)
        if why is None:
            continue
        if engine.runs_query(source.preprocess):
            return f"by {engine.name}: {why}"
        refused = f"here, not by {engine.name} ({why}), whose engine is not that of `preprocess`"
    if refused is None and not is_local(source.fetch):
        least = [e for e in engines if e.steps is not None and e.steps.least is not None]
        for engine in least:
            if engine.runs_query(source.preprocess) and engine.steps is not None:
                return f"by {engine.name} if one has {engine.steps.least:,} bytes or more"
    return refused


def step_placement(
    project: Opened, declared: Sequence[Declared] | None = None
) -> "Placement | None":
    """Return where steps are carried out, by the definitions as they are; None if all are here.

    `declared` are the definitions, if they were read.  Raises NotPermittedError, and ProjectErrors
    if they cannot be read: then nobody knows where a step belongs.
    """
    if all(each.steps is None for each in project.config.engines.values()):
        return None
    from odfbuild.app.load_project import load
    from odfbuild.executors.engine.contract.job.steps import placement_of

    known = load(project, partly=True).declared if declared is None else declared
    return placement_of(project, lambda: {each.alias: each.traits.tags for each in known})


def kept_jobs() -> tuple[Diagnostic, ...]:
    """Return warnings of jobs that a store did not let odfbuild delete."""
    if "odfbuild.executors.engine.objects.leftovers" not in sys.modules:  # there was no job
        return ()
    from odfbuild.executors.engine.objects import leftovers

    return leftovers.kept_jobs()
