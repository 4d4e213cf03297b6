"""ODF305 to ODF309: rules on inputs that change, and which of them a query meets.  Pure."""

from collections.abc import Iterator, Sequence

from odfbuild.errors import SourceSpan
from odfbuild.odf.events import DataField, DataSchema
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.evolution.columns.derive import DerivedColumn, DerivedColumns
from odfbuild.planner.evolution.rules.rule import Rule, hit
from odfbuild.planner.evolution.rules.schemas import COLUMN_MADE_OPTIONAL, COLUMN_MADE_REQUIRED
from odfbuild.planner.evolution.rules.subject import Subject
from odfbuild.planner.plan.changes import ChangeClass, ColumnChange, Hit
from odfbuild.planner.plan.policy import Severity
from odfbuild.sql.text.shape import TextPlace
from odfbuild.sql.text.steps import QueryStep
from odfbuild.values import dataclass

UPSTREAM_COLUMN_REMOVED = Rule(
    code="ODF305",
    name="upstream-column-removed",
    title="a query uses a column that its input no longer has",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="Another dataset no longer has a column that this query reads, in its select list "
    "or in a filter, join or grouping. The query did not change, and will fail or "
    "read null.",
    before="# trades: select id, amount, fee\nquery: select amount - fee as net from trades",
    after="# trades: select id, amount\nquery: select amount - fee as net from trades",
    ways=("keep {column} in {other}", "change the query of {dataset}"),
)
STAR_GAINS_COLUMN = Rule(
    code="ODF306",
    name="star-gains-column",
    title="an input has a new column, which `select *` selects",
    change=ChangeClass.ADDITIVE,
    severity=Severity.WARN,
    explanation="The dataset gets a column that its definition does not name. A query that has "
    "run keeps the columns that its inputs had then, and selects the new one once the "
    "query changes.",
    before="# trades: id, price\nquery: select * from trades",
    after="# trades: id, price, note\nquery: select * from trades",
    ways=("name the columns instead of *", "exclude it: select * except ({column})"),
)
STAR_LOSES_COLUMN = Rule(
    code="ODF307",
    name="star-loses-column",
    title="an input lost a column, and `select *` with it",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="The query still runs unchanged, but its result silently lacks a column that "
    "readers may name.",
    before="# trades: id, price\nquery: select * from trades",
    after="# trades: id\nquery: select * from trades",
    ways=("keep {column} in {other}", "produce {column} in {dataset} itself"),
)
UPSTREAM_RETYPED = Rule(
    code="ODF308",
    name="upstream-retyped",
    title="a column changes its type because one of an input does",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="The query passes on the type of its input, so a change there is also a change of "
    "this dataset, and for its readers.",
    before="# trades: price STRING\nquery: select price from trades",
    after="# trades: price DOUBLE\nquery: select price from trades",
    ways=("cast {column} to its old type in the query", "keep the type in {other}"),
)
UPSTREAM_TYPE_USED = Rule(
    code="ODF309",
    name="upstream-type-used",
    title="a query uses a column of an input whose type changes",
    change=ChangeClass.RESTATING,
    severity=Severity.WARN,
    explanation="The columns of the result keep their types, but comparisons, joins or "
    "computations with another type can select other rows and give other values.",
    before="# trades: day STRING\nquery: select id from trades where day > '2024'",
    after="# trades: day DATE\nquery: select id from trades where day > '2024'",
    ways=("cast {column} to its old type in the query",),
)
RULES = (
    UPSTREAM_COLUMN_REMOVED,
    STAR_GAINS_COLUMN,
    STAR_LOSES_COLUMN,
    UPSTREAM_RETYPED,
    UPSTREAM_TYPE_USED,
)
PASSED_ON = frozenset(each.code for each in (*RULES, COLUMN_MADE_OPTIONAL, COLUMN_MADE_REQUIRED))
"""The codes of what a reader can meet of a change of its inputs."""


@dataclass(frozen=True, slots=True)
class InputChange:
    """How the columns of one input change; `name` is the one that the query uses for it."""

    name: str
    dataset: DatasetAlias
    changes: tuple[ColumnChange, ...]

    def changed(self, kinds: Sequence[str]) -> Iterator[ColumnChange]:
        return (each for each in self.changes if each.kind in kinds)


@dataclass(slots=True)
class Upstream:
    """The changes of the inputs of one dataset, seen from its query.

    `made` is what the query makes of everything that its inputs had or will have.
    """

    subject: Subject
    steps: tuple[QueryStep, ...]
    inputs: tuple[InputChange, ...]
    made: DerivedColumns

    def removal_hits(self) -> Iterator[Hit]:
        """Yield the columns that the query names and that are gone."""
        for source in self.inputs:
            for change in source.changed(("removed", "renamed")):
                if self._uses(source, change.column):
                    yield from self._removal(source, change)

    def own(
        self, changes: Sequence[ColumnChange]
    ) -> tuple[list[ColumnChange], list[tuple[ColumnChange, InputChange]]]:
        """Divide changes of the dataset's columns: its own, and those that come from an input."""
        own, passed = [], []
        for change in changes:
            source = self._origin(change)
            if source is None:
                own.append(change)
            else:
                passed.append((change, source))
        return own, passed

    def passed_hits(self, passed: Sequence[tuple[ColumnChange, InputChange]]) -> Iterator[Hit]:
        """Yield what comes through the query from an input."""
        for change, source in passed:
            yield self._passed_hit(change, source)

    def type_hits(self, passed: Sequence[tuple[ColumnChange, InputChange]]) -> Iterator[Hit]:
        """Yield columns of another type that are used, while no column of the result shows it."""
        shown = {(source.name, change.column) for change, source in passed}
        for source in self.inputs:
            for change in source.changed(("retyped", "widened")):
                used = self._uses(source, change.column)
                if not used or self._shows(source.name, change.column, shown):
                    continue
                message = (
                    f"it uses {change.path} of {source.dataset}, "
                    f"which changes: {change.before} -> {change.after}"
                )
                yield hit(
                    UPSTREAM_TYPE_USED,
                    self.subject.alias,
                    message,
                    column=change.path,
                    other=source.dataset,
                    span=self._span(source, change),
                )

    def _removal(self, source: InputChange, change: ColumnChange) -> Iterator[Hit]:
        place = self._place(source, change)
        if (place is None and change.is_nested) or self._is_by_star(source, change, place):
            return  # it comes and goes with what holds it
        message = f"{change.path} is no longer produced by {source.dataset}"
        if change.kind == "renamed":
            message = f"{change.path} of {source.dataset} is renamed to {change.after}"
        yield hit(
            UPSTREAM_COLUMN_REMOVED,
            self.subject.alias,
            message,
            column=change.path,
            other=source.dataset,
            span=self.subject.query_span(self.steps, place),
        )

    def _passed_hit(self, change: ColumnChange, source: InputChange) -> Hit:
        name = source.dataset
        types = f"{change.before} -> {change.after}"
        rule, message = UPSTREAM_RETYPED, f"{change.path}: {types}, as in {name}"
        if change.kind in ("removed", "renamed"):
            rule, message = STAR_LOSES_COLUMN, f"{change.path} is removed, as in {name}"
        elif change.kind == "added":
            rule, message = STAR_GAINS_COLUMN, f"{change.path} ({change.after}) comes from {name}"
        elif change.kind == "optional":
            rule, message = COLUMN_MADE_OPTIONAL, f"{change.path} may be null, as in {name}"
        elif change.kind == "required":
            rule, message = (
                COLUMN_MADE_REQUIRED,
                f"{change.path} may no longer be null, as in {name}",
            )
        made = self.made.column(change.column)
        return hit(
            rule,
            self.subject.alias,
            message,
            column=change.path,
            other=name,
            span=self.subject.query_span(self.steps, None if made is None else made.place),
        )

    def _origin(self, change: ColumnChange) -> InputChange | None:
        """Return the input whose change a column of the result only passes on."""
        if change.kind == "reordered":
            return None
        made = self.made.column(change.column)
        if made is None:
            return None
        return next((each for each in self.inputs if self._passes(each, made, change)), None)

    def _passes(self, source: InputChange, made: DerivedColumn, change: ColumnChange) -> bool:
        kinds = {
            "removed": ("removed", "renamed"),
            "renamed": ("removed", "renamed"),
            "added": ("added", "renamed"),
            "retyped": ("retyped", "widened", "optional", "required"),
            "widened": ("retyped", "widened"),
        }.get(change.kind, (change.kind,))
        changed = {
            str(each.after)
            if (each.kind, change.kind) == ("renamed", "added") and not each.is_nested
            else each.column
            for each in source.changed(kinds)
        }
        return any(ref.input == source.name and ref.column in changed for ref in made.sources)

    def _uses(self, source: InputChange, column: str) -> bool:
        query = self.made.query
        if query is None:
            return False
        refs = {ref for each in query.outputs or () for ref in each.sources} | query.shaping
        refs |= query.places.keys()
        return any(ref.input == source.name and ref.column == column for ref in refs)

    def _shows(self, name: str, column: str, shown: set[tuple[str, str]]) -> bool:
        """Tell whether a column of the result that is made of this one changes its type, too."""
        return any(
            source == name
            and (made := self.made.column(top)) is not None
            and any(ref.input == name and ref.column == column for ref in made.sources)
            for source, top in shown
        )

    def _span(self, source: InputChange, change: ColumnChange) -> SourceSpan:
        return self.subject.query_span(self.steps, self._place(source, change))

    def _place(self, source: InputChange, change: ColumnChange) -> tuple[int, TextPlace] | None:
        """Return where the query names a column of an input, or a part of it."""
        if change.is_nested:
            return self._place_of_part(change.path.replace("[]", "").split("."))
        places = {} if self.made.query is None else self.made.query.places
        wanted = (source.name, change.column)
        return next((at for ref, at in places.items() if (ref.input, ref.column) == wanted), None)

    def _place_of_part(self, parts: Sequence[str]) -> tuple[int, TextPlace] | None:
        for number, step in enumerate(self.steps):
            for name in step.statement.columns:
                if name.text == parts[-1] and name.qualifier == parts[-2]:
                    return number, name.place
        return None

    def _is_by_star(
        self, source: InputChange, change: ColumnChange, at: tuple[int, TextPlace] | None
    ) -> bool:
        """Tell whether only a star takes a column in: one that it excludes is named."""
        query = self.made.query
        if query is None or source.name not in query.star_inputs:
            return False
        named = at is not None and not self._text(at).endswith("*")
        refs = (ref for each in query.outputs or () for ref in each.sources)
        column = (source.name, change.column)
        return not named and any((ref.input, ref.column) == column for ref in refs)

    def _text(self, at: tuple[int, TextPlace]) -> str:
        step, place = at
        return self.steps[step].text[place.start : place.start + place.length]


def united(before: DataSchema | None, after: DataSchema | None) -> DataSchema | None:
    """Return the columns of both; of those that both have, the ones before."""
    if before is None or after is None:
        return after if before is None else before
    names = {each.name for each in before.fields}
    new: list[DataField] = [each for each in after.fields if each.name not in names]
    return DataSchema((*before.fields, *new))
