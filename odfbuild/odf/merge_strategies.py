"""Merge strategies: key, compared columns, lasting rows (ODF 0.34.1, "MergeStrategy").  Pure."""

from odfbuild.odf.events import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)


def key_of(strategy: MergeStrategy) -> tuple[str, ...]:
    """Return the columns of the primary key; none of Append."""
    return () if isinstance(strategy, MergeStrategyAppend) else tuple(strategy.primary_key)


def compared_columns(strategy: MergeStrategy) -> tuple[str, ...]:
    """Return the columns that are named as those by which a row changed; none stand for all."""
    named = strategy.compare_columns if isinstance(strategy, MergeStrategySnapshot) else None
    return tuple(named or ())


def only_adds(strategy: MergeStrategy) -> bool:
    """Tell whether rows stay for ever: none is corrected or taken back."""
    return isinstance(strategy, MergeStrategyAppend | MergeStrategyLedger)


def reads_operations(strategy: MergeStrategy) -> bool:
    """Tell whether a source may have a column that says what each row does."""
    return isinstance(strategy, MergeStrategyChangelogStream | MergeStrategyUpsertStream)
