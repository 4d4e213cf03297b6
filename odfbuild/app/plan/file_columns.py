"""Certain errors of the first files of new sources: columns that no step can read or store.

A Parquet file says its columns at its end, so that much can be known before anything is written.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from odfbuild.errors import Diagnostic, OdfBuildError, ProjectErrors
from odfbuild.executors.ingest.fetch.local import SOURCE_NAME, first_file
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DatasetVocabulary, ReadStepParquet, SetPollingSource
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, polling_of
from odfbuild.planner.evolution.columns.derive import makes_of_events
from odfbuild.planner.plan import Append, Plan
from odfbuild.project.opened import Opened


def refused_files(
    project: Opened,
    declared: Sequence[Declared],
    plan: Plan,
    current: Mapping[DatasetAlias, ChainState],
) -> Mapping[DatasetAlias, ProjectErrors]:
    """Return what is wrong with the first new file of each source that a plan would append."""
    changed = {
        step.target
        for step in plan.steps
        if isinstance(step.work, Append)
        and any(isinstance(event, SetPollingSource) for event in step.work.events)
    }
    found: dict[DatasetAlias, ProjectErrors] = {}
    for each in declared if changed else ():
        source = polling_of(each) if each.alias in changed else None
        if source is None or not isinstance(source.read, ReadStepParquet) or source.prepare:
            continue
        problems = list(_problems(project, each, source, current.get(each.alias)))
        if problems:
            found[each.alias] = ProjectErrors(problems)
    return found


def _problems(
    project: Opened, each: Declared, source: SetPollingSource, state: ChainState | None
) -> Iterator[Diagnostic]:
    known = None if state is None else state.source_state.get(SOURCE_NAME)
    reach = project.permissions.check_path
    path = first_file(source.fetch, known, project.root, lambda path: reach(path, project.root))
    if path is None:
        return
    try:
        _check(source, path, os.path.relpath(path, project.root), _vocab(each))
    except OdfBuildError as error:
        span = each.span(("metadata", each.snapshot.metadata.index(source), "read"))
        yield from (replace(found, span=span) for found in error.diagnostics())


def _check(source: SetPollingSource, path: Path, name: str, vocab: DatasetVocabulary) -> None:
    """Raise what a step would raise for the columns of a file, whatever its rows are."""
    from odfbuild.executors.data.slice_schema import slice_schema
    from odfbuild.executors.ingest.read.parquet import check_footer
    from odfbuild.odf.hashing import LogicalHasher
    from odfbuild.odf.schema.arrow import declared_schema, to_arrow

    assert isinstance(source.read, ReadStepParquet)  # noqa: S101 - see refused_files
    try:
        found = check_footer(source.read, path, name)
    except OSError:  # it went away meanwhile
        return
    if found is None or source.preprocess is not None or declared_schema(source.read) is not None:
        return
    made = (
        vocab.offset_column,
        vocab.operation_type_column,
        vocab.system_time_column,
        vocab.event_time_column,
    )  # renamed, or made a time, by the step
    for column in made:
        if column in found.names:
            found = found.remove(found.get_field_index(column))
    LogicalHasher(to_arrow(slice_schema(found, vocab, None)))


def _vocab(each: Declared) -> DatasetVocabulary:
    return makes_of_events(each.snapshot.kind, each.snapshot.metadata).vocab
