"""A changed query or engine: whether it may continue from the rows before, and how.  Pure.

Without `on_query_change: restate` what was written stays, and the new query rules from the next
step on.  That is sound for queries that look at one row at a time, as long as no older row of their
inputs is taken back; and where steps work key by key and the result held the same key before, for
then a step takes back what was written of a key that it touches.  Otherwise the result would be of
neither query.

The version that made a chain's rows is part of its transform: another one may round, cast or order
otherwise.  A chain that does not say one is taken as made by whatever is there.

What was written stays in either case.  So a step that takes back what it finds outdated has to know
what was written by which rule, and where the engine cannot tell it refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, Level
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import RESTATE, ChainState, input_name, plain_version
from odfbuild.odf.events import (
    DataSchema,
    SetTransform,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.merge_strategies import only_adds
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import EventChange, own_versions
from odfbuild.planner.diff.engine_change import changes_engine_alone, part_that_differs
from odfbuild.planner.diff.restate import asks_to_restate
from odfbuild.planner.plan import Append, Step, Transform
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.sql.analysis.engine_revisions import RevisionFault


def is_other_version(transform: TransformSql, installed: str) -> bool:
    """Say whether a transform is recorded with another version than the installed one."""
    version = None if is_opaque(transform) else transform.version
    return version is not None and plain_version(version) != installed


def may_have_wrong_rows(
    state: ChainState, current: Mapping[DatasetAlias, ChainState], installed: str
) -> RevisionFault | None:
    """Return why an earlier revision of the engine may have made rows that its query does not give.

    `current` are all datasets of the workspace.
    """
    known = state.transform
    if known is None or not state.progress or is_opaque(known.transform):
        return None
    if not is_other_version(known.transform, installed):
        return None
    from odfbuild.sql.analysis.engine_revisions import affected
    from odfbuild.sql.text.steps import steps_of

    sources = {str(each.dataset): each for each in current.values()}
    inputs = {
        each.alias or ref: _schema_seen(sources[ref])
        for each in known.inputs
        if (ref := str(each.dataset_ref)) in sources
    }
    return affected(steps_of(known.transform), inputs, known.transform.version)


def _schema_seen(state: ChainState) -> DataSchema | None:
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
    if not is_other_version(known.transform, installed):
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
        installed = own_versions(engines).get(sql.engine)
        if installed is None or not is_other_version(sql, installed):
            continue
        cause = may_have_wrong_rows(state, current, installed)
        if cause is not None:
            yield _wrong_rows(each, sql, cause, runs=each.alias in run)
        elif each.alias in run:
            yield Diagnostic(
                code="engine-version",
                what=f"{each.alias} was made by {sql.engine} {sql.version}, and {installed} is "
                f"installed; to see whether that gives the same: {_upgrade(each)}",
                why="another version may give other rows, and verification could not explain the "
                "difference",
                fix=f"until then its steps are refused; run: {_upgrade(each)}",
                span=each.span(()),
                level=Level.WARNING,
            )


def _wrong_rows(
    each: Declared, sql: TransformSql, cause: RevisionFault, *, runs: bool
) -> Diagnostic:
    code, why = _WRONG_ROWS[cause.name]
    return Diagnostic(
        code=code,
        what=f"{each.alias} may have wrong rows: {sql.engine} {plain_version(sql.version or '')}, "
        f"which made it, "
        f"{cause.value}; to rebuild it: odfbuild rebuild {each.alias}",
        why=why,
        fix=f"odfbuild verify {each.alias} --recompute says whether it has; "
        f"odfbuild rebuild {each.alias} rebuilds it"
        + ("; until then its steps are refused" if runs else ""),
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
    "SESSIONS": (
        "rows-of-cut-sessions",
        "rows that the watermark, or a condition on the session, did not let through were left "
        "out before rows were joined to sessions, so sessions appeared cut off",
    ),
    "EXTREMES": (
        "rows-of-order",
        "the least or greatest of floating-point numbers in a group depended on the order of rows "
        "where one of them is NaN",
    ),
    "JSON": (
        "rows-of-json",
        "functions for JSON took the last of equal keys, and null from a text that is damaged "
        "after the value",
    ),
}


def _upgrade(each: Declared) -> str:
    return f"odfbuild engine upgrade {each.alias}"


def _sets_transform(step: Step) -> bool:
    return isinstance(step.work, Append) and any(
        isinstance(event, SetTransform) for event in step.work.events
    )


def migration_refusal(
    previous: TransformSql, following: TransformSql, installed: str
) -> str | None:
    """Return why the `installed` version cannot go on from `previous` with `following`.

    Another version of the same query is no reason: whether it gives the same rows is for a replay
    to tell.
    """
    if is_opaque(previous) or is_opaque(following):
        return "the query is of a kind that this version does not know"
    if following.engine.lower() != previous.engine.lower():
        return f"the rows so far were made by {previous.engine}, not by {following.engine}"
    wanted = plain_version(following.version or installed)
    if wanted != installed:
        return f"the query is for version {wanted}, and {installed} is installed"
    return None if is_same_query(previous, following) else _reason_to_rebuild(previous, following)


def is_same_query(one: TransformSql, other: TransformSql) -> bool:
    """Say whether two transforms compute the same, whatever version of the engine they name."""
    from odfbuild.sql.text.steps import steps_of

    return (
        steps_of(one) == steps_of(other)
        and (one.temporal_tables or ()) == (other.temporal_tables or ())
        and one.engine.lower() == other.engine.lower()
    )


def _reason_to_rebuild(previous: TransformSql, following: TransformSql) -> str | None:
    from odfbuild.sql.analysis.facts import examine
    from odfbuild.sql.findings import Reason
    from odfbuild.sql.text.steps import steps_of

    if (following.version or "").endswith(RESTATE):
        return None
    facts = [examine(steps_of(each), ()) for each in (previous, following)]
    unread = any(found.reason is Reason.SYNTAX for each in facts for found in each.findings)
    if not unread and all(each.kind == "linear" for each in facts):
        return None
    return (
        "a step of the new query could not distinguish its own rows from those of the earlier query"
    )


States = Mapping[DatasetAlias | DatasetId, ChainState]


@dataclass(frozen=True, slots=True)
class _Key:
    """The key of a query: by each column of the result, what it is in every input that is read."""

    columns: Mapping[str, Mapping[DatasetAlias | DatasetId, str]]

    def is_that_of(self, other: _Key) -> bool:
        """Say whether two queries keep their results by the same columns."""
        return self.columns.keys() == other.columns.keys() and all(
            sources.get(dataset, column) == column
            for name, found in self.columns.items()
            for sources in [other.columns[name]]
            for dataset, column in found.items()
        )

    def __str__(self) -> str:
        return ", ".join(sorted(self.columns))


def forward_problems(
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
    changes: Mapping[DatasetAlias, tuple[EventChange, ...]],
    engines: Mapping[str, str],
) -> Iterator[tuple[DatasetAlias, Diagnostic]]:
    """Yield of each dataset with rows the new query that would have to restate them, or may.

    The first are errors, the second warnings.  `engines` names those of ours.
    """
    by_id: dict[DatasetAlias | DatasetId, ChainState] = {}
    correcting = _Correcting(by_id)
    for each in declared:
        state = current.get(each.alias)
        if state is None or state.transform is None or not state.has_data:
            continue
        for change in changes.get(each.alias, ()):
            event = change.event
            if not isinstance(event, SetTransform) or asks_to_restate(event):
                continue
            if not by_id:
                by_id |= {known.dataset: known for known in current.values()}
            why = _problem(state.transform, event, by_id)
            if why is not None:
                alone = changes_engine_alone(event, state, engines)
                by_proof = alone and part_that_differs(event, by_id) is None
                yield each.alias, _refusal(each, change, why, by_proof=by_proof)
            elif (source := correcting.input_of(event)) is not None:
                yield each.alias, _warning(each, change, source)


def _refusal(each: Declared, change: EventChange, why: str, *, by_proof: bool) -> Diagnostic:
    upgrade = f"{_upgrade(each)} continues if a rerun gives the same rows; else "
    by_engine = upgrade if by_proof else ""
    return Diagnostic(
        code="needs-restate",
        what=f"it cannot continue from its rows without on_query_change: restate: {why}",
        why="rows of the query before stay as they are unless the project asks to have them "
        "corrected",
        fix=f"{by_engine}set on_query_change: restate in defaults of odfbuild.yaml, or declare the "
        "dataset under another name",
        span=each.span(("metadata", change.index or 0)),
    )


def _warning(each: Declared, change: EventChange, source: str) -> Diagnostic:
    return Diagnostic(
        code="needs-restate",
        what=f"{each.alias} will stop once {source} takes an older row back",
        why="the query computes rows one by one, and retracts what it would make of a row now, "
        "but the dataset has what the earlier query made of it",
        fix="set on_query_change: restate in defaults of odfbuild.yaml if older rows are corrected",
        span=each.span(("metadata", change.index or 0)),
        level=Level.WARNING,
    )


class _Correcting:
    """Which datasets may take back rows that they had; what is known of one is kept."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._known: dict[DatasetAlias | DatasetId, bool] = {}

    def input_of(self, transform: SetTransform) -> str | None:
        """Return the input of a query row by row of which older rows may go, by its name there."""
        from odfbuild.sql.analysis.facts import examine
        from odfbuild.sql.text.steps import steps_of

        facts = examine(steps_of(transform.transform), _names(transform))
        if not facts.is_linear or facts.names_op:
            return None
        return next((input_name(each) for each in transform.inputs if self._reaches(each)), None)

    def _reaches(self, source: TransformInput) -> bool:
        seen, left = set(), [source.dataset_ref]
        while left:
            ref = left.pop()
            state = self._states.get(ref)
            if state is None or ref in seen:
                continue
            seen.add(ref)
            if ref not in self._known:
                self._known[ref] = _corrects(state)
            if self._known[ref]:
                return True
            if state.transform is not None:
                left += [each.dataset_ref for each in state.transform.inputs]
        return False


def _corrects(state: ChainState) -> bool:
    """Say whether a dataset takes rows back for itself, not only where its inputs do."""
    if state.transform is not None:
        return is_opaque(state.transform.transform) or _kind(state.transform) != "linear"
    return not all(only_adds(source.merge) for source in state.sources)


def _problem(old: SetTransform, new: SetTransform, states: States) -> str | None:
    """Return why the rows of one query and those of another cannot be told apart."""
    if is_opaque(old.transform):
        return "the query in force belongs to a newer version"
    if old.inputs == new.inputs and is_same_query(old.transform, new.transform):
        return None  # in another image: each step gives all rows, and what differs is written
    was, now = _kind(old), _kind(new)
    if was == now == "linear":
        return None
    if now == "linear":
        return (
            f"it computes rows one by one, and rows were made by {was}: they could not be retracted"
        )
    key = _key(new, states)
    if isinstance(key, str):
        return key
    held = None if was == "linear" else _key(old, states)
    if not isinstance(held, _Key):
        return f"it works key by key, by {key}, and the rows so far were not made so"
    if not key.is_that_of(held):
        if key.columns.keys() == held.columns.keys():
            return f"it takes {key}, by which it works, from other columns than so far"
        return f"it works by {key}, and the rows so far were made by {held}"
    return None


def _kind(transform: SetTransform) -> str:
    from odfbuild.sql.analysis.facts import examine
    from odfbuild.sql.text.steps import steps_of

    return examine(steps_of(transform.transform), _names(transform)).kind


def _key(transform: SetTransform, states: States) -> _Key | str:
    """Return the key by which steps work, or why they look at everything."""
    from odfbuild.sql.analysis.classes import query_class
    from odfbuild.sql.analysis.facts import examine
    from odfbuild.sql.analysis.keys.key_columns import key_columns
    from odfbuild.sql.analysis.windows import waits
    from odfbuild.sql.text.steps import steps_of

    steps = steps_of(transform.transform)
    if waits(steps):
        return "rows appear when the watermark reaches them, also those of keys without new rows"
    read = examine(steps, _names(transform)).inputs
    sources = {
        input_name(each): each.dataset_ref for each in transform.inputs if input_name(each) in read
    }
    known = dict(_seen(sources, states))
    found = key_columns(steps, known)
    if found is None:
        because = query_class(steps, known).because
        return f"each step looks at everything{f', because of {because}' if because else ''}"
    if found.outputs is None:
        return "its result does not hold the key by which it works"
    return _Key(
        {
            name: {
                sources[alias]: columns[number]
                for alias, columns in found.inputs.items()
                if alias in sources
            }
            for number, name in enumerate(found.outputs)
        }
    )


def _seen(
    sources: Mapping[str, DatasetAlias | DatasetId], states: States
) -> Iterator[tuple[str, DataSchema]]:
    """Yield the columns of the inputs as queries see them, of those that have some."""
    for name, ref in sources.items():
        state = states.get(ref)
        schema = None if state is None else schema_in_force(state)
        if state is not None and schema is not None:
            vocab = state.vocab
            hidden = (vocab.offset_column, vocab.operation_type_column, vocab.system_time_column)
            fields = tuple(field for field in schema.fields if field.name not in hidden)
            yield name, replace(schema, fields=fields)


def _names(transform: SetTransform) -> tuple[str, ...]:
    return tuple(map(input_name, transform.inputs))
