"""Loading of a project: its settings and all definitions, or everything that is wrong with them."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from odfbuild.errors import Diagnostic, ProjectErrors, merged
from odfbuild.host.permissions import UNLIMITED, PathNotPermittedError, Permissions
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.dag import sound_dag
from odfbuild.planner.declared import Declared
from odfbuild.planner.exclusion import LEFT_OUT, stand_in
from odfbuild.planner.plan.policy import last_names
from odfbuild.planner.plan.remote_inputs import names_in_workspace
from odfbuild.project import PROJECT_FILE
from odfbuild.project.checks.engines import engine_problems
from odfbuild.project.checks.remote_inputs import NO_REFERENCES, References
from odfbuild.project.config.defaults import Default, apply_defaults
from odfbuild.project.config.permissions import admit
from odfbuild.project.config.project_file import Config, load_config, parse_config
from odfbuild.project.files import Home, UnreadableError, is_own_folder
from odfbuild.project.files.places import places_of
from odfbuild.project.read import Reading
from odfbuild.project.template.names import LazyNames, TemplateNames
from odfbuild.project.template.rendered import Rendering
from odfbuild.project.yaml import Value, read_documents
from odfbuild.values import dataclass

# without these being right, templates could not be blamed for anything
_TEMPLATING = frozenset({"vars", "env", "generate", "macros", "packages"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project as read: its datasets in topological order, and what is worth a warning.

    `defaults` are those of the project file that each dataset got traits from, if any.  `wrong`
    says what is wrong with datasets that cannot be planned, declared or not to be read, `unread` is
    what is wrong with definitions without a readable name; both are empty unless asked for.
    """

    root: Path
    config: Config
    declared: tuple[Declared, ...]
    notes: tuple[Diagnostic, ...] = ()
    defaults: Mapping[DatasetAlias, tuple[Default, ...]] = field(default_factory=dict)
    wrong: Mapping[DatasetAlias, Sequence[Diagnostic]] = field(default_factory=dict)
    unread: tuple[Diagnostic, ...] = ()

    @property
    def sound(self) -> tuple[Declared, ...]:
        """The datasets with which nothing is wrong, in topological order."""
        return tuple(each for each in self.declared if each.alias not in self.wrong)

    @property
    def renderings(self) -> Mapping[DatasetAlias, Rendering]:
        """The text that each dataset was read from, after templating; plain files as they are."""
        found = ((each.alias, places_of(each)) for each in self.declared)
        return {alias: Rendering(each.source) for alias, each in found if each is not None}


def load_project(
    root: Path,
    *,
    known: Mapping[DatasetAlias, DatasetId] | None = None,
    variables: Mapping[str, Value] | None = None,
    env: Mapping[str, str] | None = None,
    config: Config | None = None,
    packages: Mapping[str, Path] | None = None,
    doubtful: Collection[str] = (),
    permissions: Permissions = UNLIMITED,
    granted: Config | None = None,
    tolerated: Collection[str] = (),
    partly: bool = False,
    only: Collection[str] | None = None,
    references: References = NO_REFERENCES,
) -> Project:
    """Return a project; `known` are the datasets of the workspace, which inputs may refer to.

    `variables` are values of the project's variables: those that are left out have their defaults.
    Of `env`, templates see what the project declares.  `packages` are folders, by name.
    `doubtful` are keys of the project file of which something is wrong: what may be wrong for that
    reason only is left out.  `permissions` are those of the machine; of what the project file
    switches on itself, only that counts which `granted` does too, the one of a reviewed revision.
    Problems of the codes `tolerated` are passed over: for who looks for others.  What is wrong with
    one dataset is said in the project if it is loaded `partly`, and raised otherwise.  With `only`,
    of its own definitions those in these files are read.  `references` are to datasets of
    repositories.
    Raises ProjectErrors with the problems of all files and of the graph, sorted by place.
    """
    config = load_config(root) if config is None else config
    admitted = admit(config, permissions, root, granted)
    if any(each.code == PathNotPermittedError.code for each in admitted.found):
        raise ProjectErrors(admitted.found)  # no package is read that may not be
    config = admitted.config
    taken = [_package(root, name, folder) for name, folder in (packages or {}).items()]
    homes = {each.name: each.home for each in taken}
    names = _names(config, variables or {}, env or {})
    loading = _Loading(known or {}, hidden=bool(doubtful or admitted.found))
    loading.tolerated = tolerated
    loading.found += admitted.found
    loading.notes += admitted.notes
    templates = _TEMPLATING.isdisjoint(doubtful) and not admitted.found
    loading.add(
        _read(
            _home(root, config),
            config,
            names,
            homes,
            templates=templates,
            only=only,
            references=references,
        )
    )
    for each in taken:
        loading.add(each.read(env or {}, config, homes, references, templates=templates))
    if "engines" not in doubtful:
        loading.check_engines(config.engines)
    return loading.project(root, config, partly=partly)


@dataclass(slots=True)
class _Loading:
    """What was read so far, of the project and its packages."""

    known: Mapping[DatasetAlias, DatasetId]
    found: list[Diagnostic] = field(default_factory=list)
    wrong: dict[DatasetAlias, list[Diagnostic]] = field(default_factory=dict)
    unread: list[Diagnostic] = field(default_factory=list)
    declared: list[Declared] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)
    hidden: bool = False
    tolerated: Collection[str] = ()

    def check_engines(self, outside: Collection[str]) -> None:
        """Note the engines that are named and not known; `outside` are those of the project."""
        for each in self.declared:
            for problem in engine_problems(each, outside):
                self.found.append(problem)
                self.wrong.setdefault(each.alias, []).append(problem)

    def add(self, reading: Reading) -> None:
        self.found += reading.found
        named = {problem for _, problem in reading.wrong}
        self.unread += [each for each in reading.found if each not in named]
        for alias, problem in reading.wrong:
            self.wrong.setdefault(alias, []).append(problem)
        self.declared += reading.declared
        self.notes += reading.notes
        self.hidden = self.hidden or reading.hidden

    def project(self, root: Path, config: Config, *, partly: bool) -> Project:
        """Return the project; ProjectErrors if anything is wrong that is not said in it."""
        ordered = self._in_order(last_names(config.moved), partly=partly)
        self.found = [each for each in self.found if each.code not in self.tolerated]
        if self.found:
            from odfbuild.project.checks.queries import query_problems

            self.found += (each for _, each in query_problems(self.declared, self.found))
            raise ProjectErrors(merged(self.found))
        given = apply_defaults(config.defaults, ordered, config.selectors)
        return Project(
            root=root,
            config=config,
            declared=given.declared,
            notes=tuple(merged((*self.notes, *given.notes))),
            defaults=given.given,
            wrong=self.wrong if partly else {},
            unread=tuple(merged(self.unread)) if partly else (),
        )

    def _remote(self) -> Mapping[DatasetAlias, DatasetId]:
        """Return the datasets of repositories that are not in the workspace."""
        inputs = [each for declared in self.declared for each in declared.remote]
        return {alias: id for id, alias in names_in_workspace(inputs, self.known).items()}

    def _in_order(
        self, moved: Mapping[DatasetAlias, DatasetAlias], *, partly: bool
    ) -> tuple[Declared, ...]:
        """Return the datasets in order; an unknown input may be declared in what is hidden.

        What is of one dataset, or of a definition whose name cannot be read beside others that can,
        is no longer in `found` if all of it is, and that is wanted.
        """
        there = {each.alias for each in self.declared}
        unread = {alias: stand_in(alias) for alias in self.wrong if alias not in there}
        dag = sound_dag(self.declared, {**unread, **self._remote(), **self.known}, moved)
        owned = {each for found in self.wrong.values() for each in found}
        apart = partly and owned.union(self.unread if there else ()).issuperset(self.found)
        for alias, found in dag.wrong.items():
            for each in found:
                if apart and self.unread and each.code == "unknown-input":
                    self.wrong.setdefault(alias, []).append(_may_be_unread(each))
                elif apart or not (self.hidden and each.code == "unknown-input"):
                    self.wrong.setdefault(alias, []).append(each)
                    self.found.append(each)
        if apart and (self.found or self.wrong):
            from odfbuild.project.checks.queries import query_problems

            suspect = [each for each in self.declared if each.alias in self.wrong]
            for alias, problem in query_problems(suspect, self.found):
                self.wrong[alias].append(problem)
            self.found = []
        self.found = list(dict.fromkeys(self.found))
        return dag.order


def _may_be_unread(found: Diagnostic) -> Diagnostic:
    """Return that an input is declared nowhere, unless it is in what cannot be read."""
    return replace(
        found,
        code=LEFT_OUT,
        what=f"it is left out: {found.what}",
        why="a definition whose name cannot be read may be that of the input",
        fix=f"correct the definitions that cannot be read; else: {found.fix}",
    )


@dataclass(frozen=True, slots=True)
class _Package:
    """A package as found: its settings, and what is wrong with them."""

    name: str
    home: Home
    config: Config | None
    found: tuple[Diagnostic, ...] = ()

    def read(
        self,
        env: Mapping[str, str],
        project: Config,
        homes: Mapping[str, Home],
        references: References,
        *,
        templates: bool,
    ) -> Reading:
        """Return its definitions; of the environment it sees what the project declares as well."""
        if self.config is None or not self.home.datasets:
            return Reading(self.home, {}, homes, found=list(self.found), hidden=bool(self.found))
        declared = {name: env[name] for name in project.env if name in env}
        reading = _read(
            self.home,
            self.config,
            _names(self.config, {}, declared),
            homes,
            templates=templates,
            references=references,
        )
        reading.found = [_with_package_path(each, self.home) for each in reading.found]
        return reading


def _read(
    home: Home,
    config: Config,
    names: Mapping[str, object],
    packages: Mapping[str, Home],
    *,
    templates: bool,
    only: Collection[str] | None = None,
    references: References = NO_REFERENCES,
) -> Reading:
    reading = Reading(home, {**names, **_python(home, config)}, packages, only, references)
    if templates:
        reading.read(config.generators)
    else:
        reading.read_plain()
    return reading


def _home(root: Path, config: Config) -> Home:
    return Home(
        root=root, datasets=config.datasets, macros=config.macros_folder, sql=config.sql_folder
    )


def _package(root: Path, name: str, folder: Path) -> _Package:
    """Return a package; one without a project file has templates and macros alone."""
    relative = os.path.relpath(folder, root).replace(os.sep, "/")
    bare = Home(root=folder, prefix=f"{relative}/", package=name, datasets=())
    if not bare.has(PROJECT_FILE):
        return _Package(name, bare, None)
    try:
        text = bare.read(PROJECT_FILE).text
        listed = "datasets" in _top(text)
        config = parse_config(
            text,
            default_name=name,
            is_folder=lambda inner: not listed or is_own_folder(folder, inner),
        )
    except UnreadableError:
        return _Package(name, bare, None)
    except ProjectErrors as errors:
        return _Package(
            name, bare, None, tuple(_with_package_path(each, bare) for each in errors.found)
        )
    home = replace(_home(folder, config), prefix=bare.prefix, package=name)
    return _Package(name, home if listed else replace(home, datasets=()), config)


def _top(text: str) -> Mapping[str, Value]:
    value = read_documents(text, PROJECT_FILE)[0].value
    return value if isinstance(value, dict) else {}


def _with_package_path(found: Diagnostic, home: Home) -> Diagnostic:
    """Return a finding about the settings of a package with its file as seen from the project."""
    if found.span is None or found.span.file != PROJECT_FILE:
        return found
    return replace(found, span=replace(found.span, file=home.shown(PROJECT_FILE)))


def _names(
    config: Config, variables: Mapping[str, Value], env: Mapping[str, str]
) -> dict[str, object]:
    """Return what every template can read."""
    values = {
        name: variables.get(name, each.default)
        for name, each in config.variables.items()
        if name in variables or each.default is not None
    }
    own = TemplateNames("vars", values)
    given = {name: env[name] for name in config.env if name in env}
    absent = tuple(name for name in config.env if name not in env)
    return {**values, "vars": own, "var": own, "env": TemplateNames("env", given, absent)}


def _python(home: Home, config: Config) -> dict[str, object]:
    """Return the Python functions that templates can call, where the settings ask for them."""
    if not config.python_macros or home.package is not None:
        return {}
    folder = home.root / home.macros
    modules = sorted(each.stem for each in folder.glob("*.py") if each.stem.isidentifier())

    def read(module: str) -> object:
        from odfbuild.project.template.python import functions

        return functions(module, home.take(f"{home.macros}/{module}.py"))

    return {"py": LazyNames("py", tuple(modules), read)}
