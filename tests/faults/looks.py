"""`verify` again and again beside commands that move heads and take away what they reached.

    python -m tests.faults.looks --rounds 100 --seed 0
    python -m tests.faults.looks --rounds 100 --bucket

For some seconds two processes verify a project, slowly, while two others change it: `apply`,
`reset`, `undo`, `compact --hard`, `rebuild`, and most of the time `gc` of what is there before.
With `--bucket` the workspace is on a real server, and each process is on a machine of its own
(`tests.faults.machines`).

No dataset is damaged, so none may be reported to be.  What may be true for a moment: an input was
rewritten and its derivative not rebuilt yet; to a machine that saw another head, that this one does
not descend from it; and what others changed during each look is named as that.  In every fourth
round the Seed of `posts`, which nobody changes, loses a byte before: every look has to find that.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import obstore

from odfbuild.cli.main import main as main_of_commands
from odfbuild.executors.data.checks.files import file_problems
from odfbuild.executors.verify.read_heads import UNCERTAIN
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace
from tests.faults.concurrent import MERGES, World, without_spark
from tests.faults.machines import Machine, begun
from tests.faults.races import forked, wait, world_apart
from tests.faults.workload import memory
from tests.support.servers.object_store import KilledServer

__all__ = ["looks"]

_TRUE = (
    "was reset or rewritten since",
    "does not descend from the one that was seen last",
    UNCERTAIN,
)
_DAMAGED = "posts"
_SLOWNESS = 0.03  # seconds at most that a look takes longer at each file
_LONGEST = 300.0
_CODES = frozenset((0, 1, 4, 5, 6, 7))


def looks(
    rounds: int,
    seed: int = 0,
    say: Callable[[str], None] = print,
    *,
    in_bucket: bool = False,
    seconds: float = 5,
) -> int:
    """Run so many rounds and return how many broke the law."""
    broken, counts = 0, Counter[str]()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory())))
        stack.enter_context(without_spark())
        worlds = [world_apart(place / f"{n}", merge) for n, merge in enumerate(MERGES)]
        store = None
        if in_bucket:
            (place / "server").mkdir()
            store = stack.enter_context(closing(KilledServer(place / "server")))
            assert wait(forked(store.wait)) == 0
        for number in range(seed, seed + rounds):
            made = _Round(random.Random(number), place / f"round-{number}", seconds)
            made.run(worlds[number % len(worlds)], store, is_damaged=number % 4 == 3)
            counts += made.counts
            if made.problems:
                broken += 1
                say(f"BROKEN, seed {number}: " + "\n  ".join(made.problems))
            shutil.rmtree(made.folder)
            if (number - seed + 1) % 10 == 0 or number == seed + rounds - 1:
                say(f"{number - seed + 1:,} rounds, {broken} broken: {dict(counts)}")
    return broken


class _Round:
    """Two who verify and two who change one workspace."""

    def __init__(self, draw: random.Random, folder: Path, seconds: float) -> None:
        self.folder = folder
        self.counts = Counter[str]()
        self.problems: list[str] = []
        self._draw = draw
        self._seconds = seconds
        self._is_damaged = False
        folder.mkdir()

    def run(self, world: World, store: KilledServer | None, *, is_damaged: bool) -> None:
        """Do it, and look at what was said."""
        self._is_damaged = is_damaged
        if store is None:
            project = self.folder / "project"
            shutil.copytree(world.origin, project)
            if is_damaged:
                _damage_file(project)
            places = [(project, self._prepare)] * 4
            collecting = ["gc", "--older-than", "0s"]
        else:
            url = store.server.url(self.folder.name)
            first = Machine(self.folder / "first", world.origin, url, 0)
            assert begun(self._draw, first, world.origin, url) is None
            if is_damaged:
                assert wait(forked(partial(_damage_object, world, store, self.folder.name))) == 0
            moment = int(time.time()) + 1
            time.sleep(moment - time.time())
            machines = [
                Machine(self.folder / f"{number}", world.origin, url, moment) for number in range(4)
            ]
            places = [(each.project, each.prepare) for each in machines]
            collecting = ["gc", "--older-than", "1d"]
        until = time.monotonic() + self._seconds
        whats = (_looking(), _looking(), _changing(self._draw), _changing(self._draw, collecting))
        processes = [
            forked(partial(self._go_on, number, commands, place, until))
            for number, (commands, place) in enumerate(zip(whats, places, strict=True))
        ]
        assert [wait(each, _LONGEST) for each in processes] == [0] * 4
        for number in range(4):
            for line in (self.folder / f"{number}.codes").read_text().splitlines():
                self._judge(*json.loads(line))

    def _prepare(self) -> None:
        state, cache = self.folder / "state", self.folder / "cache"
        os.environ.update(XDG_STATE_HOME=str(state), XDG_CACHE_HOME=str(cache), CI="")

    def _go_on(
        self,
        number: int,
        commands: Iterator[list[str]],
        place: tuple[Path, Callable[[], None]],
        until: float,
    ) -> None:
        done = 0
        while time.monotonic() < until or not done:
            said = self.folder / f"{number}-{done}"
            command = next(commands)
            code = wait(forked(partial(_act, command, *place, said)), _LONGEST)
            with (self.folder / f"{number}.codes").open("a") as codes:
                codes.write(json.dumps([command, code, str(said)]) + "\n")
            done += 1

    def _judge(self, command: list[str], code: int, said: str) -> None:
        """Note what is wrong with how a command ended."""
        errors = Path(f"{said}.err").read_text("utf-8", "replace")
        self.counts[f"{command[0]} {code}"] += 1
        if "Traceback" in errors or "error[internal]" in errors or code not in _CODES:
            self.problems.append(f"{command} -> {code}: {errors[-2000:]}")
        elif command[0] == "verify":
            if code not in (0, 7):
                self.problems.append(f"{command} -> {code}: {errors[-500:]}")
            else:
                self._judge_look(code, json.loads(Path(f"{said}.out").read_text()))

    def _judge_look(self, code: int, document: Any) -> None:
        failed = {each["name"]: each for each in document["datasets"] if not each["ok"]}
        if self._is_damaged:
            found = failed.pop(_DAMAGED, {"findings": ()})["findings"]
            if not found or found[0]["what"] == UNCERTAIN:
                self.problems.append(f"the damage was not found: {found}")
        if code == 7 and not failed and not self._is_damaged:
            self.problems.append("7, though each dataset holds")
        for name, each in failed.items():
            for finding in each["findings"] or [{"what": "no finding"}]:
                said = finding["what"]
                self.counts["uncertain"] += said == UNCERTAIN
                if not any(true in said for true in _TRUE):
                    self.problems.append(f"{name} is reported to be damaged: {said}")


def _looking() -> Iterator[list[str]]:
    while True:
        yield ["verify", "-o", "json"]


def _changing(draw: random.Random, collecting: Sequence[str] | None = None) -> Iterator[list[str]]:
    own = random.Random(draw.random())
    while True:
        if collecting is not None and own.random() < 0.7:
            yield [*collecting]
        yield own.choice(
            [
                ["apply", "--yes"],
                ["reset", "src", "--sequence", str(own.randint(3, 6)), "--yes"],
                ["undo", "last", "--yes"],
                ["compact", "src", "--hard", "--yes"],
                ["rebuild", "out", "--yes"],
                ["rebuild", "out", "--yes"],
            ]
        )


def _act(command: Sequence[str], folder: Path, prepare: Callable[[], None], said: Path) -> None:
    """Be a command; who verifies takes longer, so that more happens meanwhile."""
    prepare()
    os.chdir(folder)
    for descriptor, name in ((1, f"{said}.out"), (2, f"{said}.err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["odfbuild", *command]
    draw = random.Random()

    def slowly(*given: Any) -> Any:
        time.sleep(draw.random() * _SLOWNESS)
        return file_problems(*given)

    code: object = 0
    with mock.patch("odfbuild.executors.verify.chain.file_problems", slowly):
        try:
            main_of_commands()
        except SystemExit as end:
            code = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def _damage_file(project: Path) -> None:
    workspace = Workspace(project / ".odfbuild")
    dataset = workspace.dataset(workspace.names()[DatasetAlias.parse(_DAMAGED)])
    (seed, _), *_rest = dataset.blocks()
    path = dataset.stores.blocks.path(seed)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1])


def _damage_object(world: World, store: KilledServer, prefix: str) -> None:
    workspace = Workspace(world.origin / ".odfbuild")
    dataset = workspace.dataset(workspace.names()[DatasetAlias.parse(_DAMAGED)])
    (seed, _), *_rest = dataset.blocks()
    key = f"datasets/{dataset.id.multibase}/blocks/{seed}"
    obstore.put(store.server.store(prefix), key, dataset.stores.blocks.get(seed)[:-1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as many rounds as asked for; 1 if one of them broke the law."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.looks")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--bucket", action="store_true")
    asked = parser.parse_args(arguments)
    say = partial(print, flush=True)
    broken = looks(asked.rounds, asked.seed, say, in_bucket=asked.bucket, seconds=asked.seconds)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
