"""What may be appended where the published cases say nothing, or the profiles differ."""

from dataclasses import replace

import pytest

from odfbuild.errors import ProtocolError
from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.errors import (
    AppendingSeedBlockToNonEmptyChainError,
    ChainProfile,
    FirstBlockMustBeSeedError,
    HashMismatchError,
    InvalidEventError,
    NoOpEventError,
    PrevBlockNotFoundError,
)
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import (
    AddData,
    DataField,
    DataSchema,
    DataType,
    DataTypeDuration,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    FetchStepEthereumLogs,
    MetadataEvent,
    ReadStepNdJson,
    SetDataSchema,
    SetInfo,
    SetTransform,
    SetVocab,
    SourceState,
    SqlQueryStep,
    TimeUnit,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.arrow_bytes import arrow_bytes
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.timestamp import Timestamp
from tests.support.data.chains import (
    DERIVATIVE,
    INPUTS,
    NOON,
    POLLING,
    PUSH,
    ROOT,
    SCHEMA,
    after,
    checkpoint_of,
    grown,
    later,
    read_of,
    set_transform,
    slice_of,
)

HEAD, OLD, SPEC = ChainProfile.REFERENCE_HEAD, ChainProfile.REFERENCE_2024, ChainProfile.SPEC
FOO, BAR, BAZ = INPUTS


def check(state: ChainState | None, event: MetadataEvent, profile: ChainProfile = SPEC) -> None:
    check_append(state, after(state, event).block, profile=profile)


def refused(
    state: ChainState | None, event: MetadataEvent, message: str, profile: ChainProfile = SPEC
) -> None:
    with pytest.raises(InvalidEventError, match=message):
        check(state, event, profile)


def state_of(name: str) -> AddData:
    return AddData(new_source_state=SourceState(name, "odf/etag", "1"))


def test_the_state_of_a_source_is_that_of_one_that_was_declared() -> None:
    """Polling sources have no names; the references write states without any source."""
    check(grown(ROOT), state_of("default"))
    for name in ("default", "odf/polling", "x"):
        check(grown(ROOT, POLLING), state_of(name))
    pushed = grown(ROOT, PUSH)
    check(pushed, state_of("devices"))
    for name in ("default", "device", "x"):
        refused(pushed, state_of(name), f"the state of a source '{name}', which was never declared")
        check(pushed, state_of(name), HEAD)


def test_the_state_of_a_source_that_has_ended_may_be_carried() -> None:
    other = replace(PUSH, source_name="other")
    ended = grown(ROOT, PUSH, other, state_of("other"), DisablePushSource("other"))
    check(ended, replace(state_of("other"), new_watermark=NOON))
    refused(ended, state_of("another"), "'another', which was never declared")


# the place of a block


def test_the_first_block_may_not_name_one_before_it() -> None:
    block = replace(after(None, ROOT).block, prev_block_hash=sha3_256(b""))
    with pytest.raises(AppendingSeedBlockToNonEmptyChainError):
        check_append(None, block)


def test_a_first_block_that_names_another_is_not_found_missing_its_seed() -> None:
    block = replace(after(None, SetInfo()).block, prev_block_hash=sha3_256(b""))
    with pytest.raises(PrevBlockNotFoundError) as caught:
        check_append(None, block)
    assert caught.value.missing == sha3_256(b"")


def test_a_later_block_has_to_name_the_one_before_it() -> None:
    block = replace(after(grown(ROOT), SetInfo()).block, prev_block_hash=None)
    with pytest.raises(FirstBlockMustBeSeedError, match="names no previous block"):
        check_append(grown(ROOT), block)


def test_a_second_seed_is_refused() -> None:
    with pytest.raises(AppendingSeedBlockToNonEmptyChainError):
        check(grown(ROOT), ROOT)


def test_an_announced_hash_is_compared_only_with_a_known_one() -> None:
    link = after(None, ROOT)
    check_append(None, link.block, block_hash=link.hash, expected_hash=link.hash)
    check_append(None, link.block, expected_hash=sha3_256(b""))
    with pytest.raises(HashMismatchError) as caught:
        check_append(None, link.block, block_hash=link.hash, expected_hash=sha3_256(b""))
    assert (caught.value.expected, caught.value.actual) == (sha3_256(b""), link.hash)


# sources


@pytest.mark.parametrize("start", [POLLING, PUSH])
def test_a_source_of_one_kind_shuts_out_the_other_until_it_ends(start: MetadataEvent) -> None:
    other, end = (PUSH, DisablePollingSource()) if start is POLLING else (POLLING, _end_of_push())
    refused(grown(ROOT, start), other, "the dataset has")
    check(grown(ROOT, start, end), other)
    check(grown(ROOT, start, end), start)


def _end_of_push() -> DisablePushSource:
    return DisablePushSource(PUSH.source_name)


def test_a_source_that_is_not_there_cannot_end() -> None:
    refused(grown(ROOT), DisablePollingSource(), "no such source")
    refused(grown(ROOT, PUSH), DisablePollingSource(), "no such source")
    refused(grown(ROOT, PUSH), DisablePushSource("other"), "no such source")
    refused(grown(ROOT, PUSH, _end_of_push()), _end_of_push(), "no such source")


def test_ending_one_push_source_leaves_the_others() -> None:
    second = replace(PUSH, source_name="second")
    state = grown(ROOT, PUSH, second, _end_of_push())
    assert dict(state.push) == {"second": second}
    refused(state, POLLING, "push sources: second")


@pytest.mark.parametrize("profile", [OLD, HEAD])
def test_the_references_do_not_take_the_end_of_a_source(profile: ChainProfile) -> None:
    refused(grown(ROOT, POLLING), DisablePollingSource(), "cannot append it", profile)


def test_a_push_source_may_change_but_not_be_set_twice_the_same() -> None:
    changed = replace(PUSH, read=ReadStepNdJson(ddl_schema=("b STRING",)))
    check(grown(ROOT, PUSH), changed)
    check(grown(ROOT, PUSH), PUSH, OLD)
    for profile in (SPEC, HEAD):
        with pytest.raises(NoOpEventError, match="'devices' is already so"):
            check(grown(ROOT, PUSH), PUSH, profile)


def test_logs_of_a_chain_need_to_know_which() -> None:
    source = replace(POLLING, fetch=FetchStepEthereumLogs())
    refused(grown(ROOT), source, "neither chainId nor nodeUrl")
    check(grown(ROOT), replace(source, fetch=FetchStepEthereumLogs(chain_id=0)))
    check(grown(ROOT), replace(source, fetch=FetchStepEthereumLogs(node_url="wss://e.org")))


def test_a_read_step_has_at_most_one_schema() -> None:
    both = ReadStepNdJson(ddl_schema=("a BIGINT",), schema=parse_ddl("a BIGINT"))
    refused(grown(ROOT), replace(POLLING, read=both), "both a DDL and an ODF schema")
    refused(grown(ROOT), replace(PUSH, read=both), "both a DDL and an ODF schema", HEAD)


# transforms


def test_the_query_before_the_last_needs_an_alias() -> None:
    steps = (SqlQueryStep(query="select 1"), SqlQueryStep(query="select 2"))
    event = replace(set_transform(FOO), transform=TransformSql(engine="spark", queries=steps))
    refused(grown(DERIVATIVE), event, "before the last has no alias")
    named = (replace(steps[0], alias="one"), steps[1])
    check(grown(DERIVATIVE), replace(event, transform=TransformSql(engine="s", queries=named)))


def test_inputs_are_named_by_id_and_have_an_alias() -> None:
    base = set_transform(FOO)
    by_name = TransformInput(DatasetAlias(None, "foo"), "foo")
    refused(grown(DERIVATIVE), replace(base, inputs=(by_name,)), "foo is not resolved")
    refused(grown(DERIVATIVE), replace(base, inputs=(TransformInput(FOO),)), "is not resolved")


def test_an_input_may_be_named_twice_only_in_2024() -> None:
    twice = set_transform(FOO, FOO)
    check(grown(DERIVATIVE), twice, OLD)
    refused(grown(DERIVATIVE), twice, "names an input twice", HEAD)


def step_over(
    *reads: tuple[int | None, int | None], watermark: Timestamp | None = NOON
) -> ExecuteTransform:
    inputs = tuple(read_of(each, *read) for each, read in zip(INPUTS, reads, strict=False))
    return ExecuteTransform(query_inputs=inputs, new_watermark=watermark)


def test_an_input_that_moved_is_news_though_nothing_else_is_but_not_in_2024() -> None:
    state = grown(DERIVATIVE, set_transform(FOO), step_over((None, 9)))
    moved, still = step_over((9, 12)), step_over((9, None))
    for profile in (SPEC, HEAD):
        check(state, moved, profile)
        with pytest.raises(NoOpEventError):
            check(state, still, profile)
    with pytest.raises(NoOpEventError):
        check(state, moved, OLD)


def test_an_execution_without_output_is_empty_even_if_inputs_moved() -> None:
    event = step_over((None, 9), watermark=None)
    with pytest.raises(NoOpEventError, match="is empty"):
        check(grown(DERIVATIVE, set_transform(FOO)), event)


def test_the_first_execution_reads_from_the_start() -> None:
    state = grown(DERIVATIVE, set_transform(FOO))
    refused(state, step_over((4, 9)), "prevBlockHash is not")
    check(state, step_over((4, 9)), HEAD)  # the references look at the first one less closely


def test_offsets_do_not_move_without_blocks() -> None:
    read = read_of(FOO, None, 9, block=False)
    event = ExecuteTransform(query_inputs=(read,), new_watermark=NOON)
    refused(grown(DERIVATIVE, set_transform(FOO)), event, "new records without a new block")


def test_a_wrong_prev_offset_of_an_input_is_refused() -> None:
    state = grown(DERIVATIVE, set_transform(FOO), step_over((None, 9)))
    read = replace(read_of(FOO, 9, 12), prev_offset=8)
    event = ExecuteTransform(query_inputs=(read,), new_watermark=NOON)
    for profile in ChainProfile:
        refused(state, event, "prevOffset is not", profile)


def test_inputs_are_told_apart_by_id_when_the_transform_changes_them() -> None:
    ran = grown(DERIVATIVE, set_transform(FOO, BAR), step_over((None, 9), (None, 5)))
    link = after(ran, set_transform(BAR, BAZ))
    state = fold(ran, link.block, link.hash)
    reads = (read_of(BAR, 5, 7), read_of(BAZ, None, 3))
    swapped = ExecuteTransform(query_inputs=reads, new_watermark=NOON)
    check(state, swapped)
    refused(state, swapped, "prevBlockHash is not", HEAD)


def test_an_input_that_comes_back_is_read_on_where_it_was_left() -> None:
    alone = ExecuteTransform(query_inputs=(read_of(BAR, None, 1),), new_watermark=NOON)
    state = grown(DERIVATIVE, set_transform(FOO), step_over((None, 9)), set_transform(BAR), alone)
    link = after(state, set_transform(FOO))
    again = fold(state, link.block, link.hash)
    check(again, step_over((9, 12)))
    refused(again, step_over((None, 12)), "prevBlockHash is not")


def test_progress_stays_when_a_step_reads_nothing_of_an_input() -> None:
    transform = set_transform(FOO, BAR)
    state = grown(
        DERIVATIVE, transform, step_over((None, 9), (None, 5)), step_over((9, None), (5, 6))
    )
    assert [state.progress[each].new_offset for each in (FOO, BAR)] == [9, 6]
    check(state, step_over((9, 10), (6, None)))


def test_the_inputs_of_the_last_execution_count_where_no_transform_is_known() -> None:
    state = replace(grown(DERIVATIVE, set_transform(FOO), step_over((None, 9))), transform=None)
    check(state, step_over((9, 12)))
    refused(state, step_over((9, 12), (None, 1)), "not those of SetTransform")


def test_a_transform_is_new_until_it_has_run() -> None:
    state = grown(DERIVATIVE, set_transform(FOO))
    assert state.transform_is_new
    ran = grown(DERIVATIVE, set_transform(FOO), step_over((None, 9)))
    assert not ran.transform_is_new


@pytest.mark.parametrize(
    ("version", "query", "engine", "is_new"),
    [
        ("2", "select 1", "spark", False),
        (None, "select 1", "spark", False),
        ("2", "select 2", "spark", True),
        ("2.restate", "select 1", "spark", True),
        ("2", "select 1", "datafusion", True),
        ("2.continued", "select 1", "datafusion", False),
        ("2.continued", "select 2", "datafusion", True),
    ],
)
def test_another_version_of_the_engine_makes_no_new_transform(
    version: str | None, query: str, engine: str, is_new: bool
) -> None:
    def asks(version: str | None, query: str, engine: str) -> SetTransform:
        steps = (SqlQueryStep(query=query),)
        sql = TransformSql(engine=engine, version=version, queries=steps)
        return replace(set_transform(FOO), transform=sql)

    first, other = asks("1", "select 1", "spark"), asks(version, query, engine)
    ran = grown(DERIVATIVE, first, step_over((None, 9)), other)
    assert ran.transform == other
    assert ran.transform_is_new is is_new
    assert grown(DERIVATIVE, first, other).transform_is_new


# what belongs into which kind


@pytest.mark.parametrize(
    ("seed", "event"),
    [
        (DERIVATIVE, POLLING),
        (DERIVATIVE, PUSH),
        (DERIVATIVE, AddData(new_watermark=NOON)),
        (ROOT, set_transform(FOO)),
        (ROOT, step_over((None, 9))),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_event_of_the_other_kind_of_dataset_is_refused(
    seed: MetadataEvent, event: MetadataEvent
) -> None:
    refused(grown(seed), event, "does not belong into a")


@pytest.mark.parametrize("profile", [OLD, HEAD])
def test_the_references_do_not_look_at_the_kind(profile: ChainProfile) -> None:
    check(grown(ROOT), set_transform(FOO), profile)
    check(grown(DERIVATIVE), POLLING, profile)


# data


def test_zero_is_an_offset() -> None:
    state = grown(ROOT, SCHEMA, AddData(new_data=slice_of(0, 0)))
    assert (state.last_offset, state.next_offset, state.has_data) == (0, 1, True)
    check(state, AddData(prev_offset=0, new_data=slice_of(1, 1)))
    refused(state, AddData(new_data=slice_of(0, 0)), "prevOffset is None, the last offset is 0")


def test_a_chain_without_records_yet_still_fixes_the_absent_offset() -> None:
    state = grown(ROOT, SCHEMA, AddData(new_watermark=NOON))
    refused(state, AddData(prev_offset=3, new_watermark=later(1)), "prevOffset is 3")


def test_a_checkpoint_that_is_not_carried_is_forgotten() -> None:
    kept = AddData(new_checkpoint=checkpoint_of("a"), new_watermark=NOON)
    state = grown(ROOT, kept)
    dropping = AddData(prev_checkpoint=checkpoint_of("a").physical_hash, new_watermark=later(1))
    state = grown(ROOT, kept, dropping)
    assert state.checkpoint is None
    check(state, AddData(new_watermark=later(2)))
    carried = replace(dropping, new_watermark=later(2))
    refused(state, carried, "the last checkpoint is None")


def test_a_vocabulary_takes_defaults_for_what_it_leaves_out() -> None:
    state = grown(ROOT, SetVocab(offset_column="o", event_time_column="t"), SetVocab())
    assert state.vocab == grown(ROOT).vocab
    named = grown(ROOT, SetVocab(offset_column="o", event_time_column="t")).vocab
    assert (named.offset_column, named.operation_type_column) == ("o", "op")
    assert (named.system_time_column, named.event_time_column) == ("system_time", "t")


# schemas


def with_field(type: DataType, name: str = "x") -> SetDataSchema:
    return SetDataSchema(schema=DataSchema(fields=(DataField(name, type),)))


INT, TEXT = DataTypeInt64(), DataTypeString()


def struct(*fields: tuple[str, DataType]) -> DataTypeStruct:
    return DataTypeStruct(fields=tuple(DataField(name, type) for name, type in fields))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (DataTypeTimestamp(), DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC")),
        (DataTypeTime(), DataTypeTime(TimeUnit.MILLISECOND)),
        (DataTypeDuration(), DataTypeDuration(TimeUnit.MILLISECOND)),
        (struct(("a", INT)), struct(("a", INT), ("b", DataTypeOption(INT)))),
        (struct(("a", INT), ("b", TEXT)), struct(("b", TEXT), ("a", INT))),
        (
            DataTypeOption(DataTypeList(struct(("a", INT)))),
            DataTypeOption(DataTypeList(struct(("a", INT), ("b", DataTypeOption(INT))))),
        ),
        (DataTypeMap(TEXT, INT), DataTypeMap(TEXT, INT, keys_sorted=True)),
    ],
)
def test_a_type_may_be_spelled_otherwise_or_gain_an_optional_field(
    old: DataType, new: DataType
) -> None:
    for profile in (SPEC, HEAD):
        check(grown(ROOT, with_field(old)), with_field(new), profile)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (INT, DataTypeInt32(), "'x' changed its type"),
        (INT, DataTypeOption(INT), "'x' became optional"),
        (DataTypeOption(INT), INT, "'x' became required"),
        (DataTypeTimestamp(), DataTypeTimestamp(TimeUnit.SECOND), "'x' changed its type"),
        (DataTypeTimestamp(), DataTypeTimestamp(None, "Europe/Paris"), "'x' changed its type"),
        (struct(("a", INT)), struct(("b", DataTypeOption(INT))), "'x.a' is gone"),
        (struct(("a", INT)), struct(("a", INT), ("b", INT)), "'x.b' is required"),
        (DataTypeList(INT), DataTypeList(TEXT), r"'x\[\]' changed its type"),
        (DataTypeList(INT), DataTypeList(INT, fixed_length=2), "'x' changed its type"),
        (DataTypeMap(TEXT, INT), DataTypeMap(TEXT, TEXT), "'x.value' changed its type"),
        (DataTypeMap(TEXT, INT), DataTypeMap(INT, INT), "'x.key' changed its type"),
    ],
)
def test_a_change_that_breaks_readers_is_refused(
    old: DataType, new: DataType, message: str
) -> None:
    for profile in (SPEC, HEAD):
        refused(grown(ROOT, with_field(old)), with_field(new), message, profile)
    check(grown(ROOT, with_field(old)), with_field(new), OLD)


def arrow(text: str) -> SetDataSchema:
    return SetDataSchema(raw_arrow_schema=arrow_bytes(parse_ddl(text)))


def test_schemas_in_arrow_form_are_held_to_the_same_rules_but_by_the_references() -> None:
    state = grown(ROOT, arrow("a BIGINT"))
    check(state, arrow("a BIGINT, b STRING"))
    refused(state, arrow("b STRING"), "'a' is gone")
    refused(state, arrow("a STRING"), "'a' changed its type")
    with pytest.raises(NoOpEventError):
        check(state, arrow("a BIGINT"))
    for profile in (HEAD, OLD):
        check(state, arrow("b STRING"), profile)
        check(state, arrow("a BIGINT"), profile)


def test_optionality_is_not_compared_with_a_schema_in_arrow_form() -> None:
    state = grown(ROOT, arrow("a BIGINT"))
    for profile in (SPEC, HEAD):
        check(state, with_field(INT, "a"), profile)
        refused(state, with_field(TEXT, "a"), "'a' changed its type", profile)


def test_a_schema_event_has_a_schema() -> None:
    refused(grown(ROOT), SetDataSchema(), "has no schema")


def test_bytes_that_are_no_schema_are_refused_when_compared() -> None:
    with pytest.raises(ProtocolError):
        check(grown(ROOT, arrow("a BIGINT")), SetDataSchema(raw_arrow_schema=b"\x00"))


def test_the_block_of_a_refused_event_says_what_why_and_the_way_out() -> None:
    with pytest.raises(InvalidEventError) as caught:
        state = grown(ROOT, SCHEMA, AddData(new_data=slice_of(0, 5)))
        check(state, AddData(prev_offset=5, new_data=slice_of(6, 4)))
    error = caught.value
    assert "ends at 4, before its start 6" in error.what
    assert error.why
    assert error.fix
