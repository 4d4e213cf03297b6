"""Archive of this package, which Python tasks on other machines import it from.

It is named after its content, so that one that is there is the same, and is never changed.
"""

import hashlib
import io
import os
import secrets
import zipfile
from pathlib import Path

_EPOCH = (1980, 1, 1, 0, 0, 0)


def package_folder() -> Path:
    """Return the folder of this package."""
    return Path(__file__).resolve().parents[4]


def package_archive(folder: Path) -> Path:
    """Return the archive in a folder, made where it is not there yet."""
    content = _content(package_folder())
    name = f"odfbuild-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{secrets.token_hex(8)}.partial"
        partial.write_bytes(content)
        partial.rename(path)
    return path


def _content(package: Path) -> bytes:
    """Return the bytes of the archive: the same for the same files, whenever they were written."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(_files(package)):
            name = path.relative_to(package.parent).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes())
    return written.getvalue()


def _files(package: Path) -> list[Path]:
    found = []
    for folder, folders, names in os.walk(package):
        folders[:] = [each for each in folders if each != "__pycache__"]
        found += [Path(folder) / name for name in names if not name.endswith((".pyc", ".so"))]
    return found
