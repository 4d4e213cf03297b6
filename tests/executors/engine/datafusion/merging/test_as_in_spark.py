"""Spark's tests of merges, made again without Java: vectors, laws, borders, refusals, texts."""

from types import ModuleType
from typing import Final

from tests.executors.engine.spark.ingest import (
    test_history,
    test_ingest,
    test_merge_borders,
    test_merge_laws,
    test_merge_streams,
    test_merge_vectors,
    test_reduced_history,
    test_repeated_keys,
    test_several_sources,
)

_MODULES: Final[tuple[ModuleType, ...]] = (
    test_history,
    test_ingest,
    test_merge_borders,
    test_merge_laws,
    test_merge_streams,
    test_merge_vectors,
    test_reduced_history,
    test_repeated_keys,
    test_several_sources,
)
_OF_SPARK: Final = ("preprocess", "test_vectors_of_the_current_state_hold")  # of its SQL

for _module in _MODULES:
    for _name, _test in vars(_module).items():
        if _name.startswith("test_") and not any(each in _name for each in _OF_SPARK):
            globals()[_name] = _test
