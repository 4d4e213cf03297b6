"""Random histories of files and chains: what was not read is named, and is read where that is safe.

Every content of a file has values that no other has, so the rows of a chain tell what was read of
which file, whatever the memory of files says.  The laws, after any operations, with runs killed
at any write, with files cut into slices, and with heads set to any block that there was, by
`reset` or by hand:

- a file whose rows are not all in the chain is named by `plan` or `status`: as new, late or changed
- a chain that has an input in part is refused, and what the message says goes on from there
- what takes files in is refused for one of two reasons: a file that it has to read is damaged, or
  the head is none that an ended run has left
- after an apply with a rule, and unless a file is named as left out, the current rows are those
  of the files in their order, as they are now
"""

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from odfbuild.errors import StateError
from odfbuild.executors.engine import context as site
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.files.disk import Disk
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import Done
from tests.support.projects.texts import FILES_ROOT

RULES = {
    "UpsertStream, primaryKey: [k]": "changed",
    "Snapshot, primaryKey: [k]": "changed",
    "Ledger, primaryKey: [k]": "late",
    "Append": None,
}
NAMES = tuple(f"{letter}.csv" for letter in "abcdefghijklmnop")
Content = tuple[tuple[str, int], ...]


class Killed(BaseException):
    """The process is gone."""


class History:
    """One project, what was done to it, and what its files held when."""

    def __init__(self, run: Inside, chance: random.Random, merge: str) -> None:
        self.run = run
        self.chance = chance
        self.merge = merge
        self.rule = RULES[merge]
        self.files: dict[str, Content | None] = {}  # None: it cannot be read
        self.held: dict[str, list[Content]] = {}
        self.heads: list[str] = []
        self.whole: set[str] = set()  # heads at which every input is there to its end
        self.done: list[str] = []
        self.count = 0
        self.slice_rows = chance.choice((1, 2, 3, 1_000))
        self.clock = 10**18
        settings = "" if self.rule is None else f"defaults: {{src: {{reread: {self.rule}}}}}\n"
        lay_out(
            run.project,
            {
                "odfbuild.yaml": f"odfbuild: 1\n{settings}",
                "datasets/src.yaml": FILES_ROOT % f"{{kind: {merge}}}",
            },
        )
        (run.project / "data").mkdir()

    # files

    def content(self) -> Content:
        keys = self.chance.sample("uvwxyz", self.chance.randrange(1, 4))
        return self.renewed(tuple((key, 0) for key in sorted(keys)))

    def renewed(self, content: Content) -> Content:
        """Return other values for the keys; a merge that keeps the first of a key has new keys."""
        self.count += 1
        own = not self.merge.startswith(("Upsert", "Snapshot"))
        return tuple(
            (f"{key[0]}{self.count}" if own else key, 100 * self.count + n)
            for n, (key, _) in enumerate(content)
        )

    def put(self, name: str, content: Content | None) -> None:
        self.files[name] = content
        if content is not None:
            self.held.setdefault(name, []).append(content)
        lines = [("x", "bad")] if content is None else content
        path = self.run.project / "data" / name
        path.write_text("".join(f"{k},{v}\n" for k, v in lines), "utf-8")
        self.clock += 1_000_000_000
        os.utime(path, ns=(self.clock, self.clock))

    def new(self) -> None:
        known = sorted({*self.files, *self.held})
        after = [name for name in NAMES[4:] if not known or name > known[-1]]
        if after:
            self.put(after[0], self.content())

    def late(self) -> None:
        free = [name for name in NAMES[:12] if name not in self.held]
        if free:
            self.put(self.chance.choice(free), self.content())

    def some(self) -> str | None:
        return self.chance.choice(sorted(self.files)) if self.files else None

    def correct(self) -> None:
        if (name := self.some()) is not None and self.held.get(name):
            self.put(name, self.renewed(self.held[name][-1]))

    def take_back(self) -> None:
        """Give a file what it held before."""
        if (name := self.some()) is not None and self.held.get(name):
            self.put(name, self.chance.choice(self.held[name]))

    def touch(self) -> None:
        if (name := self.some()) is not None:
            self.put(name, self.files[name])

    def damage(self) -> None:
        if (name := self.some()) is not None:
            self.put(name, None)

    def delete(self) -> None:
        if (name := self.some()) is not None:
            (self.run.project / "data" / name).unlink()
            del self.files[name]

    # commands

    def command(self, *words: str) -> Done:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(site, "SLICE_ROWS", self.slice_rows)
            done = self.run(*words)
        assert "Traceback" not in done.err, done.err
        assert "error[internal]" not in done.err, done.err
        self.note()
        return done

    def taking(self) -> tuple[str, ...]:
        """Return a command that takes files in: a run does so where the source is in force."""
        state = None if (source := self.source()) is None else source.state()
        there = state is not None and state.polling is not None
        return ("run",) if there and self.chance.random() < 0.5 else ("apply", "--yes")

    def take_in(self) -> Done:
        """Take files in, and judge a refusal by what was done to the files and to the head."""
        before = self.head()
        done = self.command(*self.taking())
        if done.code == 0:
            self.whole |= {self.head()} - {""}
            return done
        codes = set(re.findall(r"error\[([\w-]+)\]", done.out + done.err))
        right = {"invalid-source"} if None in self.files.values() else set()
        right |= set() if before in self.whole else {"partial-input"}
        assert codes, (done.out, done.err)
        assert codes <= right, (codes, right, done.err, self.done)
        return done

    def head(self) -> str:
        """Return the head, an empty text where there is none."""
        source = self.source()
        return "" if source is None else str(source.head() or "")

    def note(self) -> None:
        found = self.source()
        if found is None or (head := found.head()) is None or str(head) in self.heads:
            return
        known = {*self.heads}
        self.heads += [str(hash) for hash, _ in found.blocks() if str(hash) not in known]

    def source(self) -> Dataset | None:
        return Workspace(self.run.project / ".odfbuild").open(DatasetAlias.parse("src"))

    def killed(self, *words: str) -> None:
        """Run a command whose process is gone at one of its writes."""
        with dying(self.chance.randrange(60)), suppress(Killed, AssertionError):
            self.command(*words)
        self.note()

    def housekeeping(self) -> None:
        if not self.heads:
            return
        words = self.chance.choice(
            (
                ("compact", "src", "--yes"),
                ("rebuild", "src", "--full", "--yes"),
                ("watermark", "src", f"20{30 + len(self.done)}-01-01T00:00:00Z"),
                ("undo", "last", "--yes"),
                ("gc", "--older-than", "0s"),
            )
        )
        (self.killed if self.chance.random() < 0.3 else self.command)(*words)

    def reset(self) -> None:
        if self.heads:
            self.command("reset", "src", self.chance.choice(self.heads), "--yes")

    def by_hand(self) -> None:
        """Set the head as another program does, which knows nothing of inputs."""
        source = self.source()
        if source is not None and self.heads:
            with suppress(StateError):  # gc took it
                source.set_head(Multihash.parse(self.chance.choice(self.heads)), source.head())

    def applied(self) -> Done:
        """Take files in; where the chain has an input in part, as the message says."""
        done = self.take_in()
        if "[partial-input]" in (said := done.out + done.err):
            way = re.search(r"odfbuild (reset src (?!BLOCK)\w+)", said)
            assert way is not None, said
            set_back = self.command(*way[1].split(), "--yes")
            assert set_back.code == 0, set_back.err
            self.whole.add(self.head())  # from here it has to go on
            done = self.take_in()
        return done

    def step(self) -> None:
        name, work = self.chance.choices(OPERATIONS, WEIGHTS)[0]
        self.done.append(name)
        work(self)

    # laws

    def log(self) -> list[dict[str, Any]]:
        source = self.source()
        if source is None or source.head() is None:
            return []
        return [row for _, path in source.slices() for row in pq.read_table(path).to_pylist()]

    def check_named(self) -> None:
        """Check that each file whose rows are not in the chain is named."""
        rows = {(row["k"], row["v"]) for row in self.log()}
        planned = self.command("plan", "-o", "json")
        if "partial-input" in planned.out:
            assert self.head() not in self.whole, self.done
            return
        assert planned.code == 0, planned.err
        plan = json.loads(planned.out)
        news = {Path(name).name for name in _strings(plan["steps"]) if name.endswith(".csv")}
        (told,) = json.loads(self.command("status", "-o", "json").out) or [{}]
        left = (*told.get("late_files", ()), *told.get("changed_files", ()))
        named = news | {Path(name).name for name in left}
        for name, content in self.files.items():
            if content is None or not {*content} <= rows:
                assert name in named, (name, self.done)
        again = {Path(n).name for n in _strings(plan["steps"]) if n.startswith("data/")}
        warned = {note["code"] for note in plan["notes"]} & {"late-files", "changed-files"}
        if {Path(name).name for name in left} - again:
            assert warned, self.done

    def check_rows(self) -> None:
        """Mend what is damaged, apply, and check the current rows."""
        for name, content in list(self.files.items()):
            if content is None:
                before = self.held.get(name)
                self.put(name, self.renewed(before[-1]) if before else self.content())
        done = self.applied()
        assert done.code == 0, (done.err, self.done)
        self.check_named()
        planned = self.command("plan", "--detailed-exitcode", "-o", "json")
        assert planned.code == 0, (planned.out, self.done)
        codes = {note["code"] for note in json.loads(planned.out)["notes"]}
        log = self.log()
        if codes & {"late-files", "changed-files"}:
            return
        rows = [(row["k"], row["v"]) for row in log]
        if self.merge == "Append":
            wanted = [row for content in self.files.values() for row in content or ()]
            assert all(rows.count(row) == 1 for row in wanted), self.done
            return
        stands: dict[str, int] = {}
        for row in log:
            if row["op"] in (0, 3):
                stands[row["k"]] = row["v"]
            elif row["op"] == 1:
                stands.pop(row["k"], None)
        told = self.wanted()
        exact = self.merge.startswith("Snapshot") and told
        found = stands if exact else {key: stands.get(key) for key in told}
        assert found == told, self.done

    def wanted(self) -> dict[str, int]:
        """Return what stands by key, as far as the files that are there say it."""
        names = sorted({*self.files, *self.held})
        if self.merge.startswith("Snapshot"):
            return dict(self.files.get(names[-1]) or ()) if names else {}
        in_order: dict[str, int] = {}
        gone: set[str] = set()
        for name in names:
            if (content := self.files.get(name)) is None:
                gone |= {key for key, _ in self.held.get(name, [()])[-1]}
                continue
            in_order |= dict(content)
            gone -= {key for key, _ in content}
        return {key: value for key, value in in_order.items() if key not in gone}


def _strings(found: Any) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict):
        for each in found.values():
            yield from _strings(each)
    elif isinstance(found, list):
        for each in found:
            yield from _strings(each)


@contextmanager
def dying(at: int) -> Iterator[None]:
    """Have the process gone at a write, counted from 0: that one and all after it fail."""
    left = [at]

    def mortal(do: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return do(*given, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("write", "append", "sync", "make_folder", "rename", "link", "remove"):
            patch.setattr(Disk, name, mortal(getattr(Disk, name)))
        yield


OPERATIONS: tuple[tuple[str, Callable[[History], object]], ...] = (
    ("new", History.new),
    ("late", History.late),
    ("correct", History.correct),
    ("take back", History.take_back),
    ("touch", History.touch),
    ("damage", History.damage),
    ("delete", History.delete),
    ("plan", lambda history: history.command("plan")),
    ("take in", History.take_in),
    ("killed", lambda history: history.killed(*history.taking())),
    ("reset", History.reset),
    ("by hand", History.by_hand),
    ("housekeeping", History.housekeeping),
)
WEIGHTS = (3, 2, 4, 1, 1, 1, 1, 1, 4, 3, 3, 1, 2)


def play(run: Inside, seed: str, merge: str, steps: int) -> None:
    history = History(run, random.Random(seed), merge)
    for _ in range(2):
        history.new()
    for number in range(steps):
        history.step()
        if number % 4 == 3:
            history.check_named()
    history.check_named()
    history.check_rows()


def engine_in(
    folder: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
) -> Inside:
    return Inside(folder, capsys, patch, FakeEngine())


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("merge", RULES)
def test_no_file_stays_unread_in_silence(
    merge: str,
    seed: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play(engine_in(tmp_path, capsys, monkeypatch), f"{merge} {seed}", merge, 12)


@pytest.mark.slow
@pytest.mark.parametrize("merge", RULES)
def test_no_file_stays_unread_in_silence_at_length(
    merge: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many histories as ODFBUILD_HISTORIES says, 100 of each merge if it says nothing."""
    first, last = (os.environ.get("ODFBUILD_HISTORIES") or "0:100").split(":")
    for seed in range(int(first), int(last)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with monkeypatch.context() as patch:
            try:
                play(engine_in(folder, capsys, patch), f"{merge} {seed}", merge, 16)
            except Exception as error:
                raise AssertionError(f"history {seed} of {merge}") from error
