"""Manifests: metadata as mappings and YAML <-> values (ODF 0.34.1, "Manifests").

Fields are camelCase, a union is told by its `kind`, what is absent is left out.  Reading is strict:
what is not known or has another type is refused, and everything that is wrong is reported at once.
"""

from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, TypeVar, overload

from odfbuild.odf.events import DatasetSnapshot, MetadataBlock, MetadataEvent, SetDataSchema
from odfbuild.odf.manifest.errors import ManifestErrors, Path, Problem, name_advice
from odfbuild.odf.manifest.reader import ManifestPath, read_value
from odfbuild.odf.manifest.writer import to_mapping

_T = TypeVar("_T")

MANIFESTS: Final[Mapping[str, tuple[Any, tuple[int, ...]]]] = {
    "DatasetSnapshot": (DatasetSnapshot, (1,)),
    "MetadataBlock": (MetadataBlock, (2, 3)),
    "MetadataEvent": (MetadataEvent, (1,)),
}
"""What a manifest can hold, and in which versions; the first is the one written."""
_FIELDS_AND_ARROW: Final = 3  # version of blocks in which `schema` holds fields, not bytes


@overload
def from_mapping(cls: type[_T], value: object, *, path: Path = ()) -> _T: ...


@overload
def from_mapping(cls: UnionType, value: object, *, path: Path = ()) -> Any: ...


def from_mapping(cls: Any, value: object, *, path: Path = ()) -> Any:
    """Return the value of a class, a union or an enum that a mapping describes.

    Scalars are those of YAML 1.2 or JSON: str, int, float, bool, None.  `path` goes before the path
    of every problem.  Raises ManifestErrors with all problems.
    """
    found: list[Problem] = []
    places = ManifestPath(path, found)
    try:
        result = read_value(cls, value, places)
    except RecursionError:
        found.append(_too_deep(path))
        result = None
    if found:
        raise ManifestErrors(found)
    return result


def from_manifest(manifest: object) -> tuple[str, int, Any]:
    """Return kind, version and value of a whole manifest; raise ManifestErrors."""
    if not isinstance(manifest, Mapping):
        raise ManifestErrors([_not_a_manifest()])
    kind, version = manifest.get("kind"), manifest.get("version")
    found = [_unknown(key) for key in manifest if key not in ("kind", "version", "content")]
    if not isinstance(kind, str) or kind not in MANIFESTS:
        raise ManifestErrors([*found, _unknown_kind(kind)])
    cls, versions = MANIFESTS[kind]
    if type(version) is not int or version not in versions:
        raise ManifestErrors([*found, _unsupported_version(kind, version, versions)])
    if found:
        raise ManifestErrors(found)
    return kind, version, from_mapping(cls, manifest.get("content"), path=("content",))


def to_manifest(kind: str, value: Any, version: int | None = None) -> dict[str, Any]:
    """Return a value as a manifest of a kind, in the usual version unless told otherwise."""
    written = MANIFESTS[kind][1][0] if version is None else version
    content = to_mapping(value)
    if written == _FIELDS_AND_ARROW and isinstance(value, MetadataBlock):
        content["event"] = _with_own_name(value.event, content["event"])
    return {"kind": kind, "version": written, "content": content}


def _with_own_name(event: object, mapping: dict[str, Any]) -> dict[str, Any]:
    """Return an event whose Arrow schema has the name that it got when `schema` became fields."""
    if not isinstance(event, SetDataSchema) or event.raw_arrow_schema is None:
        return mapping
    return {"rawArrowSchema" if key == "schema" and isinstance(of, str) else key: of
            for key, of in mapping.items()}  # fmt: skip


def to_yaml(kind: str, value: Any, version: int | None = None) -> str:
    """Return a manifest as YAML text."""
    from odfbuild.odf.manifest.yaml import yaml_text

    return yaml_text(to_manifest(kind, value, version))


def _not_a_manifest() -> Problem:
    return Problem(
        path=(),
        code="wrong-type",
        what="a manifest is a mapping",
        why="it consists of kind, version and content",
        fix="begin with `kind: DatasetSnapshot`, `version: 1`, `content:`",
    )


def _unknown(key: object) -> Problem:
    return Problem(
        path=(str(key),),
        code="unknown-field",
        what=f"a manifest has no field {str(key)!r}",
        why="it consists of kind, version and content; the rest belongs into content",
        fix=name_advice(key, ("kind", "version", "content")),
    )


def _unknown_kind(kind: object) -> Problem:
    return Problem(
        path=("kind",),
        code="unknown-kind",
        what="the kind of the manifest is missing"
        if kind is None
        else f"no manifest is a {kind!r}",
        why=f"the kinds are {', '.join(MANIFESTS)}",
        fix="write `kind: DatasetSnapshot`" if kind is None else name_advice(kind, MANIFESTS),
    )


def _unsupported_version(kind: str, version: object, known: tuple[int, ...]) -> Problem:
    shown = " and ".join(map(str, known))
    return Problem(
        path=("version",),
        code="unsupported-version",
        what=f"{kind} says no version"
        if version is None
        else f"version {version!r} of {kind} is not supported",
        why=f"known: {shown}",
        fix=f"write `version: {known[0]}`",
    )


def _too_deep(path: Path) -> Problem:
    return Problem(
        path=path,
        code="too-deep",
        what="the value is nested too deeply to be read",
        why="types and attributes may be nested a few dozen levels deep",
        fix="flatten it",
    )
