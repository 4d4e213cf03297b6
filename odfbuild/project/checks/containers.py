"""Checks of a source that is a container: image, program, arguments and variables."""

import re
from collections import Counter

from odfbuild.odf.events import FetchStepContainer
from odfbuild.project.checks.findings import Findings
from odfbuild.project.yaml.places import KeyPath

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_OURS = frozenset(
    {"ODF_ETAG", "ODF_LAST_MODIFIED", "ODF_NEW_ETAG_PATH", "ODF_NEW_LAST_MODIFIED_PATH"}
    | {"ODF_NEW_HAS_MORE_DATA_PATH"}
)


def check_container(fetch: FetchStepContainer, path: KeyPath, findings: Findings) -> None:
    """Check that a container can be run as it is described; what it does cannot be known."""
    _check_image(fetch.image, (*path, "image"), findings)
    if fetch.command is not None and (not fetch.command or not fetch.command[0].strip()):
        _refuse(
            (*path, "command"),
            "the command has no program",
            "without `command` the entry point of the image is run",
            "name the program, or omit `command`",
            findings,
        )
    for key, items in (("command", fetch.command or ()), ("args", fetch.args or ())):
        for at, item in enumerate(items):
            if "\0" in item:
                _refuse(
                    (*path, key, at),
                    "the item holds a character of code 0",
                    "no argument of a program may have one",
                    "remove it",
                    findings,
                )
    _check_variables(fetch, path, findings)


def _check_image(image: str, path: KeyPath, findings: Findings) -> None:
    name = image.strip()
    if not name or name.startswith("-") or (" " in name and "${{" not in name):
        _refuse(
            path,
            f"'{image}' is not an image",
            "an image is a name with its registry and a tag or digest",
            "write for example ghcr.io/owner/fetcher@sha256:...",
            findings,
        )
    elif "@" not in name and "${{" not in name:
        findings.warn(
            "image-not-pinned",
            path,
            f"the image {name} is named by a tag, which can refer to another image later",
            "the publisher can change what a tag refers to",
            "pin it, name@sha256:...; cache/fetch/*/container.json has the digest that ran last",
        )


def _check_variables(fetch: FetchStepContainer, path: KeyPath, findings: Findings) -> None:
    variables = fetch.env or ()
    seen = Counter(each.name for each in variables)
    for at, each in enumerate(variables):
        here: KeyPath = (*path, "env", at, "name")
        if not _NAME.fullmatch(each.name):
            _refuse(
                here,
                f"'{each.name}' is not a name for a variable",
                "it is letters, digits and `_`, not starting with a digit",
                "rename it",
                findings,
            )
        elif each.name in _OURS:
            _refuse(
                here,
                f"the variable {each.name} is set for every container",
                "it holds what is known of the source, or where to write new data",
                "leave it out",
                findings,
            )
        elif seen[each.name] > 1:
            _refuse(
                here,
                f"the variable {each.name} is given {seen[each.name]} times",
                "it can have one value only",
                "keep one of them",
                findings,
            )


def _refuse(path: KeyPath, what: str, why: str, fix: str, findings: Findings) -> None:
    findings.refuse("container-source", path, what, why, fix)
