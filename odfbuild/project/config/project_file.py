"""Project file, odfbuild.yaml: its place and its settings."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path, PurePosixPath

from odfbuild.errors import Diagnostic, ProjectError, ProjectErrors, SourceSpan
from odfbuild.host.files import MOST
from odfbuild.host.reading_session import read_shown
from odfbuild.planner.plan.policy import Acceptance, Gates, RenamedDataset
from odfbuild.project import PROJECT_FILE
from odfbuild.project.config.defaults import Default, read_defaults
from odfbuild.project.config.generators import GeneratorEntry, read_generators
from odfbuild.project.config.openlineage import OpenLineageSettings, read_openlineage
from odfbuild.project.config.outside_engines import OutsideEngine, read_engines
from odfbuild.project.config.packages import PackageSource, read_packages
from odfbuild.project.config.policy import read_accepted, read_gates, read_moved
from odfbuild.project.config.repositories import RepositorySettings, add_repositories
from odfbuild.project.config.selectors import read_selectors
from odfbuild.project.config.settings import SettingsReader, is_outside
from odfbuild.project.config.targets import (
    DEFAULT_TARGET,
    EngineOptions,
    Profiled,
    ProfilesFile,
    Target,
    add_profile,
    add_targets,
    engine_options,
    looks_secret,
    read_profiles,
)
from odfbuild.project.config.variables import Variable, read_variables
from odfbuild.project.files import is_own_folder, refuse_link_out
from odfbuild.project.yaml import Document, Value, decode, read_documents
from odfbuild.project.yaml.places import KeyPath
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass


def read_folders(reading: SettingsReader, value: Value) -> tuple[str, ...]:
    """Return the folders that are named, in their shortest form; they lie in the project."""
    if not isinstance(value, list) or not value:
        reading.refuse(
            ("datasets",),
            "'datasets' must be a list of folders",
            "they hold the definitions",
            "write: datasets: [datasets]",
        )
        return ()
    return tuple(
        str(PurePosixPath(reading.text(each, ("datasets", at), ".")))
        for at, each in enumerate(value)
        if _is_inside(reading, each, ("datasets", at))
    )


def check_folders(
    reading: SettingsReader, folders: tuple[str, ...], is_folder: Callable[[str], bool]
) -> None:
    """Refuse folders that are not there."""
    for folder in folders:
        if not is_folder(folder):
            reading.refuse(
                _place_of_folder(reading.value, folder),
                f"there is no folder '{folder}' in the project",
                "it would hold definitions of datasets",
                f"create the folder, or correct `datasets` in {PROJECT_FILE}",
                code="no-folder",
            )


def _place_of_folder(value: Value, folder: str) -> KeyPath:
    written = value.get("datasets") if isinstance(value, dict) else None
    if not isinstance(written, list):
        return ()
    places = (at for at, each in enumerate(written) if str(PurePosixPath(str(each))) == folder)
    return ("datasets", next(places, 0))


def _is_inside(reading: SettingsReader, folder: Value, path: KeyPath) -> bool:
    if not isinstance(folder, str) or not is_outside(folder):
        return True
    reading.refuse(
        path,
        f"the folder '{folder}' is not inside the project",
        "a project must work on every machine to which it is copied",
        "give a path relative to odfbuild.yaml, without '..'",
    )
    return False


FORMAT = 1

_KEYS = (
    "odfbuild",
    "name",
    "datasets",
    "vars",
    "env",
    "defaults",
    "generate",
    "macros",
    "moved",
    "accept",
    "gates",
    "pools",
    "selectors",
    "packages",
    "engine",
    "engines",
    "targets",
    "default_target",
    "openlineage",
    "repositories",
)
_NAME = re.compile(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class NoProjectError(ProjectError):
    """There is no project in this folder or its parents."""

    code = "no-project"


class UnknownTargetError(ProjectError):
    """The project file does not define a target of this name."""

    code = "unknown-target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a project file says; `datasets` are folders, relative and inside the project.

    `env` names the parts of the environment that templates may read, `pools` how many steps at a
    time may use what they stand for, `selectors` the texts of named selectors, `engines` those
    elsewhere, `openlineage` where events of runs are sent, `repositories` where datasets are
    shared.  `places` says where it asks for what lies outside of the project.
    """

    name: str
    datasets: tuple[str, ...] = ("datasets",)
    macros_folder: str = "macros"
    sql_folder: str = "sql"
    python_macros: bool = False
    variables: Mapping[str, Variable] = field(default_factory=dict)
    env: tuple[str, ...] = ()
    defaults: tuple[Default, ...] = ()
    generators: tuple[GeneratorEntry, ...] = ()
    packages: tuple[PackageSource, ...] = ()
    moved: tuple[RenamedDataset, ...] = ()
    accepted: tuple[Acceptance, ...] = ()
    gates: Gates = field(default_factory=Gates)
    pools: Mapping[str, int] = field(default_factory=dict)
    selectors: Mapping[str, str] = field(default_factory=dict)
    default_target: str = DEFAULT_TARGET
    targets: Mapping[str, Target] = field(
        default_factory=lambda: {DEFAULT_TARGET: Target(DEFAULT_TARGET)}
    )
    engines: Mapping[str, OutsideEngine] = field(default_factory=dict)
    openlineage: OpenLineageSettings = field(default_factory=OpenLineageSettings)
    repositories: Mapping[str, RepositorySettings] = field(default_factory=dict)
    places: Mapping[str, SourceSpan] = field(default_factory=dict, compare=False, repr=False)

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


@dataclass(frozen=True, slots=True)
class Settings:
    """What could be told of a project file, and what is wrong with it.

    `doubtful` are the keys at its top of which something is wrong.
    """

    config: Config
    found: tuple[Diagnostic, ...] = ()
    doubtful: frozenset[str] = frozenset()


def find_project(start: Path, given: Path | None = None) -> Path:
    """Return the folder that was given, or the nearest one at or above `start` with a project."""
    if given is not None:
        if (given / PROJECT_FILE).is_file():
            return given
        raise NoProjectError(
            what=f"no {PROJECT_FILE} in '{given}'",
            why="the folder given with -C must be a project",
            fix="correct the folder, or create a project there: odfbuild init",
        )
    for folder in (start, *start.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder
    raise NoProjectError(
        what=f"no {PROJECT_FILE} here or in a folder above",
        why="a project is a folder with that file",
        fix="change to the project's folder, name it with -C, or create one: odfbuild init",
    )


def load_config(root: Path, *, user_folder: Path | None = None) -> Config:
    """Return what the project file says, with the targets of profiles on top.

    `user_folder` is where the profiles of the user are, for every project.  Raises ProjectErrors
    with everything that is wrong.
    """
    return _sound(load_settings(root, user_folder=user_folder))


def load_settings(root: Path, *, user_folder: Path | None = None) -> Settings:
    """Return what can be told of the project file, and everything that is wrong with it."""
    path = root / PROJECT_FILE
    name = root.resolve().name
    try:
        refuse_link_out(root, PROJECT_FILE)
        data = read_shown(path, MOST)
    except ProjectErrors as errors:
        return _unreadable(name, errors)
    except OSError as error:
        raise NoProjectError(
            what=f"cannot read {PROJECT_FILE}: {error.strerror}",
            why="a project is a folder with that file",
            fix="check its name and its access rights",
        ) from None
    try:
        text, profiles = decode(data, PROJECT_FILE), read_profiles(root, user_folder)
    except ProjectErrors as errors:
        return _unreadable(name, errors)
    return read_settings(
        text,
        default_name=name,
        is_folder=lambda folder: is_own_folder(root, folder),
        profiles=profiles,
    )


def parse_config(
    text: str,
    *,
    default_name: str,
    is_folder: Callable[[str], bool] = lambda _: True,
    profiles: Sequence[ProfilesFile] = (),
) -> Config:
    """Return what the text of a project file says; a project is called as its folder by default.

    `is_folder` tells whether a folder is there, by its path in the project.
    """
    return _sound(
        read_settings(text, default_name=default_name, is_folder=is_folder, profiles=profiles)
    )


def read_settings(
    text: str,
    *,
    default_name: str,
    is_folder: Callable[[str], bool] = lambda _: True,
    profiles: Sequence[ProfilesFile] = (),
) -> Settings:
    """Return what can be told of a project file, and everything that is wrong with it."""
    try:
        documents = read_documents(text, PROJECT_FILE)
        if len(documents) != 1:
            raise ProjectErrors([_not_one_document(documents)])
    except ProjectErrors as errors:
        return _unreadable(default_name, errors)
    reading = SettingsReader(documents[0])
    config, of_profiles = _config(reading, default_name, profiles)
    if reading.doubtful.issubset(_KEYS) or _says(documents[0].value, "datasets"):
        check_folders(reading, config.datasets, is_folder)
    found = (*sorted(reading.found, key=_by_place), *of_profiles)
    return Settings(config, found, frozenset(reading.doubtful))


def _says(value: Value, key: str) -> bool:
    return isinstance(value, dict) and key in value


def _unreadable(name: str, errors: ProjectErrors) -> Settings:
    return Settings(Config(name=name), errors.found, frozenset(_KEYS))


def _sound(settings: Settings) -> Config:
    if settings.found:
        raise ProjectErrors(settings.found)
    return settings.config


def _by_place(found: Diagnostic) -> tuple[int, int]:
    return (0, 0) if found.span is None else (found.span.line, found.span.column)


def _not_one_document(documents: tuple[Document, ...]) -> Diagnostic:
    return Diagnostic(
        code="config",
        what=f"{PROJECT_FILE} holds {len(documents) or 'no'} documents",
        why="it must be one mapping",
        fix="start it with: odfbuild: 1" if not documents else "remove the second --- and the rest",
        span=documents[1].places.value(()) if documents else SourceSpan(file=PROJECT_FILE, line=1),
    )


def _config(
    reading: SettingsReader, default_name: str, profiles: Sequence[ProfilesFile]
) -> tuple[Config, list[Diagnostic]]:
    """Return the settings, and what is wrong with the profiles."""
    top = reading.mapping(reading.value, (), _KEYS)
    _check_format(reading, top)
    options = engine_options(reading, top.get("engine"), ("engine",), EngineOptions())
    own = add_targets(reading, top.get("targets"), {}, options)
    own = own or {DEFAULT_TARGET: Target(DEFAULT_TARGET, engine=options)}
    shared = add_repositories(reading, top.get("repositories"), {})
    settings, of_profiles = _with_profiles(Profiled(own, shared), profiles, options)
    targets = settings.targets
    variables = read_variables(reading, top.get("vars"))
    selectors = read_selectors(reading, top.get("selectors"))
    config = Config(
        name=_name(reading, top, default_name),
        datasets=read_folders(reading, top["datasets"]) if "datasets" in top else ("datasets",),
        python_macros=bool(
            reading.section(top.get("macros"), ("macros",), ("python",)).flag("python")
        ),
        variables=variables,
        env=_env(reading, top.get("env")),
        defaults=read_defaults(reading, top.get("defaults"), selectors),
        generators=read_generators(reading, top.get("generate"), variables),
        packages=read_packages(reading, top.get("packages")),
        moved=read_moved(reading, top.get("moved")),
        accepted=read_accepted(reading, top.get("accept")),
        gates=read_gates(reading, top.get("gates")),
        pools=_pools(reading, top.get("pools")),
        selectors=selectors,
        default_target=_default_target(reading, top, own, targets),
        targets=targets,
        engines=read_engines(reading, top.get("engines")),
        openlineage=read_openlineage(reading, top.get("openlineage")),
        repositories=settings.repositories,
    )
    return replace(config, places=dict(_places(reading, config))), of_profiles


def _places(reading: SettingsReader, config: Config) -> Iterator[tuple[str, SourceSpan]]:
    """Yield where the project file asks for Python, the environment and clusters."""
    at = reading.places.value
    if config.python_macros:
        yield "python", at(("macros", "python"))
    yield from ((f"env {name}", at(("env", n))) for n, name in enumerate(config.env))
    engine = ("engine", "spark", "master")
    for name, target in config.targets.items():
        paths = (("targets", name, *engine), engine)
        written = (path for path in paths if _at(reading.value, path) == target.spark.master)
        if target.spark.master is not None and (path := next(written, None)) is not None:
            yield f"master {name}", at(path)


def _at(value: Value, path: Sequence[str]) -> Value:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _with_profiles(
    own: Profiled, profiles: Sequence[ProfilesFile], options: EngineOptions
) -> tuple[Profiled, list[Diagnostic]]:
    settings, found = own, list[Diagnostic]()
    for profile in profiles:
        settings, problems = add_profile(profile, settings, options)
        found += problems
    return settings, found


def _name(reading: SettingsReader, top: Mapping[str, Value], default: str) -> str:
    if "name" not in top:
        return default
    name = reading.text(top["name"], ("name",), default)
    if isinstance(top["name"], str) and name == top["name"] and not _NAME.fullmatch(name):
        reading.refuse(
            ("name",),
            f"'{name}' is not a project name",
            "it is printed and goes into files",
            "use letters, digits, and single '.', '-' or '_' between them",
        )
    return name


def _env(reading: SettingsReader, value: Value) -> tuple[str, ...]:
    names = reading.texts(value, ("env",))
    for name, path in names.items():
        if not _ENV.fullmatch(name):
            reading.refuse(
                path,
                f"'{name}' is not a name in the environment",
                "templates read the environment by these names only",
                "use letters, digits and '_', no digit first",
            )
        elif looks_secret(name):
            reading.refuse(
                path,
                f"'{name}' looks like a secret",
                "what a template writes is stored in plans and chains permanently",
                f"say ${{{{ env.{name} }}}} in the definition: it is read when data is fetched",
                code="secret",
            )
    return tuple(names)


def _pools(reading: SettingsReader, value: Value) -> dict[str, int]:
    given = reading.any_mapping(value, ("pools",))
    sizes = {name: reading.count(size, ("pools", name), 1) for name, size in given.items()}
    return {name: size for name, size in sizes.items() if size is not None}


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


def _default_target(
    reading: SettingsReader,
    top: Mapping[str, Value],
    own: Mapping[str, Target],
    targets: Mapping[str, Target],
) -> str:
    """Return the target that is meant without a name: profiles add some, but choose none."""
    if "default_target" not in top:
        return DEFAULT_TARGET if DEFAULT_TARGET in own else _only_target(reading, own)
    name = reading.text(top["default_target"], ("default_target",), DEFAULT_TARGET)
    if name not in targets and isinstance(top["default_target"], str):
        reading.refuse(
            ("default_target",),
            f"no target named '{name}'",
            "the default must be one of the targets",
            did_you_mean(name, targets),
        )
    return name


def _only_target(reading: SettingsReader, targets: Mapping[str, Target]) -> str:
    if len(targets) > 1:
        reading.refuse(
            ("targets",),
            "no default target",
            f"there are several targets and none is called '{DEFAULT_TARGET}'",
            f"add: default_target: {next(iter(targets))}",
            key=True,
        )
    return next(iter(targets))
