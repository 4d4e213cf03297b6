"""The query of a transform over its inputs: parsed once, its analyses worked out once.  Pure.

It is made where a transform is first held and goes along with the work of its step.  Who needs to
know of it asks here: each answer is worked out when it is first asked for, and kept.  Answers are
values and follow from the query alone, so it does not matter which of several threads asks first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from odfbuild.sql.text.steps import QueryStep, is_foreign, is_of_spark, steps_of
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.errors import Diagnostic
    from odfbuild.odf.events import DataSchema, DatasetVocabulary, TransformSql
    from odfbuild.sql.analysis.aggregates.accumulators import Accumulators
    from odfbuild.sql.analysis.facts import QueryFacts
    from odfbuild.sql.analysis.keys.joins import Products
    from odfbuild.sql.analysis.keys.key_columns import KeyColumns
    from odfbuild.sql.analysis.sums import Sums
    from odfbuild.sql.findings import QueryFinding
    from odfbuild.sql.text.edits import Carried


@dataclass(frozen=True, slots=True)
class QueryInput:
    """An input by the name that a query has for it.

    `columns` are those that a query sees, which is all but those of the event log; None if they are
    not known.
    """

    alias: str
    columns: DataSchema | None
    vocab: DatasetVocabulary


@dataclass(frozen=True, kw_only=True)
class Query:
    """The steps of a transform, its inputs, and the vocabulary of its result.

    What depends on columns of inputs takes them all to be known.  Whatever reads a text raises
    SqlTextError, but `facts` and `problems`, which tell of it.
    """

    transform: TransformSql
    steps: tuple[QueryStep, ...]
    inputs: tuple[QueryInput, ...]
    vocab: DatasetVocabulary

    @classmethod
    def of(
        cls, transform: TransformSql, inputs: Iterable[QueryInput], vocab: DatasetVocabulary
    ) -> Query:
        """Return the query of a transform."""
        return cls(
            transform=transform, steps=steps_of(transform), inputs=tuple(inputs), vocab=vocab
        )

    def over(self, inputs: Iterable[QueryInput]) -> Query:
        """Return the same steps over other inputs; what was read of them is not read again."""
        return replace(self, inputs=tuple(inputs))

    # The inputs

    @property
    def columns(self) -> Mapping[str, DataSchema]:
        """Return the columns of the inputs, as far as they are known."""
        return {each.alias: each.columns for each in self.inputs if each.columns is not None}

    @property
    def read_columns(self) -> Mapping[str, DataSchema]:
        """Return the columns of those inputs that the query reads."""
        return {name: each for name, each in self.columns.items() if name in self.facts.inputs}

    # What the texts say

    @cached_property
    def facts(self) -> QueryFacts:
        """Return what the steps say together, and all that is wrong with them by their texts."""
        from odfbuild.sql.analysis.facts import examine

        operations = {each.vocab.operation_type_column for each in self.inputs}
        operations.add(self.vocab.operation_type_column)
        return examine(self.steps, [each.alias for each in self.inputs], operations)

    @cached_property
    def waits(self) -> bool:
        """Tell whether rows wait for the watermark; those of a dialect that is not read may."""
        from odfbuild.sql.analysis.windows import waits

        return is_foreign(self.steps) or waits(self.steps)

    @cached_property
    def longest_wait(self) -> int | None:
        """Return how far behind its own time a row may be waited for, in milliseconds."""
        from odfbuild.sql.analysis.windows import longest_wait

        return longest_wait(self.steps)

    @cached_property
    def versioned(self) -> frozenset[str]:
        """Return the tables whose versions the query reads."""
        from odfbuild.sql.text.as_of_joins import tables_of

        return frozenset(table for step in self.steps for table in tables_of(step.statement))

    @cached_property
    def read_plainly(self) -> frozenset[str]:
        """Return the tables that the query reads otherwise than by their versions."""
        from odfbuild.sql.text.as_of_joins import read_plainly

        return frozenset[str]().union(*(read_plainly(step.statement) for step in self.steps))

    # What they say of these columns

    @cached_property
    def problems(self) -> tuple[Diagnostic, ...]:
        """Return why steps of the query are refused, without spans; empty if they are not."""
        from odfbuild.sql.analysis.facts import diagnostics
        from odfbuild.sql.analysis.typed_findings import typed_findings

        found = diagnostics(self.facts, self.facts.refused)
        if not found and not is_foreign(self.steps):
            found = diagnostics(replace(self.facts, findings=self._reserved_columns))
        if found or self.facts.is_linear:
            return found
        times = {each.alias: each.vocab.event_time_column for each in self.inputs}
        findings = typed_findings(self.steps, self.columns, times)
        return diagnostics(replace(self.facts, findings=findings))

    @property
    def _reserved_columns(self) -> tuple[QueryFinding, ...]:
        from odfbuild.sql.reserved_names import reserved_columns

        return tuple(
            found
            for each in self.inputs
            for found in reserved_columns(
                each.alias, () if each.columns is None else each.columns.fields, each.vocab
            )
        )

    @cached_property
    def key(self) -> KeyColumns | None:
        """Return the key by which a step works, None if an input that is read has none."""
        from odfbuild.sql.analysis.keys.key_columns import step_key

        return step_key(self.steps, self.read_columns)

    @cached_property
    def replaced_by(self) -> tuple[str, ...]:
        """Return the columns of the result by which a row that comes replaces one that goes.

        They are unique ones, else those of the key by which a step works; none if there is none.
        """
        from odfbuild.sql.analysis.keys.key_columns import step_key
        from odfbuild.sql.analysis.keys.unique import unique_columns

        steps = self.steps_as_shapes
        key = step_key(steps, self.read_columns)
        return unique_columns(steps) or (key and key.outputs) or ()

    @cached_property
    def steps_as_shapes(self) -> tuple[QueryStep, ...]:
        """Return the steps in the dialect whose forms are known: those of a query that means the
        same in both are as for Spark.
        """
        from odfbuild.sql.portability.queries import portable_steps, unportable_part

        if is_of_spark(self.steps) or is_foreign(self.steps):
            return self.steps
        columns = {each.alias: each.columns for each in self.inputs}
        part = unportable_part(self.steps, columns)
        return portable_steps(self.steps) if part is None else self.steps

    @cached_property
    def spans(self) -> Mapping[str, str]:
        """Return the time of each input by whose windows the query works, empty if by none."""
        from odfbuild.sql.analysis.keys.key_columns import span_columns

        return span_columns(self.steps, self.read_columns)

    @cached_property
    def products(self) -> Products | None:
        """Return how the query multiplies its inputs, None if it does more."""
        from odfbuild.sql.analysis.keys.joins import products

        return products(self.steps, self.read_columns)

    @cached_property
    def accumulators(self) -> Accumulators | None:
        """Return what is kept of each group to go on from, None if that cannot be."""
        from odfbuild.sql.analysis.aggregates.accumulators import accumulators

        return accumulators(self.steps, self.columns)

    @cached_property
    def sums(self) -> tuple[Sums, ...]:
        """Return what each step adds up."""
        from odfbuild.sql.analysis.sums import sums_of

        return sums_of(self.steps, self.columns)

    @cached_property
    def order_free(self) -> tuple[Carried, ...]:
        """Return the text of each step with everything decided by values, not by order."""
        from odfbuild.sql.analysis.order import order_free_text
        from odfbuild.sql.text.edits import CarriedText, edited

        return tuple(
            edited(CarriedText.of(step.statement), partial(order_free_text, sums=sums))
            for step, sums in zip(self.steps, self.sums, strict=True)
        )
