"""Damaged bytes end in a named error or in the right rows, never in other rows.

    python -m tests.faults.flips [--count N] [--from SEED] [--spark]

A workspace of roots of four merges and of what is made of them takes in four files.  Each trial
copies it, damages one thing (a bit, a file cut short, two files exchanged, a cache of another head
or of another workspace, a row of the index that is wrong and has a right checksum), gives the
sources a fifth file and applies.  Every dataset must then hold the rows that it had, or those that
an undamaged copy gets; the latter if no step failed.  What readers are given is judged alike.  With
`--spark` the engine is the real one, and the derivatives group, join and look back.
"""

import argparse
import random
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import pyarrow.parquet as pq

from odfbuild.errors import EngineFailedError, OdfBuildError, StateError
from odfbuild.executors.data.checks.verified_files import all_files
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.odf.events import (
    DatasetKind,
    FetchStepFilesGlob,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStepCsv,
    SetPollingSource,
    SetVocab,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.index import Index
from tests.executors.runs.test_scheduler import copy
from tests.planner.builders import declare
from tests.support.workshop import Workshop

__all__ = ["Outcome", "Scenario", "main", "scenario"]

PORTIONS: Final = 4
Rows = tuple[tuple[object, ...], ...]
_OBJECTS: Final = ("data", "checkpoints", "blocks")


def root(name: str, merge: MergeStrategy) -> Declared:
    """Declare a root that reads the CSV files in data/."""
    ddl = ("t DATE NOT NULL", "k STRING NOT NULL", "v BIGINT")
    read = ReadStepCsv(ddl_schema=ddl, header=True)
    source = SetPollingSource(fetch=FetchStepFilesGlob(path="data/*.csv"), read=read, merge=merge)
    return declare(name, DatasetKind.ROOT, (source, SetVocab(event_time_column="t")))


ROOTS: Final = (
    root("ledger", MergeStrategyLedger(primary_key=("k",))),
    root("append", MergeStrategyAppend()),
    root("snapshot", MergeStrategySnapshot(primary_key=("k",))),
    root("upsert", MergeStrategyUpsertStream(primary_key=("k",))),
)
QUICK: Final = (*ROOTS, copy("of.ledger", "ledger"), copy("of.copy", "of.ledger"))
SPARK: Final = (
    *ROOTS,
    copy("of.ledger", "ledger"),
    copy("counts", "append", query="select v, max(t) as t, count(*) as n from append group by v"),
    copy(
        "newest",
        "snapshot",
        query="select t, k, v from (select *, row_number() over (partition by k order by v desc, "
        "t desc) as r from snapshot) where r = 1",
    ),
    copy(
        "joined",
        "ledger",
        "append",
        query="select l.t, l.k, a.v from ledger l join append a on l.k = a.k",
    ),
)


@dataclass
class Scenario:
    """A workspace before damage, and what an undamaged one holds then and one file later."""

    folder: Path
    declared: Sequence[Declared]
    engine: Any = None
    before: dict[str, Rows] = field(default_factory=dict)
    after: dict[str, Rows] = field(default_factory=dict)

    @property
    def whole(self) -> Path:
        return self.folder / "whole"

    def shop(self, folder: Path) -> Workshop:
        return Workshop(folder, self.engine)

    def names(self) -> list[str]:
        return [str(each.alias) for each in self.declared]

    def make(self) -> None:
        """Make the workspace, caches of its past, and another one of other rows."""
        other = self.folder / "other"
        other.mkdir()
        self._grow(self.shop(other), salt=1)
        self.whole.mkdir()
        shop = self.shop(self.whole)
        self._grow(shop, salt=0)
        self.before = {name: rows_of(shop, name) for name in self.names()}
        follow = self.shop(shutil.copytree(self.whole, self.folder / "follow"))
        assert not self.gain(follow).failures
        self.after = {name: rows_of(follow, name) for name in self.names()}
        assert all(len(self.after[name]) > len(self.before[name]) for name in self.names())

    def _grow(self, shop: Workshop, salt: int) -> None:
        for number in range(PORTIONS):
            portion(shop, number, salt)
            assert not shop.apply(self.declared, jobs=1).failures
            shop.workspace.index.close()
            if number == PORTIONS - 2:
                shutil.copytree(shop.folder, shop.folder.with_name(f"{shop.folder.name}-past"))

    def gain(self, shop: Workshop) -> Any:
        """Take in the next file."""
        portion(shop, PORTIONS, 0)
        return shop.apply(self.declared, jobs=1)


def portion(shop: Workshop, number: int, salt: int) -> None:
    """Put a file of new and of changed keys into the source folder."""
    rows = [
        f"2024-01-{number + 1:02d},k{key},{(key * 7 + number + salt) % 5}"
        for key in range(number, number + 6)
    ]
    shop.file(f"{number}.csv", *rows)


def found(shop: Workshop, name: str) -> Dataset:
    """Return a dataset; StateError when its name leads to none, as commands say it."""
    dataset = shop.workspace.open(DatasetAlias.parse(name))
    if dataset is None:
        raise StateError(what=f"no dataset named '{name}'", why="its name is damaged", fix="none")
    return dataset


def rows_of(shop: Workshop, name: str) -> Rows:
    """Return all records of a dataset in order, read without any of what is tested."""
    rows: list[tuple[object, ...]] = []
    for _, path in found(shop, name).slices():
        table = pq.read_table(path).drop_columns(["system_time"])
        rows += zip(*(column.to_pylist() for column in table.columns), strict=True)
    return tuple(rows)


@contextmanager
def scenario(*, spark: bool = False) -> Iterator[Scenario]:
    """Give a scenario that is made; histories are condensed from the first rows on."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="flips-")))
        stack.enter_context(patch("odfbuild.executors.ingest.history._LEAST_ROWS", 8))
        engine = None
        if spark:
            from odfbuild.executors.engine.spark.engine import SparkEngine

            version = {"spark": engine_version("spark") or ""}
            stack.enter_context(patch("tests.support.workshop.ENGINES", version))
            engine = stack.enter_context(SparkEngine(folder / "jvm", cores=2))
        made = Scenario(folder, SPARK if spark else QUICK, engine)
        made.make()
        yield made


# damage


@dataclass(frozen=True, slots=True)
class Damage:
    """What was done to which files, relative to the workspace."""

    what: str
    files: tuple[Path, ...]


Harm = Callable[["Scenario", Path, random.Random], Damage]


def _files(folder: Path, *parts: str) -> list[Path]:
    found = [path for part in parts for path in folder.glob(part) if path.is_file()]
    return sorted(path for path in found if path.stat().st_size)


def _any_file(folder: Path, rng: random.Random) -> Path:
    """Pick a file, slices first: steps read most of them."""
    kinds = [
        _files(folder, "datasets/*/data/*"),
        _files(folder, "datasets/*/data/*"),
        _files(folder, "datasets/*/checkpoints/*", "datasets/*/blocks/*"),
        _files(folder, "cache/**/*"),
        _files(folder, "index.sqlite*", "datasets/*/refs/*", "names/*"),
    ]
    return rng.choice(rng.choice([each for each in kinds if each]))


def flip(_: Scenario, folder: Path, rng: random.Random) -> Damage:
    """Flip one bit."""
    path = _any_file(folder, rng)
    data = bytearray(path.read_bytes())
    bit = rng.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    return Damage(f"bit {bit} of {path.relative_to(folder)}", (path.relative_to(folder),))


def cut(_: Scenario, folder: Path, rng: random.Random) -> Damage:
    """Cut a file short."""
    path = _any_file(folder, rng)
    left = rng.randrange(path.stat().st_size)
    path.write_bytes(path.read_bytes()[:left])
    return Damage(f"{left} bytes left of {path.relative_to(folder)}", (path.relative_to(folder),))


def exchange(_: Scenario, folder: Path, rng: random.Random) -> Damage:
    """Exchange two files of one kind, of one dataset or of two."""
    parts = ("data", "checkpoints", "blocks")
    kinds = [_files(folder, f"datasets/*/{part}/*") for part in parts]
    kinds += [_files(folder, f"cache/{part}/**/*") for part in ("merge", "checked")]
    kinds += [_files(folder, "datasets/*/refs/*"), _files(folder, "names/*")]
    one, other = rng.sample(rng.choice([each for each in kinds if len(each) > 1]), 2)
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)
    names = (one.relative_to(folder), other.relative_to(folder))
    return Damage(f"{names[0]} and {names[1]} exchanged", names)


def another_cache(made: Scenario, folder: Path, rng: random.Random) -> Damage:
    """Put a cache of an earlier head, or of another workspace, in the place of one."""
    source = made.folder / rng.choice(("whole-past", "other", "other-past")) / "workspace"
    name = rng.choice([*(each.name for each in (folder / "cache").iterdir()), "index.sqlite"])
    place, theirs = folder / name, source / name
    if name != "index.sqlite":
        place, theirs = folder / "cache" / name, source / "cache" / name
    if place.is_dir():
        ids = sorted(each.name for each in place.iterdir())
        shutil.rmtree(place)
        if theirs.is_dir():
            shutil.copytree(theirs, place)
            for mine, other in zip(ids, sorted(place.iterdir()), strict=False):
                if mine != other.name and not (place / mine).exists():
                    other.rename(place / mine)  # of another dataset, under this one's name
    else:
        for each in folder.glob(f"{name}-*"):
            each.unlink()
        if theirs.exists():
            shutil.copyfile(theirs, place)
    return Damage(f"cache {name} of {source.parent.name}", ())


def wrong_state(made: Scenario, folder: Path, rng: random.Random) -> Damage:
    """Give a row of the index the facts of an earlier head, under the head of today."""
    shop, past = made.shop(folder.parent), made.shop(made.folder / "whole-past")
    name = rng.choice(made.names())
    now, then = shop.dataset(name).state(), past.dataset(name).state()
    assert now is not None
    assert then is not None
    facts = ("last_offset", "watermark", "checkpoint", "source_state", "progress", "sequence")
    chosen = rng.sample(facts, rng.randrange(1, len(facts) + 1))
    index = Index(folder / "index.sqlite")
    index.put(replace(now, **{each: getattr(then, each) for each in chosen}))
    index.close()
    return Damage(f"{', '.join(sorted(chosen))} of an earlier {name} in the index", ())


HARMS: Final[Sequence[tuple[Harm, int]]] = (
    (flip, 10),
    (cut, 2),
    (exchange, 2),
    (another_cache, 3),
    (wrong_state, 2),
)


# trials


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended: `wrong` says what must never be; `codes` are of the errors there were."""

    damage: str
    codes: tuple[str, ...]
    wrong: str | None


def trial(made: Scenario, seed: int) -> Outcome:
    """Damage a copy, apply, and judge it."""
    rng = random.Random(seed)
    folder = made.folder / f"trial-{seed}"
    shutil.copytree(made.whole, folder)
    try:
        return _judged(made, folder, rng)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _judged(made: Scenario, folder: Path, rng: random.Random) -> Outcome:
    space = folder / "workspace"
    shop = made.shop(folder)
    if rng.random() < 0.5:  # so that there is something to remember
        time.sleep(0.03)
        for name in made.names():
            all_files(shop.dataset(name))
    if rng.random() < 0.5:  # a process of its own; else one that goes on
        shop.workspace.index.close()
        shop = made.shop(folder)
    (harm,) = rng.choices([each for each, _ in HARMS], [often for _, often in HARMS])
    damage = harm(made, space, rng)
    codes: list[str] = []
    wrong = _applied(made, shop, codes)
    if wrong is None:
        wrong = _read(made, made.shop(folder), codes)
    if wrong is None:
        for each in damage.files:
            if each.parts[0] == "datasets" and each.parts[2] in _OBJECTS:
                shutil.copyfile(made.whole / "workspace" / each, space / each)
        wrong = _rows(made, made.shop(folder), codes, failed=bool(codes))
    return Outcome(f"{harm.__name__}: {damage.what}", tuple(codes), wrong)


def _applied(made: Scenario, shop: Workshop, codes: list[str]) -> str | None:
    try:
        report = made.gain(shop)
        for step, failed in report.failures:
            codes.append(failed.error.code)
            if isinstance(failed.error, EngineFailedError):
                return f"{step.id} met damage that has no name: {failed.error}"
    except OdfBuildError as error:
        codes.append(error.code)
    except Exception:
        return f"a traceback of apply:\n{traceback.format_exc()}"
    finally:
        shop.workspace.index.close()
    return None


def _read(made: Scenario, shop: Workshop, codes: list[str]) -> str | None:
    """Read every dataset as `show` does, over the damage."""
    for name in made.names():
        try:
            paths = all_files(found(shop, name))
        except OdfBuildError as error:
            codes.append(error.code)
            continue
        except Exception:
            return f"a traceback of a reader:\n{traceback.format_exc()}"
        tables = [pq.read_table(path).drop_columns(["system_time"]) for path in paths]
        rows = tuple(row for t in tables for row in zip(*t.to_pydict().values(), strict=True))
        if rows not in (made.before[name], made.after[name]):
            return f"a reader got other rows of {name}: {str(rows)[:400]}"
    return None


def _rows(made: Scenario, shop: Workshop, codes: list[str], *, failed: bool) -> str | None:
    """Compare what the chains hold, their old files restored."""
    for name in made.names():
        try:
            rows = rows_of(shop, name)
        except OdfBuildError as error:
            codes.append(error.code)
            continue
        if rows != made.after[name] and not (failed and rows == made.before[name]):
            return f"{name} holds other rows: {str(rows)[:400]}"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run trials, say how they ended, and return 1 if one was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.flips")
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--from", type=int, default=0, dest="start", metavar="SEED")
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args(arguments)
    ended: Counter[str] = Counter()
    wrong = 0
    with scenario(spark=given.spark) as made:
        for seed in range(given.start, given.start + given.count):
            ended_as = trial(made, seed)
            kind = ended_as.damage.partition(":")[0]
            how = (
                "WRONG"
                if ended_as.wrong
                else ", ".join(sorted(set(ended_as.codes))) or "right rows"
            )
            ended[f"{kind}: {how}"] += 1
            if ended_as.wrong:
                wrong += 1
                print(f"seed {seed}: {ended_as.damage}\n{ended_as.wrong}", flush=True)
            if (done := seed + 1 - given.start) % 100 == 0:
                print(f"{done:,} trials, {wrong} wrong; --from {seed + 1}", flush=True)
    for how, count in sorted(ended.items()):
        print(f"{count:6} {how}")
    print(f"{given.count} trials, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
