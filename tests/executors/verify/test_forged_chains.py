"""Every false value in every field of every block, and in every cell of every slice, is found.

What is left are statements that nothing in a dataset contradicts: they are listed, each with why.
Whoever knows the hash of the head finds these as well.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.retractions import Retractions
from odfbuild.executors.verify.chain import verify
from odfbuild.executors.verify.history import RecordedHistories
from odfbuild.executors.verify.recorded_inputs import RecordedInputs
from odfbuild.executors.verify.run import inputs_first
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import DEFAULT_VOCABULARY
from odfbuild.odf.events import (
    AttachmentEmbedded,
    AttachmentsEmbedded,
    DataField,
    DataSchema,
    DatasetKind,
    DataTypeInt64,
    DataTypeOption,
    DisablePushSource,
    ExecuteTransform,
    FetchStepFilesGlob,
    MergeStrategySnapshot,
    ReadStepCsv,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SourceState,
)
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.declared import Declared
from odfbuild.state.chain.stores import InconsistentSliceError, check_present
from tests.executors.runs.test_scheduler import copy
from tests.planner.builders import declare
from tests.support.data.forger import Forger, Place, false_cells, false_columns, false_fields, put
from tests.support.data.histories import Added, History
from tests.support.effort import examples
from tests.support.engines import FakeEngine, Rows
from tests.support.workshop import Workshop, ledger


def prices() -> Declared:
    """Declare a snapshot of CSV files in data/, keyed by k."""
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="data/*.csv"),
        read=ReadStepCsv(
            ddl_schema=("t DATE NOT NULL", "k STRING NOT NULL", "v BIGINT"), header=True
        ),
        merge=MergeStrategySnapshot(primary_key=("k",)),
    )
    return declare("prices", DatasetKind.ROOT, (source, SetVocab(event_time_column="t")))


FILES: Final = (
    ("2024-01-01,a,1", "2024-01-01,b,2", "2024-01-01,d,7"),
    ("2024-01-02,a,5", "2024-01-01,b,2", "2024-01-02,c,3"),
    ("2024-01-02,a,5", "2024-01-03,b,4", "2024-01-03,e,1"),
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Return a ledger, a snapshot with corrections and retractions, and a copy of each."""
    made = Workshop(tmp_path_factory.mktemp("forged"))
    for number, rows in enumerate(FILES, 1):
        made.now = Timestamp.parse(f"2025-01-0{number}T00:00:00Z")
        made.file(f"{number}.csv", *rows)
        declared = [ledger(), prices(), copy("out", "src"), copy("costs", "prices")]
        assert not made.apply(declared).failures
    ops = [row[1] for row in made.rows("costs")]
    assert {0, 1, 2, 3} == set(ops)
    return made


def found(shop: Workshop, name: str) -> list[str]:
    inputs = RecordedInputs(shop.workspace, every=True).problems
    return [each.what for each in verify(shop.dataset(name), inputs=inputs).findings]


def always(time: Timestamp) -> Callable[[], Timestamp]:
    """Return a clock that stands still."""
    return lambda: time


DAY: Final = "2025-01-0{}T00:00:00Z"


def is_between(forged: Timestamp, number: int) -> bool:
    """Tell whether a time is after a block that brought rows, and not of the future."""
    return Timestamp.parse(DAY.format(number - 3)) < forged < Timestamp.from_millis(TOMORROW)


TOMORROW: Final = (int(time()) + 2 * 86_400) * 1000


def is_default(path: str, name: object) -> bool:
    """Tell whether a system column is said to have the name that it has if none is given."""
    return bool(name == getattr(DEFAULT_VOCABULARY, path.removeprefix("event."), None))


def is_free(kind: str, place: Place, forged: Any, number: int) -> bool:
    """Tell whether a false value is a statement that nothing in the dataset contradicts."""
    path = ".".join(each for each in place if isinstance(each, str))
    match kind, path:
        case "SetPollingSource", _:
            return path.startswith("event.")  # what was declared; later rows follow, none proves it
        case "SetTransform", _:
            return path.startswith(("event.transform", "event.inputs.alias"))  # --replay runs it
        case "SetVocab", _:
            return is_default(path, forged)
        case "SetDataSchema", "event.raw_arrow_schema":
            return True  # the last byte is padding; types are judged by the columns of slices
        case "Seed", "system_time":
            return bool(
                forged < Timestamp.parse(DAY.format(1))
            )  # only what comes before it is bounded
        case "AddData", "system_time":
            return is_between(forged, number)  # as after a compaction
        case _, "event.new_data":
            return number == 6  # the newest rows left out: --replay of a derivative finds it
    return "new_source_state" in place or path == "event.new_watermark"


@pytest.mark.parametrize("name", ["prices", "costs"])
def test_a_false_field_of_a_block_is_found(shop: Workshop, name: str, tmp_path: Path) -> None:
    assert found(shop, name) == []
    forger, missed, tried = Forger(shop.dataset(name), tmp_path), [], 0
    for number, block in enumerate(forger.blocks):
        for place, value in false_fields(block):
            with suppress(OdfBuildError, TypeError, ValueError, AttributeError):
                forger.forge(number, put(block, place, value))
                tried += 1
                if not found(shop, name):
                    missed.append((type(block.event).__name__, place, value, number))
    forger.restore()
    assert [each for each in missed if not is_free(*each)] == []
    assert tried > 150


ANNOTATIONS: Final = (
    SetInfo(description="d", keywords=("a", "b")),
    SetLicense(short_name="s", name="n", website_url="https://example.org/"),
    SetAttachments(attachments=AttachmentsEmbedded(items=(AttachmentEmbedded("p", "c"),))),
)


def may_say(kind: str, place: Place, forged: Any, times: tuple[Timestamp, ...]) -> bool:
    """Tell whether nothing contradicts a false value in a chain that is pushed to."""
    path = ".".join(each for each in place if isinstance(each, str))
    if path == "system_time":  # between the blocks around it
        return bool(times[0] <= forged <= times[1])
    match kind:
        case "SetVocab":
            return is_default(path, forged)
        case "AddPushSource":
            return path.startswith(("event.read", "event.merge"))
        case "SetInfo" | "SetLicense" | "SetAttachments":
            return True
        case "SetDataSchema":
            padding = path == "event.raw_arrow_schema"
            new = place[:3] == ("event", "schema", "fields") and place[-1] in ("name", "fields")
            return padding or new or forged is None  # in front of any rows; defaults spelled out
        case "AddData" if path.startswith("event.new_source_state"):
            return path != "event.new_source_state.source_name" or forged in ("devices", "other")
    return path in ("event.new_watermark", "event.new_data")


def test_a_false_field_of_a_chain_that_is_pushed_to_is_found(tmp_path: Path) -> None:
    """With two sources, one of which ends, annotations, and schemas of both forms."""
    states = [SourceState(name, "odf/etag", "1") for name in ("devices", "other")]
    made = History(
        tmp_path, *ANNOTATIONS, *(Added(2, state=each) for each in states), Added(1, 2),
        Added(0, hours=2), DisablePushSource("other"), Added(2, 2),
    )  # fmt: skip
    schema = schema_in_force(made.state)
    assert schema is not None
    wider = (*schema.fields, DataField("z", DataTypeOption(DataTypeInt64())))
    made.add(SetDataSchema(schema=DataSchema(wider)))
    forger, missed, tried = Forger(made.dataset, tmp_path), [], 0
    times = [block.system_time for block in forger.blocks]
    ends = (Timestamp.from_millis(0), *times, Timestamp.from_millis(TOMORROW))
    for number, block in enumerate(forger.blocks):
        for place, value in false_fields(block):
            with suppress(OdfBuildError, TypeError, ValueError, AttributeError):
                forger.forge(number, put(block, place, value))
                tried += 1
                around = ends[number], ends[number + 2]
                kind = type(block.event).__name__
                if not verify(made.dataset).findings and not may_say(kind, place, value, around):
                    missed.append((kind, place, value, number))
    forger.restore()
    assert missed == []
    assert tried > 500


def may_be(kind: str, op: int, column: str, false: object) -> bool:
    """Tell whether a false cell is a statement that nothing in the dataset contradicts."""
    if column == "system_time":  # as after a compaction, which only roots have
        return kind == "AddData" and isinstance(false, int) and false % 1000 == 999
    if column == "op":
        return (op, false) == (1, 0)  # what came back is there again
    return op in {0, 3}  # what is new may be anything


@pytest.mark.parametrize("name", ["prices", "costs"])
def test_a_false_cell_of_a_slice_is_found(shop: Workshop, name: str, tmp_path: Path) -> None:
    forger, tried = Forger(shop.dataset(name), tmp_path), 0
    for number, block in enumerate(forger.blocks):
        rows = forger.rows(number)
        for column in () if rows is None or number < 5 else rows.column_names:
            assert rows is not None
            ops = rows.column("op").to_pylist()
            for at, false, made in false_cells(rows, column):
                if may_be(type(block.event).__name__, ops[at], column, false):
                    continue
                forger.forge(number, block, made)
                tried += 1
                assert found(shop, name) != [], (number, column, at, false)
    forger.restore()
    assert tried > 100


@pytest.mark.parametrize("name", ["prices", "costs"])
def test_false_columns_of_a_slice_are_found(shop: Workshop, name: str, tmp_path: Path) -> None:
    forger, tried = Forger(shop.dataset(name), tmp_path), 0
    rows = forger.rows(5)
    assert rows is not None
    for what, made in false_columns(rows):
        forger.forge(5, forger.blocks[5], made)
        tried += 1
        assert any("column" in each for each in found(shop, name)), what
    forger.restore()
    assert tried > 25


@pytest.mark.parametrize("name", ["prices", "costs"])
def test_a_chain_that_does_not_begin_with_offset_0_is_found(
    shop: Workshop, name: str, tmp_path: Path
) -> None:
    forger = Forger(shop.dataset(name), tmp_path)
    for by in (1, 42):
        forger.shift(by)
        assert f"prevOffset is {by - 1}, the last offset is None" in "".join(found(shop, name))
    forger.restore()
    assert found(shop, name) == []


@pytest.mark.parametrize("source", ["costs", "out"])
def test_a_dataset_that_is_made_of_itself_is_found(
    shop: Workshop, source: str, tmp_path: Path
) -> None:
    """By itself, or by way of another: then both say so, and their order ends."""
    costs, other = shop.dataset("costs"), shop.dataset(source)
    forgers = [Forger(each, tmp_path) for each in {costs.id: costs, other.id: other}.values()]
    forgers[0].reads(other.id)
    forgers[-1].reads(costs.id)
    inputs = RecordedInputs(shop.workspace, every=True)
    ways = {"costs": "costs reads costs"}
    if source == "out":
        ways = {"costs": "costs reads out reads costs", "out": "out reads costs reads out"}
    for name, way in ways.items():
        state = shop.dataset(name).state()
        assert state is not None
        assert inputs.cycle(state) == way
    both = {costs.id, other.id}
    assert set(inputs_first(RecordedHistories(shop.workspace), list(both))) == both
    for forger in forgers:
        forger.restore()
    state = costs.state()
    assert state is not None
    assert RecordedInputs(shop.workspace).cycle(state) is None


def test_rows_of_a_step_that_read_nothing_are_found(shop: Workshop, tmp_path: Path) -> None:
    forger = Forger(shop.dataset("costs"), tmp_path)
    forger.reads(shop.dataset("prices").id)
    assert "it made rows, and no block of any input was read" in found(shop, "costs")
    forger.restore()


def test_a_watermark_beyond_those_of_the_inputs_is_found(shop: Workshop, tmp_path: Path) -> None:
    """In every step: a millisecond later than the least, and in the far future."""
    forger, tried = Forger(shop.dataset("costs"), tmp_path), 0
    for number, block in enumerate(forger.blocks):
        mark = getattr(block.event, "new_watermark", None)
        for later in () if mark is None else (mark.nanos + 10**6, 4 * 10**18):
            forger.forge(number, put(block, ("event", "new_watermark"), Timestamp(later)))
            tried += 1
            assert any("that of its input prices is" in each for each in found(shop, "costs"))
    forger.restore()
    assert tried > 4
    assert found(shop, "costs") == []


def test_a_watermark_short_of_those_of_the_inputs_is_found(shop: Workshop, tmp_path: Path) -> None:
    """In every step of an engine of ours: a millisecond earlier, and none."""
    forger, tried = Forger(shop.dataset("costs"), tmp_path), 0
    for number, block in enumerate(forger.blocks):
        mark = getattr(block.event, "new_watermark", None)
        for other in () if mark is None else (Timestamp(mark.nanos - 10**6), None):
            forger.forge(number, put(block, ("event", "new_watermark"), other))
            tried += 1
            assert any("watermark" in each for each in found(shop, "costs")), (number, other)
    forger.restore()
    assert tried > 4


def test_other_engines_may_hold_their_watermarks_back(shop: Workshop, tmp_path: Path) -> None:
    """They go by their own rules, but not beyond what they read."""
    forger = Forger(shop.dataset("costs"), tmp_path)
    at = next(n for n, each in enumerate(forger.blocks) if isinstance(each.event, SetTransform))
    for version in (None, "0.23.1"):
        forger.forge(at, put(forger.blocks[at], ("event", "transform", "version"), version))
        other = Forger(shop.dataset("costs"), tmp_path)
        last = len(other.blocks) - 1
        step = other.blocks[last].event
        assert isinstance(step, ExecuteTransform)
        mark = step.new_watermark
        assert mark is not None
        for by, passes in ((-(10**6), True), (10**6, False)):
            made = put(other.blocks[last], ("event", "new_watermark"), Timestamp(mark.nanos + by))
            other.forge(last, made)
            assert (found(shop, "costs") == []) == passes
        other.restore()
        forger.restore()


def test_a_step_that_is_older_than_what_it_read_is_found(shop: Workshop, tmp_path: Path) -> None:
    """By more than a day, as clocks of machines differ."""
    forger = Forger(shop.dataset("prices"), tmp_path)
    reading = Forger(shop.dataset("costs"), tmp_path)
    last = len(forger.blocks) - 1
    day = 86_400 * 10**9
    for by, passes in ((day, True), (day + 10**6, False), (300 * day, False)):
        block = forger.blocks[last]
        later = put(block, ("system_time",), Timestamp(block.system_time.nanos + by))
        head = forger.forge(last, later)
        step = reading.blocks[-1]
        reading.forge(
            len(reading.blocks) - 1, put(step, ("event", "query_inputs", 0, "new_block_hash"), head)
        )
        whats = [each for each in found(shop, "costs") if "before it was there" in each]
        assert (whats == []) == passes
    forger.restore()
    reading.restore()
    assert found(shop, "costs") == []


@pytest.mark.parametrize("name", ["prices", "costs"])
def test_a_block_of_the_future_is_found(shop: Workshop, name: str) -> None:
    """By more than a day, as clocks of machines differ."""
    times = [block.system_time for _, block in shop.dataset(name).blocks()]
    day = 86_400 * 10**9
    for seconds, ahead in ((0, 0), (-86_400, 0), (-86_401, 1)):
        now = Timestamp(times[-1].nanos + seconds * 10**9)
        whats = [each.what for each in verify(shop.dataset(name), now=always(now)).findings]
        late = [time for time in times if time.nanos > now.nanos + day]
        assert len(whats) == len(late) >= ahead
        assert all("its system time is" in each and f"now is {now}" in each for each in whats)


def test_an_unexpected_failure_is_a_finding_of_the_dataset(shop: Workshop) -> None:
    def fails(*_: object) -> tuple[str, ...]:
        raise KeyError("v")

    (finding,) = verify(shop.dataset("costs"), inputs=fails).findings
    assert finding.what == "it cannot be verified: KeyError: 'v'"


@pytest.mark.parametrize("name", ["prices", "costs"])
def test_a_footer_that_counts_other_rows_is_found(
    shop: Workshop, name: str, tmp_path: Path
) -> None:
    """Also where the block says the same; and no count of rows goes by such a footer."""
    forger, tried, refused = Forger(shop.dataset(name), tmp_path), 0, 0
    last = max(number for number in range(len(forger.blocks)) if forger.rows(number) is not None)
    assert found(shop, name) == []
    for _ in forger.miscount(last):
        tried += 1
        assert any("the slice" in each for each in found(shop, name))
        event = list(shop.dataset(name).blocks())[last][1].event
        try:
            check_present(event, shop.dataset(name).stores, {})
        except InconsistentSliceError:
            refused += 1
    forger.restore()
    assert tried > 5
    assert refused > tried / 3


def test_an_input_that_was_forked_since_is_found(shop: Workshop) -> None:
    """The block that was read is there, and so is the rest of its chain, under no head."""
    source = shop.dataset("prices")
    head = source.head()
    hashes = [hash for hash, _ in source.blocks()]
    assert head is not None
    source.set_head(hashes[-2], head)
    try:
        whats = found(shop, "costs")
        assert whats == [each for each in whats if "prices was reset or rewritten since" in each]
        assert len(whats) == 1
        assert verify(shop.dataset("costs")).findings == ()
    finally:
        source.set_head(head, hashes[-2])


def test_an_input_that_is_not_there_is_found_where_inputs_are_followed(shop: Workshop) -> None:
    costs, prices_ = shop.dataset("costs"), shop.dataset("prices")
    head = prices_.head()
    assert head is not None
    prices_.stores.heads.delete("head", expected=head)
    try:
        events = [b.event for _, b in costs.blocks() if isinstance(b.event, ExecuteTransform)]
        every = RecordedInputs(shop.workspace, every=True)
        assert all("is not in the workspace" in each for each in every.problems(events[0]))
        assert RecordedInputs(shop.workspace).problems(events[0]) == ()
    finally:
        prices_.stores.heads.swap("head", expected=None, new=head)


def test_a_query_that_says_what_no_row_does_commits_nothing(tmp_path: Path) -> None:
    text = "select t, k, v, 2 as op from src"
    engine = FakeEngine(queries={text: lambda inputs: [{**row, "op": 2} for row in inputs["src"]]})
    made = Workshop(tmp_path, engine)
    made.file("1.csv", *FILES[0])
    ((_, failed),) = made.apply([ledger(), copy("out", "src", query=text)]).failures
    assert failed.error.code == "invalid-changelog"
    assert "is a -C, and no +C follows it" in failed.error.what
    assert made.rows("out") == []


def test_a_query_that_takes_back_what_is_not_there_commits_nothing(tmp_path: Path) -> None:
    text = "select t, k, v, op from src"

    def taking(inputs: Mapping[str, Rows]) -> Rows:
        rows = inputs["src"]
        return rows if len(rows) > 1 else [{**row, "op": 1} for row in rows]

    made = Workshop(tmp_path, FakeEngine(queries={text: taking}))
    declared = [ledger(), copy("out", "src", query=text)]
    made.file("1.csv", *FILES[0])
    assert not made.apply(declared).failures
    made.file("2.csv", "2024-01-02,x,1")
    ((_, failed),) = made.apply(declared).failures
    assert failed.error.code == "invalid-changelog"
    assert "at offset 3 would retract a row that does not exist" in failed.error.what
    assert [row[0] for row in made.rows("out")] == [0, 1, 2]


@given(st.data())
@settings(max_examples=examples(15, 500))
def test_matching_in_parts_finds_what_counting_finds(data: st.DataObject) -> None:
    """In memory or in files, the first record that takes back in vain is found of each row."""
    steps = data.draw(st.lists(st.tuples(st.sampled_from([0, 1, 2, 3]), st.integers(0, 3))))
    counts, expected = dict[int, int](), dict[int, int]()
    for at, (op, row) in enumerate(steps):
        counts[row] = counts.get(row, 0) + (1 if op in {0, 3} else -1)
        if counts[row] < 0:
            expected.setdefault(row, at)
    for most in (1 << 20, 3):
        with Retractions(most) as retractions:
            for start in range(0, len(steps), 2):
                part = steps[start : start + 2]
                rows = pa.table({"n": [None if n == 3 else float(n) for _, n in part],
                                 "s": ["x" * n for _, n in part]})  # fmt: skip
                ops = pa.array([op for op, _ in part], pa.int32())
                offsets = pa.array(range(start, start + len(part)), pa.int64())
                retractions.add(rows, ops, offsets)
            assert retractions.in_vain() == tuple(sorted(expected.values()))
