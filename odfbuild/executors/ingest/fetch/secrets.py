"""Credentials of a source, which messages about its data must not show.

A server receives them, and may return them: in an error, in the name of a column, in a cell.
"""

from collections.abc import Iterator, Mapping

from odfbuild.errors import OdfBuildError
from odfbuild.executors.ingest.fetch.request import url_secrets
from odfbuild.executors.ingest.fetch.substitute import substitute_url, variables
from odfbuild.odf.events import EnvVar
from odfbuild.odf.record import Record


def secrets_of(definition: object, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the credentials of a source, or of several, with its templates filled from `env`.

    They are the values that templates and containers use, literal headers and passwords, and those
    in URLs.
    """
    found: set[str] = set()
    for key, text in texts_of(definition):
        found |= {env[name] for name in variables(text) if name in env}
        if key in ("value", "password") and "${{" not in text:
            found |= {text, text.partition(" ")[2]}  # of a header, also without its scheme
        if key == "taken" and text in env:
            found.add(env[text])
        if "://" in text:
            found |= {part for url in _fill_templates(text, env) for part in url_secrets(url)}
    return tuple(found - {""})


def _fill_templates(url: str, env: Mapping[str, str]) -> Iterator[str]:
    """Yield a URL as it is written, if that has no templates, and as it is sent."""
    if "${{" not in url:
        yield url
        return
    try:
        yield substitute_url(url, env)
    except OdfBuildError:
        return


def texts_of(of: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in an event, and the name of the field that it is in."""
    if isinstance(of, str):
        yield key, of
    elif isinstance(of, tuple):
        for each in of:
            yield from texts_of(each, key)
    elif isinstance(of, EnvVar) and of.value is None:
        yield "taken", of.name
    elif isinstance(of, Record):
        for name in of.__slots__:
            yield from texts_of(getattr(of, name), name)
