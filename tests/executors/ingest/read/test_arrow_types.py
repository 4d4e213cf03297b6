"""Every type of Arrow in a Parquet file: its values as they are, or a refusal by name."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.read import read
from odfbuild.executors.ingest.read.parquet import check_footer
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.odf.events import ReadStepParquet
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.odf.schema.types import MOST_DIGITS, repeated, too_wide
from tests.support.effort import examples
from tests.support.values.arrow_types import ALL, UNWRITTEN, array, plain, types, values

UNDECLARED = ReadStepParquet()


def written(kind: Any, given: list[Any], folder: Path) -> pa.Table | None:
    """Write a column of a type; None where pyarrow cannot."""
    try:
        table = pa.table({"x": array(kind, given)})
        pq.write_table(table, folder / "in.parquet")
    except (pa.ArrowException, TypeError, ValueError, OSError):
        return None
    return table


def taken(step: ReadStepParquet, folder: Path) -> Frame | InvalidSourceError:
    try:
        frame = read(step, folder / "in.parquet", staging=folder, name="in.parquet")
    except InvalidSourceError as error:
        return error
    assert frame is not None
    return frame


def same(frame: Frame, table: pa.Table) -> None:
    assert frame.table is not None
    assert [plain(each) for each in frame.table["x"]] == [plain(each) for each in table["x"]]


def is_beyond_us(kind: Any) -> bool:
    """Tell whether a type holds nanoseconds, too many digits, list views, or a name twice."""
    views = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    if views or getattr(kind, "unit", None) == "ns":
        return True
    if pa.types.is_decimal(kind):
        return bool(kind.precision > MOST_DIGITS)
    if isinstance(kind, pa.BaseExtensionType):
        return is_beyond_us(kind.storage_type)
    if pa.types.is_map(kind):
        return is_beyond_us(kind.key_type) or is_beyond_us(kind.item_type)
    fields = [kind.field(at) for at in range(kind.num_fields)]
    if len({each.name for each in fields}) < len(fields):
        return True
    return any(is_beyond_us(each.type) for each in fields)


@settings(max_examples=examples(80, 2_000))
@given(types, st.data())
def test_a_column_of_any_type_keeps_its_values_or_is_refused(
    kind: Any, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(values(kind), min_size=1, max_size=3))
    with TemporaryDirectory() as name:
        folder = Path(name)
        table = written(kind, rows, folder)
        assume(table is not None)
        assert table is not None
        found = taken(UNDECLARED, folder)
        if isinstance(found, Frame):
            same(found, table)
            fields = from_arrow(found.schema).fields
            assert not any(too_wide(each.type) or repeated(each.type) for each in fields)
            assert check_footer(UNDECLARED, folder / "in.parquet", "in.parquet") == found.schema
        else:
            assert "column x" in found.what
            assert is_beyond_us(kind)


@given(types, st.data(), st.sampled_from(["STRING", "BIGINT", "DECIMAL(38,4)", "TIMESTAMP"]))
def test_a_declared_column_takes_a_column_of_any_type_or_refuses_it(
    kind: Any, data: st.DataObject, declared: str
) -> None:
    rows = data.draw(st.lists(values(kind), min_size=1, max_size=3))
    with TemporaryDirectory() as name:
        folder = Path(name)
        assume(written(kind, rows, folder) is not None)
        step = ReadStepParquet(ddl_schema=(f"x {declared}",))
        found = taken(step, folder)
        nulls = [row is None for row in rows]
        if isinstance(found, InvalidSourceError):
            assert "column x" in found.what
        else:
            assert found.table is not None
            read_nulls = [not each.is_valid for each in found.table["x"]]
            assert [a or b for a, b in zip(nulls, read_nulls, strict=True)] == read_nulls


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind not in UNWRITTEN], ids=str)
def test_the_end_of_a_file_tells_what_the_type_alone_makes_certain(
    kind: Any, tmp_path: Path
) -> None:
    assert written(kind, [None], tmp_path) is not None
    found = taken(UNDECLARED, tmp_path)
    if isinstance(found, InvalidSourceError):
        with pytest.raises(InvalidSourceError) as caught:
            check_footer(UNDECLARED, tmp_path / "in.parquet", "in.parquet")
        assert caught.value.what == found.what
    else:
        assert check_footer(UNDECLARED, tmp_path / "in.parquet", "in.parquet") == found.schema
