"""Take settings out of a document, noting what is wrong with them."""

from odfbuild.errors import Diagnostic
from odfbuild.planner.names import did_you_mean
from odfbuild.project.fingerprint import PROJECT_FILE
from odfbuild.project.places import Path
from odfbuild.project.yaml import Document, Value

__all__ = ["SettingsReader"]


class SettingsReader:
    """Takes values out of the document and collects what is wrong with them."""

    def __init__(self, document: Document) -> None:
        self.value = document.value
        self.places = document.places
        self.found: list[Diagnostic] = []

    def refuse(
        self, path: Path, what: str, why: str, fix: str, *, key: bool = False, code: str = "config"
    ) -> None:
        span = self.places.key(path) if key else self.places.value(path)
        self.found.append(Diagnostic(code=code, what=what, why=why, fix=fix, span=span))

    def mapping(
        self, value: Value, path: Path, allowed: tuple[str, ...], later: tuple[str, ...] = ()
    ) -> dict[str, Value]:
        """Return the entries of a mapping that are known; `later` names those still to come."""
        entries = self.any_mapping(value, path)
        for key in entries:
            if key in later:
                self._not_yet((*path, key))
            elif key not in allowed:
                self._unknown_key((*path, key), allowed)
        return {key: entry for key, entry in entries.items() if key in allowed}

    def any_mapping(self, value: Value, path: Path) -> dict[str, Value]:
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        self.refuse(
            path,
            f"{_called(path)} must be a mapping",
            "its settings have names",
            "write each as: key: value",
        )
        return {}

    def text(self, value: Value, path: Path, default: str) -> str:
        if isinstance(value, str) and value.strip():
            return value
        self.refuse(
            path,
            f"{_called(path)} must be a text",
            "it is read as a name or a place",
            "write one, in quotes if YAML takes it for something else",
        )
        return default

    def _not_yet(self, path: Path) -> None:
        self.refuse(
            path,
            f"'{path[-1]}' is not supported in this version of odfbuild",
            "it would be ignored, and the project would not do what it says",
            "remove it, or use a later version",
            key=True,
            code="config-unsupported",
        )

    def _unknown_key(self, path: Path, allowed: tuple[str, ...]) -> None:
        self.refuse(
            path,
            f"unknown key '{path[-1]}'",
            "a setting that is not known would be ignored without a word",
            did_you_mean(str(path[-1]), allowed),
            key=True,
        )


def _called(path: Path) -> str:
    if not path:
        return PROJECT_FILE
    return f"'{path[-1]}'" if isinstance(path[-1], str) else f"an entry of '{path[-2]}'"
