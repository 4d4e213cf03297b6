"""A workspace in a store, and files that the store or the cache lost or has otherwise.

rebuild --restore puts back what the store lost; no command sends what is wrong in the cache.
"""

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.cli import exits
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.odf.identity import Multihash
from odfbuild.odf.wire.blocks import decode_block
from tests.program.test_shared_workspace import Machine
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import Done
from tests.support.projects.texts import derivative, root
from tests.support.servers.object_proxy import ObjectProxy, proxying
from tests.support.servers.object_store import ObjectServer

LOSSES: Mapping[str, Callable[[bytes], bytes]] = {
    "altered": lambda data: data[:-9] + bytes(9),
    "altered at the start": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "shortened": lambda data: data[:-30],
    "longer": lambda data: data + b"x",
    "empty": lambda _: b"",
}
ROUNDS = 3
ROOTS = ("src", "side")
MADE = ("rows", "groups", "pairs", "totals")
PAIRS = "select src.t, src.k, src.v, other.v as w from src join other on src.k = other.k"
COUNTS = "select t, k, count(*) as v from src group by t, k"
DEFINITIONS = {
    "datasets/src.yaml": root(merge="{kind: Append}"),
    "datasets/side.yaml": root(
        "side", fetch="{kind: FilesGlob, path: side/*.csv}", merge="{kind: Append}"
    ),
    "datasets/rows.yaml": derivative(
        "rows", "src", "select t, k, v * 2 as v from src where v > 1", engine="datafusion"
    ),
    "datasets/groups.yaml": derivative(
        "groups",
        "rows",
        "select t, k, count(*) as c, sum(v) as s from src group by t, k",
        engine="datafusion",
    ),
    "datasets/pairs.yaml": derivative("pairs", "rows", PAIRS, engine="datafusion", beside="side"),
    "datasets/totals.yaml": derivative(
        "totals",
        "groups",
        "select t, count(*) as c, sum(s) as s from src group by t",
        engine="datafusion",
    ),
}
Slice = tuple[str, int]
"""The name of a dataset, and which of its slices it is."""
READS: Mapping[str, Callable[[int], list[Slice]]] = {
    "rows": lambda at: [("src", at)],
    "groups": lambda at: [*_upto("rows", at + 1), *_upto("groups", at)],
    "pairs": lambda at: [*_upto("rows", at + 1), *_upto("side", at + 1), *_upto("pairs", at)],
    "totals": lambda at: [*_upto("groups", at + 1), *_upto("totals", at)],
}
"""The slices that the step of a slice reads: of a query row by row, those that are new to it; of
groups and joins, all up to there, and what they gave before.
"""


def _upto(name: str, count: int) -> list[Slice]:
    return [(name, at) for at in range(count)]


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return f"restored-{tmp_path.parent.name}-{tmp_path.name}"


@pytest.fixture
def machine(store: ObjectServer, prefix: str, tmp_path: Path) -> Machine:
    """Apply rows, groups and joins, three times: each dataset has three slices."""
    machine = Machine(tmp_path / "here", store, store.url(prefix))
    shutil.rmtree(machine.project / "datasets")
    for name in ("data", "side"):
        shutil.rmtree(machine.project / name)
    lay_out(machine.project, DEFINITIONS)
    for each in range(1, ROUNDS + 1):
        rows = f"t,k,v\n2024-01-0{each},a,{each + 1}\n2024-01-01,b,{each * 3}\n2024-01-01,c,1\n"
        lay_out(machine.project, {f"{name}/{each}.csv": rows for name in ("data", "side")})
        done = machine("apply", "--yes")
        assert done.code == 0, done.err
    return machine


@pytest.fixture
def market(store: ObjectServer, prefix: str, tmp_path: Path) -> Machine:
    """Apply a project once: each dataset has one slice."""
    machine = Machine(tmp_path / "here", store, store.url(prefix))
    assert machine("apply", "--yes").code == 0
    return machine


def keys_of(files: Mapping[str, bytes], name: str, part: str = "data") -> list[str]:
    """Return the keys of the slices of a dataset, or of its checkpoints, oldest first."""
    (id,) = (
        data.decode().split("\n")[0].removeprefix("did:odf:")
        for key, data in files.items()
        if key.startswith("names/") and f"\n{name}\n".encode() in data
    )
    base, found = f"datasets/{id}", []
    at: Multihash | None = Multihash.parse(files[f"{base}/refs/head"].decode())
    while at is not None:
        block = decode_block(files[f"{base}/blocks/{at}"])
        field = "new_data" if part == "data" else "new_checkpoint"
        file = getattr(block.event, field, None)
        if file is not None:
            found.append(f"{base}/{part}/{file.physical_hash}")
        at = block.prev_block_hash
    return list(dict.fromkeys(found[::-1]))


def slices_of(files: Mapping[str, bytes]) -> Mapping[Slice, str]:
    """Return the keys of all slices by dataset and place."""
    found = {
        (name, at): key for name in (*ROOTS, *MADE) for at, key in enumerate(keys_of(files, name))
    }
    assert len(found) == ROUNDS * len((*ROOTS, *MADE))
    return found


def lose(bucket: Any, key: str, data: bytes, loss: str) -> None:
    if loss == "missing":
        bucket.delete(key)
    else:
        bucket.put(key, LOSSES[loss](data))


def harm_cache(machine: Machine, draw: random.Random) -> None:
    """Alter or delete files of the cache, or all of it."""
    if draw.random() < 0.3:
        shutil.rmtree(machine.folder / "cache")
        return
    for path in sorted((machine.folder / "cache").rglob("f1620*")):
        if path.is_file() and draw.random() < 0.5:
            path.chmod(0o600)
            path.write_bytes(path.read_bytes()[:-5] + b"other")


def restorable(lost: Collection[Slice], chosen: Collection[str]) -> set[Slice]:
    """Return the slices that come back: those whose steps find all that they read."""
    away = set(lost)
    for name in MADE:
        for at in range(ROUNDS):
            if (name, at) in away and name in chosen and not away & {*READS[name](at)}:
                away.remove((name, at))
    return {*lost} - away


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "not cached"])
@pytest.mark.parametrize("loss", ["missing", *LOSSES])
def test_a_slice_is_restored_whatever_the_cache_has(
    loss: str, cached: bool, machine: Machine, store: ObjectServer, prefix: str
) -> None:
    draw = random.Random(f"{loss} {cached}")
    before = store.files(prefix)
    name = draw.choice(MADE)
    rows = machine("show", name, "-o", "json").out
    key = draw.choice(keys_of(before, name))
    lose(store.store(prefix), key, before[key], loss)
    if not cached:
        shutil.rmtree(machine.folder / "cache")
    assert machine("verify", name).code == exits.NOT_VERIFIED
    state = "missing" if loss == "missing" else "damaged"
    foreseen = machine("rebuild", "--restore", name, "--dry-run")
    assert (foreseen.code, foreseen.err) == (0, ""), foreseen
    assert f"  {state}\n1 step would be rerun.\n" in foreseen.out
    done = machine("rebuild", "--restore", name)
    assert done.code == 0, (done.out, done.err)
    assert f"  {state}, restored\n1 of 1 file restored.\n" in done.out
    assert store.files(prefix)[key] == before[key]
    assert machine("verify", name).code == 0
    assert machine("show", name, "-o", "json").out == rows


@pytest.mark.parametrize("seed", range(4))
def test_whatever_derivatives_lost_is_restored(
    seed: int, machine: Machine, store: ObjectServer, prefix: str
) -> None:
    draw = random.Random(seed)
    before = store.files(prefix)
    rows = {name: machine("show", name, "-o", "json").out for name in MADE}
    made = {at: key for at, key in slices_of(before).items() if at[0] in MADE}
    lost = draw.sample(sorted(made), draw.choice([3, 6, len(made)]))
    for at in lost:
        lose(store.store(prefix), made[at], before[made[at]], draw.choice(["missing", *LOSSES]))
    harm_cache(machine, draw)
    left = store.files(prefix)
    foreseen = machine("rebuild", "--restore", "--dry-run")
    assert foreseen.code == 0, (foreseen.out, foreseen.err)
    assert f"{len(lost)} steps would be rerun.\n" in foreseen.out
    assert store.files(prefix) == left
    done = machine("rebuild", "--restore")
    assert done.code == 0, (done.out, done.err)
    assert f"{len(lost)} of {len(lost)} files restored." in done.out
    after = store.files(prefix)
    assert {key: after.get(key) for key in before} == before
    assert machine("verify").code == 0
    assert rows == {name: machine("show", name, "-o", "json").out for name in rows}


@pytest.mark.parametrize("seed", range(6))
def test_a_slice_is_restored_if_what_its_step_read_is_there_and_only_then(
    seed: int, machine: Machine, store: ObjectServer, prefix: str
) -> None:
    draw = random.Random(seed)
    before = store.files(prefix)
    slices = slices_of(before)
    lost = {
        draw.choice([each for each in slices if each[0] in ROOTS]),
        *draw.sample([each for each in slices if each[0] in MADE], 6),
    }
    for at in sorted(lost):
        lose(store.store(prefix), slices[at], before[slices[at]], draw.choice(["missing", *LOSSES]))
    harm_cache(machine, draw)
    left = store.files(prefix)
    chosen = draw.choice([(*ROOTS, *MADE), ("rows", "groups", "totals"), ("pairs",), ("groups",)])
    foreseen = machine("rebuild", "--restore", *chosen, "--dry-run", "-o", "json")
    assert store.files(prefix) == left
    done = machine("rebuild", "--restore", *chosen, "-o", "json")
    expected = restorable(lost, chosen)
    answer = {slices_at(slices, each): each for each in json.loads(done.out)["files"]}
    assert answer.keys() == {each for each in lost if each[0] in chosen}
    assert {at for at, each in answer.items() if each["outcome"] == "restored"} == expected, answer
    dry = {slices_at(slices, each): each for each in json.loads(foreseen.out)["files"]}
    whys = {at: each["why"] for at, each in answer.items()}
    assert ({at: each["why"] for at, each in dry.items()}, foreseen.code) == (whys, done.code)
    assert store.files(prefix) == left | {slices[at]: before[slices[at]] for at in expected}


def slices_at(slices: Mapping[Slice, str], answer: Mapping[str, Any]) -> Slice:
    """Return which slice an answer speaks of."""
    (found,) = (
        at
        for at, key in slices.items()
        if key.endswith(answer["hash"]) and at[0] == answer["dataset"]
    )
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_replay_fails_for_the_steps_alone_that_read_an_altered_slice(
    seed: int, machine: Machine, store: ObjectServer, prefix: str
) -> None:
    draw = random.Random(seed)
    before = store.files(prefix)
    slices = slices_of(before)
    lost = set(draw.sample(sorted(slices), 2))
    for at in sorted(lost):
        lose(store.store(prefix), slices[at], before[slices[at]], draw.choice([*LOSSES]))
    harm_cache(machine, draw)
    done = machine("verify", "--replay", "-o", "json")
    assert done.code == exits.NOT_VERIFIED
    answer = {each["name"]: each for each in json.loads(done.out)["datasets"]}
    for name in (*ROOTS, *MADE):
        hashes = {slices[at].rpartition("/")[2] for at in lost if at[0] == name}
        findings = str(answer[name]["findings"])
        assert {each for each in hashes if each in findings} == hashes
        assert bool(answer[name]["findings"]) == bool(hashes)
    for name in MADE:
        failed = [bool(each["findings"]) for each in answer[name]["steps"]]
        assert failed == [bool(lost & {*READS[name](at)}) for at in range(ROUNDS)], (name, lost)


@dataclass
class CountingEngine(FakeEngine):
    """Keeps the count of the rows that it was given so far in a checkpoint, times `unit`."""

    unit: int = 1

    def transform(self, work: TransformWork) -> Frame:
        made = super().transform(work)
        before = 0 if work.checkpoint is None else pq.read_table(work.checkpoint)["n"][0].as_py()
        if work.new_checkpoint is not None:
            assert made.table is not None
            counted = pa.table(
                {"n": [before + made.table.num_rows * self.unit], "pad": ["x" * 200]}
            )
            pq.write_table(counted, work.new_checkpoint)
        return made


@pytest.fixture
def engine() -> CountingEngine:
    return CountingEngine()


@pytest.fixture
def counted(
    engine: CountingEngine,
    store: ObjectServer,
    prefix: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Inside:
    """Apply a derivative with checkpoints three times, with nothing in the cache afterwards."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = f'odfbuild: 1\ntargets:\n  dev: {{workspace: "{store.url(prefix)}"}}\n'
    files = {
        "odfbuild.yaml": text,
        "datasets/src.yaml": root(merge="{kind: Append}"),
        "datasets/out.yaml": derivative(query=COUNTS),
    }
    run = Inside(lay_out(tmp_path / "shop", files), capsys, monkeypatch, engine)
    for day in range(1, ROUNDS + 1):
        lay_out(run.project, {f"data/{day}.csv": f"t,k,v\n2024-01-0{day},k{day},{day}\n"})
        done = run("apply", "--yes")
        assert done.code == 0, done.err
    shutil.rmtree(tmp_path / "cache")
    return run


@pytest.mark.parametrize("seed", range(6))
def test_a_dry_run_takes_the_checkpoint_of_the_step_before_for_restored(
    seed: int, counted: Inside, store: ObjectServer, prefix: str
) -> None:
    draw = random.Random(seed)
    before = store.files(prefix)
    parts = [keys_of(before, "out", part) for part in ("data", "checkpoints")]
    assert [len(each) for each in parts] == [ROUNDS, ROUNDS]
    lost = {parts[1][draw.randrange(ROUNDS - 1)], *draw.sample(sorted(chain(*parts)), 3)}
    for key in sorted(lost):
        lose(store.store(prefix), key, before[key], draw.choice([*LOSSES]))
    left = store.files(prefix)
    foreseen = counted("rebuild", "--restore", "--dry-run")
    assert (foreseen.code, foreseen.err) == (0, ""), foreseen
    assert store.files(prefix) == left
    done = counted("rebuild", "--restore")
    assert (done.code, done.err) == (0, ""), done
    assert f"{len(lost)} of {len(lost)} files restored." in done.out
    assert store.files(prefix) == before


def test_a_step_does_not_go_on_from_an_altered_checkpoint(
    counted: Inside, store: ObjectServer, prefix: str
) -> None:
    before = store.files(prefix)
    key = keys_of(before, "out", "checkpoints")[-1]
    lose(store.store(prefix), key, before[key], "altered")
    lay_out(counted.project, {"data/9.csv": "t,k,v\n2024-01-09,k9,9\n"})
    done = counted("apply", "--yes")
    assert done.code != 0
    assert f"the checkpoint {key.rpartition('/')[2]} has other bytes" in done.err
    assert "odfbuild rebuild out --restore" in done.err
    assert counted("rebuild", "--restore").code == 0
    assert counted("apply", "--yes").code == 0


def test_a_replay_says_what_differs_where_the_recorded_files_are_altered(
    engine: CountingEngine, counted: Inside, store: ObjectServer, prefix: str
) -> None:
    before = store.files(prefix)
    keys = [keys_of(before, "out", part)[-1] for part in ("data", "checkpoints")]
    for key in keys:
        lose(store.store(prefix), key, before[key], "altered")
    engine.unit = 7
    engine.queries = {COUNTS: lambda inputs: [{**row, "v": 7} for row in inputs["src"]]}
    done = counted("verify", "out", "--replay", "-o", "json")
    assert done.code == exits.NOT_VERIFIED
    (answer,) = json.loads(done.out)["datasets"]
    slice, checkpoint = (key.rpartition("/")[2] for key in keys)
    whats = " ".join(each["what"] for each in answer["findings"])
    assert f"data file {slice} has other bytes" in whats
    assert f"checkpoint {checkpoint} has other bytes" in whats
    *_, last = answer["steps"]
    assert f"the checkpoint {checkpoint} is damaged or missing" in last["findings"]
    assert any("have the logical hash" in each for each in last["findings"]), last
    assert not any("cannot be rerun" in each for each in last["findings"]), last


@pytest.fixture
def proxy(store: ObjectServer) -> Iterator[ObjectProxy]:
    with proxying(store.port) as found:
        yield found


@pytest.fixture
def behind(proxy: ObjectProxy, store: ObjectServer, prefix: str, tmp_path: Path) -> Machine:
    """Return a machine to which the store is only the proxy."""
    machine = Machine(tmp_path / "behind", store, store.url(prefix, proxy.port))
    assert machine("apply", "--yes").code == 0
    return machine


@pytest.mark.parametrize("loss", LOSSES)
def test_a_damaged_file_is_restored_without_the_right_to_delete(
    loss: str, behind: Machine, proxy: ObjectProxy, store: ObjectServer, prefix: str
) -> None:
    before = store.files(prefix)
    (key,) = keys_of(before, "report")
    lose(store.store(prefix), key, before[key], loss)
    proxy.keeps = True
    done = behind("rebuild", "--restore", "report")
    assert done.code == 0, (done.out, done.err)
    assert "  damaged, restored\n" in done.out
    assert store.files(prefix)[key] == before[key]
    assert [each for each in proxy.asked if each[0] == "DELETE" and key in each[1]] == []


@pytest.mark.parametrize("loss", LOSSES)
def test_a_damaged_file_that_cannot_be_written_stays_as_it_is(
    loss: str, behind: Machine, proxy: ObjectProxy, store: ObjectServer, prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (key,) = keys_of(store.files(prefix), "report")
    lose(store.store(prefix), key, store.files(prefix)[key], loss)
    lost = store.files(prefix)

    def due() -> str:
        method, path, _ = proxy.asked[-1]
        return "403" if method == "PUT" and key in path else ""

    monkeypatch.setattr(proxy, "due", due)
    done = behind("rebuild", "--restore", "report")
    assert done.code != 0
    assert "  damaged, NOT RESTORED: " in done.out
    assert store.files(prefix).get(key) == lost[key]


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
    way: str, seed: int, market: Machine, store: ObjectServer, prefix: str
) -> None:
    draw = random.Random(seed)
    before = store.files(prefix)
    slices = [key for key in before if "/data/" in key or "/checkpoints/" in key]
    go_back = WAYS_BACK[way](market)
    assert damage_cache(market, slices, draw) > 1
    done = go_back()
    assert done.code == 0, (done.out, done.err)
    after = store.files(prefix)
    assert wrongly_named(after) == []
    assert {key: after.get(key) for key in slices} == {key: before[key] for key in slices}
    assert market("verify").code == 0


@pytest.mark.parametrize("loss", ["missing", *LOSSES])
def test_what_neither_cache_nor_store_has_as_recorded_is_not_sent(
    loss: str, market: Machine, store: ObjectServer, prefix: str
) -> None:
    (key,) = keys_of(store.files(prefix), "out")
    go_back = undone(market, "undo", "last")
    lose(store.store(prefix), key, store.files(prefix)[key], loss)
    assert damage_cache(market, [key], random.Random(loss)) == 1
    lost = store.files(prefix)
    done = go_back()
    assert done.code != 0
    hash, place = key.rpartition("/")[2], f"{store.url(prefix)}{key.rpartition('/')[0]}"
    altered = f"error[corrupt-object]: the bytes of {hash} in {place} hash to "
    assert {
        "missing": f"error[missing-object]: {hash} is missing from ",
        "altered": altered,
        "altered at the start": altered,
    }.get(loss, f"error[inconsistent-slice]: {hash} has ") in done.err
    after = store.files(prefix)
    assert after.get(key) == lost.get(key)
    head = f"{key.rpartition('/data/')[0]}/refs/head"
    assert after[head] == lost[head]
