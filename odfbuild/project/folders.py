"""The folders that definitions are in: `datasets` of the project file."""

from collections.abc import Callable
from pathlib import PurePosixPath

from odfbuild.project.fingerprint import PROJECT_FILE
from odfbuild.project.places import Path as Steps
from odfbuild.project.settings import SettingsReader, is_outside
from odfbuild.project.yaml import Value

__all__ = ["check_folders", "read_folders"]


def read_folders(reading: SettingsReader, value: Value) -> tuple[str, ...]:
    """Return the folders that are named, in their shortest form; they lie in the project."""
    if not isinstance(value, list) or not value:
        reading.refuse(
            ("datasets",),
            "'datasets' must be a list of folders",
            "definitions are looked for in them",
            "write: datasets: [datasets]",
        )
        return ()
    return tuple(
        str(PurePosixPath(reading.text(each, ("datasets", at), ".")))
        for at, each in enumerate(value)
        if _is_inside(reading, each, ("datasets", at))
    )


def check_folders(
    reading: SettingsReader, folders: tuple[str, ...], is_folder: Callable[[str], bool]
) -> None:
    """Refuse folders that are not there."""
    for folder in folders:
        if not is_folder(folder):
            reading.refuse(
                _place_of_folder(reading.value, folder),
                f"there is no folder '{folder}' in the project",
                "the definitions of datasets are looked for in it",
                f"make the folder, or correct `datasets` in {PROJECT_FILE}",
                code="no-folder",
            )


def _place_of_folder(value: Value, folder: str) -> Steps:
    written = value.get("datasets") if isinstance(value, dict) else None
    if not isinstance(written, list):
        return ()
    places = (at for at, each in enumerate(written) if str(PurePosixPath(str(each))) == folder)
    return ("datasets", next(places, 0))


def _is_inside(reading: SettingsReader, folder: Value, path: Steps) -> bool:
    if not isinstance(folder, str) or not is_outside(folder):
        return True
    reading.refuse(
        path,
        f"the folder '{folder}' is not inside the project",
        "a project must work on every machine that it is copied to",
        "give a path relative to odfbuild.yaml, without '..'",
    )
    return False
