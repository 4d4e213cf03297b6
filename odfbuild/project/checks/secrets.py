"""Credentials in definitions: a chain would keep them for good, for all to see."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from odfbuild.errors import Diagnostic, Level
from odfbuild.odf.events import (
    FetchStep,
    FetchStepContainer,
    FetchStepMqtt,
    FetchStepUrl,
    PrepStep,
    PrepStepPipe,
)
from odfbuild.planner.declared import Declared, polling_of
from odfbuild.texts.redaction import (
    header_has_secret,
    secret_parts,
    secret_words,
    variable_has_secret,
)

_Place: TypeAlias = tuple[tuple[str | int, ...], str]
"""Where in a source a credential stands, and what is said to hold it."""


def literal_secrets(each: Declared, level: Level) -> Iterator[Diagnostic]:
    """Yield a finding for each credential in the source of a dataset; none shows its line."""
    source = polling_of(each)
    if source is None:
        return
    at = each.snapshot.metadata.index(source)
    for path, where in (*_of_fetch(source.fetch), *_of_programs(source.prepare or ())):
        yield _finding(each, ("metadata", at, *path), where, level)


def _of_fetch(fetch: FetchStep) -> Iterator[_Place]:
    match fetch:
        case FetchStepUrl():
            if any(secret_parts(fetch.url)):
                yield ("fetch", "url"), "the address"
            for n, header in enumerate(fetch.headers or ()):
                if header_has_secret(header.name, header.value):
                    yield ("fetch", "headers", n, "value"), f"the header {header.name}"
        case FetchStepMqtt(password=str(password)) if password and "${{" not in password:
            yield ("fetch", "password"), "the source"
        case FetchStepContainer():
            for n, variable in enumerate(fetch.env or ()):
                if variable_has_secret(variable.name, variable.value or ""):
                    yield ("fetch", "env", n, "value"), f"the variable {variable.name}"
            for key, words in (("command", fetch.command), ("args", fetch.args)):
                yield from ((("fetch", key, n), "the container") for n in secret_words(words or ()))


def _of_programs(steps: Sequence[PrepStep]) -> Iterator[_Place]:
    for n, step in enumerate(steps):
        if isinstance(step, PrepStepPipe):
            for word in secret_words(step.command):
                yield ("prepare", n, "command", word), "a program"


def _finding(each: Declared, path: tuple[str | int, ...], where: str, level: Level) -> Diagnostic:
    return Diagnostic(
        code="literal-secret",
        what=f"{where} of {each.alias} holds a credential, or something like one",
        why="the block of the definition stores it permanently, and everyone who reads the chain "
        "has it",
        fix="write ${{ env.NAME }} in its place and set NAME where data is fetched; if it is no "
        "secret, a policy may say: literal_secrets: true",
        span=replace(each.span(path), excerpt=None),
        level=level,
    )
