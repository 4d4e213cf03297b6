"""Reports of what a source skips: late files and corrected ones, and entries that are no files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from odfbuild.errors import Diagnostic, Level
from odfbuild.executors.ingest.fetch.late_files import SkippedFiles, skipped_files
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    SetPollingSource,
)
from odfbuild.odf.merge_strategies import traits_of
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.drift import ChainDrift, DriftKind
from odfbuild.planner.plan.policy import Reread
from odfbuild.planner.steps import RereadFiles
from odfbuild.project.opened import Opened

UNREAD = frozenset({"late-files", "changed-files", "other-entries", "partial-input"})
"""The codes of the reports on files and sources that stay unread."""

_LISTED = 3


def files_of(project: Opened, state: ChainState) -> SkippedFiles:
    """Return the files that the source in force of a dataset passes over."""
    if state.polling is None:
        return SkippedFiles()
    return skipped_files(project.workspace, state.polling, state, project.root)


def reread_files(
    declared: Sequence[Declared], passed: Mapping[DatasetAlias, SkippedFiles]
) -> Mapping[DatasetAlias, RereadFiles]:
    """Return the files that the order of a source passes over, and a rule of the project reads."""
    return {
        each.alias: RereadFiles(rule.value, found.reread)
        for each in declared
        if (found := passed.get(each.alias)) and found.reread
        if (rule := each.traits.ingest.reread) is not None
    }


def files_notes(
    declared: Sequence[Declared], passed: Mapping[DatasetAlias, SkippedFiles]
) -> Iterator[Diagnostic]:
    """Yield a warning for the late files, the corrected files and the other entries that each
    dataset leaves unread.
    """
    for each in declared:
        found = passed.get(each.alias)
        for index, source in enumerate(each.snapshot.metadata):
            if found is not None and isinstance(source, SetPollingSource):
                span = each.span(("metadata", index, "fetch"))
                rule = each.traits.ingest.reread
                for code, what, why, fix in _unread(each.alias, source, found, rule):
                    yield Diagnostic(
                        code=code, what=what, why=why, fix=fix, span=span, level=Level.WARNING
                    )


def files_drift(
    project: Opened, declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]
) -> Iterator[ChainDrift]:
    """Yield the files that no plan of this project will read as drift of its sources."""
    for each in declared:
        state = current.get(each.alias)
        if state is None or state.polling is None:
            continue
        rule = each.traits.ingest.reread
        kinds = [type(event) for event in each.snapshot.metadata]
        source = kinds.index(SetPollingSource) if SetPollingSource in kinds else None
        found = skipped_files(project.workspace, state.polling, state, project.root, rule)
        for _, what, _, fix in _unread(each.alias, state.polling, found, rule):
            yield ChainDrift(
                dataset=each.alias,
                kind=DriftKind.SOURCE,
                what=what.partition(": ")[2],
                fix=fix,
                span=each.span(() if source is None else ("metadata", source, "fetch")),
            )


def left_unread(found: SkippedFiles) -> Iterator[str]:
    """Yield what to say of files that are passed over, for people."""
    if found.late:
        yield f"{_late_count(found)}: {_shortened_list(found.late)}"
    if found.changed:
        yield f"{_changed_count(found)}: {_shortened_list(found.changed)}"
    if found.others:
        yield f"{_others_count(found)}: {_kinds(found)}"


def _unread(
    alias: DatasetAlias, source: SetPollingSource, found: SkippedFiles, rule: Reread | None
) -> Iterator[tuple[str, str, str, str]]:
    """Yield code, what, why and fix of what stays unread without anybody meaning it."""
    if found.others:
        yield (
            "other-entries",
            f"{alias}: {_others_count(found)}, not read: {_kinds(found)}",
            "the pattern of a source only matches files, and links to files",
            "move it, replace it by the intended file, or narrow `fetch.path`",
        )
    if rule is Reread.NEVER:
        return
    never = f"if that is intended: defaults: {{{alias}: {{reread: never}}}}"
    back = f"odfbuild reset {alias} BLOCK, with a block before it (odfbuild log {alias}), and apply"
    if found.late and rule is not Reread.LATE:
        fix = f"give them names after {found.last}, or: {back}"
        if traits_of(source.merge).no_late is None:
            fix = f"defaults: {{{alias}: {{reread: late}}}} in odfbuild.yaml reads them"
        yield (
            "late-files",
            f"{alias}: {_late_count(found)}, not read: {_shortened_list(found.late)}",
            f"files are read in order, and {found.last} was read already",
            f"{fix}; {never}",
        )
    if rule is Reread.CHANGED:
        left = tuple(each for each in found.changed if each not in found.reread)
        found = replace(found, changed=left)
    if not found.changed:
        return
    why = "a file is read once; the chain records only its name"
    fix = f"put the correction into a file of another name, or: {back}"
    if rule is Reread.CHANGED and found.lost is not None:
        why = f"{found.lost} was read after it and is gone, so its rows could not be applied again"
        fix = f"restore {found.lost}, or put the correction into a file of another name"
    elif rule is Reread.CHANGED:
        why = "each file is the full table, and a later one was read"
    elif traits_of(source.merge).no_changed is None:
        fix = f"defaults: {{{alias}: {{reread: changed}}}} in odfbuild.yaml reads them again"
    yield (
        "changed-files",
        f"{alias}: {_changed_count(found)}, not read again: {_shortened_list(found.changed)}",
        why,
        f"{fix}; {never}",
    )


def _late_count(found: SkippedFiles) -> str:
    number = len(found.late)
    return f"{number:,} file{'s' if number > 1 else ''} before the last one that was read"


def _changed_count(found: SkippedFiles) -> str:
    number = len(found.changed)
    return f"{number:,} file{'s' if number > 1 else ''} changed since the reading"


def _others_count(found: SkippedFiles) -> str:
    number = len(found.others)
    return f"{number:,} matching entries are not files" if number > 1 else "1 entry is not a file"


def _kinds(found: SkippedFiles) -> str:
    return _shortened_list([f"{path} ({kind})" for path, kind in found.others])


def _shortened_list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED:,} more"
