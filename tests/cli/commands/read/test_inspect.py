"""odfbuild inspect: blocks, schemas and queries, whole and as they were at any block."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataTypeInt64,
    DataTypeOption,
    DataTypeTime,
    MetadataBlock,
    MetadataEvent,
    SetDataSchema,
    SetInfo,
    SetTransform,
    SqlQueryStep,
    TransformSql,
)
from odfbuild.odf.identity import Multihash
from odfbuild.odf.manifest import from_manifest
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.wire.blocks import block_hash, encode_block
from odfbuild.project.yaml import read_documents
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.support.data.chains import NOON
from tests.support.process.inside import lay_out, without_jvm
from tests.support.process.within import Within
from tests.support.projects import probe
from tests.support.projects.texts import GOOD, root
from tests.support.values.newer import as_newer, in_envelope

DUMP = re.compile(r"([0-9a-f]{8})  ((?:[0-9a-f]{2} {1,2})+) *\|(.{1,16})\|")


@pytest.fixture
def here(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(project, capsys, monkeypatch)


def dataset(at: Within, name: str = "src") -> Dataset:
    found = Workspace(at.folder / ".odfbuild").open(DatasetAlias.parse(name))
    assert found is not None
    return found


def hashes(at: Within, name: str = "src") -> list[Multihash]:
    return [hash for hash, _ in dataset(at, name).blocks()]


def file_of(at: Within, hash: Multihash, name: str = "src") -> Path:
    return dataset(at, name).stores.blocks.path(hash)


def undumped(text: str) -> Iterator[int]:
    *lines, last = text.splitlines()
    for line in lines:
        found = DUMP.fullmatch(line)
        assert found is not None, line
        row = bytes.fromhex(found[2])
        assert [
            chr(byte) == sign for byte, sign in zip(row, found[3], strict=True) if 32 <= byte < 127
        ].count(False) == 0
        yield from row
    assert re.fullmatch("[0-9a-f]{8}", last)


# blocks


@pytest.mark.parametrize("name", ["src", "out"])
def test_a_block_is_shown_whole_by_file_and_by_hash(here: Within, name: str) -> None:
    found = dataset(here, name)
    for hash, block in found.blocks():
        path = file_of(here, hash, name)
        text = here.done("inspect", "block", str(hash))
        assert text == here.done("inspect", "block", str(path))
        size = f"{path.stat().st_size:,}"
        assert text.splitlines()[0] == f"# {hash}, {size} bytes"
        (document,) = read_documents(text, "block.yaml")
        assert from_manifest(document.value) == ("MetadataBlock", 2, block)
        loaded = json.loads(here.done("inspect", "block", str(hash), "-o", "json"))
        assert from_manifest(loaded) == ("MetadataBlock", 2, block)


def test_every_byte_of_a_block_is_dumped(here: Within) -> None:
    for hash in hashes(here):
        data = file_of(here, hash).read_bytes()
        text = here.done("inspect", "block", str(hash), "-o", "hex")
        assert bytes(undumped(text)) == data
        assert int(text.splitlines()[-1], 16) == len(data)


def test_the_short_hash_that_status_shows_will_do(here: Within) -> None:
    head = hashes(here)[-1]
    assert head.short() in here.done("status")
    text = here.done("inspect", "block", head.short())
    assert text.startswith(f"# {head}, ")


def test_a_file_needs_no_project(here: Within, tmp_path: Path) -> None:
    data = file_of(here, hashes(here)[0]).read_bytes()
    here.folder = tmp_path
    (tmp_path / "block").write_bytes(data)
    assert here.done("inspect", "block", "block").startswith(f"# {block_hash(data)}, ")


def test_any_file_can_be_dumped_but_only_blocks_are_shown(here: Within) -> None:
    path = here.folder / "file"
    path.write_bytes(bytes(range(256)))
    assert bytes(undumped(here.done("inspect", "block", "file", "-o", "hex"))) == bytes(range(256))
    for output in ("yaml", "json"):
        done = here("inspect", "block", "file", "-o", output)
        assert (done.code, done.out) == (1, "")
        assert "error[malformed-bytes]" in done.err


def test_a_block_whose_bytes_were_changed_is_refused_by_hash(here: Within) -> None:
    hash = hashes(here)[1]
    path = file_of(here, hash)
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    done = here("inspect", "block", str(hash))
    assert (done.code, "error[corrupt-object]" in done.err) == (1, True)


@pytest.mark.parametrize(
    "name", ["nowhere", "f1620" + "0" * 64, "000000", "abc", "", "../x", "no such file", "\x1b[2J"]
)
def test_what_is_neither_file_nor_hash_is_told(here: Within, name: str) -> None:
    done = here("inspect", "block", name)
    assert (done.code, done.out) == (1, "")
    assert "error[unknown-block]" in done.err
    assert "\x1b" not in done.err


def test_a_part_of_several_hashes_means_none(here: Within) -> None:
    found, head = dataset(here), hashes(here)[-1]
    begun: dict[str, Multihash] = {str(head)[:6]: head}
    for number in range(100):
        data = encode_block(
            MetadataBlock(
                system_time=NOON,
                prev_block_hash=head,
                sequence_number=9,
                event=SetInfo(description=str(number)),
            )
        )
        found.stores.blocks.put({block_hash(data): data})
        if (part := str(block_hash(data))[:6]) in begun:
            break
        begun[part] = block_hash(data)
    done = here("inspect", "block", part)
    assert (done.code, "error[ambiguous-block]" in done.err) == (1, True)


# schemas


def test_a_schema_is_shown_a_column_a_line(here: Within) -> None:
    assert here.done("inspect", "schema", "src") == (
        "offset BIGINT NOT NULL,\n"
        "op INT NOT NULL,\n"
        "system_time TIMESTAMP NOT NULL,\n"
        "t DATE NOT NULL,\n"
        "k STRING NOT NULL,\n"
        "v BIGINT\n"
    )


def test_all_forms_of_a_schema_say_the_same(here: Within) -> None:
    columns = here.done("inspect", "schema", "src").replace("\n", " ")
    fields = json.loads(here.done("inspect", "schema", "src", "-o", "json"))["fields"]
    arrow = here.done("inspect", "schema", "src", "-o", "arrow").splitlines()
    names = [field.name for field in parse_ddl(columns).fields]
    assert names == [field["name"] for field in fields]
    assert names == [line.split(":")[0] for line in arrow]
    required = [line.endswith(" not null") for line in arrow]
    assert required == [field["type"]["kind"] != "Option" for field in fields]


def test_a_schema_is_shown_as_it_was_at_a_block(here: Within) -> None:
    before = here.done("inspect", "schema", "src")
    here.done("ref", "set", "src", "narrow")
    wider = root(columns="t DATE NOT NULL, k STRING NOT NULL, v BIGINT, w STRING")
    lay_out(here.folder, {"datasets/src.yaml": wider, "data/2.csv": "t,k,v,w\n2024-01-03,c,3,x\n"})
    done = without_jvm("apply", "--yes", cwd=here.folder)
    assert done.code == 0, done.out + done.err
    after = here.done("inspect", "schema", "src")
    assert after == before.removesuffix("\n") + ",\nw STRING\n"
    assert here.done("inspect", "schema", "src", "--at", "narrow") == before


def test_before_its_first_data_a_dataset_has_no_schema(here: Within) -> None:
    done = here("inspect", "schema", "src", "--at", "0")
    assert (done.code, "error[not-there-yet]" in done.err) == (1, True)
    assert "as of block 0" in done.err


def test_a_block_or_dataset_that_is_not_there_is_told(here: Within) -> None:
    assert "error[unknown-block]" in here("inspect", "schema", "src", "--at", "77").err
    assert "did you mean 'src'?" in here("inspect", "schema", "srcc").err
    assert here("inspect", "schema", "src", "-o", "xml").code == 64


# queries


def test_a_query_is_shown_with_engine_inputs_and_steps(here: Within) -> None:
    lines = here.done("inspect", "query", "out").splitlines()
    assert re.fullmatch(r"engine  spark \d\S+", lines[0])
    assert lines[1] == f"input   src  {dataset(here).id}  src"
    assert lines[2:] == ["", "result:", "  select t, k, v from src"]


def test_a_query_is_shown_to_programs_as_its_event(here: Within) -> None:
    shown = json.loads(here.done("inspect", "query", "out", "-o", "json"))
    state = dataset(here, "out").state()
    assert state is not None
    assert from_manifest({"kind": "MetadataEvent", "version": 1, "content": shown})[2] == (
        state.transform
    )


def test_the_steps_of_a_query_are_named(here: Within) -> None:
    found = dataset(here, "out")
    state = found.state()
    assert state is not None
    assert state.transform is not None
    steps = (
        SqlQueryStep(alias="some", query="select *\nfrom src\n"),
        SqlQueryStep(query="select 1 from `s\x1b`"),
    )
    transform = TransformSql(engine="spark", version="1.0", queries=steps)
    event = SetTransform(inputs=state.transform.inputs, transform=transform)
    found.commit(CommitRequest((event,), state.system_time, ()), on=state)
    lines = here.done("inspect", "query", "out").splitlines()
    assert lines[0] == "engine  spark 1.0"
    assert lines[2:] == [
        "", "some:", "  select *", "  from src", "", "result:", "  select 1 from `s\\x1b`",
    ]  # fmt: skip
    earlier = here.done("inspect", "query", "out", "--at", str(state.sequence)).splitlines()
    assert earlier[-1] == "  select t, k, v from src"


def append(to: Dataset, event: MetadataEvent, union: str = "") -> None:
    """Put a block after the head; with the first member of a union made one we do not know."""
    state = to.state()
    assert state is not None
    block = MetadataBlock(
        system_time=state.system_time,
        prev_block_hash=state.head,
        sequence_number=state.sequence + 1,
        event=event,
    )
    data = in_envelope(as_newer(block, union, 200)) if union else encode_block(block)
    to.stores.blocks.put({block_hash(data): data})
    to.stores.heads.swap("head", expected=state.head, new=block_hash(data))


def test_a_query_of_a_newer_version_is_not_guessed_at(here: Within) -> None:
    found = dataset(here, "out")
    state = found.state()
    assert state is not None
    assert state.transform is not None
    append(found, state.transform, "Transform")
    done = here("inspect", "query", "out")
    assert (done.code, done.out) == (1, "")
    assert "error[unsupported-variant]" in done.err
    assert '"kind": "Unknown"' in here.done("inspect", "query", "out", "-o", "json")
    assert "kind: Unknown" in here.done("inspect", "block", hashes(here, "out")[-1].short())


def test_columns_that_ddl_has_no_words_for_are_shown_all_the_same(here: Within) -> None:
    fields = (
        DataField("first `one`", DataTypeTime()),
        DataField("second", DataTypeOption(DataTypeInt64())),
        DataField("third", DataTypeInt64()),
    )
    append(dataset(here), SetDataSchema(schema=DataSchema(fields)), "DataType")
    shown = here.done("inspect", "schema", "src").splitlines()
    assert shown == [
        "`first ``one``` Time(Millisecond) /* not in DDL */,",
        "second BIGINT,",
        "third Unknown(200) /* not in DDL */",
    ]
    refused = here("inspect", "schema", "src", "-o", "arrow")
    assert (refused.code, refused.out) == (1, "")
    assert "error[internal]" not in refused.err


def test_the_preprocessing_of_a_root_is_its_query(here: Within, tmp_path: Path) -> None:
    files = {"datasets/pre.yaml": root("pre", query="select t, k, v from input")}
    here.folder = lay_out(tmp_path / "pre", {**files, "data/1.csv": GOOD})
    without_jvm("apply", "--yes", cwd=here.folder)
    shown = here.done("inspect", "query", "pre")
    assert shown.splitlines()[-1] == "  select t, k, v from input"
    assert not any(line.startswith("input ") for line in shown.splitlines())
    assert json.loads(here.done("inspect", "query", "pre", "-o", "json"))["engine"] == "spark"


def test_a_dataset_without_a_query_has_none(here: Within) -> None:
    done = here("inspect", "query", "src")
    assert (done.code, "error[not-there-yet]" in done.err) == (1, True)
    done = here("inspect", "query", "out", "--at", "0")
    assert (done.code, "the block that sets it comes later" in done.err) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "block", "HEAD"],
        ["inspect", "schema", "src"],
        ["inspect", "schema", "src", "-o", "json"],
        ["inspect", "query", "out"],
        ["ref", "list", "src"],
        ["key", "list"],
        ["schema", "DataSchema"],
    ],
    ids=" ".join,
)
def test_looking_needs_neither_an_engine_nor_arrow(here: Within, arguments: list[str]) -> None:
    head = str(hashes(here)[-1])
    given = [head if each == "HEAD" else each for each in arguments]
    modules, started = probe(*given, cwd=here.folder)
    assert {"pyspark", "py4j", "pyarrow"}.isdisjoint(modules)
    assert started == set()
