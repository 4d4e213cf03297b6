"""Cluster properties: a file of the user, which masters and workers may read as well.

It is a file of Spark properties, for its owner alone: `spark-cluster.conf` in the user's folder of
settings, or what ODFBUILD_SPARK_CLUSTER names.  No project names it or holds it.  It has the secret
of a standalone cluster, and what a cluster of another kind has to know, such as the image of its
executors.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.spark.settings import FIXED
from odfbuild.host.files import read_regular
from odfbuild.host.user_folders import config_folder

VARIABLE = "ODFBUILD_SPARK_CLUSTER"
SECRET = "spark.authenticate.secret"  # noqa: S105 - the name of a property
CONNECT_TOKEN = "spark.connect.authenticate.token"  # noqa: S105 - the name of a property
_TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the one that Spark reads, too
_FILE = "spark-cluster.conf"
_FORM = re.compile(r"[A-Za-z0-9+/=_.-]{16,}")
_LINE = re.compile(r"\s*([^\s=:#!][^\s=:]*)(?:\s*[=:]\s*|\s+)(\S.*?)\s*")
_NAME = re.compile(r"spark\.[A-Za-z0-9_.-]{1,200}")
_MOST = 1 << 16
_CLOSING = ("spark.authenticate", "spark.network.crypto.enabled")


class ClusterSecretError(EngineFailedError):
    """The secret file of a cluster cannot be used."""

    code = "cluster-secret"


class ClusterPropertyError(EngineFailedError):
    """The properties file of a cluster sets a property that is not permitted."""

    code = "cluster-property"


def properties_file(env: Mapping[str, str] = os.environ) -> Path | None:
    """Return where the properties are looked for."""
    if given := env.get(VARIABLE):
        return Path(given)
    folder = config_folder(env)
    return None if folder is None else folder / _FILE


def cluster_secret(env: Mapping[str, str] = os.environ) -> str | None:
    """Return the secret; None where there is no file of one.  Raises ClusterSecretError."""
    found = _read(env)
    if found is None:
        return None
    path, lines = found
    secret = dict(lines).get(SECRET, "")
    if not _FORM.fullmatch(secret):
        raise _refusal(path, f"it has no line `{SECRET} ...` with 16 letters and digits or more")
    return secret


def connect_token(env: Mapping[str, str] = os.environ) -> str | None:
    """Return the token for a server of Spark Connect, of the file or else of the environment.

    None where there is none.  Raises ClusterSecretError.
    """
    path, lines = _read(env) or (None, ())
    token = dict(lines).get(CONNECT_TOKEN) or env.get(_TOKEN_VARIABLE)
    if token is not None and not _FORM.fullmatch(token):
        where = f"in {path}" if CONNECT_TOKEN in dict(lines) else f"in {_TOKEN_VARIABLE}"
        raise ClusterSecretError(
            what=f"the token of Spark Connect {where} cannot be used",
            why="it must have 16 letters and digits or more, as it lets in whoever has it",
            fix="give the server and this file a longer one: openssl rand -hex 32",
        )
    return token


def cluster_properties(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return all properties but the secret and the token; none where there is no file.

    Raises ClusterPropertyError for those that decide what queries mean or where Spark runs, and
    ClusterSecretError for a file that others could have read.
    """
    found = _read(env)
    if found is None:
        return {}
    path, lines = found
    known = {name: value for name, value in lines if name not in {SECRET, CONNECT_TOKEN, *_CLOSING}}
    for name, value in known.items():
        if not _NAME.fullmatch(name):
            raise _not_set(path, name, "it is no property of Spark, whose names begin with spark.")
        if is_fixed(name):
            raise _not_set(path, name, "odfbuild sets it itself: results depend on it")
        if not value.isprintable():
            raise _not_set(path, name, "its value has control characters")
    for name in _CLOSING:
        if dict(lines).get(name, "true") != "true":
            raise _not_set(path, name, "connections of a cluster must be authenticated")
    return known


def is_fixed(name: str) -> bool:
    """Tell whether a setting is one that nobody else may give."""
    return name in FIXED or name.startswith("spark.sql.")


def _read(env: Mapping[str, str]) -> tuple[Path, tuple[tuple[str, str], ...]] | None:
    """Return the lines of the file, None where there is none.  Raises ClusterSecretError."""
    path = properties_file(env)
    if path is None:
        return None
    try:
        data = read_regular(path, _MOST)
        mode = path.stat().st_mode
    except FileNotFoundError:
        if env.get(VARIABLE):
            raise _refusal(path, "there is no such file") from None
        return None
    except OSError as error:
        raise _refusal(path, (error.strerror or str(error)).lower()) from None
    if mode & 0o077:
        raise _refusal(path, f"others may use it (mode {mode & 0o777:o})")
    return path, tuple(_lines(data.decode("utf-8", "replace")))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if (found := _LINE.fullmatch(line)) is not None:
            yield found[1], found[2]


def _refusal(path: Path, why: str) -> ClusterSecretError:
    return ClusterSecretError(
        what=f"the secret of the cluster cannot be read from {path}: {why}",
        why="whoever has it can run programs on the cluster, and on this machine",
        fix=f"create the file again as docs/clusters.md shows, with mode 0600; {VARIABLE} can "
        "name another one",
    )


def _not_set(path: Path, name: str, why: str) -> ClusterPropertyError:
    return ClusterPropertyError(
        what=f"{path} sets {name}",
        why=why,
        fix="remove the line from the file; docs/clusters.md lists what is permitted",
    )
