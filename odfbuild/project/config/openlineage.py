"""Settings of OpenLineage: the `openlineage` setting, and environment variables in its place."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from odfbuild.project.config.settings import Section, SettingsReader
from odfbuild.project.yaml import Value
from odfbuild.values import dataclass

_KEYS = ("url", "endpoint", "token_env", "namespace")
_PATH = "api/v1/lineage"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLineageSettings:
    """The setting: a server, the path of its lineage, and the variable that holds its token.

    `namespace` is that of jobs, and of datasets without a home; by default the project's name.
    """

    url: str | None = None
    endpoint: str = _PATH
    token_env: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where events are posted, and the token that goes along; it is never printed."""

    url: str
    token: str | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"


def read_openlineage(reading: SettingsReader, value: Value) -> OpenLineageSettings:
    """Return what the setting says; by default nothing is sent."""
    section = reading.section(value, ("openlineage",), _KEYS)
    return OpenLineageSettings(
        url=_url(section),
        endpoint=section.text("endpoint") or _PATH,
        token_env=_token_env(section),
        namespace=section.text("namespace"),
    )


def endpoint_of(settings: OpenLineageSettings, env: Mapping[str, str]) -> Endpoint | None:
    """Return where events go, None if nowhere.

    OPENLINEAGE_URL stands for the setting, with OPENLINEAGE_ENDPOINT and OPENLINEAGE_API_KEY: a
    token goes to the server that it was given for, never to another one.
    """
    if env.get("OPENLINEAGE_DISABLED", "").strip().lower() in ("true", "1"):
        return None
    if url := env.get("OPENLINEAGE_URL", "").strip():
        path = env.get("OPENLINEAGE_ENDPOINT") or _PATH
        return Endpoint(_joined_url(url, path), env.get("OPENLINEAGE_API_KEY", "").strip() or None)
    if settings.url is None:
        return None
    token = "" if settings.token_env is None else env.get(settings.token_env, "").strip()
    return Endpoint(_joined_url(settings.url, settings.endpoint), token or None)


def _joined_url(url: str, path: str) -> str:
    return f"{url.rstrip('/')}/{path.lstrip('/')}"


def _url(section: Section) -> str | None:
    url = section.text("url")
    if url is None:
        return None
    if "@" in url:
        section.reading.refuse(
            section.at("url"),
            "'url' holds a user or a password",
            "everyone can read the project file",
            "remove it, and name the variable that holds a token: token_env: NAME",
            code="secret",
            hidden=True,
        )
    elif not _is_server(url):
        section.wrong(
            "url",
            "'url' is not the address of a server",
            "events are posted over HTTP",
            "write it like https://lineage.example.org, without '?' and '#'",
        )
    else:
        return url
    return None


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and not parts.query + parts.fragment
            and (parts.port is None or parts.port > 0)
            and not re.search(r"\s", url)
        )
    except ValueError:
        return False


def _token_env(section: Section) -> str | None:
    name = section.text("token_env")
    if name is not None and not _NAME.fullmatch(name):
        section.reading.refuse(
            section.at("token_env"),
            "'token_env' is not the name of a variable of the environment",
            "it names the variable that holds the token, never the token itself",
            "use letters, digits and '_', no digit first",
            hidden=True,
        )
        return None
    return name
