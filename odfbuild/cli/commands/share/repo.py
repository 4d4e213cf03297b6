"""odfbuild repo list, add, check and index: the repositories that datasets are shared through."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import TableFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.words import bytes_text, count
from odfbuild.cli.terminal.console import print_table, printable, printable_json
from odfbuild.errors import OdfBuildError, ProjectError, UsageRefusedError

if TYPE_CHECKING:
    from odfbuild.project.config.repositories import RepositorySettings
    from odfbuild.repositories.transports.folder import FolderRepository

RepositoryNames = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Repositories. Default: all.")
]


def list_(given: ProjectArguments, output: TableFormat = "table") -> int:
    """List the repositories of the project and of your profiles."""
    from odfbuild.repositories.credentials import token_for

    found = open_given(given).config.repositories
    if output == "json":
        forms = [_form(each) for each in found.values()]
        sys.stdout.write(printable_json(json.dumps(forms, indent=2)) + "\n")
        return exits.DONE
    rows = [
        (each.name, each.url, each.trust, "yes" if _has_token(each, token_for) else "")
        for each in found.values()
    ]
    print_table(("repository", "url", "trust", "token"), rows, [False] * 4)
    return exits.DONE


def add(
    given: ProjectArguments,
    name: Annotated[str, typer.Argument(help="The name of the repository.")],
    url: Annotated[
        str,
        typer.Argument(
            help="Its URL: https://, s3://, s3+https://, az+https://, gs://, odf+https://, file:///..."
        ),
    ],
    trust: Annotated[
        Literal["signed", "remembered", "any"] | None,
        typer.Option("--trust", help="Which heads are accepted from it. Default: remembered."),
    ] = None,
    user: Annotated[
        bool,
        typer.Option("--user", help="Write it to your profiles.yaml, for all of your projects."),
    ] = False,
) -> int:
    """Add a repository to odfbuild.yaml, or to your own profiles.yaml."""
    from odfbuild.project import PROJECT_FILE
    from odfbuild.project.config.repositories import url_problem

    project = open_given(given)
    if (problem := url_problem(url)) is not None:
        raise UsageRefusedError(*problem[:3])
    if any(each.lower() == name.lower() for each in project.config.repositories):
        raise UsageRefusedError(
            what=f"the repository '{name}' exists already",
            why="a name stands for one location",
            fix="choose another name, or edit its entry: odfbuild repo list shows where it is",
        )
    entry = {"url": url} if trust is None else {"url": url, "trust": trust}
    if user:
        path = _profiles()
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, path.name, name, entry, is_project=False)
    else:
        path = project.root / PROJECT_FILE
        _write(path, PROJECT_FILE, name, entry, is_project=True)
    sys.stdout.write(printable(f"Added {name} to {path.name if not user else path}.") + "\n")
    return exits.DONE


def check(
    given: ProjectArguments,
    names: RepositoryNames = None,
    write: Annotated[
        bool,
        typer.Option(
            "--write/--read-only", help="Also try to write: an object that is removed again."
        ),
    ] = True,
    output: TableFormat = "table",
) -> int:
    """Check whether repositories can be read, and whether it is safe to push to them."""
    from odfbuild.repositories.remotes import find_repository

    repositories = open_given(given).config.repositories
    chosen = [find_repository(name, repositories) for name in names or repositories]
    found = [_check_repository(each, write=write) for each in chosen]
    if output == "json":
        sys.stdout.write(printable_json(json.dumps(found, indent=2)) + "\n")
    else:
        rows = [(each["name"], each["read"], each["push"], each["said"] or "") for each in found]
        print_table(("repository", "read", "push", "what was found"), rows, [False] * 4)
    passed = all(each["read"] == "yes" and each["push"] != "refused" for each in found)
    return exits.DONE if passed else exits.REFUSED


def index(given: ProjectArguments, names: RepositoryNames = None) -> int:
    """Rebuild the index of repositories, which search and look-ups by id read."""
    from odfbuild.repositories.catalogue import indexed
    from odfbuild.repositories.remotes import find_repository, open_repository

    repositories = open_given(given).config.repositories
    for name in names or repositories:
        settings = find_repository(name, repositories)
        found = indexed(open_repository(settings))
        sys.stdout.write(printable(f"{settings.name}: {count(len(found), 'dataset')}") + "\n")
    return exits.DONE


def _check_repository(settings: RepositorySettings, *, write: bool) -> dict[str, Any]:
    """Try a repository; say what can be done with it."""
    from odfbuild.project.config.repositories import is_writable
    from odfbuild.repositories.catalogue import INDEX
    from odfbuild.repositories.remotes import open_repository
    from odfbuild.repositories.transports.folder import FolderRepository
    from odfbuild.repositories.transports.object_store import ObjectRepository
    from odfbuild.state.remote.store.abilities import refuse_unsafe
    from odfbuild.state.remote.store.services import NoObstoreError

    scheme = settings.url.partition(":")[0]
    is_bucket = scheme.startswith(("s3", "az", "gs"))  # which is tried out before it is pushed to
    found: dict[str, Any] = {"name": settings.name, "url": settings.url, "read": "no"}
    found |= {"push": "yes" if is_writable(settings.url) and not is_bucket else "no", "said": None}
    try:
        repository = open_repository(settings)
        repository.get(INDEX, 1 << 26)
        found["read"] = "yes"
        if isinstance(repository, ObjectRepository):
            found["push"] = "not tried"
            if write:
                found["push"] = "refused"
                refuse_unsafe(repository.probed(), repository.place)
                found["push"] = "yes"
        elif isinstance(repository, FolderRepository):
            found |= _folder_checked(Path(repository.place)) or _unfinished_pushes(repository)
    except NoObstoreError as error:
        found |= {"said": f"{error.what}; {error.fix}", "code": error.code}
    except OdfBuildError as error:
        found |= {"said": error.what, "code": error.code}
    return found


def _folder_checked(folder: Path) -> dict[str, str]:
    """Return what is to be said of a folder: that it is not there yet, or is for reading only."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        if there == folder:
            return {"push": "no", "said": "the folder cannot be written to"}
        return {
            "read": "no",
            "push": "no",
            "said": f"it does not exist, and cannot be created in {there}",
        }
    if there != folder:
        return {"read": "no", "said": "the folder does not exist; a push creates it"}
    return {}


def _unfinished_pushes(repository: FolderRepository) -> dict[str, str]:
    """Return what is to be said of files that pushes left which were cut off."""
    left = list(repository.unfinished())
    if not left:
        return {}
    names = sorted({str(each.path.parent.parent.relative_to(repository.place)) for each in left})
    size = bytes_text(sum(each.bytes for each in left))
    return {
        "said": f"{count(len(left), 'file')} of interrupted pushes, {size}, in "
        f"{', '.join(names[:3])}{' and others' * (len(names) > 3)}; the next push there "
        "deletes them"
    }


def _has_token(settings: RepositorySettings, token_for: Any) -> bool:
    scheme = settings.url.partition(":")[0].rpartition("+")[2]
    if scheme not in ("http", "https") or settings.url.startswith(("s3", "az", "gs", "ip")):
        return False
    return token_for(settings.url, settings.name) is not None


def _form(settings: RepositorySettings) -> dict[str, Any]:
    return {
        "name": settings.name,
        "url": settings.url,
        "trust": settings.trust,
        "witnesses": [each.did_key() for each in settings.witnesses],
        "region": settings.region,
        "gateway": settings.gateway,
    }


def _profiles() -> Any:
    from odfbuild.host.user_folders import config_folder
    from odfbuild.project.config.targets import PROFILES

    folder = config_folder(os.environ)
    if folder is None:
        raise ProjectError(
            what="there is no folder for your settings",
            why="HOME and XDG_CONFIG_HOME are not set",
            fix="set one of them, or leave --user out",
        )
    return folder / PROFILES


def _write(path: Any, file: str, name: str, entry: dict[str, Any], *, is_project: bool) -> None:
    """Put an entry into a file of settings, if it can be read afterwards."""
    from odfbuild.cli.files import replace_file, write_new
    from odfbuild.host.files import read_regular
    from odfbuild.project.config.project_file import parse_config
    from odfbuild.project.config.targets import ProfilesFile
    from odfbuild.project.yaml import decode, read_documents
    from odfbuild.project.yaml.edit import SetValue, edited_bytes

    old = read_regular(path) if path.is_file() else b""
    documents = read_documents(decode(old, file), file) if old else ()
    value = documents[0].value if documents else None
    if isinstance(value, dict) and value.get("repositories"):
        data = edited_bytes(old, file, [SetValue(("repositories", name), entry)])
    elif value:
        data = edited_bytes(old, file, [SetValue(("repositories",), {name: entry})])
    else:
        from odfbuild.odf.manifest.yaml import yaml_text

        text = yaml_text({"repositories": {name: entry}})
        data = old + (b"" if old.endswith(b"\n") or not old else b"\n") + text.encode()
    text = decode(data, file)
    if is_project:
        parse_config(text, default_name="x")
    else:
        parse_config("odfbuild: 1\n", default_name="x", profiles=[ProfilesFile(file, text)])
    if path.is_file():
        replace_file(path, data)
    else:
        write_new(path, data)
