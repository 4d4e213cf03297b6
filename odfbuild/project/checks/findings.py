"""Findings: the problems of one manifest, each at its place."""

from odfbuild.errors import Diagnostic, Level
from odfbuild.project.yaml import Value
from odfbuild.project.yaml.places import KeyPath, PlaceFinder


class Findings:
    """Collects findings about one document; paths start at its top."""

    def __init__(self, value: Value, places: PlaceFinder) -> None:
        self.value = value
        self.places = places
        self.errors: list[Diagnostic] = []
        self.notes: list[Diagnostic] = []

    def refuse(
        self,
        code: str,
        path: KeyPath,
        what: str,
        why: str,
        fix: str,
        *,
        key: bool = False,
        part: tuple[str, int] | None = None,
    ) -> None:
        """Add an error at a value; at the key of an entry if `key`; or at a part of a text, given
        as the text and an offset in it.
        """
        if part is not None:
            span = self.places.inside(path, *part)
        else:
            span = self.places.key(path) if key else self.places.value(path)
        self.errors.append(Diagnostic(code=code, what=what, why=why, fix=fix, span=span))

    def warn(self, code: str, path: KeyPath, what: str, why: str, fix: str) -> None:
        """Add a warning at a value."""
        span = self.places.value(path)
        self.notes.append(
            Diagnostic(code=code, what=what, why=why, fix=fix, span=span, level=Level.WARNING)
        )

    def at(self, path: KeyPath) -> Value:
        """Return what the file says at a path, None if nothing."""
        value = self.value
        for step in path:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def written_key(self, path: KeyPath, *keys: str) -> tuple[str | int, ...]:
        """Return the path of the first of some keys that the file gives in a mapping."""
        given = self.at(path)
        known = next((key for key in keys if isinstance(given, dict) and key in given), keys[-1])
        return (*path, known)
