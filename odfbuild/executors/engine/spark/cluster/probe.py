"""Probe of executors: which versions they run, and whether they share what steps read and write.

A task on each executor reads a file, or an object, that this process wrote, and writes one beside
it that this process then looks for.  What it imports there has to be light, and of the standard
library but for the client of a store.
"""

import importlib.metadata
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.host.files import read_regular
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

PACKAGES = ("pyarrow",)
"""Distributions that tasks import beside PySpark: those of this machine are there as well."""

COLUMNS = {
    "host": "reflect('org.apache.spark.util.Utils', 'localHostName')",
    "spark": "reflect('org.apache.spark.package', 'SPARK_VERSION')",
    "java": "reflect('java.lang.System', 'getProperty', 'java.specification.version')",
    "zone": "reflect('java.lang.System', 'getProperty', 'user.timezone')",
    "encoding": "reflect('java.lang.System', 'getProperty', 'file.encoding')",
}
"""What the Java process of an executor says of itself, in Spark's SQL."""

_OTHER_PYTHON = re.compile(r"version: ?'?([0-9.]+)'? than that in driver:? ?'?([0-9.]+)")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_NO_MODULE = re.compile(r"(?:ModuleNotFoundError|ImportError): ([^\n]+)")
_ASKED = "asked"
_HOME = "format"  # an object that each workspace in a store has
_LARGEST_HOME = 1 << 16  # bytes of it


class ClusterMismatchError(EngineFailedError):
    """Executors have other versions than this process."""

    code = "cluster-mismatch"


class ClusterFolderError(EngineFailedError):
    """Executors do not see the folder of the workspace, or their files are not visible here."""

    code = "cluster-folder"


class ClusterStoreError(EngineFailedError):
    """Executors do not reach the object store of their files."""

    code = "cluster-store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What one process runs; `packages` are the versions of `PACKAGES`, `none` of a missing one."""

    spark: str
    java: str
    python: str
    packages: Mapping[str, str] = field(default_factory=dict)
    zone: str = "UTC"
    encoding: str = "UTF-8"
    package: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a task on an executor found; `folder` says what is wrong there, empty if nothing is.

    `reads_home` tells whether it may read the objects of the workspace, which is in a store.
    """

    host: str
    versions: Versions
    folder: str
    answer: str
    reads_home: bool = False


class ProbePlace(Protocol):
    """Where this process and the tasks of executors read what the other wrote."""

    def answer(self, name: str) -> str:
        """Read, in a task, what was asked for, and write an answer; say what did not go."""

    def reads_home(self) -> bool:
        """Tell, in a task, whether it may read the objects of the workspace."""

    def unseen(self, name: str) -> str:
        """Say, here, what is wrong with the answer of a task; empty if nothing is."""

    def error(self, where: str, wrong: str) -> EngineFailedError:
        """Return the error for an executor; `wrong` says what was found."""


@dataclass(frozen=True, slots=True)
class ProbeFolder:
    """A folder that tasks look into: `token` is the text of the file that is asked for."""

    path: Path
    token: str

    def answer(self, name: str) -> str:
        asked = self.path / _ASKED
        try:
            found = read_regular(asked, 2 * len(self.token)).decode("ascii", "replace")
        except OSError as error:
            return f"cannot read {asked}: {_said(error)}"
        if found != self.token:
            return f"{asked} is another file there"
        try:
            (self.path / name).write_text(self.token, "ascii")
        except OSError as error:
            return f"cannot write into {self.path}: {_said(error)}"
        return ""

    def reads_home(self) -> bool:
        return False  # nobody asks for what is not in a store

    def unseen(self, name: str) -> str:
        path = self.path / name
        try:
            found = read_regular(path, 1 << 16).decode("ascii", "replace")
        except OSError as error:
            return f"it wrote {path}, which cannot be read here: {_said(error)}"
        return "" if found == self.token else f"it wrote {path}, which is another file here"

    def error(self, where: str, wrong: str) -> "ClusterFolderError":
        return ClusterFolderError(
            what=f"the executor on {where} does not share the folder of the workspace",
            why=f"a task there reported: {wrong}; steps read and write files below "
            f"{self.path.parents[1]}",
            fix="mount that folder at the same path on every machine of the cluster, writable for "
            "who runs executors there; or give the target a store instead (`objects`), or use one "
            "that runs on this machine",
        )


@dataclass(frozen=True, slots=True)
class ProbeStore:
    """A prefix of an object store that tasks look into; `token` is what the object holds.

    `home` is the prefix of the workspace, if that is in a store.
    """

    url: str
    token: str
    home: str | None = None

    def answer(self, name: str) -> str:
        from odfbuild.state.remote.store.bucket import Bucket

        try:
            bucket = Bucket(self.url)
            found = bucket.get(_ASKED, 2 * len(self.token))
            if found != self.token.encode():
                return f"{self.url}{_ASKED} is another object there, or none"
            bucket.put(name, self.token.encode())
        except OdfBuildError as error:
            return error.what
        return ""

    def reads_home(self) -> bool:
        from odfbuild.state.remote.store.bucket import Bucket

        if self.home is None:
            return False
        with suppress(OdfBuildError):  # by another refusal than that it does not exist yet
            Bucket(self.home).get(_HOME, _LARGEST_HOME)
            return True
        return False

    def unseen(self, name: str) -> str:
        from odfbuild.state.remote.store.bucket import Bucket

        found = Bucket(self.url).get(name, 1 << 16)
        if found == self.token.encode():
            return ""
        return f"it wrote {self.url}{name}, which is another object here, or none"

    def error(self, where: str, wrong: str) -> "ClusterStoreError":
        return ClusterStoreError(
            what=f"the executor on {where} does not reach the store of this cluster's files",
            why=f"a task there reported: {wrong}; steps read and write objects beside {self.url}",
            fix="let executors reach the store, with credentials of their own and the package "
            "obstore (docs/clusters.md)",
        )


@contextmanager
def probe_place(cache: Path, objects: str | None, home: str | None = None) -> Iterator[ProbePlace]:
    """Make a place for a probe: below a prefix of a store, or the cache of a workspace.

    `home` is the prefix of a workspace in a store.
    """
    if objects is None:
        with probe_folder(cache) as folder:
            yield folder
        return
    from odfbuild.executors.engine.objects.bucket import BucketPlace

    token = secrets.token_hex(16)
    place = BucketPlace(f"{objects.rstrip('/')}/engine-probe-{secrets.token_hex(8)}/")
    place.create(_ASKED, token.encode())
    try:
        yield ProbeStore(place.shown(""), token, home)
    finally:
        with suppress(OdfBuildError):
            place.clear()


def process_folder(cache: Path) -> Path:
    """Return the path of a new folder in the cache, which `gc` clears if this process is killed."""
    return cache / "spark" / f"{os.getpid()}-{secrets.token_hex(4)}"


@contextmanager
def probe_folder(cache: Path) -> Iterator[ProbeFolder]:
    """Make a folder for a probe below the cache of a workspace; it is gone afterwards."""
    token, folder = secrets.token_hex(16), process_folder(cache)
    folder.mkdir(parents=True)
    try:
        (folder / _ASKED).write_text(token, "ascii")
        yield ProbeFolder(folder.absolute(), token)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def own_versions(*, spark: str, java: str) -> Versions:
    """Return what this process runs, its driver having these versions of Spark and Java."""
    return Versions(
        spark=spark, java=java, python=_python(), packages=_packages(), package=_package()
    )


def report(place: ProbePlace, row: Mapping[str, Any]) -> Report:
    """Return what a task finds; `row` has what its executor says of itself, by `COLUMNS`."""
    answer = f"seen-{secrets.token_hex(8)}"
    return Report(
        host=str(row["host"]),
        versions=Versions(
            spark=str(row["spark"]),
            java=str(row["java"]),
            python=_python(),
            packages=_packages(),
            zone=str(row["zone"]),
            encoding=str(row["encoding"]),
            package=_package(),
        ),
        folder=place.answer(answer),
        answer=answer,
        reads_home=place.reads_home(),
    )


def _said(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _packages() -> dict[str, str]:
    return {name: _version(name) for name in PACKAGES}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _package() -> str:
    """Return the name of the archive that this package was imported from, or its folder."""
    parts = Path(os.path.abspath(__file__)).parts  # noqa: PTH100 - it may be within an archive
    return next((each for each in parts if each.endswith(".zip")), str(Path(__file__).parents[4]))


# The judgement


def check_reports(
    reports: Sequence[Report], here: Versions, place: ProbePlace, archive: str, master: str
) -> None:
    """Refuse executors that are not as this process is, or that do not share its folder or store.

    `archive` is the name of the archive that they should have this package from.  Raises
    ClusterMismatchError, ClusterFolderError, ClusterStoreError.
    """
    unlike = list(dict.fromkeys(each for one in reports for each in _unlike(one, here, archive)))
    if unlike:
        raise ClusterMismatchError(
            what=f"executors of {master} run other versions than this machine",
            why="; ".join(unlike[:8]) + ("; ..." if len(unlike) > 8 else ""),
            fix="install the same there; PYSPARK_PYTHON names the interpreter of executors, "
            "JAVA_HOME the Java of workers (docs/clusters.md)",
        )
    for one in reports:
        wrong = one.folder or place.unseen(one.answer)
        if wrong:
            raise place.error(one.host, wrong)


def _unlike(one: Report, here: Versions, archive: str) -> Iterator[str]:
    there = one.versions
    pairs = [
        ("Spark", there.spark, here.spark),
        ("Java", there.java, here.java),
        ("Python", there.python, here.python),
        *((name, there.packages.get(name, "none"), here.packages[name]) for name in PACKAGES),
        ("the time zone of Java", there.zone, here.zone),
        ("the encoding of Java", there.encoding, here.encoding),
    ]
    for name, found, wanted in pairs:
        if found != wanted:
            yield f"{one.host} has {name} {found}, not {wanted}"
    if there.package != archive:
        yield f"{one.host} has odfbuild from {there.package}, not from {archive}"


def probe_failure(text: str, master: str, spark: str, *, see: str) -> EngineFailedError:
    """Return the error for a probe that did not run to its end, by what Spark says of it.

    `spark` is the version here, and `see` says where to look if nothing is known.
    """
    if found := _OTHER_PYTHON.search(text):
        why = f"they run Python {found[1]}, but this process {found[2]}"
    elif found := _NO_PROGRAM.search(text):
        why = f"they have no program {found[1]} to run Python"
    elif found := _NO_MODULE.search(text):
        why = f"Python printed there: {excerpt(found[1], 200)}"
    elif "InvalidClassException" in text:
        why = f"their Spark is not {spark}"
    else:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return EngineFailedError(
            what=f"the executors of {master} could not be checked",
            why=excerpt(lines[0], 300) if lines else "Spark gave no reason",
            fix=see,
        )
    return ClusterMismatchError(
        what=f"executors of {master} run other versions than this machine",
        why=why,
        fix="install the same there; PYSPARK_PYTHON names the interpreter of executors "
        "(docs/clusters.md)",
    )
