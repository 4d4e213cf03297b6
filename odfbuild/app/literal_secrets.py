"""Credentials that stand in definitions: a chain would keep them for good, for all to see."""

from collections.abc import Iterator
from dataclasses import replace

from odfbuild.app.sources import polling_of
from odfbuild.errors import Diagnostic, Level
from odfbuild.odf.events import FetchStepMqtt, FetchStepUrl
from odfbuild.planner.declared import Declared
from odfbuild.redaction import header_has_secret, secret_parts

__all__ = ["literal_secrets"]


def literal_secrets(each: Declared, level: Level) -> Iterator[Diagnostic]:
    """Yield a finding for each credential in the source of a dataset; none shows its line."""
    source = polling_of(each)
    if source is None:
        return
    at = each.snapshot.metadata.index(source)
    fetch = source.fetch
    if isinstance(fetch, FetchStepUrl):
        if any(secret_parts(fetch.url)):
            yield _found(each, ("metadata", at, "fetch", "url"), "the address", level)
        for n, header in enumerate(fetch.headers or ()):
            if header_has_secret(header.name, header.value):
                path = ("metadata", at, "fetch", "headers", n, "value")
                yield _found(each, path, f"the header {header.name}", level)
    elif isinstance(fetch, FetchStepMqtt) and fetch.password and "${{" not in fetch.password:
        yield _found(each, ("metadata", at, "fetch", "password"), "the source", level)


def _found(each: Declared, path: tuple[str | int, ...], where: str, level: Level) -> Diagnostic:
    return Diagnostic(
        code="literal-secret",
        what=f"{where} of {each.alias} holds a credential, or what looks like one",
        why="the block of the definition keeps it for good, and whoever reads the chain has it",
        fix="write ${{ env.NAME }} in its place and set NAME where data is fetched; if it is no "
        "secret, a policy may say: literal_secrets: true",
        span=replace(each.span(path), excerpt=None),
        level=level,
    )
