"""Substitution of `${{ ... }}` in sources by the caller's variables; values are never logged.

A template holds alternatives from left to right, `${{ env.NAME || 'text' || 42 }}`; the first
that resolves wins.  `env.NAME` names a variable (letters, digits, `_`, `-`), a number stands for
itself, text in single quotes for its trimmed inside (no `}` and no `'`).  Each template is
filled once: a value that itself looks like a template stays text, so that one variable cannot be
used to read another.
"""

import re
from collections.abc import Mapping

from odfbuild.errors import EngineError
from odfbuild.odf.events import FetchStepContainer, FetchStepUrl

_TEMPLATE = re.compile(r"\$\{\{([^}]*)\}\}")
_VARIABLE = re.compile(r"env\.([A-Za-z0-9_-]+)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)
_RESERVED = re.compile(r"[/?#@:\[\]\\\s\x00-\x1f]")
_TEXT = re.compile(r"'([^'}]*)'")


class TemplateError(EngineError):
    """A `${{ ... }}` template is malformed, or none of its alternatives has a value."""

    code = "template"


def substitute(text: str, env: Mapping[str, str]) -> str:
    """Return the text with every template filled from `env`.

    Raises TemplateError that names the template, never a value.
    """
    return _TEMPLATE.sub(lambda found: _fill(found.group(1).strip(), env), text)


def substitute_url(url: str, env: Mapping[str, str]) -> str:
    """Return a url with every template filled.

    In user and password, what would end them is escaped: a password with a `/` or an `@` must not
    make another host of what follows.  Elsewhere values are put in as they are, so that a variable
    can hold a whole url.  Raises TemplateError.
    """
    empty = _TEMPLATE.sub(lambda found: "x" * len(found.group()), url)  # same length, no `/` or `@`
    start = empty.find("://") + 3
    host = empty.find("/", start)
    end = empty.rfind("@", start, len(empty) if host < 0 else host)
    if start < 3 or end < 0:
        return substitute(url, env)
    user = _TEMPLATE.sub(
        lambda found: _RESERVED.sub(_escaped, _fill(found.group(1).strip(), env)), url[start:end]
    )
    return substitute(url[:start], env) + user + substitute(url[end:], env)


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode("utf-8", "surrogateescape"))


def variables(text: str) -> tuple[str, ...]:
    """Return the names of the variables that the templates of a text may read, in order."""
    inner = (found.group(1) for found in _TEMPLATE.finditer(text))
    names = (_VARIABLE.fullmatch(token) for part in inner for token in _alternatives(part))
    return tuple(dict.fromkeys(name.group(1) for name in names if name))


def used_by(step: FetchStepUrl | FetchStepContainer) -> tuple[str, ...]:
    """Return the names of the variables that a source uses, in order."""
    if isinstance(step, FetchStepUrl):
        texts = [step.url, *(header.value for header in step.headers or ())]
        taken: list[str] = []
    else:
        given = step.env or ()
        texts = [step.image, *(step.args or ()), *(each.value or "" for each in given)]
        taken = [each.name for each in given if each.value is None]
    return tuple(dict.fromkeys([*(name for text in texts for name in variables(text)), *taken]))


def _fill(inner: str, env: Mapping[str, str]) -> str:
    for token in _alternatives(inner):
        value = _value(token, env)
        if value is not None:
            return value
    raise TemplateError(
        what=f"no value for the template '{inner}'",
        why="none of its alternatives is set",
        fix=f"set {_missing(inner)}, or give a default: ${{{{ {inner} || 'default' }}}}",
    )


def _alternatives(inner: str) -> list[str]:
    return [token.strip() for token in inner.split("||")]


def _value(token: str, env: Mapping[str, str]) -> str | None:
    if variable := _VARIABLE.fullmatch(token):
        return env.get(variable.group(1))
    if text := _TEXT.fullmatch(token):
        return text.group(1).strip()
    if _NUMBER.fullmatch(token):
        return token
    raise TemplateError(
        what=f"invalid pattern '{token}' in a template",
        why="an alternative is env.NAME, a number, or text in single quotes",
        fix=f"write env.{token} for a variable or '{token}' for the text itself"
        if token.isalnum()
        else "correct the template",
    )


def _missing(inner: str) -> str:
    names = [name.group(1) for t in _alternatives(inner) if (name := _VARIABLE.fullmatch(t))]
    return " or ".join(names) + " in the environment"
