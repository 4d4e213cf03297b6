"""Requests on their way to a real store: lost, refused or late, each of a commit, an undo, a gc."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odfbuild.errors import OdfBuildError
from odfbuild.odf.identity import Multihash
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.gc import collect
from odfbuild.state.remote.client import ObjectClient
from odfbuild.state.remote.store.bucket import Bucket
from odfbuild.state.remote.workspace import BucketWorkspace
from tests.state.remote.machines import machine
from tests.support.data.histories import Added, History
from tests.support.effort import places
from tests.support.servers.object_proxy import ObjectProxy, proxying
from tests.support.servers.object_store import ObjectServer

WAYS = ("before", "after", "409", "500", "late")
Work = Callable[[BucketWorkspace, Path], None]


@pytest.fixture
def proxy(store: ObjectServer) -> Iterator[ObjectProxy]:
    with proxying(store.port) as found:
        yield found


def the_dataset(workspace: BucketWorkspace) -> Dataset:
    (id,) = workspace.heads()
    return workspace.dataset(id)


def commit(workspace: BucketWorkspace, folder: Path) -> None:
    History(folder, workspace=workspace).add(Added(4))


def undo(workspace: BucketWorkspace, folder: Path) -> None:
    dataset = the_dataset(workspace)
    hashes = [hash for hash, _ in dataset.blocks()]
    dataset.set_head(hashes[-2], hashes[-1])


def gc(workspace: BucketWorkspace, folder: Path) -> None:
    """Collect all that nothing reaches, however young."""
    with workspace.collecting():
        found = collect(the_dataset(workspace), (), before=workspace.now() + 60)
        assert found.problem is None


def chain(store: ObjectServer, prefix: str) -> list[str]:
    """Return the blocks of the one head, having found all that they speak of."""
    files = store.files(prefix)
    (key,) = (k for k in files if k.endswith("refs/head"))
    base = key.removesuffix("refs/head")
    at: Multihash | None = Multihash.parse(files[key].decode())
    found = []
    while at is not None:
        block = decode_block(files[f"{base}blocks/{at}"])
        slice = getattr(block.event, "new_data", None)
        assert slice is None or f"{base}data/{slice.physical_hash}" in files
        found.append(str(at))
        at = block.prev_block_hash
    return found[::-1]


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("work", [commit, undo, gc])
def test_whichever_request_is_lost_refused_or_late_nothing_dangles(
    work: Work, how: str, store: ObjectServer, proxy: ObjectProxy, tmp_path: Path
) -> None:
    break_each_request(work, how, store, proxy, tmp_path)


@pytest.mark.parametrize("store", ["google_store"], indirect=True)
@pytest.mark.parametrize("how", WAYS)
def test_whichever_request_of_a_commit_at_google_is_lost_refused_or_late_nothing_dangles(
    how: str, store: ObjectServer, proxy: ObjectProxy, tmp_path: Path
) -> None:
    break_each_request(commit, how, store, proxy, tmp_path)


def break_each_request(
    work: Work, how: str, store: ObjectServer, proxy: ObjectProxy, tmp_path: Path
) -> None:
    """Do a work with one request that goes wrong, for each of its requests."""
    for at in places(WAYS.index(how), 3):
        prefix = f"faults-{work.__name__}-{how}-{at}"
        folder = tmp_path / f"{at}"
        direct: ObjectClient = Bucket(store.url(prefix))
        made = History(folder, Added(2), Added(1), workspace=machine(folder / "first", direct))
        if work is gc:
            undo(made.workspace, folder)  # type: ignore[arg-type]
        before = chain(store, prefix)
        there = machine(
            folder / "first",
            Bucket(store.url(prefix, proxy.port)),
        )
        proxy.restart(at, how)
        error = None
        try:
            work(there, folder)
        except (OdfBuildError, AssertionError) as caught:
            error = caught
        done = len(proxy.asked)
        proxy.restart(-1, "")
        left = chain(store, prefix)
        if work is undo:
            assert left in (before, before[:-1])
            assert error is not None or left == before[:-1]
        elif work is commit:
            assert left[: len(before)] == before
            assert len(left) - len(before) in (0, 1)
            assert error is not None or len(left) == len(before) + 1
        else:
            assert left == before
        if how in ("500", "late"):
            assert error is None
        if done <= at:
            assert error is None
            return
