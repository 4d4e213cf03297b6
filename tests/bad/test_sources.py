"""Bad input of every source, step and reader: a readable error, and the chain as it was.

What engine, merge and schema refuse is in test_engine.py: that needs a JVM.
"""

from collections.abc import Callable

import pytest

from tests.bad.case import Bad
from tests.bad.meeting import check_error
from tests.bad.of_definitions import DEFINITIONS, SCHEMAS
from tests.bad.of_files import PACKED, PARQUET_FILES, SHAPEFILES
from tests.bad.of_readers import CSV_FILES, GEO_FILES, JSON_FILES
from tests.bad.of_sources import COMMANDS, DOWNLOADS, FILES, FTP, HTTP, TIMES
from tests.support.projects import Done

GROUPS = (
    *(CSV_FILES, JSON_FILES, GEO_FILES, SHAPEFILES, PARQUET_FILES, PACKED),
    *(COMMANDS, HTTP, FTP, FILES, TIMES, DOWNLOADS),
    *(DEFINITIONS, SCHEMAS),
)
ALL = {name: bad for group in GROUPS for name, bad in group.items()}


def test_there_are_as_many_cases_as_are_listed() -> None:
    assert len(ALL) == sum(map(len, GROUPS)) == 207


@pytest.mark.parametrize("bad", ALL.values(), ids=ALL)
def test_bad_input_is_refused_in_readable_words(bad: Bad, meet: Callable[[Bad], Done]) -> None:
    check_error(meet(bad), bad)
