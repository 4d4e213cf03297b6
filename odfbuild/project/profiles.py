"""Profiles: targets of one machine or person, on top of the project's; they never hold secrets.

`profiles.yaml` in the user's folder of settings counts for every project, the one beside
odfbuild.yaml for that project; where both set a key of a target, the latter wins.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.project.places import Path as Steps
from odfbuild.project.settings import SettingsReader
from odfbuild.project.targets import SparkOptions, Target, add_targets
from odfbuild.project.texts import refuse_link_out
from odfbuild.project.yaml import Document, Value, decode, read_documents
from odfbuild.regular_files import MOST, read_regular

__all__ = ["PROFILES", "Profile", "add_profile", "looks_secret", "read_profiles", "user_folder"]

PROFILES = "profiles.yaml"

_WORDS = r"passwords?|passwd|pwd|passphrases?|secrets?|tokens?|credentials?|keys?"
_SECRET = re.compile(rf"(?:^|[_.\-])(?:{_WORDS})(?=$|[_.\-])|api_?keys?$", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LINE_KEY = re.compile(r"""([\w.\-]+)["']?\s*:""")


@dataclass(frozen=True, slots=True)
class Profile:
    """The text of one profiles.yaml; `file` is how messages name it."""

    file: str
    text: str


def user_folder(env: Mapping[str, str]) -> Path | None:
    """Return the user's folder of settings: in XDG_CONFIG_HOME, or in ~/.config."""
    if base := env.get("XDG_CONFIG_HOME"):
        return Path(base) / "odfbuild"
    return Path(env["HOME"]) / ".config" / "odfbuild" if env.get("HOME") else None


def read_profiles(root: Path, user: Path | None) -> tuple[Profile, ...]:
    """Return the profiles that there are, that of the user first; ProjectErrors of unreadable."""
    refuse_link_out(root, PROFILES)
    places = [] if user is None else [(user / PROFILES, str(user / PROFILES))]
    found = (_read(path, name) for path, name in (*places, (root / PROFILES, PROFILES)))
    return tuple(each for each in found if each is not None)


def looks_secret(name: str) -> bool:
    """Tell whether something of that name is likely to be a secret."""
    return _SECRET.search(_CAMEL.sub("_", name)) is not None


def add_profile(
    profile: Profile, targets: Mapping[str, Target], default: SparkOptions
) -> tuple[dict[str, Target], list[Diagnostic]]:
    """Return targets with those of a profile on top, and what is wrong with the profile."""
    try:
        documents = read_documents(profile.text, profile.file)
    except ProjectErrors as error:
        return dict(targets), [_without_secret(each) for each in error.found]
    known, found = dict(targets), list[Diagnostic]()
    if len(documents) > 1:
        found.append(_more_than_one(documents[1], len(documents)))
    for document in documents[:1]:
        reading = SettingsReader(document)
        known = _targets(reading, document, known, default)
        found += sorted(reading.found, key=_by_place)
    return known, [_without_secret(each) for each in found]


def _by_place(found: Diagnostic) -> tuple[int, int]:
    return (0, 0) if found.span is None else (found.span.line, found.span.column)


def _read(path: Path, name: str) -> Profile | None:
    try:
        return Profile(name, decode(read_regular(path, MOST), name))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        problem = Diagnostic(
            code="unreadable-file",
            what=f"the file cannot be read: {error.strerror or error}",
            why="the targets that it holds would be missing",
            fix="check its access rights, or remove it",
            span=SourceSpan(file=name, line=1),
        )
        raise ProjectErrors([problem]) from None


def _more_than_one(document: Document, count: int) -> Diagnostic:
    name = document.places.source.file
    return Diagnostic(
        code="config",
        what=f"{name} holds {count} documents",
        why="it is one mapping",
        fix="remove what follows the second ---",
        span=document.places.value(()),
    )


def _targets(
    reading: SettingsReader, document: Document, known: dict[str, Target], default: SparkOptions
) -> dict[str, Target]:
    secrets = list(_secrets(document.value, ()))
    for path in secrets:
        reading.refuse(
            path,
            f"'{path[-1]}' looks like a secret",
            "profiles are copied, and printed when something is wrong with them",
            "keep it in the environment; a manifest may say ${{ env.NAME }}",
            key=True,
            code="secret",
        )
    cleaned = _without(document.value, frozenset(secrets), ())
    top = reading.section(cleaned, (), ("targets",))
    return add_targets(reading, top.entries.get("targets"), known, default)


def _secrets(value: Value, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of keys that look like secrets; names of targets are free."""
    for key, entry in value.items() if isinstance(value, dict) else ():
        inner = (*path, key)
        if looks_secret(key) and path != ("targets",):
            yield inner
        else:
            yield from _secrets(entry, inner)


def _without(value: Value, left_out: frozenset[Steps], path: tuple[str, ...]) -> Value:
    if not isinstance(value, dict):
        return value
    return {
        key: _without(entry, left_out, (*path, key))
        for key, entry in value.items()
        if (*path, key) not in left_out
    }


def _without_secret(found: Diagnostic) -> Diagnostic:
    """Leave out the line that a finding is about if a secret may stand in it."""
    line = None if found.span is None else found.span.excerpt
    if found.span is None or line is None:
        return found
    if not any(looks_secret(key) for key in _LINE_KEY.findall(line)):
        return found
    return replace(found, span=replace(found.span, excerpt=None))
