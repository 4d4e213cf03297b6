"""rebuild --restore in a workspace in a store: what the store lost or has otherwise is put back."""

import shutil
from pathlib import Path

import pytest

from odfbuild.cli import exits
from tests.program.test_shared_workspace import Machine
from tests.support.servers.object_store import ObjectServer


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return f"restored-{tmp_path.parent.name}-{tmp_path.name}"


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "not cached"])
@pytest.mark.parametrize("loss", ["missing", "damaged"])
def test_a_slice_is_restored_whatever_the_cache_has(
    loss: str, cached: bool, store: ObjectServer, prefix: str, tmp_path: Path
) -> None:
    machine = Machine(tmp_path / "here", store, store.url(prefix))
    assert machine("apply", "--yes").code == 0
    before = store.files(prefix)
    base = machine("show", "report", "-o", "json")
    assert base.code == 0
    (id,) = (
        data.decode().split("\n")[0].removeprefix("did:odf:")
        for key, data in before.items()
        if key.startswith("names/") and b"\nreport\n" in data
    )
    (slice,) = (key for key in before if key.startswith(f"datasets/{id}/data/"))
    bucket = store.store(prefix)
    if loss == "missing":
        bucket.delete(slice)
    else:
        bucket.put(slice, before[slice][:-9] + bytes(9))
    if not cached:
        shutil.rmtree(tmp_path / "here" / "cache")
    assert machine("verify", "report").code == exits.NOT_VERIFIED
    foreseen = machine("rebuild", "--restore", "report", "--dry-run")
    assert (foreseen.code, foreseen.err) == (0, ""), foreseen
    assert f"  {loss}\n1 step would be rerun.\n" in foreseen.out
    done = machine("rebuild", "--restore", "report")
    assert done.code == 0, (done.out, done.err)
    assert f"  {loss}, restored\n1 of 1 file restored.\n" in done.out
    assert store.files(prefix)[slice] == before[slice]
    assert machine("verify", "report").code == 0
    assert machine("show", "report", "-o", "json").out == base.out
