"""Included files, from which values are taken: `query: !include ../sql/x.sql`."""

from collections.abc import Callable
from pathlib import PurePosixPath
from posixpath import normpath

from odfbuild.project.files import OUTSIDE, Home, UnreadableError, inside
from odfbuild.project.yaml import Include, RefusedIncludeError
from odfbuild.project.yaml.places import SourceText
from odfbuild.project.yaml.rules import YamlRule
from odfbuild.texts.suggest import did_you_mean

_PLAIN = ".sql"
_TEMPLATE = ".sql.j2"


def include_from(home: Home, holder: str, render: Callable[[str], SourceText]) -> Include:
    """Return what takes in the files that a definition names, by paths relative to its own.

    They are .sql files of the folders that hold queries and definitions; `render` runs those that
    are templates, by their names in `home`.
    """
    folder = PurePosixPath(holder).parent

    def include(path: str) -> SourceText:
        name = _name(home, folder, path)
        try:
            return render(name) if name.endswith(_TEMPLATE) else home.take(name)
        except UnreadableError as error:
            raise RefusedIncludeError(error.rule) from None

    return include


def _name(home: Home, folder: PurePosixPath, path: str) -> str:
    """Return the name of the file in its home; RefusedIncludeError if there is none."""
    name = inside(str(folder / path)) if path and not path.startswith("/") else None
    if name is None:
        raise RefusedIncludeError(OUTSIDE if path else _NO_PATH)
    if not name.endswith((_PLAIN, _TEMPLATE)):
        raise RefusedIncludeError(_not_sql(path))
    if not _is_watched(home, name):
        raise RefusedIncludeError(_elsewhere(home))
    if not home.has(name):
        raise RefusedIncludeError(_not_there(home, folder, name))
    return name


def _is_watched(home: Home, name: str) -> bool:
    """Tell whether a change of the file would be noticed: see `fingerprint`."""
    if any(part.startswith(".") for part in PurePosixPath(name).parts):
        return False
    return any(
        folder == "." or name.startswith(f"{normpath(folder)}/")
        for folder in (home.sql, *home.datasets)
    )


def _not_there(home: Home, folder: PurePosixPath, name: str) -> YamlRule:
    beside = (home.root / name).parent
    files = (each for each in beside.iterdir() if each.is_file()) if beside.is_dir() else ()
    names = sorted(each.name for each in files)
    queries = [each for each in names if each.endswith((_PLAIN, _TEMPLATE))]
    guess = did_you_mean(PurePosixPath(name).name, queries)
    where = f"paths are relative to the file that names them, which is in {folder}/"
    return YamlRule("include", f"there is no file '{name}'", where, guess or "correct the path")


_NO_PATH = YamlRule(
    "include",
    "!include names no file",
    "the value is the text of a file",
    "write the path of a .sql file after it, relative to this file",
)


def _not_sql(path: str) -> YamlRule:
    return YamlRule(
        "include",
        f"'{path}' is not a query",
        "values come from .sql files, and from .sql.j2 files after templating",
        "name the file *.sql",
    )


def _elsewhere(home: Home) -> YamlRule:
    return YamlRule(
        "include",
        "queries cannot be included from this folder",
        f"changes are searched in {', '.join(f'{each}/' for each in (home.sql, *home.datasets))}, "
        "in files and folders that do not start with a dot",
        f"move the file to {home.sql}/",
    )
