"""Records of runs that others wrote into a store, as they are brought to this machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.remote.client import ObjectClient, StoredObject
from odfbuild.state.remote.runs import BucketRuns
from odfbuild.state.runs import RunSummary, begin_run, find_run, list_runs, read_events
from tests.support.servers.memory_store import MemoryClient

LARGEST = 1 << 16


@pytest.fixture
def client(tmp_path: Path) -> MemoryClient:
    """Return a store with the record of one run of another machine."""
    there = tmp_path / "there"
    there.mkdir()
    began = Timestamp.parse("2026-01-01T00:00:00Z")
    summary = RunSummary(
        id="01abc-xyz", command="apply", started=began, user="ann", host="far", pid=7,
        project="p", target="dev", version="1", steps=1,
    )  # fmt: skip
    run = begin_run(there, summary, "{}")
    assert run is not None
    run.write({"event": "dataset_started", "step": "ingest:src", "dataset": "src"})
    run.close()
    store = MemoryClient()
    BucketRuns(store, there).send(run.summary.id)
    return store


@pytest.fixture
def bring(client: MemoryClient, tmp_path: Path) -> Callable[..., Path]:
    def brought(of: ObjectClient = client) -> Path:
        here = tmp_path / "here"
        here.mkdir(exist_ok=True)
        BucketRuns(of, here, LARGEST).bring(())
        return here

    return brought


def grown(client: MemoryClient, name: str, run: str = "02big-xyz") -> None:
    """Put a record into the store of which one file is larger than any may be."""
    for key, (data, at) in list(client.objects.items()):
        made = data + b" " * (LARGEST if key.endswith(name) else 0)
        client.objects[key.replace("01abc-xyz", run)] = made, at


def test_a_record_is_brought_as_it_is(client: MemoryClient, bring: Callable[..., Path]) -> None:
    here = bring()
    for key, (data, _) in client.objects.items():
        assert (here / key).read_bytes() == data
    assert [each["event"] for each in read_events(here, "01abc-xyz")] == ["dataset_started"]


@pytest.mark.parametrize("name", ["summary.json", "plan.json", "events.ndjson"])
def test_one_that_is_too_large_is_not_read_and_counts_as_damaged(
    name: str, client: MemoryClient, bring: Callable[..., Path]
) -> None:
    grown(client, name)
    client.asked.clear()
    found = list_runs(bring())
    assert [each.id for each in found.runs] == ["01abc-xyz"]
    assert found.damaged == ("02big-xyz",)
    assert not [key for method, key in client.asked if method == "GET" and "02big" in key]
    client.objects = {key: each for key, each in client.objects.items() if "02big" not in key}
    assert list_runs(bring()).damaged == ()


class EndlessClient(MemoryClient):
    """A client of a store in which no file ends, whatever size is said."""

    given = 0

    @contextmanager
    def open(self, key: str, start: int) -> Iterator[Iterator[bytes]]:
        def pieces() -> Iterator[bytes]:
            while self.given < 1 << 30:
                self.given += 1 << 12
                yield bytes(1 << 12)

        yield pieces()


def test_a_file_that_is_larger_than_the_store_says_is_left_there(
    client: MemoryClient, bring: Callable[..., Path]
) -> None:
    endless = EndlessClient(objects=client.objects)
    here = bring(endless)
    assert endless.given <= LARGEST + (1 << 13)
    assert list_runs(here).damaged == ("01abc-xyz",)
    assert sum(each.stat().st_size for each in here.rglob("*") if each.is_file()) < 1_000


@pytest.mark.parametrize("run", ["..", ".", "", ".hidden", "a\0b", "x" * 300, "a b"])
def test_what_is_no_name_of_a_run_gets_no_folder(
    run: str, client: MemoryClient, bring: Callable[..., Path]
) -> None:
    for key, each in list(client.objects.items()):
        client.objects[key.replace("01abc-xyz", run)] = each
    here = bring()
    assert [each.name for each in here.iterdir()] == ["runs"]
    assert [each.name for each in (here / "runs").iterdir()] == ["01abc-xyz"]
    assert find_run(here, "last").id == "01abc-xyz"


def test_one_that_goes_while_it_is_brought_is_none(
    client: MemoryClient, bring: Callable[..., Path]
) -> None:
    class Late(MemoryClient):
        def listed(self, prefix: str) -> Iterator[StoredObject]:
            found = list(super().listed(prefix))
            yield from (replace(each, key=each.key.replace("01abc", "03gone")) for each in found)
            yield from found

    here = bring(Late(objects=client.objects))
    assert [each.id for each in list_runs(here).runs] == ["01abc-xyz"]
    assert list_runs(here).damaged == ()
