"""How rows and what they were made of are drawn: what is cut, causes, and no row twice."""

from dataclasses import replace

from odfbuild.cli.render.provenance import explained_json, reason_lines, why_lines
from odfbuild.executors.engine.provenance.chain import WrittenBlock, all_written
from odfbuild.executors.engine.provenance.derive import Derivation, RowCause
from odfbuild.executors.verify.explanation import Explained, RowKey, RowOrigins
from odfbuild.odf.events import (
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    SetTransform,
    TransformInput,
)
from odfbuild.odf.refs import DatasetAlias
from tests.planner.builders import Chain, polling, schema, slice_of, sql

SOURCE = Chain("src", DatasetKind.ROOT, [schema("k BIGINT"), polling()]).rows(9)
ROOT = SOURCE.state.dataset
NAMES = {ROOT: DatasetAlias.parse("src")}


def _made() -> Chain:
    query = sql("select max(event_time) as event_time, k from src group by k")
    made = Chain(
        "out", DatasetKind.DERIVATIVE, [SetTransform((TransformInput(ROOT, "src"),), query)]
    )
    read = ExecuteTransformInput(dataset_id=ROOT, new_block_hash=SOURCE.state.head, new_offset=8)
    return made.add(ExecuteTransform(query_inputs=(read,), new_data=slice_of(0, 1)))


OUT = _made()
(WRITTEN,) = all_written(OUT.blocks)
(BELOW,) = all_written(SOURCE.blocks)
FIRST = RowKey(OUT.state.dataset, WRITTEN.block, 1)


def source(offset: int) -> Explained:
    return explained(RowKey(ROOT, BELOW.block, offset), BELOW, depth=1)


def explained(key: RowKey, written: WrittenBlock, depth: int = 0) -> Explained:
    return Explained(key=key, depth=depth, row={"offset": key.offset, "k": 1}, written=written)


def made_of(offsets: tuple[int, ...], followed: int) -> RowOrigins:
    assert WRITTEN.step is not None
    keys = tuple(RowKey(ROOT, BELOW.block, each) for each in offsets[:followed])
    return RowOrigins(read=WRITTEN.step.inputs[0], offsets=offsets, followed=keys)


def drawn(first: Explained, *others: Explained) -> list[str]:
    rows = {each.key: each for each in (first, *others)}
    return list(why_lines(first.key, rows, NAMES, {each.key: "from a file" for each in others}))


def test_what_is_cut_is_counted_and_what_is_not_looked_into_is_said() -> None:
    first = replace(explained(FIRST, WRITTEN), made_of=(made_of((0, 1, 2, 3, 7), 2),))
    assert drawn(first, source(0)) == [
        "├─ src, offset 0: k=1",
        f"│  block 3, {BELOW.block.short()}, from a file",
        "├─ src, offset 1: not examined",
        "└─ src: and 3 rows more, offsets 2 to 3, 7",
    ]
    gone = replace(made_of((0,), 0), missing=True)
    assert drawn(replace(first, made_of=(gone,))) == ["└─ src: its chain is not in the workspace"]


def test_a_row_that_several_were_made_of_is_drawn_once() -> None:
    twice = (made_of((0,), 1), made_of((0,), 1))
    lines = drawn(replace(explained(FIRST, WRITTEN), made_of=twice), source(0))
    assert lines[-1] == "└─ src, offset 0: see above"


def test_a_row_of_a_query_before_leads_to_the_record_that_it_takes_back() -> None:
    before = RowKey(OUT.state.dataset, WRITTEN.block, 0)
    first = replace(explained(FIRST, WRITTEN), unknown="no reason", takes_back=before)
    below = replace(explained(before, WRITTEN), made_of=(made_of((0,), 1),))
    assert list(reason_lines(first)) == [
        "made of rows that cannot be determined: no reason",
        "it retracts offset 0 of the same dataset",
    ]
    lines = drawn(first, below, source(0))
    assert [each.partition(",")[0].strip() for each in lines][2:4] == [
        "made of rows that are not followed (--depth)",
        "└─ src",
    ]
    rows = {each.key: each for each in (first, below)}
    found = explained_json(rows, NAMES, dict.fromkeys(rows))
    assert (found["exact"], found["rows"][0]["takes_back"]) == (False, 0)


def test_causes_and_doubts_are_told() -> None:
    known = Derivation(why={"src": (0, 1)}, of={"src": 5}, cause=RowCause(offsets={"src": (1,)}))

    def told(**changes: object) -> list[str]:
        derived = replace(known, **changes)  # type: ignore[arg-type]
        return list(reason_lines(replace(explained(FIRST, WRITTEN), derivation=derived)))

    assert told() == ["made of 2 rows, of 5 candidates", "it came by src, offset 1"]
    moved = RowCause(offsets={}, watermark=True)
    assert told(cause=moved)[-1] == "it came because the watermark moved"
    changed = RowCause(offsets={}, query=True)
    assert told(cause=changed)[-1] == "it came because the query changed"
    gone = told(comes=False, of={"src": 2}, exact=False, reason="there is a doubt")
    assert gone == [
        "until then made of 2 rows",
        "not exact: there is a doubt",
        "it went by src, offset 1",
    ]
