"""Two versions of a small project, and what is said of the way from one to the other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from odfbuild.errors import SourceSpan
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    DatasetKind,
    FetchStepFilesGlob,
    MergeStrategy,
    MergeStrategyAppend,
    MetadataEvent,
    ReadStepCsv,
    SetPollingSource,
    SetTransform,
    TransformInput,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import EventChange, KindChangedError, VocabChangedError, diff
from odfbuild.planner.diff.chain_definitions import imagined
from odfbuild.planner.evolution.assess import Assessed, assess
from odfbuild.planner.plan.changes import Assessment, Hit
from odfbuild.planner.plan.policy import Acceptance, Gates, Policy, Traits
from tests.planner.builders import declare, sql

__all__ = [
    "ENGINES",
    "TODAY",
    "Versions",
    "acceptance",
    "alias",
    "codes",
    "derivative",
    "root",
    "source",
    "span_of",
]

ENGINES = {"spark": "4.3.0+odfbuild.1", "datafusion": "55.0.0+odfbuild.5"}
TODAY = date(2026, 6, 1)
COLUMNS = ("event_time TIMESTAMP", "id BIGINT", "fee DECIMAL(18,2)", "note STRING")


def alias(name: str) -> DatasetAlias:
    return DatasetAlias.parse(name)


def source(
    *columns: str,
    path: str = "data/*.csv",
    merge: MergeStrategy | None = None,
    preprocess: str | None = None,
    prepare: Any = None,
    **options: Any,
) -> SetPollingSource:
    """Return a polling source; without columns it declares some."""
    return SetPollingSource(
        fetch=FetchStepFilesGlob(path=path),
        prepare=prepare,
        read=ReadStepCsv(ddl_schema=columns or COLUMNS, header=True, **options),
        preprocess=None if preprocess is None else sql(preprocess),
        merge=merge or MergeStrategyAppend(),
    )


def root(name: str, *events: MetadataEvent) -> Declared:
    """Declare a root; without events it has some source."""
    return declare(name, DatasetKind.ROOT, events or (source(),))


def derivative(
    name: str, query: str, *inputs: str, events: Sequence[MetadataEvent] = (), **changed: Any
) -> Declared:
    """Declare a derivative; an input may be given as `name alias`; `changed` are of the SQL."""
    refs = []
    for each in inputs or ("src",):
        ref, _, called = each.partition(" ")
        refs.append(TransformInput(alias(ref), called or ref))
    transform = replace(sql(query), **changed)
    event = SetTransform(inputs=tuple(refs), transform=transform)
    return declare(name, DatasetKind.DERIVATIVE, (event, *events))


def acceptance(
    code: str,
    dataset: str,
    column: str | None = None,
    until: date = TODAY,
    reason: str | None = "agreed",
) -> Acceptance:
    """Accept a finding until the day of the test, that day included."""
    return Acceptance(
        code=code,
        dataset=alias(dataset),
        column=column,
        until=until,
        reason=reason,
        span=SourceSpan(file="odfbuild.yaml", line=9),
    )


class Versions:
    """A project before and after; `chains` give the columns of chains by name, in DDL.

    Without chains two revisions are compared.
    """

    def __init__(
        self,
        before: Sequence[Declared],
        after: Sequence[Declared],
        chains: Mapping[str, Sequence[str]] | None = None,
        rows: Mapping[str, int] | None = None,
    ) -> None:
        self.after = after
        schemas = {alias(name): parse_ddl(each) for name, each in (chains or {}).items()}
        self.current: dict[DatasetAlias, ChainState] = dict(
            imagined(before, engines=ENGINES, schemas=schemas)
        )
        for name in chains or {}:
            state = self.current[alias(name)]
            self.current[alias(name)] = replace(state, transform_is_new=False)
        for name, count in (rows or {}).items():
            state = self.current[alias(name)]
            self.current[alias(name)] = replace(state, last_offset=count - 1)
        self.against = chains is None

    def changes(self) -> dict[DatasetAlias, tuple[EventChange, ...]]:
        """Return the events to append."""
        found = {}
        for each in self.after:
            try:
                state = self.current.get(each.alias)
                changes = diff(each.snapshot, state, self._resolve, ENGINES)
            except (KindChangedError, VocabChangedError):
                changes = ()
            if changes:
                found[each.alias] = changes
        return found

    def assess(
        self,
        *accepted: Acceptance,
        gates: Gates = Gates(),  # noqa: B008
        **options: Any,
    ) -> Assessed:
        """Assess the way from one version to the other."""
        policy = Policy(today=TODAY, gates=gates, accepted=accepted)
        return assess(
            self.after,
            self.current,
            self.changes(),
            policy=policy,
            against=self.against,
            **options,
        )

    def of(self, name: str, *accepted: Acceptance, **options: Any) -> Assessment:
        """Return what is said of one dataset."""
        return self.assess(*accepted, **options).assessments[alias(name)]

    def hits(self, name: str, *accepted: Acceptance, **options: Any) -> tuple[Hit, ...]:
        """Return the hits of one dataset; none if nothing is said of it."""
        found = self.assess(*accepted, **options).assessments.get(alias(name))
        return () if found is None else found.hits

    def _resolve(self, ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        known = self.current.get(ref) if isinstance(ref, DatasetAlias) else None
        return ref if known is None else known.dataset


def codes(hits: Sequence[Hit]) -> list[str]:
    """Return the codes of hits in order."""
    return sorted({each.code for each in hits})


def with_traits(declared: Declared, traits: Traits) -> Declared:
    return replace(declared, traits=traits)


def span_of(hits: Sequence[Hit], code: str) -> SourceSpan:
    """Return the place of the only hit of a rule."""
    (found,) = [each for each in hits if each.code == code]
    assert found.span is not None
    return found.span
