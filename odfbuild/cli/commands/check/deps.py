"""odfbuild deps: fetch the packages of a project, and pin newer ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import typer

from odfbuild.app.load_project import check_packages
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.terminal.console import printable
from odfbuild.project import packages
from odfbuild.project.lock import Lock, LockedPackage, read_lock, write_lock


def install(
    given: ProjectArguments,
) -> int:
    """Fetch what odfbuild.lock pins into packages/."""
    project = open_given(given)
    check_packages(project, project.config)
    done = packages.install(project.root, project.config, read_lock(project.root))
    width = max((len(each.name) for each in done), default=0)
    for each in done:
        word = "installed" if each.done else "as pinned"
        sys.stdout.write(f"  {each.name:<{width}}  {_short(each.pinned)}  {word}\n")
    count = sum(each.done for each in done)
    sys.stdout.write(f"{_count(len(done))}, {count} installed.\n")
    return exits.DONE


def update(
    given: ProjectArguments,
    name: Annotated[str | None, typer.Argument(help="One package. Default: all.")] = None,
) -> int:
    """Resolve revisions again, pin them in odfbuild.lock, and fetch them."""
    project = open_given(given)
    check_packages(project, project.config)
    if name is not None:
        packages.check_name(project.config, name)
    lock = read_lock(project.root) or Lock()
    pinned = packages.pin(
        project.root, project.config, lock, repinned=lambda each: name is None or each == name
    )
    if pinned != lock.packages:
        write_lock(project.root, replace(lock, packages=pinned))
    sys.stdout.write(pins_text(lock.packages, pinned))
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
    return "".join(lines) + f"{_count(len(after))}, {len(lines)} pinned again.\n"


def _short(pinned: LockedPackage) -> str:
    """Name a commit and what was asked for, or a folder and its hash."""
    if pinned.commit is None:
        return printable(f"{pinned.path} {pinned.tree[5:15]}")
    return printable(f"{pinned.commit[:10]} ({pinned.rev or 'HEAD'})")


def _count(packages: int) -> str:
    return f"{packages} package{'' if packages == 1 else 's'}"
