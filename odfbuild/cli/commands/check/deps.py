"""odfbuild deps: fetch the packages of a project, and pin newer ones."""

import sys
from collections.abc import Mapping
from dataclasses import replace

from odfbuild.app.load_project import check_packages
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import Given
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.terminal.console import printable
from odfbuild.project.lock import Lock, LockedPackage, read_lock, write_lock
from odfbuild.project.packages import check_name, install, pin


def install_packages(given: Given) -> int:
    """Bring `packages/` to what the lock file pins; print one line for each package."""
    project = open_given(given)
    check_packages(project, project.config)
    done = install(project.root, project.config, read_lock(project.root))
    width = max((len(each.name) for each in done), default=0)
    for each in done:
        word = "installed" if each.done else "as pinned"
        sys.stdout.write(f"  {each.name:<{width}}  {_short(each.pinned)}  {word}\n")
    count = sum(each.done for each in done)
    sys.stdout.write(f"{_count(len(done))}, {count} installed.\n")
    return exits.DONE


def update_packages(given: Given, name: str | None) -> int:
    """Resolve revisions anew, of one package or all, and write what they are now to the lock."""
    project = open_given(given)
    check_packages(project, project.config)
    if name is not None:
        check_name(project.config, name)
    lock = read_lock(project.root) or Lock()
    packages = pin(
        project.root, project.config, lock, anew=lambda each: name is None or each == name
    )
    if packages != lock.packages:
        write_lock(project.root, replace(lock, packages=packages))
    sys.stdout.write(pins_text(lock.packages, packages))
    return exits.DONE


def pins_text(before: Mapping[str, LockedPackage], after: Mapping[str, LockedPackage]) -> str:
    """Return one line for each package that is pinned otherwise, and a last line that counts."""
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    width = max(map(len, names), default=0)
    lines = []
    for name in names:
        was, now = before.get(name), after.get(name)
        sign = "+" if was is None else "-" if now is None else "~"
        texts = [_short(each) for each in (was, now) if each is not None]
        lines.append(f"  {sign} {name:<{width}}  {' -> '.join(texts)}\n")
    return "".join(lines) + f"{_count(len(after))}, {len(lines)} pinned anew.\n"


def _short(pinned: LockedPackage) -> str:
    """Name a commit and what was asked for, or a folder and its hash."""
    if pinned.commit is None:
        return printable(f"{pinned.path} {pinned.tree[5:15]}")
    return printable(f"{pinned.commit[:10]} ({pinned.rev or 'HEAD'})")


def _count(packages: int) -> str:
    return f"{packages} package{'' if packages == 1 else 's'}"
