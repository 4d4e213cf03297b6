"""Problems of a manifest, all of them, each with its path."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from odfbuild.errors import Diagnostic, ProtocolError
from odfbuild.values import dataclass

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, at a path of keys and indexes."""

    path: Path
    code: str
    what: str
    why: str
    fix: str

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.what}" if self.path else self.what


class ManifestErrors(ProtocolError):
    """A manifest or a part of one does not conform to the specification."""

    code = "manifest"

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{first}{more}", first.why, first.fix)
        self.problems = tuple(problems)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return tuple(
            Diagnostic(code=problem.code, what=str(problem), why=problem.why, fix=problem.fix)
            for problem in self.problems
        )


def path_text(path: Path) -> str:
    """Return a path as people write it: `metadata[2].read.schema`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def name_advice(wrong: object, known: Iterable[str]) -> str:
    """Return advice for a name that is not known: the one most like it, or all of them."""
    from difflib import get_close_matches

    names = list(known)
    folded = {name.lower(): name for name in names}
    found = get_close_matches(str(wrong).lower().replace("_", ""), folded, n=1)
    if found:
        return f"did you mean {folded[found[0]]!r}?"
    return f"use one of: {', '.join(names)}" if names else "remove it"
