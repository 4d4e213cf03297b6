"""The files of tests of a project: tests/unit and tests/data.

They are no definitions: no plan depends on them.  What is wrong is collected over all files.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.project.fingerprint import project_files
from odfbuild.project.settings import SettingsReader
from odfbuild.project.testing.checks import read_checks
from odfbuild.project.testing.fixtures import read_fixture
from odfbuild.project.testing.model import Check, Fixture
from odfbuild.project.texts import Home, UnreadableError
from odfbuild.project.yaml import read_source

__all__ = ["DATA", "UNIT", "Tests", "load_tests"]

UNIT: Final = "tests/unit"
DATA: Final = "tests/data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tests:
    """What the files of tests say, in the order of their names, and what is wrong with them."""

    fixtures: tuple[Fixture, ...] = ()
    checks: tuple[Check, ...] = ()
    found: tuple[Diagnostic, ...] = ()


def load_tests(root: Path, *, unit: bool = True, data: bool = True) -> Tests:
    """Read the files of tests below a project, of one kind or of both."""
    reading = _Reading(Home(root=root))
    if unit:
        for reader, file, number in reading.documents(UNIT):
            fixture = read_fixture(reader, file, number)
            reading.fixtures += [] if fixture is None else [fixture]
            reading.note(reader)
    if data:
        for reader, _, _ in reading.documents(DATA):
            reading.checks += read_checks(reader)
            reading.note(reader)
    return Tests(
        fixtures=tuple(reading.fixtures),
        checks=tuple(reading.checks),
        found=tuple(reading.found),
    )


@dataclass(slots=True)
class _Reading:
    home: Home
    fixtures: list[Fixture] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    found: list[Diagnostic] = field(default_factory=list)

    def documents(self, folder: str) -> Iterator[tuple[SettingsReader, str, int]]:
        """Yield the documents of a folder that can be read, each with its file and number."""
        for name in project_files(self.home.root, (folder,)):
            if name.endswith(".j2"):
                continue
            try:
                for document in read_source(self.home.read(name)):
                    yield SettingsReader(document), name, document.index
            except ProjectErrors as errors:
                self.found += errors.found
            except UnreadableError as error:
                self.found += error.at(SourceSpan(file=name, line=1)).found

    def note(self, reader: SettingsReader) -> None:
        """Take what is wrong with a document under a code of its own."""
        self.found += [
            replace(each, code="test-file") if each.code == "config" else each
            for each in reader.found
        ]
