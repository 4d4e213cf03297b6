"""One trial: a project as it was before an apply, a fault in that apply, and the law checked."""

import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from tests.faults import workload
from tests.faults.invariants import Broken, Chain, Law, chains
from tests.faults.preload import NOTHING, Fault, Kind
from tests.faults.server import CommandServer, Outcome, Runner

__all__ = ["Ground", "Moment", "Tally", "ground"]

_VARYING = re.compile(
    r"(?<![a-z])f[0-9a-f]{20,}|\b[0-9a-f]{16}\b|\b\w{11,12}-\w{3}\b|\d{4}-\d\d-[\dT:.Z-]+"
)
_COMMANDS = (
    workload.APPLY, ("verify",), ("status",), ("plan",), ("gc", "--older-than", "0s")
)  # fmt: skip


_WHOLLY = 8


@dataclass(slots=True)
class Tally:
    """How often each fault befell a run, how runs ended, and what did not hold after which."""

    reached: Counter[str] = field(default_factory=Counter)
    wanted: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    problems: dict[str, list[str]] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        lines = [
            f"  {name}: {self.reached[name]:,} of {wanted:,}"
            for name, wanted in self.wanted.items()
        ]
        ends = ", ".join(f"{name} {n:,}" for name, n in sorted(self.ends.items()))
        lines += [f"  runs ended with {ends}"] if ends else []
        lines += [f"  {len(self.problems)} problems, {time.monotonic() - self.started:,.0f} s"]
        for problem, after in self.problems.items():
            lines.append(f"  - {len(after)} times, first after {after[0]}:\n    {problem}")
        return "\n".join(lines)

    @contextmanager
    def trial(self, what: str) -> Iterator[None]:
        """Keep what is found broken, under what was done."""
        try:
            yield
        except Broken as problem:
            text = _VARYING.sub("...", str(problem))
            if text not in self.problems:
                print(f"BROKEN after {what}: {problem}", flush=True)
            self.problems.setdefault(text, []).append(what)

    def add(self, name: str) -> None:
        """Count one, and say now and then how far it is."""
        self.reached[name] += 1
        if self.reached[name] % 100 == 0:
            print(f"{name}: {self.reached[name]:,} of {self.wanted[name]:,}", flush=True)

    def count(self, name: str, outcome: Outcome) -> None:
        """Count a run if the fault befell it."""
        if outcome.hits:
            self.add(name)
            self.ends["nothing" if outcome.code is None else str(outcome.code)] += 1


@dataclass(frozen=True, slots=True)
class Moment:
    """A project before an apply, and the law of that apply."""

    name: str
    project: Path
    law: Law


class Ground:
    """A folder where one project after another lies at the same path."""

    def __init__(self, folder: Path, runner: Runner) -> None:
        self.runner = runner
        self.project = folder / "project"
        self._folder = folder
        self._settled = 0
        workload.first(self.project)
        first = self._moment("first", {})
        workload.second(self.project)
        self.moments: Sequence[Moment] = (first, self._moment("second", first.law.after))

    def _moment(self, name: str, before: Mapping[str, Chain]) -> Moment:
        kept = self._folder / name
        shutil.copytree(self.project, kept)
        done = self.runner.run(self.project, *workload.APPLY)
        assert done.code == 0, done.out
        return Moment(name, kept, Law(before, chains(self.project), workload.APPLY))

    def at(self, project: Path) -> Self:
        """Return the same ground with the project at another path."""
        other = copy(self)
        other.project = project
        return other

    def lay(self, moment: Moment) -> Path:
        """Put the project of a moment in its place."""
        self.clear()
        shutil.copytree(moment.project, self.project)
        return self.project

    def clear(self) -> None:
        """Take the project away, and what the user's programs remember of its heads."""
        shutil.rmtree(self.project, ignore_errors=True)
        shutil.rmtree(self._folder / ".local", ignore_errors=True)

    def calls(self, moment: Moment, kinds: Kind) -> int:
        """Return how many calls an undisturbed apply makes."""
        return self.run(moment, Fault(kinds=kinds)).calls

    def run(self, moment: Moment, fault: Fault = NOTHING, record: Path | None = None) -> Outcome:
        """Run the apply of a moment from its start, with a fault in it."""
        return self.go_on(self.lay(moment), fault, record)

    def go_on(self, project: Path, fault: Fault, record: Path | None = None) -> Outcome:
        """Run the apply in a project as it is."""
        return self.runner.run(project, *workload.APPLY, fault=fault, record=record)

    def check(self, moment: Moment, outcome: Outcome) -> None:
        """Check what a disturbed apply left; raises Broken."""
        moment.law.check_end(outcome)
        moment.law.check_chains(self.project, done=outcome.code == 0)

    def settle(self, moment: Moment) -> None:
        """Check that the project can be continued; raises Broken."""
        self._settled += 1
        moment.law.settle(self.runner, self.project, wholly=self._settled % _WHOLLY == 1)


@contextmanager
def ground(*, careless: bool = False) -> Iterator[Ground]:
    """Give a ground with the engine of the tests, in a folder that is gone afterwards."""
    with TemporaryDirectory(prefix="odfbuild-faults-", dir=workload.memory()) as name:
        folder = Path(name).resolve()
        with CommandServer(folder, careless=careless) as server:
            server.warm(workload.first(folder / "warm"), *_COMMANDS)
            yield Ground(folder, server)
