"""Targets: the places to build in, from the project file and from profiles of one machine.

`profiles.yaml` in the user's folder of settings counts for every project, the one beside
odfbuild.yaml for that project; where both set a key of a target, the latter wins.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.host.files import MOST
from odfbuild.host.reading_session import read_shown
from odfbuild.project.config.engines import DEFAULT_ENGINE, MERGERS
from odfbuild.project.config.quantities import parse_lag
from odfbuild.project.config.repositories import (
    RepositorySettings,
    add_repositories,
    is_store,
    problem_of_store,
)
from odfbuild.project.config.settings import Section, SettingsReader
from odfbuild.project.files import refuse_link_out
from odfbuild.project.yaml import Document, Value, decode, read_documents
from odfbuild.project.yaml.places import KeyPath
from odfbuild.texts.patterns import late_pattern
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

DEFAULT_WORKSPACE = "./.odfbuild"
DEFAULT_TARGET = "dev"

_KEYS = ("workspace", "engine", "require_plan_file", "protect")
_SPARK_KEYS = ("master", "memory", "slice_rows", "resident", "settings", "wait", "objects")
_LEAST_SLICE_ROWS = 1_000
_LONGEST_WAIT = 86_400_000
_MEMORY = late_pattern(r"[1-9][0-9]*[kmgt]", re.IGNORECASE)
_SETTING = late_pattern(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
_SERVER = "sc://"
_SERVER_FORM = late_pattern(
    r"sc://(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:]{2,39}\])"
    r"(?::[1-9][0-9]{0,4})?(?:/;use_ssl=true)?"
)
RESIDENCES = ("off", "existing", "auto")
_OF_PROCESSES = ("memory", "settings")  # that this package starts

RESOURCES = (
    "spark.cores.max",
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.executorIdleTimeout",
    "spark.dynamicAllocation.initialExecutors",
    "spark.dynamicAllocation.maxExecutors",
    "spark.dynamicAllocation.minExecutors",
    "spark.dynamicAllocation.shuffleTracking.enabled",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memoryOverhead",
    "spark.executor.pyspark.memory",
    "spark.network.timeout",
    "spark.task.maxFailures",
    "spark.yarn.queue",
)
"""Settings of Spark that a project may give: how much of a cluster it takes, and no program."""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How Spark is started, never what it computes; None leaves the choice to the engine.

    Every `slice_rows` rows that a source brings at a time become a block of their own.
    `resident` is one of `RESIDENCES`: whether an engine that stays is used, and whether a command
    at a terminal leaves one.  `settings` are some of `RESOURCES`, for a cluster; `wait` are the
    seconds that a cluster may be without executors, and `objects` is the prefix of an object store
    for its files, None if it shares the folder of the workspace.
    """

    master: str | None = None
    memory: str | None = None
    slice_rows: int | None = None
    resident: str = "auto"
    settings: Mapping[str, str] = field(default_factory=dict)
    wait: float | None = None
    objects: str | None = None


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How Spark is started, and what merges sources: one of `MERGERS`."""

    spark: SparkOptions = SparkOptions()
    ingest: str = DEFAULT_ENGINE


@dataclass(frozen=True, slots=True)
class Target:
    """A place to build in: a workspace, and engine options.

    The workspace is a folder, relative to the project, or the URL of a prefix of an object store.

    `require_plan_file`: apply takes a saved plan only.  `protect`: apply takes a saved plan, or
    the name of the target given on purpose.
    """

    name: str
    workspace: str = DEFAULT_WORKSPACE
    engine: EngineOptions = EngineOptions()
    require_plan_file: bool = False
    protect: bool = False

    @property
    def spark(self) -> SparkOptions:
        """Return how Spark is started."""
        return self.engine.spark


def add_targets(
    reading: SettingsReader, value: Value, known: Mapping[str, Target], default: EngineOptions
) -> dict[str, Target]:
    """Return known targets with those of one file on top, key by key."""
    targets = dict(known)
    for name, entry in reading.any_mapping(value, ("targets",)).items():
        below = known.get(name, Target(name, engine=default))
        targets[name] = _target(reading.section(entry, ("targets", name), _KEYS), below)
    return targets


def engine_options(
    reading: SettingsReader, value: Value, path: KeyPath, default: EngineOptions
) -> EngineOptions:
    """Return the options of an `engine` setting, with defaults for what it leaves open."""
    engines = reading.section(value, path, ("ingest", "spark"))
    options = reading.section(engines.entries.get("spark"), engines.at("spark"), _SPARK_KEYS)
    return EngineOptions(
        _spark(options, default.spark), engines.choice("ingest", MERGERS) or default.ingest
    )


def is_memory(text: str) -> bool:
    """Tell whether a text is an amount of memory as Java takes it: 512m, 4g."""
    return _MEMORY.fullmatch(text) is not None


def _spark(options: Section, default: SparkOptions) -> SparkOptions:
    memory = options.text("memory")
    if memory is not None and not is_memory(memory):
        options.wrong(
            "memory",
            f"'{memory}' is not an amount of memory",
            "Java takes a whole number and a unit",
            "write it like 512m or 4g",
        )
    slice_rows = options.count("slice_rows", least=_LEAST_SLICE_ROWS)
    master = options.text("master") or default.master
    if master is not None and master.strip().lower().startswith(_SERVER):
        return SparkOptions(
            _server(options, master),
            None,
            slice_rows or default.slice_rows,
            resident="off",
            wait=_wait(options) or default.wait,
            objects=_objects(options) or default.objects,
        )
    return SparkOptions(
        master,
        memory or default.memory,
        slice_rows or default.slice_rows,
        _resident(options, default.resident),
        {**default.settings, **_settings(options)},
        _wait(options) or default.wait,
        _objects(options) or default.objects,
    )


def _server(options: Section, master: str) -> str | None:
    """Return the address of a server of Spark Connect; what only other masters have is refused."""
    if "master" in options.entries and not _is_place(master):
        is_secret = "@" in master or "token" in master.lower()
        options.reading.refuse(
            options.at("master"),
            "'master' has a token"
            if is_secret
            else "'master' is not the address of a server of Spark Connect",
            "the token is a secret of the user: it belongs into spark-cluster.conf"
            if is_secret
            else "it has a host, and may have a port and TLS; odfbuild sets all else itself",
            "write it like sc://HOST:15002 or sc://HOST:443/;use_ssl=true (docs/clusters.md)",
            code="secret" if is_secret else "config",
            hidden=True,
        )
        return None
    for key in _OF_PROCESSES:
        if key in options.entries:
            options.reading.refuse(
                options.at(key),
                f"'{key}' has no effect on a server of Spark Connect",
                "its owner starts it, and decides what it takes",
                f"remove {key} from this target",
                key=True,
            )
    return master


def _is_place(master: str) -> bool:
    """Tell whether a text is the address of a server of Spark Connect, and no more."""
    if not _SERVER_FORM.fullmatch(master):
        return False
    try:
        parts = urlsplit(master)
        is_port = parts.port is None or parts.port > 0
        return is_port and ("[" not in master or ip_address(parts.hostname or "").version == 6)
    except ValueError:
        return False


def _settings(options: Section) -> dict[str, str]:
    """Return the settings of Spark that may be given; others, and values of two lines, not."""
    found: dict[str, str] = {}
    at = options.at("settings")
    for name, value in options.reading.any_mapping(options.entries.get("settings"), at).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if name not in RESOURCES:
            options.reading.refuse(
                (*at, name),
                f"a project cannot set '{name}' of Spark",
                "a project can only set how much of a cluster it uses; other settings decide what "
                "queries mean, or which programs run",
                f"{did_you_mean(name, RESOURCES)} put other settings of your cluster into your "
                "spark-cluster.conf (docs/clusters.md)".strip(),
                key=True,
            )
        elif not isinstance(value, str | int) or not _SETTING.fullmatch(text):
            options.reading.refuse(
                (*at, name),
                f"'{name}' must be a number or a word",
                "it is passed to Spark unchanged",
                "write it as Spark's documentation does, such as 4, 2g, 30s or true",
            )
        else:
            found[name] = text
    return found


def _wait(options: Section) -> float | None:
    """Return how long a cluster may be without executors, in seconds."""
    value = options.entries.get("wait")
    if value is None:
        return None
    found = parse_lag(value) if isinstance(value, str) else None
    if found is None or not 1_000 <= found <= _LONGEST_WAIT:
        options.wrong(
            "wait",
            "'wait' is not a length of time from 1 second to 1 day",
            "it is how long to wait for executors of a cluster",
            "write it like 30s, 5m or 2 hours",
        )
        return None
    return found / 1000


def _objects(options: Section) -> str | None:
    """Return the prefix of an object store for the files of a cluster."""
    text = options.text("objects")
    if text is not None and not is_store(text):
        options.wrong(
            "objects",
            f"'{text}' is not a prefix of an object store",
            problem_of_store(text)
            or "a cluster without a common folder reads and writes files below it",
            "write it like s3://BUCKET/PREFIX, or omit it",
        )
        return None
    return text


def _resident(options: Section, default: str) -> str:
    text = options.text("resident")
    if text not in (None, *RESIDENCES):
        options.wrong(
            "resident",
            f"'{text}' is neither auto nor existing nor off",
            "a resident engine is used and started, used if there is one, or never used",
            "write auto, existing or off",
        )
        return default
    return default if text is None else text


def _target(entry: Section, below: Target) -> Target:
    workspace = entry.text("workspace") or below.workspace
    if "workspace" in entry.entries and "://" in workspace and not is_store(workspace):
        entry.reading.refuse(
            entry.at("workspace"),
            f"the workspace '{workspace}' is neither a folder nor in an object store",
            problem_of_store(workspace)
            or "a store is named by its bucket, without credentials: s3://BUCKET/PREFIX at AWS, "
            "s3+https://HOST/BUCKET/PREFIX or s3+http://HOST:PORT/BUCKET/PREFIX at another server, "
            "az+https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX at Azure, "
            "gs://BUCKET/PREFIX at Google",
            f"write it so, or use a folder, such as {DEFAULT_WORKSPACE}",
            code="config-unsupported",
        )
    return replace(
        below,
        workspace=workspace,
        engine=engine_options(
            entry.reading, entry.entries.get("engine"), entry.at("engine"), below.engine
        ),
        require_plan_file=_only_stricter(entry, "require_plan_file", below.require_plan_file),
        protect=_only_stricter(entry, "protect", below.protect),
    )


def _only_stricter(entry: Section, key: str, below: bool) -> bool:
    """Return a safeguard of a target: a profile may set it, but not lift it."""
    given = entry.flag(key)
    if below and given is False:
        entry.wrong(
            key,
            f"'{key}' cannot be relaxed by a profile",
            "another file of the project protects the target for everyone",
            "remove the line, or change the other file in agreement with its owners",
        )
    return below or given is True


PROFILES = "profiles.yaml"

_WORDS = r"passwords?|passwd|pwd|passphrases?|secrets?|tokens?|credentials?|keys?"
_SECRET = late_pattern(rf"(?:^|[_.\-])(?:{_WORDS})(?=$|[_.\-])|api_?keys?$", re.IGNORECASE)
_CAMEL = late_pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_LINE_KEY = late_pattern(r"""([\w.\-]+)["']?\s*:""")


@dataclass(frozen=True, slots=True)
class ProfilesFile:
    """The text of one profiles.yaml; `file` is how messages name it."""

    file: str
    text: str


def read_profiles(root: Path, user: Path | None) -> tuple[ProfilesFile, ...]:
    """Return the profiles that there are, that of the user first; ProjectErrors of unreadable."""
    refuse_link_out(root, PROFILES)
    places = [] if user is None else [(user / PROFILES, str(user / PROFILES))]
    found = (_read(path, name) for path, name in (*places, (root / PROFILES, PROFILES)))
    return tuple(each for each in found if each is not None)


def looks_secret(name: str) -> bool:
    """Tell whether something of that name is likely to be a secret."""
    return _SECRET.search(_CAMEL.sub("_", name)) is not None


@dataclass(frozen=True, slots=True)
class Profiled:
    """The settings that profiles may add to: targets and repositories, by name."""

    targets: Mapping[str, Target]
    repositories: Mapping[str, RepositorySettings] = field(default_factory=dict)


def add_profile(
    profile: ProfilesFile, below: Profiled, default: EngineOptions
) -> tuple[Profiled, list[Diagnostic]]:
    """Return settings with those of a profile on top, and what is wrong with the profile."""
    try:
        documents = read_documents(profile.text, profile.file)
    except ProjectErrors as error:
        return below, [_without_secret(each) for each in error.found]
    known, found = below, list[Diagnostic]()
    if len(documents) > 1:
        found.append(_more_than_one(documents[1], len(documents)))
    for document in documents[:1]:
        reading = SettingsReader(document)
        known = _profile_of(reading, document, known, default)
        found += sorted(reading.found, key=_by_place)
    return known, [_without_secret(each) for each in found]


def _by_place(found: Diagnostic) -> tuple[int, int]:
    return (0, 0) if found.span is None else (found.span.line, found.span.column)


def _read(path: Path, name: str) -> ProfilesFile | None:
    try:
        return ProfilesFile(name, decode(read_shown(path, MOST), name))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        problem = Diagnostic(
            code="unreadable-file",
            what=f"the file cannot be read: {error.strerror or error}",
            why="the targets that it holds would be missing",
            fix="check its access rights, or remove it",
            span=SourceSpan(file=name, line=1),
        )
        raise ProjectErrors([problem]) from None


def _more_than_one(document: Document, count: int) -> Diagnostic:
    name = document.places.source.file
    return Diagnostic(
        code="config",
        what=f"{name} holds {count} documents",
        why="it must be one mapping",
        fix="remove the second --- and the rest",
        span=document.places.value(()),
    )


def _profile_of(
    reading: SettingsReader, document: Document, known: Profiled, default: EngineOptions
) -> Profiled:
    secrets = list(_secrets(document.value, ()))
    for path in secrets:
        reading.refuse(
            path,
            f"'{path[-1]}' looks like a secret",
            "profiles are copied, and printed in errors",
            "keep it in the environment; a manifest may say ${{ env.NAME }}",
            key=True,
            code="secret",
        )
    cleaned = _without(document.value, frozenset(secrets), ())
    top = reading.section(cleaned, (), ("targets", "repositories"))
    return Profiled(
        add_targets(reading, top.entries.get("targets"), known.targets, default),
        add_repositories(reading, top.entries.get("repositories"), known.repositories),
    )


def _secrets(value: Value, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of keys that look like secrets; names that people choose are free."""
    for key, entry in value.items() if isinstance(value, dict) else ():
        inner = (*path, key)
        if looks_secret(key) and path not in (("targets",), ("repositories",)):
            yield inner
        else:
            yield from _secrets(entry, inner)


def _without(value: Value, left_out: frozenset[KeyPath], path: tuple[str, ...]) -> Value:
    if not isinstance(value, dict):
        return value
    return {
        key: _without(entry, left_out, (*path, key))
        for key, entry in value.items()
        if (*path, key) not in left_out
    }


def _without_secret(found: Diagnostic) -> Diagnostic:
    """Leave out the line that a finding is about if a secret may be in it."""
    line = None if found.span is None else found.span.excerpt
    if found.span is None or line is None:
        return found
    if not any(looks_secret(key) for key in _LINE_KEY.findall(line)):
        return found
    return replace(found, span=replace(found.span, excerpt=None))
