"""The index is only a cache: whatever happens to its file, states are what chains say."""

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.odf.chain.snapshot import to_bytes
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetInfo
from odfbuild.odf.identity import DatasetId
from odfbuild.state.chain import index as index_module
from odfbuild.state.chain.index import Index
from tests.support.data.chains import OUR_ID, ROOT, Link, chains, folded, grown, some_hash

STATE = grown(ROOT, SetInfo(description="x"))


def filled(path: Path) -> Path:
    index = Index(path)
    index.put(STATE)
    index.close()
    return path


@given(chains())
def test_a_state_comes_back_as_it_was_put(links: list[Link]) -> None:
    state = folded(links)
    assert state is not None
    index = Index()
    index.put(state)
    assert index.get(OUR_ID) == state
    assert index.get_many({OUR_ID: state.head}) == {OUR_ID: state}


def test_a_file_keeps_states_for_the_next_process(tmp_path: Path) -> None:
    assert Index(filled(tmp_path / "index.sqlite")).get(OUR_ID) == STATE


def test_only_the_latest_state_of_a_dataset_is_kept() -> None:
    index = Index()
    index.put(grown(ROOT))
    index.put(STATE)
    assert index.get(OUR_ID) == STATE


def test_many_states_are_those_at_exactly_the_given_heads() -> None:
    index = Index()
    other = DatasetId(b"\x07" * 32)
    index.put(STATE)
    assert index.get_many({OUR_ID: some_hash("newer")}) == {}
    assert index.get_many({other: STATE.head}) == {}
    assert index.get_many({}) == {}


def test_an_unknown_dataset_has_no_state() -> None:
    assert Index().get(OUR_ID) is None


def test_a_workspace_that_is_not_there_yet_has_an_index_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "later" / "index.sqlite"
    index = Index(path)
    index.put(STATE)
    assert index.get(OUR_ID) == STATE
    path.parent.mkdir()
    assert index.get(OUR_ID) is None  # from now on the file counts
    index.put(STATE)
    index.close()
    assert Index(path).get(OUR_ID) == STATE


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\x00" + b"\xff" * 99])
def test_a_file_that_is_no_database_is_started_anew(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    path.write_bytes(content)
    index = Index(path)
    assert index.get(OUR_ID) is None
    index.put(STATE)
    index.close()
    assert Index(path).get(OUR_ID) == STATE


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**20), st.binary(min_size=1, max_size=600))
def test_damage_anywhere_costs_time_but_never_truth(tmp_path: Path, at: int, damage: bytes) -> None:
    path = tmp_path / "index.sqlite"
    path.unlink(missing_ok=True)
    whole = filled(path).read_bytes()
    at %= len(whole)
    path.write_bytes((whole[:at] + damage + whole[at + len(damage) :])[: len(whole)])
    index = Index(path)
    found = index.get(OUR_ID)
    assert found is None or found == STATE
    assert index.get_many({OUR_ID: STATE.head}) in ({}, {OUR_ID: STATE})
    index.close()


def test_damage_found_while_reading_starts_the_file_anew(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    index = Index(path)
    index.put(*(_of_dataset(n) for n in range(200)))
    index.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    reopened = Index(path)
    assert reopened.get_many({OUR_ID: STATE.head}) == {}
    reopened.put(STATE)
    reopened.put(STATE)
    assert reopened.get(OUR_ID) == STATE
    reopened.close()


def _of_dataset(n: int) -> ChainState:
    state = grown(ROOT, SetInfo(description="x" * 300))
    object.__setattr__(state, "dataset", DatasetId(n.to_bytes(32, "big")))
    return state


def changed(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.execute(statement, values)
    opened.close()


def test_states_of_another_version_are_not_read(tmp_path: Path) -> None:
    path = filled(tmp_path / "index.sqlite")
    changed(path, "update about set format = 'older'")
    index = Index(path)
    assert index.get(OUR_ID) is None
    index.put(STATE)
    assert index.get(OUR_ID) == STATE


def test_tables_of_another_version_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.execute("create table states (something text)")
    opened.close()
    index = Index(path)
    index.put(STATE)
    assert index.get(OUR_ID) == STATE


def test_a_table_that_is_gone_is_made_again(tmp_path: Path) -> None:
    path = filled(tmp_path / "index.sqlite")
    changed(path, "drop table states")
    index = Index(path)
    assert index.get(OUR_ID) is None
    index.put(STATE)
    assert index.get(OUR_ID) == STATE


@pytest.mark.parametrize(
    "data", [b"", b"{}", to_bytes(_of_dataset(3)), to_bytes(grown(ROOT)), "text"]
)
def test_a_row_that_is_not_what_it_says_is_not_used(data: bytes | str, tmp_path: Path) -> None:
    path = filled(tmp_path / "index.sqlite")
    check_sum = zlib.crc32(data if isinstance(data, bytes) else b"")
    changed(path, "update states set state = ?, check_sum = ?", data, check_sum)
    assert Index(path).get(OUR_ID) is None
    assert Index(path).get_many({OUR_ID: STATE.head}) == {}


def test_a_row_with_one_wrong_bit_is_not_used(tmp_path: Path) -> None:
    path = filled(tmp_path / "index.sqlite")
    data = bytearray(to_bytes(STATE))
    data[data.index(b'"x"') + 1] ^= 1
    changed(path, "update states set state = ?", bytes(data))
    assert Index(path).get(OUR_ID) is None


def test_a_file_that_others_keep_busy_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(
        index_module, "_connect", lambda path: connect(path, timeout=0, check_same_thread=False)
    )
    path = filled(tmp_path / "index.sqlite")
    other = connect(path, isolation_level=None)
    index = Index(path)
    assert index.get(OUR_ID) == STATE
    other.execute("begin exclusive")
    index.put(grown(ROOT))  # is lost, as a cache may
    other.execute("rollback")
    assert index.get(OUR_ID) == STATE
    other.close()


def test_a_place_where_no_file_can_be_is_done_without(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    path.mkdir()
    index = Index(path)
    index.put(STATE)
    assert index.get(OUR_ID) == STATE
