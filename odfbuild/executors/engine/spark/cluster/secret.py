"""Cluster secret: in a file of the user, which masters and workers read as well.

It is a file of Spark properties, for its owner alone: `spark-cluster.conf` in the user's folder of
settings, or what ODFBUILD_SPARK_CLUSTER names.  No project names it or holds it.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from odfbuild.errors import EngineFailedError
from odfbuild.host.files import read_regular
from odfbuild.host.user_folders import config_folder

VARIABLE = "ODFBUILD_SPARK_CLUSTER"
SECRET = "spark.authenticate.secret"  # noqa: S105 - the name of a property
_FILE = "spark-cluster.conf"
_LINE = re.compile(rf"^\s*{re.escape(SECRET)}[\s=:]+(\S+)\s*$", re.MULTILINE)
_FORM = re.compile(r"[A-Za-z0-9+/=_.-]{16,}")


class ClusterSecretError(EngineFailedError):
    """The file with the secret of a cluster cannot be used."""

    code = "cluster-secret"


def secret_file(env: Mapping[str, str] = os.environ) -> Path | None:
    """Return where the secret is looked for."""
    if given := env.get(VARIABLE):
        return Path(given)
    folder = config_folder(env)
    return None if folder is None else folder / _FILE


def cluster_secret(env: Mapping[str, str] = os.environ) -> str | None:
    """Return the secret; None where there is no file of one.  Raises ClusterSecretError."""
    path = secret_file(env)
    if path is None:
        return None
    try:
        data = read_regular(path)
        mode = path.stat().st_mode
    except FileNotFoundError:
        if env.get(VARIABLE):
            raise _refused(path, "there is no such file") from None
        return None
    except OSError as error:
        raise _refused(path, (error.strerror or str(error)).lower()) from None
    if mode & 0o077:
        raise _refused(path, f"others may use it (mode {mode & 0o777:o})")
    found = _LINE.search(data.decode("utf-8", "replace"))
    if found is None or not _FORM.fullmatch(found[1]):
        raise _refused(path, f"it has no line `{SECRET} ...` with 16 letters and digits or more")
    return found[1]


def _refused(path: Path, why: str) -> ClusterSecretError:
    return ClusterSecretError(
        what=f"the secret of the cluster cannot be read from {path}: {why}",
        why="who knows it can run programs on the cluster, and on this machine",
        fix="make the file anew as docs/concepts.md shows, with mode 0600; "
        f"{VARIABLE} names another",
    )
