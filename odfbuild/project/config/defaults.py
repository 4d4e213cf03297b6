"""Defaults: settings of datasets by selector, and the order of selectors by how specific they are.

Every default whose selector means a dataset counts for it.  Tags add up.  Of every other key the
most specific one wins, which is, most specific first:

    the exact name of the dataset
    a glob over names, the more characters it spells out the more specific
    path: and file:, the longer the more specific
    package:
    tag:, kind:, owner: and source:
    *

Of a union the part that means the dataset counts, of an intersection its most specific part, and
then how many parts there are; what is excluded does not matter.  Between equals the later one in
the file wins.  Selectors by tag or owner see what defaults by other selectors give.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar, assert_never

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.odf.events import AddPushSource, FetchStepFilesGlob, ReadStepCsv, SetPollingSource
from odfbuild.odf.merge_strategies import TRAITS, MergeTraits, name_of, traits_of
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan.policy import (
    BadRows,
    ColumnsPolicy,
    EmptyInputs,
    IngestOptions,
    OnQueryChange,
    RepeatedKeys,
    Reread,
    Traits,
)
from odfbuild.planner.select.tree import (
    AllOf,
    AnyOf,
    By,
    Expression,
    Glob,
    Method,
    NameSelector,
    Reach,
    Relatives,
    Subtraction,
    atoms,
)
from odfbuild.project.config.quantities import Most, read_age, read_lag, read_most
from odfbuild.project.config.selectors import ORIGIN, check_default, moved_into
from odfbuild.project.config.settings import SettingsReader
from odfbuild.project.yaml import Value
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.select.select import SelectionGraph
    from odfbuild.planner.select.tree import Selector


Weight: TypeAlias = tuple[int, int, int]
"""The kind of the most specific part, how long that is, and how many parts there are."""

_EVERYTHING, _FACT, _PACKAGE, _PLACE, _GLOB, _NAME = range(6)
_BY = {Method.PATH: _PLACE, Method.FILE: _PLACE, Method.PACKAGE: _PACKAGE}


def parts_of(
    expression: Expression,
    named: Mapping[str, Expression],
    known: Collection[DatasetAlias],
    seen: frozenset[str] = frozenset(),
) -> Iterator[Expression]:
    """Yield the parts of a union, those of the selectors that it names too."""
    match expression:
        case AnyOf(parts):
            for part in parts:
                yield from parts_of(part, named, known, seen)
        case Subtraction(base, excluded):
            for part in parts_of(base, named, known, seen):
                yield Subtraction(part, excluded)
        case NameSelector() | By(Method.SELECTOR):
            name = _selector(expression, named, known)
            if name is None or name in seen:
                yield expression
            else:
                yield from parts_of(named[name], named, known, seen | {name})
        case _:
            yield expression


def weight_of(expression: Expression, named: Mapping[str, Expression]) -> Weight:
    """Return how specific one part of a union is; the greater the more."""
    match expression:
        case NameSelector():
            return (_NAME, 0, 1)
        case Glob(pattern):
            spelled = sum(sign not in "*?[]" for sign in pattern)
            return (_GLOB, spelled, 1) if spelled else (_EVERYTHING, 0, 1)
        case By(Method.SELECTOR, value):
            inner = atoms(named[value]) if value in named else ()
            return max((weight_of(atom, {}) for atom in inner), default=(_FACT, 0, 1))
        case By(method, value):
            rank = _BY.get(method, _FACT)
            return (rank, len(value) if rank == _PLACE else 0, 1)
        case Reach(base) | Relatives(base) | Subtraction(base):
            return weight_of(base, named)
        case AllOf(parts) | AnyOf(parts):
            kind, length, _ = max(weight_of(part, named) for part in parts)
            return (kind, length, len(parts))
        case _:
            assert_never(expression)


def _selector(
    atom: NameSelector | By, named: Mapping[str, Expression], known: Collection[DatasetAlias]
) -> str | None:
    """Return the named selector that an atom means; a dataset of that name goes before it."""
    if isinstance(atom, By):
        return atom.value if atom.value in named else None
    return atom.text if atom.text in named and DatasetAlias.parse(atom.text) not in known else None


_T = TypeVar("_T")
_KEYS = (
    "tags",
    "owner",
    "on_query_change",
    "bad_rows",
    "max_bad_rows",
    "watermark",
    "watermark_lag",
    "repeated_keys",
    "reread",
    "columns",
    "empty",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """Traits of the datasets that a selector means; None where it says nothing.

    `watermark` is how old it may be, it and `watermark_lag` are in milliseconds.
    """

    selector: str
    tags: tuple[str, ...] = ()
    owner: str | None = None
    on_query_change: OnQueryChange | None = None
    bad_rows: BadRows | None = None
    max_bad_rows: Most | None = None
    watermark: int | None = None
    watermark_lag: int | None = None
    repeated_keys: RepeatedKeys | None = None
    reread: Reread | None = None
    columns: ColumnsPolicy | None = None
    empty: EmptyInputs | None = None
    span: SourceSpan


@dataclass(frozen=True, slots=True)
class Defaulted:
    """Datasets with their traits, the defaults of each (most specific last), and warnings."""

    declared: "tuple[Declared, ...]"
    given: Mapping[DatasetAlias, tuple[Default, ...]] = field(default_factory=dict)
    notes: tuple[Diagnostic, ...] = ()


def read_defaults(
    reading: SettingsReader, value: Value, selectors: Mapping[str, str]
) -> tuple[Default, ...]:
    """Return the defaults of a project, in the order in which they are written."""
    found = []
    for selector, item in reading.any_mapping(value, ("defaults",)).items():
        entry = reading.section(item, ("defaults", selector), _KEYS)
        wrong = check_default(selector, selectors, entry.span())
        reading.found += wrong
        change = entry.choice("on_query_change", [each.value for each in OnQueryChange])
        bad_rows = entry.choice("bad_rows", [each.value for each in BadRows])
        repeated = entry.choice("repeated_keys", [each.value for each in RepeatedKeys])
        reread = entry.choice("reread", [each.value for each in Reread])
        columns = entry.choice("columns", [each.value for each in ColumnsPolicy])
        empty = entry.choice("empty", [each.value for each in EmptyInputs])
        default = Default(
            selector=selector,
            tags=tuple(reading.texts(entry.entries.get("tags"), entry.at("tags"))),
            owner=entry.text("owner"),
            on_query_change=None if change is None else OnQueryChange(change),
            bad_rows=None if bad_rows is None else BadRows(bad_rows),
            max_bad_rows=read_most(entry, "max_bad_rows"),
            watermark=read_age(entry, "watermark"),
            watermark_lag=read_lag(entry, "watermark_lag"),
            repeated_keys=None if repeated is None else RepeatedKeys(repeated),
            reread=None if reread is None else Reread(reread),
            columns=None if columns is None else ColumnsPolicy(columns),
            empty=None if empty is None else EmptyInputs(empty),
            span=entry.span(),
        )
        if not wrong:  # else it would be told again when datasets are looked for
            found.append(default)
    return tuple(found)


def apply_defaults(
    defaults: Sequence[Default],
    declared: "Sequence[Declared]",
    selectors: Mapping[str, str] | None = None,
) -> Defaulted:
    """Return datasets with the traits that defaults give them, in the order given.

    `selectors` are the named ones of the project.  Raises ProjectErrors with every exact name in a
    selector that there is not.
    """
    if not defaults:
        return Defaulted(tuple(declared))
    from odfbuild.planner.select.parse import parse_selector

    rules = [
        _Rule(n, each, parse_selector(each.selector, selectors or {}, origin=ORIGIN))
        for n, each in enumerate(defaults)
    ]
    sharing = _Sharing()
    sharing.out((rule for rule in rules if not rule.asks_for_traits()), declared)
    between = [sharing.traited(each) for each in declared]
    sharing.out((rule for rule in rules if rule.asks_for_traits()), between)
    traited = tuple(sharing.traited(each) for each in declared)
    for each in traited:
        given = sharing.of(each.alias)
        found = (_unsafe(each, given), _unbindable(each, given))
        sharing.errors += (wrong for wrong in found if wrong is not None)
    if sharing.errors:
        raise ProjectErrors(sharing.errors)
    return Defaulted(
        traited,
        {each.alias: given for each in declared if (given := sharing.of(each.alias))},
        tuple(sharing.notes),
    )


@dataclass(frozen=True, slots=True)
class _Rule:
    """A default, its number in the file, and its selector as read."""

    number: int
    default: Default
    selector: "Selector"

    def asks_for_traits(self) -> bool:
        from odfbuild.planner.select.tree import By, Method, atoms

        return any(
            isinstance(atom, By) and atom.method in (Method.TAG, Method.OWNER)
            for root in (self.selector.root, *self.selector.named.values())
            for atom in atoms(root)
        )

    def placed(self, found: Diagnostic) -> Diagnostic:
        return moved_into(found, self.default.selector, self.default.span)


@dataclass(slots=True)
class _Sharing:
    """The rules that each dataset has met so far, with how specific they are for it."""

    rules: dict[DatasetAlias, dict[int, tuple["Weight", Default]]] = field(default_factory=dict)
    errors: list[Diagnostic] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)

    def out(self, rules: Iterable[_Rule], declared: "Sequence[Declared]") -> None:
        """Give rules to the datasets that they mean."""
        waiting = list(rules)
        if not waiting:
            return
        from odfbuild.planner.select.facts import selection_graph

        graph = selection_graph(declared, {})
        for rule in waiting:
            self._give(rule, graph)

    def of(self, alias: DatasetAlias) -> tuple[Default, ...]:
        """Return the defaults of a dataset, the most specific last."""
        met = self.rules.get(alias, {})
        ordered = sorted(met.items(), key=lambda item: (item[1][0], item[0]))
        return tuple(default for _, (_, default) in ordered)

    def traited(self, declared: "Declared") -> "Declared":
        given = self.of(declared.alias)
        if not given:
            return declared
        traits = declared.traits
        tags = dict.fromkeys((*traits.tags, *(tag for each in given for tag in each.tags)))
        return replace(
            declared,
            traits=Traits(
                tags=tuple(sorted(tags)),
                owner=_last((each.owner for each in given), traits.owner),
                on_query_change=_last(
                    (each.on_query_change for each in given), traits.on_query_change
                ),
                ingest=_ingest(given, traits.ingest),
            ),
        )

    def _give(self, rule: _Rule, graph: "SelectionGraph") -> None:
        from odfbuild.planner.select.select import choose
        from odfbuild.planner.select.tree import Selector

        named = rule.selector.named
        for part in parts_of(rule.selector.root, named, graph.datasets):
            try:
                chosen = choose(Selector(part, named), graph)
            except ProjectErrors as errors:
                self.errors += map(rule.placed, errors.found)
                continue
            self.notes += map(rule.placed, chosen.notes)
            weight = weight_of(part, named)
            for alias in chosen.datasets:
                met = self.rules.setdefault(alias, {})
                known = met.get(rule.number)
                if known is None or known[0] < weight:
                    met[rule.number] = (weight, rule.default)


def _ingest(given: Sequence[Default], usual: IngestOptions) -> IngestOptions:
    """Return how rows are taken in; `given` has the most specific default last."""
    most = _last((each.max_bad_rows for each in given), None)
    return replace(
        usual,
        watermark_lag=_last((each.watermark_lag for each in given), usual.watermark_lag),
        watermark_age=_last((each.watermark for each in given), usual.watermark_age),
        bad_rows=_last((each.bad_rows for each in given), usual.bad_rows),
        max_bad_rows=usual.max_bad_rows if most is None else most.rows,
        max_bad_percent=usual.max_bad_percent if most is None else most.percent,
        repeated_keys=_last((each.repeated_keys for each in given), usual.repeated_keys),
        reread=_last((each.reread for each in given), usual.reread),
        columns=_last((each.columns for each in given), usual.columns),
        empty=_last((each.empty for each in given), usual.empty),
    )


def _unsafe(declared: "Declared", given: Sequence[Default]) -> Diagnostic | None:
    """Return what is wrong with reading files of a dataset again, by how its rows are merged."""
    rule = declared.traits.ingest.reread
    if rule is None or rule is Reread.NEVER:
        return None
    for event in declared.snapshot.metadata:
        if not isinstance(event, SetPollingSource) or not isinstance(
            event.fetch, FetchStepFilesGlob
        ):
            continue
        why = _why_unread(rule, traits_of(event.merge))
        if why is not None:
            safe = [name_of(kind) for kind, each in TRAITS.items() if not _why_unread(rule, each)]
            return Diagnostic(
                code="reread",
                what=f"`reread: {rule.value}` is not possible for {declared.alias}, which merges"
                f" by {name_of(type(event.merge))}",
                why=why,
                fix=f"leave it to sources that merge by {' or '.join(safe)}; "
                f"for this one: defaults: {{{declared.alias}: {{reread: never}}}}",
                span=next((each.span for each in reversed(given) if each.reread is rule), None),
            )
    return None


def _why_unread(rule: Reread, traits: MergeTraits) -> str | None:
    return traits.no_late if rule is Reread.LATE else traits.no_changed


def _unbindable(declared: "Declared", given: Sequence[Default]) -> Diagnostic | None:
    """Return what is wrong with a policy for the columns of a dataset's sources."""
    policy = declared.traits.ingest.columns
    if policy is None:
        return None
    for event in declared.snapshot.metadata:
        if not isinstance(event, SetPollingSource | AddPushSource):
            continue
        has_schema = event.read.schema is not None or bool(event.read.ddl_schema)
        if isinstance(event.read, ReadStepCsv) and not event.read.header and has_schema:
            why = "its CSV files have no header, so their columns have no names"
            fix = "write `header: true` in `read`, if they have one; else leave it out here"
        elif policy is ColumnsPolicy.UNION and event.preprocess is not None:
            why = "its columns are those of the `preprocess` query, which a new one does not change"
            fix = "use `columns: by-name`, and name new columns in `schema` and in the query"
        elif policy is ColumnsPolicy.EXACT and not has_schema:
            why = "it declares no columns to compare with"
            fix = "declare them as `schema` in `read`"
        else:
            continue
        return Diagnostic(
            code="columns",
            what=f"`columns: {policy.value}` is not possible for {declared.alias}",
            why=why,
            fix=fix,
            span=next((each.span for each in reversed(given) if each.columns is policy), None),
        )
    return None


def _last(values: Iterable[_T | None], usual: _T) -> _T:
    """Return the last value that is given, or the usual one."""
    for value in values:
        usual = usual if value is None else value
    return usual
