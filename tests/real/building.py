"""The example on real data in a folder of the test, its commands run within this process.

`Building.feed` lets source files arrive, `declare` makes one of the example's edits, `apply` builds
and remembers how it went.
"""

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from odfbuild.cli.main import main
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.remote.workspace import BucketWorkspace
from odfbuild.state.workspace import Workspace
from tests.real.published import Row
from tests.support.projects import EXAMPLES, REPOSITORY, Done

__all__ = [
    "AIRLINES",
    "AIRLINE_FILES",
    "CODES",
    "DATA",
    "DERIVATIVES",
    "FILES_OF_DECLARATIONS",
    "LOAD",
    "NATIONAL",
    "NATIONAL_FILES",
    "POSITIVES",
    "REGIONS",
    "REGION_FILES",
    "REPAIRED",
    "REPAIRED_FILE",
    "ROOTS",
    "Building",
    "Step",
    "declarations",
    "declared_names",
    "without",
]

DATA = Path(os.environ.get("ODFBUILD_EXAMPLE_DATA") or REPOSITORY.parent / "shared" / "data")
EXAMPLE = EXAMPLES / "italy-covid"

NATIONAL, REGIONS = "it.covid.national", "it.covid.regions"
AIRLINES, REPAIRED = "org.openflights.airlines", "org.openflights.airlines.repaired"
LOAD, POSITIVES = "it.covid.hospital-load", "it.covid.positives"
CODES = "org.openflights.airline-codes"
ROOTS = (NATIONAL, REGIONS, AIRLINES, REPAIRED)
DERIVATIVES = (LOAD, POSITIVES, CODES)

_NATIONAL = DATA / "italy-covid-regions" / "national-full-snapshots"
_REGIONS = DATA / "italy-covid-regions" / "as-published"
_AIRLINES = DATA / "openflights" / "airlines"
NATIONAL_FILES = tuple(sorted(_NATIONAL.glob("*.csv")))
REGION_FILES = tuple(sorted(_REGIONS.glob("*.csv")))
AIRLINE_FILES = tuple(sorted(_AIRLINES.glob("*.gz")))
REPAIRED_FILE = _AIRLINES / "20121114_07e05bd.dat.zip"
FILES_OF_DECLARATIONS = (13, 5, 4, 1, 4, 4, 4, 3)  # as the example's page says


@dataclass(frozen=True, slots=True)
class Step:
    """How one apply ended, and where every dataset stood then: its head and number of rows."""

    done: Done
    heads: dict[str, str]
    rows: dict[str, int]


@dataclass
class Building:
    """A project folder, the commands run in it, and the applies so far.

    `home` is the URL of its workspace if that is in a store.
    """

    root: Path
    steps: list[Step] = field(default_factory=list)
    home: str | None = None

    @classmethod
    def of_example(cls, root: Path, *datasets: str) -> "Building":
        """Copy the example, or only the named files of its datasets, without any data."""
        shutil.copytree(EXAMPLE, root)
        for path in (root / "datasets").iterdir() if datasets else ():
            if path.stem not in datasets:
                path.unlink()
        return cls(root)

    # what happens to the project

    def link_everything(self) -> None:
        """Let all source files be there."""
        (self.root / "data").symlink_to(DATA)

    def feed(self, *files: Path) -> None:
        """Let source files arrive where the definitions look for them."""
        for path in files:
            self.place(path).symlink_to(path)

    def place(self, path: Path) -> Path:
        """Return where a source file goes, making its folder."""
        there = self.root / "data" / path.relative_to(DATA)
        there.parent.mkdir(parents=True, exist_ok=True)
        return there

    def declare(self, number: int) -> None:
        """Put one of the declarations of the regions into force."""
        shutil.copy(declarations()[number], self.root / "datasets" / "regions.yaml")

    # what is done with it

    def run(self, command: str, *arguments: str) -> Done:
        """Run one command to its end."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
            patch.setattr(sys, "argv", ["odfbuild", command, "-C", str(self.root), *arguments])
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main()
        code = end.value.code
        assert isinstance(code, int)
        return Done(code, out.getvalue(), err.getvalue())

    def apply(self) -> Step:
        """Build what can be built."""
        done = self.run("apply", "--yes", "--no-progress", "--jobs", "2")
        counts = {name: self._count(name) for name in self.names()}
        step = Step(done, {name: str(self.dataset(name).head()) for name in counts}, counts)
        self.steps.append(step)
        return step

    # what is there

    @property
    def workspace(self) -> Workspace:
        if self.home is not None:
            return BucketWorkspace(self.home)
        return Workspace(self.root / ".odfbuild")

    def names(self) -> list[str]:
        return sorted(str(alias) for alias in self.workspace.names())

    def dataset(self, name: str) -> Dataset:
        found = self.workspace.open(DatasetAlias.parse(name))
        assert found is not None
        return found

    def slices(self, name: str) -> list[list[Row]]:
        """Return the rows of each slice, oldest first, each slice with the columns that it has."""
        return [pq.read_table(path).to_pylist() for _, path in self.dataset(name).slices()]

    def rows(self, name: str) -> list[Row]:
        """Return all rows in order, with None in columns that came later."""
        slices = self.slices(name)
        columns = dict.fromkeys(slices[-1][0])
        return [columns | row for rows in slices for row in rows]

    def _count(self, name: str) -> int:
        state = self.dataset(name).state()
        assert state is not None
        return state.next_offset


def declarations() -> list[Path]:
    """Return the definitions of the regions, in the order in which they were in force."""
    first = EXAMPLE / "datasets" / "regions.yaml"
    return [first, *sorted((EXAMPLE / "revisions").glob("*.yaml"))]


def declared_names(path: Path) -> list[str]:
    """Return the columns that a definition of the regions reads."""
    events = yaml.safe_load(path.read_text("utf-8"))["content"]["metadata"]
    (source,) = [event for event in events if event["kind"] == "SetPollingSource"]
    return [line.split()[0] for line in source["read"]["schema"]]


def without(rows: Sequence[Row], *names: str) -> list[Row]:
    """Return the rows without some of their columns."""
    return [{name: value for name, value in row.items() if name not in names} for row in rows]
