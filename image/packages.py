"""Packages of Python in the image: those that the engines need, as requirements.lock has them."""

import re
import tomllib
from collections.abc import Collection
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["locked", "names"]

_ENTRY = re.compile(r"([A-Za-z0-9._-]+)==[^ ;\\]+(?: ; [^\\]+?)? \\")


def names(
    project: Path, extra: str, version: tuple[int, int], without: Collection[str]
) -> frozenset[str]:
    """Return the packages that an extra of a project needs in a version of Python on Linux.

    What a package needs is asked of those that are installed here.
    """
    found = tomllib.loads(project.read_text("utf-8"))["project"]
    left = [Requirement(each) for each in found["dependencies"]]
    left += [Requirement(each) for each in found["optional-dependencies"][extra]]
    seen: dict[str, set[str]] = {}
    while left:
        needed = left.pop()
        name = canonicalize_name(needed.name)
        known = seen.setdefault(name, set())
        extras = {"", *needed.extras}
        if name in without or extras <= known:
            continue
        known |= extras
        for text in metadata.requires(name) or ():
            each = Requirement(text)
            if each.marker is None or any(
                each.marker.evaluate({**_environment(version), "extra": one}) for one in extras
            ):
                left.append(each)
    return frozenset(seen) - {*without}


def locked(lock: str, chosen: Collection[str], version: tuple[int, int]) -> str:
    """Return the part of a lock with some packages, each with its hashes.

    Raises LookupError for a package that it does not have.
    """
    found: dict[str, str] = {}
    for block in re.split(r"\n(?=\S)", lock):
        if (entry := _ENTRY.match(block)) is None:
            continue
        head, _, hashes = block.partition(" \\\n")
        needed = Requirement(head)
        name = canonicalize_name(entry[1])
        if needed.marker is not None and not needed.marker.evaluate(_environment(version)):
            continue
        if name in chosen:
            found[name] = f"{needed.name}{needed.specifier} \\\n{hashes}"
    if missing := sorted({*chosen} - found.keys()):
        raise LookupError(f"requirements.lock does not have {', '.join(missing)}")
    return "\n".join(found[name] for name in sorted(found)) + "\n"


def _environment(version: tuple[int, int]) -> dict[str, str]:
    short = f"{version[0]}.{version[1]}"
    return {"python_version": short, "python_full_version": f"{short}.99"}
