"""Renames of datasets: declared as moved, or recognised as such.  Pure."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import AddPushSource, DatasetKind, SetPollingSource, SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan.policy import RenamedDataset, last_names
from odfbuild.sql.text.steps import steps_of
from odfbuild.values import dataclass

_LIKE = 0.9
_MOST = 50  # of datasets with the same sources: beyond, names are all that tells them apart


@dataclass(frozen=True, slots=True)
class Moves:
    """The chains under the names that they have from now on; `old` has the name of each before."""

    current: Mapping[DatasetAlias, ChainState]
    old: Mapping[DatasetAlias, DatasetAlias]
    problems: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class ProbableRename:
    """A dataset that is no longer declared, and a new one that looks like it."""

    old: DatasetAlias
    new: DatasetAlias


def apply_moved(
    current: Mapping[DatasetAlias, ChainState],
    moved: Sequence[RenamedDataset],
    declared: Sequence[DatasetAlias],
) -> Moves:
    """Return the chains under their new names.

    Entries add up: a to b, b to c.  One whose chain is gone was done before, and does nothing.
    """
    found = list(_duplicates(moved))
    steps: dict[DatasetAlias, RenamedDataset] = {}
    for each in moved:
        steps.setdefault(each.old, each)
    found += _circles(steps)
    if found:
        return Moves(current, {}, tuple(found))
    names = {alias: alias for alias in declared}
    old: dict[DatasetAlias, DatasetAlias] = {}
    for alias in (each.old for each in moved if each.old in current):
        entry = _last(steps, alias)
        problem = _problem(alias, entry, current, names)
        if problem is not None:
            found.append(problem)
        else:
            old[names[entry.new]] = next(each for each in current if each == alias)
    renamed = {before: after for after, before in old.items()}
    return Moves(
        {renamed.get(alias, alias): state for alias, state in current.items()}, old, tuple(found)
    )


def unfinished_moves(
    declared: Sequence[Declared], moved: Sequence[RenamedDataset]
) -> Iterator[Diagnostic]:
    """Yield moves whose definition, or an input, has the old name: a plan would begin a new chain.

    So `odfbuild mv` leaves the files when it is killed.
    """
    if not moved:
        return
    lasts = last_names(moved)
    names = {each.alias for each in declared}
    for entry in moved:
        last = lasts.get(entry.old, entry.old)
        if entry.old in names and last not in names:
            what = f"'{entry.old}' is moved to '{last}', but its definition has the old name"
            yield _unfinished_move(what, entry.old, last, entry.span)
    for each in declared:
        for at, event in enumerate(each.snapshot.metadata):
            for n, given in enumerate(event.inputs if isinstance(event, SetTransform) else ()):
                ref = given.dataset_ref
                if isinstance(ref, DatasetAlias) and ref in lasts and ref not in names:
                    last = lasts[ref]
                    what = f"{each.alias} reads '{ref}', which is moved to '{last}'"
                    span = each.span(("metadata", at, "inputs", n, "datasetRef"))
                    yield _unfinished_move(what, ref, last, span)


def idle_moves(
    declared: Sequence[Declared], moved: Sequence[RenamedDataset]
) -> Iterator[Diagnostic]:
    """Yield moves to a name that no definition has: nothing is moved."""
    names = {each.alias for each in declared}
    lasts = last_names(moved)
    for entry in moved:
        if entry.old not in names and lasts.get(entry.old, entry.old) not in names:
            yield Diagnostic(
                code="moved",
                what=f"'{entry.old}' is moved to '{entry.new}', but there is no such dataset",
                why="a moved dataset must be declared under its new name",
                fix="correct the names, or remove the entry of moved:",
                span=entry.span,
                level=Level.WARNING,
            )


def _unfinished_move(
    what: str, old: DatasetAlias, new: DatasetAlias, span: SourceSpan
) -> Diagnostic:
    return Diagnostic(
        code="moved",
        what=what,
        why="a move needs changes in the definition, in inputs and in odfbuild.yaml",
        fix=f"finish it: odfbuild mv {old} {new}; or remove the entry of moved:",
        span=span,
    )


def _last(steps: Mapping[DatasetAlias, RenamedDataset], alias: DatasetAlias) -> RenamedDataset:
    entry = steps[alias]
    while entry.new in steps:
        entry = steps[entry.new]
    return entry


def _duplicates(moved: Sequence[RenamedDataset]) -> Iterator[Diagnostic]:
    for part in ("old", "new"):
        first: dict[DatasetAlias, RenamedDataset] = {}
        for each in moved:
            before = first.setdefault(getattr(each, part), each)
            if before is not each:
                verb = "moved" if part == "old" else "moved to"
                yield _wrong(
                    each,
                    f"'{getattr(each, part)}' is {verb} twice",
                    f"the other entry is at {before.span}, and a name stands for one chain",
                    "remove one of the two",
                )


def _circles(steps: Mapping[DatasetAlias, RenamedDataset]) -> Iterator[Diagnostic]:
    reported: set[DatasetAlias] = set()
    for start in steps:
        seen, at = [start], steps[start].new
        while at in steps and at not in seen:
            seen.append(at)
            at = steps[at].new
        if at == start and start not in reported:
            reported.update(seen)
            yield _wrong(
                steps[start],
                "moved entries form a cycle: " + " -> ".join(map(str, [*seen, start])),
                "no dataset would have a final name",
                "remove one of them",
            )


def _problem(
    alias: DatasetAlias,
    entry: RenamedDataset,
    current: Mapping[DatasetAlias, ChainState],
    declared: Mapping[DatasetAlias, DatasetAlias],
) -> Diagnostic | None:
    if alias in declared:
        return _wrong(
            entry,
            f"'{alias}' is moved to '{entry.new}', but still declared",
            "its chain continues under the new name, and a chain has one definition",
            "remove the old definition, or the entry",
        )
    if entry.new in current:
        return _wrong(
            entry,
            f"'{alias}' cannot be moved: '{entry.new}' exists already",
            "both have a chain, and a name stands for one chain",
            "remove the entry, or give the new dataset another name",
        )
    if entry.new not in declared:
        return _wrong(
            entry,
            f"'{alias}' is moved to '{entry.new}', which is not declared",
            "a dataset is moved together with its definition",
            f"rename the definition to {entry.new}, or remove the entry",
        )
    return None


def _wrong(entry: RenamedDataset, what: str, why: str, fix: str) -> Diagnostic:
    return Diagnostic(code="moved", what=what, why=why, fix=fix, span=entry.span)


# Recognising


def find_renames(
    declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]
) -> tuple[ProbableRename, ...]:
    """Return the new datasets, in topological order, that look like one that is gone.

    Roots are compared by their source, derivatives by their inputs and the text of their query.
    """
    names = {each.alias for each in declared}
    gone = {alias: state for alias, state in current.items() if alias not in names}
    new = [each for each in declared if each.alias not in current]
    if not gone or not new:
        return ()
    by_key: dict[object, list[DatasetAlias]] = {}
    for alias in sorted(gone):
        for key in _keys_of_state(gone[alias]):
            by_key.setdefault(key, []).append(alias)
    ids = {alias: state.dataset for alias, state in current.items()}
    found: list[ProbableRename] = []
    for each in new:
        old = _match(each, ids, by_key, gone)
        if old is not None:
            found.append(ProbableRename(old, each.alias))
            ids[each.alias] = gone.pop(old).dataset
    return tuple(found)


def _match(
    new: Declared,
    ids: Mapping[DatasetAlias, DatasetId],
    by_key: Mapping[object, Sequence[DatasetAlias]],
    gone: Mapping[DatasetAlias, ChainState],
) -> DatasetAlias | None:
    alike = [
        (_likeness(new, gone[old]), old)
        for key in _keys_of(new, ids)
        for old in by_key.get(key, ())[:_MOST]
        if old in gone
    ]
    best = [old for like, old in sorted(alike, key=lambda each: -each[0]) if like >= _LIKE]
    return best[0] if best else None


def _keys_of_state(state: ChainState) -> Iterator[object]:
    if state.kind is DatasetKind.ROOT:
        if state.polling is not None:
            yield ("polled", state.polling.fetch)
        for name in state.push:
            yield ("pushed", name)
    elif state.transform is not None:
        yield frozenset(each.dataset_ref for each in state.transform.inputs)


def _keys_of(new: Declared, ids: Mapping[DatasetAlias, DatasetId]) -> Iterator[object]:
    for event in new.snapshot.metadata:
        match event:
            case SetPollingSource():
                yield ("polled", event.fetch)
            case AddPushSource():
                yield ("pushed", event.source_name)
            case SetTransform():
                refs = [each.dataset_ref for each in event.inputs]
                yield frozenset(
                    ref if isinstance(ref, DatasetId) else ids.get(ref, ref) for ref in refs
                )
            case _:
                pass


def _likeness(new: Declared, state: ChainState) -> float:
    """Return 1 for the same source, and how much the queries of two transforms are alike."""
    for event in new.snapshot.metadata:
        if isinstance(event, SetTransform):
            if state.transform is None:
                return 0.0
            was, now = _text(state.transform), _text(event)
            return SequenceMatcher(None, was, now, autojunk=False).ratio()
        if isinstance(event, AddPushSource):
            old = state.push.get(event.source_name)
            return 1.0 if old is not None and old.read == event.read else 0.0
    return 1.0


def _text(transform: SetTransform) -> str:
    """Return the query with inputs called by their number: other names are no other query."""
    if is_opaque(transform.transform):
        return ""
    text = "\n".join(step.text for step in steps_of(transform.transform))
    for number, each in enumerate(transform.inputs):
        if each.alias:
            text = text.replace(each.alias, f"#{number}")
    return text
