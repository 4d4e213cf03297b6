"""A workspace in a store, and files that the store or the cache lost or has otherwise.

rebuild --restore puts back what the store lost; no command sends what is wrong in the cache.
"""

import hashlib
import random
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from odfbuild.cli import exits
from tests.program.test_shared_workspace import Machine
from tests.support.projects import Done
from tests.support.servers.object_store import ObjectServer

LOSSES: Mapping[str, Callable[[bytes], bytes]] = {
    "altered": lambda data: data[:-9] + bytes(9),
    "shortened": lambda data: data[:-30],
    "empty": lambda _: b"",
}


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return f"restored-{tmp_path.parent.name}-{tmp_path.name}"


@pytest.fixture
def machine(store: ObjectServer, prefix: str, tmp_path: Path) -> Machine:
    machine = Machine(tmp_path / "here", store, store.url(prefix))
    assert machine("apply", "--yes").code == 0
    return machine


def slice_of(files: dict[str, bytes], name: str) -> str:
    """Return the key of the only slice of a dataset."""
    (id,) = (
        data.decode().split("\n")[0].removeprefix("did:odf:")
        for key, data in files.items()
        if key.startswith("names/") and f"\n{name}\n".encode() in data
    )
    (found,) = (key for key in files if key.startswith(f"datasets/{id}/data/"))
    return found


def lose(bucket: Any, key: str, data: bytes, loss: str) -> None:
    if loss == "missing":
        bucket.delete(key)
    else:
        bucket.put(key, LOSSES[loss](data))


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "not cached"])
@pytest.mark.parametrize("loss", ["missing", *LOSSES])
def test_a_slice_is_restored_whatever_the_cache_has(
    loss: str, cached: bool, machine: Machine, store: ObjectServer, prefix: str
) -> None:
    before = store.files(prefix)
    rows = machine("show", "report", "-o", "json").out
    key = slice_of(before, "report")
    lose(store.store(prefix), key, before[key], loss)
    if not cached:
        shutil.rmtree(machine.folder / "cache")
    assert machine("verify", "report").code == exits.NOT_VERIFIED
    state = "missing" if loss == "missing" else "damaged"
    foreseen = machine("rebuild", "--restore", "report", "--dry-run")
    assert (foreseen.code, foreseen.err) == (0, ""), foreseen
    assert f"  {state}\n1 step would be rerun.\n" in foreseen.out
    done = machine("rebuild", "--restore", "report")
    assert done.code == 0, (done.out, done.err)
    assert f"  {state}, restored\n1 of 1 file restored.\n" in done.out
    assert store.files(prefix)[key] == before[key]
    assert machine("verify", "report").code == 0
    assert machine("show", "report", "-o", "json").out == rows


@pytest.mark.parametrize("seed", range(4))
def test_what_is_read_from_one_that_is_lost_as_well_is_restored_after_it(
    seed: int, machine: Machine, store: ObjectServer, prefix: str
) -> None:
    draw = random.Random(seed)
    before = store.files(prefix)
    rows = {name: machine("show", name, "-o", "json").out for name in ("src", "out", "report")}
    for name in ("out", "report"):
        key = slice_of(before, name)
        lose(store.store(prefix), key, before[key], draw.choice(["missing", *LOSSES]))
    for path in (machine.folder / "cache").rglob("f1620*"):
        if path.is_file() and draw.random() < 0.5:
            path.chmod(0o600)
            path.write_bytes(path.read_bytes()[:-5] + b"other")
    lost = store.files(prefix)
    machine("rebuild", "--restore", "out", "report", "--dry-run")
    assert store.files(prefix) == lost
    done = machine("rebuild", "--restore", "out", "report")
    assert done.code == 0, (done.out, done.err)
    assert "2 of 2 files restored." in done.out
    after = store.files(prefix)
    assert {key: after.get(key) for key in before} == before
    assert machine("verify").code == 0
    assert rows == {name: machine("show", name, "-o", "json").out for name in rows}


def wrongly_named(files: Mapping[str, bytes]) -> list[str]:
    """Return the objects with other bytes than their names say."""
    return [
        key
        for key, data in files.items()
        if key.startswith("datasets/")
        and key.split("/")[2] in ("blocks", "data", "checkpoints")
        and key.split("/")[3] != f"f1620{hashlib.sha3_256(data).hexdigest()}"
    ]


def damage_cache(machine: Machine, keys: Iterable[str], draw: random.Random) -> int:
    """Give files in the cache other bytes; return of how many."""
    found = 0
    for hash in {key.rpartition("/")[2] for key in keys}:
        path = machine.folder / "cache/odfbuild/objects/files" / hash[-2:] / hash
        if path.exists():
            loss = draw.choice(sorted(LOSSES))
            path.chmod(0o600)
            path.write_bytes(LOSSES[loss](path.read_bytes()))
            found += 1
    return found


def undone(machine: Machine, *command: str) -> Callable[[], Done]:
    assert machine(*command, "--yes").code == 0
    return lambda: machine("undo", "last", "--yes")


def reset_to(machine: Machine) -> Callable[[], Done]:
    head = machine.head("out")
    assert machine("rebuild", "out", "--yes").code == 0
    return lambda: machine("reset", "out", head, "--yes")


WAYS_BACK: Mapping[str, Callable[[Machine], Callable[[], Done]]] = {
    "undo of undo": lambda machine: undone(machine, "undo", "last"),
    "reset": reset_to,
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("way", WAYS_BACK)
def test_a_damaged_cache_changes_no_object_on_the_way_back(
    way: str, seed: int, machine: Machine, store: ObjectServer, prefix: str
) -> None:
    draw = random.Random(seed)
    before = store.files(prefix)
    slices = [key for key in before if "/data/" in key or "/checkpoints/" in key]
    go_back = WAYS_BACK[way](machine)
    assert damage_cache(machine, slices, draw) > 1
    done = go_back()
    assert done.code == 0, (done.out, done.err)
    after = store.files(prefix)
    assert wrongly_named(after) == []
    assert {key: after.get(key) for key in slices} == {key: before[key] for key in slices}
    assert machine("verify").code == 0


@pytest.mark.parametrize("loss", ["missing", *LOSSES])
def test_what_neither_cache_nor_store_has_as_recorded_is_not_sent(
    loss: str, machine: Machine, store: ObjectServer, prefix: str
) -> None:
    key = slice_of(store.files(prefix), "out")
    go_back = undone(machine, "undo", "last")
    lose(store.store(prefix), key, store.files(prefix)[key], loss)
    assert damage_cache(machine, [key], random.Random(loss)) == 1
    lost = store.files(prefix)
    done = go_back()
    assert done.code != 0
    hash, place = key.rpartition("/")[2], f"{store.url(prefix)}{key.rpartition('/')[0]}"
    assert {
        "missing": f"error[missing-object]: {hash} is missing from ",
        "altered": f"error[corrupt-object]: the bytes of {hash} in {place} hash to ",
    }.get(loss, f"error[inconsistent-slice]: {hash} has ") in done.err
    after = store.files(prefix)
    assert after.get(key) == lost.get(key)
    head = f"{key.rpartition('/data/')[0]}/refs/head"
    assert after[head] == lost[head]
