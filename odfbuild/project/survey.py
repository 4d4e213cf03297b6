"""Survey: all problems of a project, also when some of it cannot be read.

Commands stop at the first part of a project that is wrong: its settings, its variables, its
packages, its definitions.  Whoever corrects a project wants to know of all of them at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from odfbuild.errors import Diagnostic, ProjectErrors, by_place, merged
from odfbuild.host.permissions import UNLIMITED, Permissions
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.checks.queries import query_problems
from odfbuild.project.checks.remote_inputs import References
from odfbuild.project.config.project_file import Config, Settings, load_settings
from odfbuild.project.config.variables import resolve_variables
from odfbuild.project.load import load_project
from odfbuild.project.lock import Lock, read_lock
from odfbuild.project.packages import installed
from odfbuild.project.yaml import Value


def survey(
    root: Path,
    *,
    known: Mapping[DatasetAlias, DatasetId] | None = None,
    given: Sequence[str] = (),
    vars_files: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    user_folder: Path | None = None,
    permissions: Permissions = UNLIMITED,
    granted: Config | None = None,
    notes: Iterable[Diagnostic] = (),
) -> tuple[Diagnostic, ...]:
    """Return all problems of a project by their places, each once, with those found `notes`.

    Takes what `load_settings`, `resolve_variables` and `load_project` take.  What may be wrong only
    because of another problem is left out.
    """
    looking = _Survey(root, load_settings(root, user_folder=user_folder), permissions, granted)
    variables = looking.variables(given, vars_files)
    packages = looking.packages()
    looking.definitions(known or {}, variables, env or {}, packages)
    told = {_place(each) for each in looking.found}
    rest = [each for each in notes if _place(each) not in told]
    return tuple(sorted((*dict.fromkeys(looking.found), *rest), key=by_place))


def _place(found: Diagnostic) -> tuple[str, str]:
    return found.code, str(found.span or found.what)


class _Survey:
    """Looks at one part after the other; `doubtful` are those that others cannot rely on."""

    def __init__(
        self, root: Path, settings: Settings, permissions: Permissions, granted: Config | None
    ) -> None:
        self.root = root
        self.permissions = permissions
        self.granted = granted
        self.config: Config = settings.config
        self.found: list[Diagnostic] = list(settings.found)
        self.doubtful = set(settings.doubtful)

    def variables(self, given: Sequence[str], files: Sequence[Path]) -> Mapping[str, Value]:
        if "vars" in self.doubtful:
            return {}
        try:
            return resolve_variables(self.config.variables, given, files)
        except ProjectErrors as errors:
            self._note(errors, "vars")
        return {}

    def packages(self) -> Mapping[str, Path]:
        """Return the folders of packages; those from repositories need a lock file to tell."""
        try:
            lock = read_lock(self.root)
        except ProjectErrors as errors:
            self._note(errors, "packages" if self.config.packages else None)
            return {}
        return {} if "packages" in self.doubtful else self._installed_packages(lock)

    def definitions(
        self,
        known: Mapping[DatasetAlias, DatasetId],
        variables: Mapping[str, Value],
        env: Mapping[str, str],
        packages: Mapping[str, Path],
    ) -> None:
        try:
            loaded = load_project(
                self.root,
                known=known,
                variables=variables,
                env=env,
                config=self.config,
                packages=packages,
                doubtful=self.doubtful,
                permissions=self.permissions,
                granted=self.granted,
                references=References(
                    tuple(self.config.repositories),
                    here=known.values,
                    unsure="repositories" in self.doubtful,
                ),
            )
            self.found += merged(each for _, each in query_problems(loaded.declared, ()))
        except ProjectErrors as errors:
            self._note(errors, None)

    def _installed_packages(self, lock: Lock | None) -> Mapping[str, Path]:
        try:
            return installed(self.root, self.config, lock)
        except ProjectErrors as errors:
            self._note(errors, "packages")
        return {}

    def _note(self, errors: ProjectErrors, doubtful: str | None) -> None:
        self.found += errors.found
        if doubtful is not None:
            self.doubtful.add(doubtful)
