"""Packages: fetched by commit, pinned by hash, and never trusted to be what they were.

A package from a repository lies in `packages/NAME`, which may be deleted at any time; one in a
folder is used where it is.  The lock file says what either has to be.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from odfbuild.errors import Diagnostic, ProjectError, ProjectErrors
from odfbuild.project.config.packages import PackageSource
from odfbuild.project.config.project_file import Config
from odfbuild.project.git.repository import PackageGitError, Repository, address
from odfbuild.project.git.tree import TreeEntry, TreeError, hash_of, tree_hash
from odfbuild.project.lock import Lock, LockedPackage
from odfbuild.project.lock.state import LockDifference
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

PACKAGES = "packages"


class UnknownPackageError(ProjectError):
    """The project does not use a package of this name."""

    code = "unknown-package"


class NotPinnedError(ProjectError):
    """The lock file does not pin a package, or pins it from another origin."""

    code = "package-not-pinned"


class MissingPackageError(ProjectError):
    """The files of a package are missing."""

    code = "package-missing"


class ChangedPackageError(ProjectError):
    """The files of a package differ from those that were pinned."""

    code = "package-changed"


class PackagesFolderError(ProjectError):
    """The folder for packages is used for something else."""

    code = "packages-folder"


@dataclass(frozen=True, slots=True)
class Installed:
    """What became of one package: `done` is False if it was there already."""

    name: str
    pinned: LockedPackage
    done: bool


def installed(root: Path, config: Config, lock: Lock | None) -> Mapping[str, Path]:
    """Return the folder of each package of a project.

    Raises ProjectErrors for packages that are missing, not pinned, or not what was pinned.
    """
    found: list[Diagnostic] = []
    folders: dict[str, Path] = {}
    for source in config.packages:
        problem = _problem(root, source, lock)
        if problem is None:
            folders[source.called] = _folder(root, source)
        else:
            found.append(problem)
    if found:
        raise ProjectErrors(found)
    return folders


def install(
    root: Path,
    config: Config,
    lock: Lock | None,
    *,
    like: Path | None = None,
    refuse: Callable[[str], ProjectError] | None = None,
) -> tuple[Installed, ...]:
    """Bring every package to what the lock file pins.

    `like` is the project's own folder if `root` holds another revision of it: packages that are
    installed there and fit are copied, and addresses are relative to it.  `refuse` makes the error
    of one that would have to be fetched, where that is not wanted.
    Raises ProjectErrors with everything that stands in the way; the rest is installed all the same.
    """
    done: list[Installed] = []
    found: list[Diagnostic] = []
    for source in config.packages:
        try:
            pinned = _pin(root, source, None) if source.path else _pin_of(source, lock)
            done.append(_install(root, source, pinned, like, refuse))
        except ProjectError as error:
            found += _placed_errors(source, error)
    if found:
        raise ProjectErrors(found)
    return tuple(done)


def pin(
    root: Path,
    config: Config,
    lock: Lock | None,
    *,
    repinned: Callable[[str], bool] = lambda _: False,
) -> Mapping[str, LockedPackage]:
    """Return what to pin, and install it: again what `repinned` names or is declared otherwise.

    Packages in folders are always pinned as they are now.  Raises ProjectErrors.
    """
    pins: dict[str, LockedPackage] = {}
    found: list[Diagnostic] = []
    for source in config.packages:
        try:
            known = None if repinned(source.called) else _still(source, lock)
            pins[source.called] = _pin(root, source, known)
        except ProjectError as error:
            found += _placed_errors(source, error)
    if found:
        raise ProjectErrors(found)
    return pins


def check_name(config: Config, name: str) -> None:
    """Refuse the name of a package that the project does not use."""
    names = [source.called for source in config.packages]
    if name not in names:
        raise UnknownPackageError(
            what=f"no package '{name}'",
            why="odfbuild.yaml does not name it under `packages`",
            fix=did_you_mean(name, names) or "odfbuild deps update takes all of them",
        )


def package_differences(
    root: Path, config: Config, lock: Lock | None
) -> tuple[LockDifference, ...]:
    """Return in what the packages of a lock file are out of date; nothing is fetched."""
    known = {} if lock is None else lock.packages
    names = {source.called for source in config.packages}
    found = [LockDifference("extra package", name) for name in known if name not in names]
    for source in config.packages:
        pinned = known.get(source.called)
        if pinned is None:
            found.append(LockDifference("missing package", source.called))
        elif _still(source, lock) is None:
            now = _origin(source.git, source.rev, source.path)
            was = _origin(pinned.git, pinned.rev, pinned.path)
            found.append(LockDifference("package", source.called, was, now))
        elif source.path is not None:
            now = tree_hash(_folder(root, source))
            if now != pinned.tree:
                found.append(LockDifference("package", source.called, pinned.tree, now))
    return tuple(sorted(found, key=lambda each: each.name))


def _origin(git: str | None, rev: str | None, path: str | None) -> str:
    return str(path) if git is None else f"{git} {rev or ''}".strip()


def _folder(root: Path, source: PackageSource) -> Path:
    return root / PACKAGES / source.called if source.path is None else root / source.path


def _still(source: PackageSource, lock: Lock | None) -> LockedPackage | None:
    """Return what is pinned, if it was pinned for the package as it is declared."""
    pinned = None if lock is None else lock.packages.get(source.called)
    if pinned is None or (pinned.git, pinned.rev, pinned.path) != (
        source.git,
        source.rev,
        source.path,
    ):
        return None
    return pinned


def _pin_of(source: PackageSource, lock: Lock | None) -> LockedPackage:
    pinned = _still(source, lock)
    if pinned is None:
        raise NotPinnedError(
            what=f"odfbuild.lock pins the package {source.called} from another origin or revision, "
            "or not at all",
            why="packages are only used at the commit in odfbuild.lock",
            fix=f"odfbuild deps update {source.called}",
        )
    return pinned


def _problem(root: Path, source: PackageSource, lock: Lock | None) -> Diagnostic | None:
    """Return what is wrong with a package where it lies."""
    try:
        _check(root, source, lock)
    except ProjectError as error:
        return _placed_errors(source, error)[0]
    return None


def _check(root: Path, source: PackageSource, lock: Lock | None) -> None:
    if source.path is not None:
        _tree(root, source)
        return
    pinned = _pin_of(source, lock)
    folder = _folder(root, source)
    if not folder.is_dir():
        raise MissingPackageError(
            what=f"the package {source.called} is not installed",
            why=f"it is expected in {PACKAGES}/{source.called}",
            fix="odfbuild deps install",
        )
    if not _is_as_pinned(root, source.called, pinned):
        raise ChangedPackageError(
            what=f"the package {source.called} is not what odfbuild.lock pins",
            why=f"files in {PACKAGES}/{source.called} were changed, added or removed",
            fix="odfbuild deps install restores it; make changes at its origin",
        )


def _tree(root: Path, source: PackageSource) -> str:
    folder = _folder(root, source)
    if not folder.is_dir():
        raise MissingPackageError(
            what=f"there is no folder '{source.path}' for the package {source.called}",
            why="a package with a path is used in place",
            fix="correct `path`, which is relative to odfbuild.yaml",
        )
    return tree_hash(folder)


def _is_as_pinned(root: Path, name: str, pinned: LockedPackage) -> bool:
    folder = root / PACKAGES / name
    if not folder.is_dir() or folder.is_symlink() or folder.parent.is_symlink():
        return False
    try:
        return tree_hash(folder) == pinned.tree
    except TreeError:
        return False


def _install(
    root: Path,
    source: PackageSource,
    pinned: LockedPackage,
    like: Path | None = None,
    refuse: Callable[[str], ProjectError] | None = None,
) -> Installed:
    if source.path is not None:
        _tree(root, source)
        return Installed(source.called, pinned, done=False)
    if _is_as_pinned(root, source.called, pinned):
        return Installed(source.called, pinned, done=False)
    assert source.git is not None and pinned.commit is not None  # noqa: S101 - read so
    if like is not None and _is_as_pinned(like, source.called, pinned):
        kept = _folder(like, source)
        shutil.copytree(kept, _folder(root, source), symlinks=True)
    elif refuse is not None:
        raise refuse(source.called)
    else:
        where = address(source.git, like or root)
        _fetch(root, source.called, where, pinned.commit, wanted=pinned.tree)
    return Installed(source.called, pinned, done=True)


def _pin(root: Path, source: PackageSource, known: LockedPackage | None) -> LockedPackage:
    if source.path is not None:
        return LockedPackage(tree=_tree(root, source), path=source.path)
    if known is not None:
        _install(root, source, known)
        return known
    assert source.git is not None  # noqa: S101 - a package has a path or a repository
    where = address(source.git, root)
    commit, tree = _fetch(root, source.called, where, source.rev or "HEAD")
    return LockedPackage(tree=tree, git=source.git, rev=source.rev, commit=commit)


def _fetch(
    root: Path, name: str, where: str, revision: str, *, wanted: str | None = None
) -> tuple[str, str]:
    """Fetch a revision and put it in its place; return its commit and the hash of its files.

    With `wanted`, files of another hash are refused.
    """
    with _work_folder(root) as work:
        bare, tree = work / "git", work / "tree"
        bare.mkdir()
        repository = Repository(bare, where)
        commit = repository.fetch(revision)
        entries = list(repository.files(commit))
        found = hash_of(entries)
        if wanted is not None and (found, commit) != (wanted, revision):
            raise PackageGitError(
                what=f"the repository of {name} returned other files than were pinned",
                why="a commit never changes: the repository or odfbuild.lock was tampered with",
                fix=f"investigate; odfbuild deps update {name} pins the present state",
            )
        _lay_out(entries, tree)
        _put(tree, root / PACKAGES / name, work / "old")
    return commit, found


@contextmanager
def _work_folder(root: Path) -> Iterator[Path]:
    """Give a folder beside the packages; these are kept out of the project's repository."""
    packages = root / PACKAGES
    ignore = packages / ".gitignore"
    packages.mkdir(exist_ok=True)
    if packages.is_symlink() or (not ignore.exists() and any(packages.iterdir())):
        raise PackagesFolderError(
            what=f"the folder {PACKAGES} holds something else",
            why="packages are written to it, and its files could be replaced",
            fix=f"move it, or create an empty file {PACKAGES}/.gitignore to allow it",
        )
    if not ignore.exists():
        ignore.write_text("*\n", "ascii")
    with tempfile.TemporaryDirectory(prefix=".new-", dir=packages) as work:
        yield Path(work)


def _lay_out(entries: Sequence[TreeEntry], folder: Path) -> None:
    """Write files, then links: so nothing is ever written through a link."""
    folder.mkdir()
    for entry in sorted(entries, key=lambda each: each.is_link):
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.is_link:
            path.symlink_to(entry.content.decode())
        else:
            path.write_bytes(entry.content)


def _put(new: Path, place: Path, old: Path) -> None:
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.exists():
        place.rename(old)
    new.rename(place)


def _placed_errors(source: PackageSource, error: ProjectError) -> list[Diagnostic]:
    return [
        Diagnostic(
            code=each.code,
            what=each.what if source.called in each.what else f"{source.called}: {each.what}",
            why=each.why,
            fix=each.fix,
            span=each.span or source.span,
        )
        for each in error.diagnostics()
    ]
