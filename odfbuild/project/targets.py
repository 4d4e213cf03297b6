"""Targets: the places to build in, from the project file and from profiles on top of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from odfbuild.project.places import Path
from odfbuild.project.settings import Section, SettingsReader
from odfbuild.project.yaml import Value

__all__ = ["DEFAULT_TARGET", "DEFAULT_WORKSPACE", "SparkOptions", "Target", "add_targets", "spark"]

DEFAULT_WORKSPACE = "./.odfbuild"
DEFAULT_TARGET = "dev"

_KEYS = ("workspace", "engine", "require_plan_file", "protect")
_SPARK_KEYS = ("master", "memory", "slice_rows", "resident")
_LEAST_SLICE_ROWS = 1_000
_MEMORY = re.compile(r"[1-9][0-9]*[kmgt]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How Spark is started, never what it computes; None leaves the choice to the engine.

    Every `slice_rows` rows that a source brings at a time become a block of their own.
    `resident`: an engine that stays (`odfbuild engine start`) is used.
    """

    master: str | None = None
    memory: str | None = None
    slice_rows: int | None = None
    resident: bool = True


@dataclass(frozen=True, slots=True)
class Target:
    """A place to build in: a workspace folder, relative to the project, and engine options.

    `require_plan_file`: apply takes a saved plan only.  `protect`: apply takes a saved plan, or
    the name of the target given on purpose.
    """

    name: str
    workspace: str = DEFAULT_WORKSPACE
    spark: SparkOptions = SparkOptions()
    require_plan_file: bool = False
    protect: bool = False


def add_targets(
    reading: SettingsReader, value: Value, known: Mapping[str, Target], default: SparkOptions
) -> dict[str, Target]:
    """Return known targets with those of one file on top, key by key."""
    targets = dict(known)
    for name, entry in reading.any_mapping(value, ("targets",)).items():
        below = known.get(name, Target(name, spark=default))
        targets[name] = _target(reading.section(entry, ("targets", name), _KEYS), below)
    return targets


def spark(reading: SettingsReader, value: Value, path: Path, default: SparkOptions) -> SparkOptions:
    """Return the options of an `engine` setting, with defaults for what it leaves open."""
    engines = reading.section(value, path, ("spark",))
    options = reading.section(engines.entries.get("spark"), engines.at("spark"), _SPARK_KEYS)
    memory = options.text("memory")
    if memory is not None and not _MEMORY.fullmatch(memory):
        options.wrong(
            "memory",
            f"'{memory}' is not an amount of memory",
            "Java takes a whole number and a unit",
            "write it like 512m or 4g",
        )
    slice_rows = options.count("slice_rows", least=_LEAST_SLICE_ROWS)
    return SparkOptions(
        options.text("master") or default.master,
        memory or default.memory,
        slice_rows or default.slice_rows,
        _resident(options, default.resident),
    )


def _resident(options: Section, default: bool) -> bool:
    text = options.text("resident")
    if text not in (None, "auto", "off"):
        options.wrong(
            "resident",
            f"'{text}' is none of auto and off",
            "an engine that stays is used if there is one, or never",
            "write auto or off",
        )
    return default if text is None else text == "auto"


def _target(entry: Section, below: Target) -> Target:
    workspace = entry.text("workspace") or below.workspace
    if "workspace" in entry.entries and "://" in workspace:
        entry.reading.refuse(
            entry.at("workspace"),
            f"the workspace '{workspace}' is not a folder",
            "object stores are not supported in this version of odfbuild",
            f"use a folder, such as {DEFAULT_WORKSPACE}",
            code="config-unsupported",
        )
    return replace(
        below,
        workspace=workspace,
        spark=spark(entry.reading, entry.entries.get("engine"), entry.at("engine"), below.spark),
        require_plan_file=_only_stricter(entry, "require_plan_file", below.require_plan_file),
        protect=_only_stricter(entry, "protect", below.protect),
    )


def _only_stricter(entry: Section, key: str, below: bool) -> bool:
    """Return a safeguard of a target: a profile may set it, but not lift it."""
    given = entry.flag(key)
    if below and given is False:
        entry.wrong(
            key,
            f"'{key}' cannot be lifted by a profile",
            "the target is guarded by another file of the project, for everybody",
            "remove the line, or change the other file in agreement with its owners",
        )
    return below or given is True
