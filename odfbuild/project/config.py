"""The project file, odfbuild.yaml: where it is, and what it says."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from odfbuild.errors import Diagnostic, ProjectError, ProjectErrors, SourceSpan
from odfbuild.planner.names import did_you_mean
from odfbuild.project.fingerprint import PROJECT_FILE
from odfbuild.project.places import Path as Steps
from odfbuild.project.settings import SettingsReader
from odfbuild.project.yaml import Document, Value, decode, read_documents

__all__ = [
    "Config",
    "NoProjectError",
    "SparkOptions",
    "Target",
    "UnknownTargetError",
    "find_project",
    "load_config",
    "parse_config",
]

FORMAT = 1
DEFAULT_WORKSPACE = "./.odfbuild"
DEFAULT_TARGET = "dev"

_LATER = (
    "vars",
    "defaults",
    "generate",
    "moved",
    "accept",
    "gates",
    "pools",
    "selectors",
    "packages",
)
_LATER_IN_TARGET = ("require_plan_file", "protect")
_KEYS = ("odfbuild", "name", "datasets", "engine", "targets", "default_target")
_TARGET_KEYS = ("workspace", "engine")
_SPARK_KEYS = ("master", "memory")
_NAME = re.compile(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*")
_MEMORY = re.compile(r"[1-9][0-9]*[kmgt]", re.IGNORECASE)


class NoProjectError(ProjectError):
    """There is no project where one was looked for."""

    code = "no-project"


class UnknownTargetError(ProjectError):
    """A target is asked for that the project file does not define."""

    code = "unknown-target"


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How Spark is started, never what it computes; None leaves the choice to the engine."""

    master: str | None = None
    memory: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A place to build in: a workspace folder, relative to the project, and engine options."""

    name: str
    workspace: str = DEFAULT_WORKSPACE
    spark: SparkOptions = SparkOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a project file says; `datasets` are folders, relative and inside the project."""

    name: str
    datasets: tuple[str, ...] = ("datasets",)
    default_target: str = DEFAULT_TARGET
    targets: Mapping[str, Target] = field(
        default_factory=lambda: {DEFAULT_TARGET: Target(DEFAULT_TARGET)}
    )

    def target(self, name: str | None = None) -> Target:
        """Return a target by its name, or the default one."""
        wanted = self.default_target if name is None else name
        if wanted not in self.targets:
            raise UnknownTargetError(
                what=f"no target named '{wanted}'",
                why=f"{PROJECT_FILE} does not define it",
                fix=did_you_mean(wanted, self.targets),
            )
        return self.targets[wanted]


def find_project(start: Path, given: Path | None = None) -> Path:
    """Return the folder that was given, or the nearest one at or above `start` with a project."""
    if given is not None:
        if (given / PROJECT_FILE).is_file():
            return given
        raise NoProjectError(
            what=f"no {PROJECT_FILE} in '{given}'",
            why="the folder given with -C must be a project",
            fix="correct the folder, or make a project there: odfbuild init",
        )
    for folder in (start, *start.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder
    raise NoProjectError(
        what=f"no {PROJECT_FILE} here or in a folder above",
        why="a project is a folder with that file",
        fix="change to the project's folder, name it with -C, or make one: odfbuild init",
    )


def load_config(root: Path) -> Config:
    """Return what the project file says; ProjectErrors with everything that is wrong in it."""
    path = root / PROJECT_FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NoProjectError(
            what=f"cannot read {PROJECT_FILE}: {error.strerror}",
            why="a project is a folder with that file",
            fix="check its name and its access rights",
        ) from None
    return parse_config(
        decode(data, PROJECT_FILE),
        default_name=root.resolve().name,
        is_folder=lambda folder: (root / folder).is_dir(),
    )


def parse_config(
    text: str, *, default_name: str, is_folder: Callable[[str], bool] = lambda _: True
) -> Config:
    """Return what the text of a project file says; a project is called as its folder by default.

    `is_folder` tells whether a folder is there, by its path in the project.
    """
    documents = read_documents(text, PROJECT_FILE)
    if len(documents) != 1:
        raise ProjectErrors([_not_one_document(documents)])
    reading = SettingsReader(documents[0])
    config = _config(reading, default_name)
    _check_folders(reading, config.datasets, is_folder)
    if reading.found:
        raise ProjectErrors(reading.found)
    return config


def _not_one_document(documents: tuple[Document, ...]) -> Diagnostic:
    return Diagnostic(
        code="config",
        what=f"{PROJECT_FILE} holds {len(documents) or 'no'} documents",
        why="it is one mapping",
        fix="start it with: odfbuild: 1" if not documents else "remove what follows the second ---",
        span=documents[1].places.value(()) if documents else SourceSpan(file=PROJECT_FILE, line=1),
    )


def _config(reading: SettingsReader, default_name: str) -> Config:
    top = reading.mapping(reading.value, (), _KEYS, _LATER)
    _check_format(reading, top)
    name = reading.text(top["name"], ("name",), default_name) if "name" in top else default_name
    if "name" in top and not _NAME.fullmatch(name):
        reading.refuse(
            ("name",),
            f"'{name}' is not a project name",
            "it is printed and goes into files",
            "use letters, digits, and single '.', '-' or '_' between them",
        )
    spark = _spark(reading, top.get("engine"), ("engine",), SparkOptions())
    targets = _targets(reading, top.get("targets"), spark)
    return Config(
        name=name,
        datasets=_folders(reading, top["datasets"]) if "datasets" in top else ("datasets",),
        default_target=_default_target(reading, top, targets),
        targets=targets,
    )


def _check_format(reading: SettingsReader, top: Mapping[str, Value]) -> None:
    if "odfbuild" not in top:
        reading.refuse(
            (),
            f"{PROJECT_FILE} does not say its format",
            "later versions may read it differently",
            f"add: odfbuild: {FORMAT}",
        )
    elif top["odfbuild"] is True or top["odfbuild"] != FORMAT:
        reading.refuse(
            ("odfbuild",),
            f"the format of {PROJECT_FILE} is not {FORMAT}",
            f"this version of odfbuild reads format {FORMAT} only",
            f"write: odfbuild: {FORMAT}; or use the version that the project was made for",
        )


def _folders(reading: SettingsReader, value: Value) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        reading.refuse(
            ("datasets",),
            "'datasets' must be a list of folders",
            "definitions are looked for in them",
            "write: datasets: [datasets]",
        )
        return ()
    return tuple(
        str(PurePosixPath(reading.text(each, ("datasets", at), ".")))
        for at, each in enumerate(value)
        if _is_inside(reading, each, ("datasets", at))
    )


def _check_folders(
    reading: SettingsReader, folders: tuple[str, ...], is_folder: Callable[[str], bool]
) -> None:
    for folder in folders:
        if not is_folder(folder):
            reading.refuse(
                _place_of_folder(reading.value, folder),
                f"there is no folder '{folder}' in the project",
                "the definitions of datasets are looked for in it",
                f"make the folder, or correct `datasets` in {PROJECT_FILE}",
                code="no-folder",
            )


def _place_of_folder(value: Value, folder: str) -> Steps:
    written = value.get("datasets") if isinstance(value, dict) else None
    if not isinstance(written, list):
        return ()
    places = (at for at, each in enumerate(written) if str(PurePosixPath(str(each))) == folder)
    return ("datasets", next(places, 0))


def _is_inside(reading: SettingsReader, folder: Value, path: Steps) -> bool:
    if not isinstance(folder, str):
        return True
    parts = PurePosixPath(folder)
    if not parts.is_absolute() and ".." not in parts.parts and "\0" not in folder:
        return True
    reading.refuse(
        path,
        f"the folder '{folder}' is not inside the project",
        "a project must work on every machine that it is copied to",
        "give a path relative to odfbuild.yaml, without '..'",
    )
    return False


def _targets(reading: SettingsReader, value: Value, spark: SparkOptions) -> dict[str, Target]:
    targets = {
        name: _target(reading, entry, ("targets", name), spark)
        for name, entry in reading.any_mapping(value, ("targets",)).items()
    }
    return targets or {DEFAULT_TARGET: Target(DEFAULT_TARGET, spark=spark)}


def _target(reading: SettingsReader, value: Value, path: Steps, spark: SparkOptions) -> Target:
    entries = reading.mapping(value, path, _TARGET_KEYS, _LATER_IN_TARGET)
    workspace = DEFAULT_WORKSPACE
    if "workspace" in entries:
        workspace = reading.text(entries["workspace"], (*path, "workspace"), workspace)
    if "://" in workspace:
        reading.refuse(
            (*path, "workspace"),
            f"the workspace '{workspace}' is not a folder",
            "object stores are not supported in this version of odfbuild",
            f"use a folder, such as {DEFAULT_WORKSPACE}",
            code="config-unsupported",
        )
    return Target(
        name=str(path[-1]),
        workspace=workspace,
        spark=_spark(reading, entries.get("engine"), (*path, "engine"), spark),
    )


def _spark(
    reading: SettingsReader, value: Value, path: Steps, default: SparkOptions
) -> SparkOptions:
    engines = reading.mapping(value, path, ("spark",))
    inner = (*path, "spark")
    options = reading.mapping(engines.get("spark"), inner, _SPARK_KEYS)
    given = {key: reading.text(options[key], (*inner, key), "") for key in options}
    memory = given.get("memory", default.memory)
    if given.get("memory") and not _MEMORY.fullmatch(given["memory"]):
        reading.refuse(
            (*inner, "memory"),
            f"'{memory}' is not an amount of memory",
            "Java takes a whole number and a unit",
            "write it like 512m or 4g",
        )
    return SparkOptions(given.get("master", default.master), memory)


def _default_target(
    reading: SettingsReader, top: Mapping[str, Value], targets: Mapping[str, Target]
) -> str:
    if "default_target" not in top:
        return DEFAULT_TARGET if DEFAULT_TARGET in targets else _only(reading, targets)
    name = reading.text(top["default_target"], ("default_target",), DEFAULT_TARGET)
    if name not in targets and isinstance(top["default_target"], str):
        reading.refuse(
            ("default_target",),
            f"no target named '{name}'",
            "the default must be one of the targets",
            did_you_mean(name, targets),
        )
    return name


def _only(reading: SettingsReader, targets: Mapping[str, Target]) -> str:
    if len(targets) > 1:
        reading.refuse(
            ("targets",),
            "no default target",
            f"there are several targets and none is called '{DEFAULT_TARGET}'",
            f"add: default_target: {next(iter(targets))}",
            key=True,
        )
    return next(iter(targets))
