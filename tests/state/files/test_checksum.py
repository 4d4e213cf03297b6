"""Small files of a workspace that are damaged, or in the place of another, are not read."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.ingest.fetch.download import Version, store_version, stored_version
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.head_table import HeadTable
from odfbuild.state.files.checksum import checked_object, object_with_check_sum
from odfbuild.state.memory import plans as settled
from odfbuild.state.memory.applied import recall_applied, record_applied
from odfbuild.state.memory.drift import keep_drift, known_drift
from odfbuild.state.runs import DamagedRunError, list_runs, read_events
from odfbuild.state.workspace import Workspace
from tests.state.test_runs import begun
from tests.support.workshop import Workshop, ledger

SETTLED = settled.PlanRecord(
    versions="1", context="c", idle=True, folders=("data1", "data2"), stats="s", young=(),
    names="n", heads=HeadTable("a h", "a 1 2 3 4", ("a",)), datasets=3,
    sources=(settled.LocalSource("m", "url", "x", ""),),
)  # fmt: skip
SAID = settled.CommandOutput(2, "3 to create\n")
ALIAS = DatasetAlias.parse("src")
NOTE = {"digest": "sha256:22", "more": True, "size": 12}
EVENTS = [{"event": "dataset_finished", "step": f"data{number}"} for number in range(3)]


@dataclass(frozen=True)
class Kept:
    """Something that is written to a file, and how it is read."""

    write: Callable[[Path], object]
    read: Callable[[Path], Any]
    file: str


def _apply(folder: Path) -> None:
    shop = Workshop(folder)
    shop.file("1.csv", "2024-01-01,k,1")
    assert not shop.apply([ledger()]).failures
    record_applied(shop.workspace, {ALIAS: "ok"})


def _record(folder: Path) -> None:
    run = begun(folder, "r1")
    for each in EVENTS:
        run.write(each)
    run.close()


def _events(folder: Path) -> Any:
    try:
        found = list(read_events(folder, "r1", strict=True))
    except DamagedRunError:
        return None
    return None if found == EVENTS[:2] else found  # the last line may be one that was cut off


def _version(folder: Path) -> Any:
    found = stored_version(folder, "https://a/x")
    return None if found == Version(None, None) else found


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _note(path: Path) -> Any:
    """Return the members that are asked for: a flip in the name of the checksum changes none."""
    found = checked_object(path.read_bytes(), "a") or {}
    return {name: found[name] for name in NOTE if name in found} or None


KEPT = {
    "settled": Kept(lambda at: settled.record(at, SETTLED), settled.recall, "settled"),
    "answer": Kept(
        lambda at: settled.keep_answer(at, SETTLED, "plan", SAID),
        lambda at: settled.answer(at, SETTLED, "plan"),
        "answers/*",
    ),
    "applied": Kept(
        _apply,
        lambda at: recall_applied(Workspace(at / "workspace").root, [ALIAS]).get(ALIAS),
        "workspace/cache/applied/*",
    ),
    "version": Kept(
        lambda at: store_version(at, "https://a/x", Version("e", "Thu, 01 Jan 2026 00:00:00 GMT")),
        _version,
        "version.json",
    ),
    "drift": Kept(
        lambda at: keep_drift(at / "id", ["+a INT", "-b"]),
        lambda at: known_drift(at / "id") or None,
        "id",
    ),
    "object": Kept(
        lambda at: write(at / "x.json", object_with_check_sum(NOTE, "a", indent=1)),
        lambda at: _note(at / "x.json"),
        "x.json",
    ),
    "summary": Kept(
        _record, lambda at: dict(enumerate(list_runs(at).runs)) or None, "runs/r1/summary.json"
    ),
    "events": Kept(_record, _events, "runs/r1/events.ndjson"),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_flipped_bit_is_noticed(name: str, tmp_path: Path) -> None:
    kept, rng = KEPT[name], random.Random(3)
    kept.write(tmp_path)
    (path,) = tmp_path.glob(kept.file)
    right, whole = kept.read(tmp_path), path.read_bytes()
    assert right is not None
    for bit in rng.sample(range(8 * len(whole)), min(200, 8 * len(whole))):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        assert kept.read(tmp_path) in (None, right), bit
        path.write_bytes(whole[: bit // 8])
        assert kept.read(tmp_path) in (None, right) or name == "events", bit


def test_what_is_of_another_is_not_read(tmp_path: Path) -> None:
    settled.keep_answer(tmp_path, SETTLED, "plan", SAID)
    (path,) = (tmp_path / "answers").iterdir()
    other = replace(SETTLED, key="other")
    settled.keep_answer(tmp_path, other, "plan", settled.CommandOutput(0, "nothing to do\n"))
    (theirs,) = (each for each in (tmp_path / "answers").iterdir() if each != path)
    path.write_bytes(theirs.read_bytes())
    assert settled.answer(tmp_path, SETTLED, "plan") is None
    store_version(tmp_path, "https://a/x", Version("e", None))
    assert stored_version(tmp_path, "https://a/y") == Version(None, None)


@pytest.mark.parametrize("name", KEPT)
def test_a_checksum_that_was_taken_away_is_noticed(name: str, tmp_path: Path) -> None:
    kept = KEPT[name]
    kept.write(tmp_path)
    (path,) = tmp_path.glob(kept.file)
    assert kept.read(tmp_path) is not None
    whole = path.read_text()
    if name in ("object", "summary", "events"):
        without = re.sub(r',\s*"check": ?"[0-9a-f]{8}"', "", whole)
    else:
        without = whole.partition("\n")[2]
    assert without != whole
    path.write_text(without)
    assert kept.read(tmp_path) in (None, [])
