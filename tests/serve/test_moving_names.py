"""Datasets of a store that get other names, and lose blocks, while readers of a server ask."""

import threading
import time
from pathlib import Path

import httpx
import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.remote.workspace import BucketWorkspace
from tests.serve.copies import grow, made
from tests.serve.test_stores import eventually, reading
from tests.support.servers.datasets import serving_datasets
from tests.support.servers.object_store import ObjectServer

SHOWN, ASIDE, THIRD = map(DatasetAlias.parse, ("shown", "aside", "third"))
_REFUSALS = {404, 409, 503}
_TIMES = 20


@pytest.fixture
def url(store: ObjectServer, request: pytest.FixtureRequest) -> str:
    return store.url(f"moving-{abs(hash(request.node.nodeid))}")


@pytest.mark.slow
def test_readers_see_one_dataset_or_the_other_behind_a_name(url: str, tmp_path: Path) -> None:
    here = BucketWorkspace(url)
    few = made(here, "shown", 1)
    many = grow(here, made(here, "aside"), 3, rows=5)
    datasets = [few, many]
    blocks = [{str(hash) for hash, _ in each.blocks()} for each in datasets]
    files = [{str(each.physical_hash) for each in one.data_slices()} for one in datasets]
    wrong: list[str] = []
    seen: set[int] = set()
    over = threading.Event()

    def check(client: httpx.Client, name: str) -> None:
        for path, said in (("refs/head", blocks), ("history", blocks), ("history?limit=9", files)):
            answer = client.get(f"{name}/{path}")
            if answer.status_code in _REFUSALS:
                continue
            found = _facts(path, answer)
            fits = [n for n, each in enumerate(said) if found and each.issuperset(found)]
            if answer.status_code != 200 or len(fits) != 1:
                wrong.append(f"{name}/{path}: {answer.status_code} {answer.text[:300]} {fits}")
            seen.update(fits)

    with serving_datasets(tmp_path, store=url) as server, reading(server) as client:
        eventually(lambda: client.get("shown/refs/head").status_code == 200)

        def read() -> None:
            while not over.is_set():
                check(client, "shown")
                check(client, "aside")

        readers = [threading.Thread(target=read) for _ in range(3)]
        for each in readers:
            each.start()
        try:
            for _ in range(_TIMES):
                undo(many)
                here.rename(SHOWN, THIRD)
                here.rename(ASIDE, SHOWN)
                here.rename(THIRD, ASIDE)
                over.wait(1.2)
        finally:
            over.set()
            for each in readers:
                each.join()
        assert not wrong, wrong[:3]
        assert seen == {0, 1}
        names = here.names()
        last = [str(here.open(each).head()) for each in (SHOWN, ASIDE)]  # type: ignore[union-attr]
        assert set(names) == {SHOWN, ASIDE}
        eventually(
            lambda: [client.get(f"{each}/refs/head").text for each in ("shown", "aside")] == last
        )
        assert client.get("third/refs/head").status_code == 404


def undo(dataset: Dataset) -> None:
    """Take the last block back, and put it in place again a moment later."""
    head = dataset.head()
    assert head is not None
    before = dataset.block(head).prev_block_hash
    assert before is not None
    dataset.set_head(before, head)
    time.sleep(0.3)
    dataset.set_head(head, before)


def _facts(path: str, answer: httpx.Response) -> list[str]:
    """Return the hashes of an answer: of its blocks, or of the files that they speak of."""
    if answer.status_code != 200:
        return []
    if path == "refs/head":
        return [answer.text]
    found = answer.json()["blocks"]
    if path == "history":
        return [str(each["hash"]) for each in found]
    added = (each["event"].get("newData") for each in found)
    return [str(each["physicalHash"]) for each in added if each]
