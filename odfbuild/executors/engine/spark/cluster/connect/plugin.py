"""Plugin for servers of Spark Connect: an archive of Java that their owners load."""

import hashlib
import io
import zipfile
from functools import lru_cache
from importlib.resources import files
from typing import Final

_FOLDER: Final = "odfbuild.executors.engine.spark.admission"
_CLASSES: Final = ("AdmissionPlugin.class", "PlanCensus.class")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_MANIFEST: Final = b"Manifest-Version: 1.0\r\n\r\n"
PLUGIN: Final = "odfbuild.AdmissionPlugin"
"""The class that a server names as its plugin of relations."""


def plugin_archive() -> bytes:
    """Return the bytes of the archive, the same each time."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", _EPOCH), _MANIFEST)
        for name in _CLASSES:
            archive.writestr(zipfile.ZipInfo(f"odfbuild/{name}", _EPOCH), _code(name))
    return written.getvalue()


@lru_cache(1)
def fingerprint() -> str:
    """Return the hash of the classes, which the plugin tells of those that are there."""
    return hashlib.sha256(b"".join(map(_code, _CLASSES))).hexdigest()


def _code(name: str) -> bytes:
    return (files(_FOLDER) / name).read_bytes()
