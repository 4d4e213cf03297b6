"""YAML texts of manifests in all sorts of layouts, with comments: strategies."""

import json
from random import Random
from typing import Any

from hypothesis import strategies as st

from odfbuild.odf.manifest.yaml import yaml_text

__all__ = ["layouts", "manifests"]

_WORDS = st.text("abc xyz:#'\"-é*&!|>{}[],", min_size=1, max_size=12)
_KEYS = st.text("abcde", min_size=1, max_size=4)
_PROSE = st.text("ab \n#:", max_size=24)
_SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | _WORDS | _PROSE
_ANY = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)

_READ = st.fixed_dictionaries(
    {"kind": st.sampled_from(["Csv", "NdJson", "parquet"])},
    optional={"schema": st.lists(_WORDS, max_size=3), "header": st.booleans(), "odd": _ANY},
)
_SOURCE = st.fixed_dictionaries(
    {"kind": st.just("SetPollingSource"), "read": _READ},
    optional={
        "fetch": st.fixed_dictionaries({"path": _WORDS, "kind": st.just("FilesGlob")}),
        "merge": st.fixed_dictionaries({"primaryKey": st.lists(_KEYS), "kind": st.just("Ledger")}),
        "prepare": st.none(),
    },
)
_TRANSFORM = st.fixed_dictionaries(
    {
        "kind": st.just("SetTransform"),
        "transform": st.fixed_dictionaries(
            {"query": _PROSE, "engine": st.just("spark"), "kind": st.just("Sql")}
        ),
        "inputs": st.lists(
            st.fixed_dictionaries({"datasetRef": _KEYS}, optional={"alias": _KEYS}), max_size=3
        ),
    }
)
_INFO = st.fixed_dictionaries(
    {"kind": st.just("SetInfo")},
    optional={"keywords": st.lists(_WORDS), "description": _PROSE},
)
_CONTENT = st.fixed_dictionaries(
    {"name": _KEYS, "kind": st.sampled_from(["Root", "Derivative"])},
    optional={"metadata": st.lists(_SOURCE | _TRANSFORM | _INFO, max_size=3), "odd": _ANY},
)


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    """A manifest with its keys in any order, right or nearly so."""
    whole = {"kind": "DatasetSnapshot", "version": 1, "content": draw(_CONTENT)}
    shuffled: dict[str, Any] = _shuffled(Random(draw(st.integers(0, 2**32))), whole)
    return shuffled


@st.composite
def layouts(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> str:
    """The text of a file that has these documents; comments may end up in a text of lines."""
    documents = draw(st.lists(values, min_size=1, max_size=2))
    random = Random(draw(st.integers(0, 2**32)))
    writer = _Writer(random)
    parts = []
    for at, value in enumerate(documents):
        if at or random.random() < 0.5:
            parts.append("---" + writer.aside())
        parts += [*writer.notes(0), *writer.value(value, 0), *writer.notes(random.randint(0, 8))]
    text = "\n".join(parts) + random.choice(["", "\n", "\n\n\n", "  \n"])
    return random.choice([text, text.replace("\n", "\r\n")])


def _shuffled(random: Random, value: Any) -> Any:
    if isinstance(value, dict):
        keys = random.sample(list(value), len(value))
        return {key: _shuffled(random, value[key]) for key in keys}
    return [_shuffled(random, each) for each in value] if isinstance(value, list) else value


class _Writer:
    """Writes a value as lines, in a layout that is drawn."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0

    def chance(self, of: int) -> bool:
        return self.random.randint(1, of) == 1

    def note(self) -> str:
        self.count += 1
        return f"# {self.count}" + self.random.choice(["", " - a: 'b", " #", "  "])

    def notes(self, column: int) -> list[str]:
        """Comments and blank lines between two entries."""
        found = []
        while self.chance(4):
            shown = self.random.choice([column, column, self.random.randint(0, 8)])
            found.append(
                " " * shown + self.note() if self.chance(2) else " " * self.random.randint(0, 8)
            )
        return found

    def aside(self) -> str:
        return self.random.choice([" ", "   "]) + self.note() if self.chance(5) else ""

    def value(self, value: Any, column: int) -> list[str]:
        """Lines of a collection at a column; of a scalar or one in brackets, one to follow on."""
        if isinstance(value, dict) and value:
            return [line for key in value for line in self.entry(key, value[key], column)]
        if isinstance(value, list) and value:
            return [line for each in value for line in self.item(each, column)]
        return [" " * column + self.inline(value) + self.aside()]

    def entry(self, key: str, value: Any, column: int) -> list[str]:
        shown = self.random.choice([key, f"'{key}'", f'"{key}"'])
        begin = " " * column + shown + self.random.choice([":", " :"])
        return [*self.notes(column), *self.under(begin, value, column)]

    def item(self, value: Any, column: int) -> list[str]:
        begin = " " * column + "-"
        above = self.notes(column)
        if isinstance(value, dict | list) and value and self.chance(2):
            gap = self.random.randint(1, 3)
            first, *rest = self.beside(value, column + 1 + gap)
            return [*above, begin + " " * gap + first.strip(" "), *rest]
        return [*above, *self.under(begin, value, column)]

    def beside(self, value: Any, column: int) -> list[str]:
        """Lines of a block that starts behind a dash: no comment can be before its first."""
        lines = self.value(value, column)
        while not lines[0].strip(" ") or lines[0].lstrip(" ").startswith("#"):
            del lines[0]
        return lines

    def under(self, begin: str, value: Any, column: int) -> list[str]:
        if isinstance(value, dict | list) and value and not self.chance(6):
            same = isinstance(value, list) and begin[-1] == ":" and self.chance(3)
            deeper = column if same else column + self.random.randint(1, 4)
            return [begin + self.aside(), *self.notes(deeper), *self.value(value, deeper)]
        if isinstance(value, str) and "\n" in value and value.strip() and self.chance(2):
            return self.literal(begin, value, column)
        if value is None and self.chance(2):
            return [begin + self.aside()]
        if isinstance(value, str) and self.chance(4):
            return self.broken(begin, value, column)
        gap = self.random.choice([" ", "  "])
        if self.chance(8):
            below = [*self.notes(column + 2), " " * (column + 1) + self.inline(value)]
            return [begin + self.aside(), *below]
        return [begin + gap + self.inline(value) + self.aside()]

    def literal(self, begin: str, value: str, column: int) -> list[str]:
        body = value.rstrip("\n")
        tail = value[len(body) :]
        deeper = self.random.randint(1, 3)
        sign = {"": "-", "\n": ""}.get(tail, "+")
        if body.startswith(("\n", " ")) or self.chance(4):
            sign = f"{deeper}{sign}"
        lines = [" " * (column + deeper) + each if each else "" for each in body.split("\n")]
        return [f"{begin} |{sign}{self.aside()}", *lines, *[""] * (len(tail) - 1)]

    def broken(self, begin: str, value: str, column: int) -> list[str]:
        """A text in double quotes over several lines."""
        at = self.random.randint(0, len(value))
        halves = [json.dumps(half)[1:-1] for half in (value[:at], value[at:])]
        return [f'{begin} "{halves[0]}\\', " " * (column + 1) + "\\" * 0 + self.rest(halves[1])]

    def rest(self, half: str) -> str:
        """The second half of a broken text; a blank at its start has to be escaped."""
        return ("\\" + half if half.startswith(" ") else half) + '"' + self.aside()

    def inline(self, value: Any) -> str:
        """A value in one line."""
        space = self.random.choice(["", " "])
        if isinstance(value, dict):
            parts = [f"{key}: {self.inline(each)}" for key, each in value.items()]
            return f"{{{space}{', '.join(parts)}{space}}}"
        if isinstance(value, list):
            return f"[{space}{f',{space}'.join(self.inline(each) for each in value)}{space}]"
        if isinstance(value, str):
            return json.dumps(value) if self.chance(3) or "\n" in value else _bare(value)
        return yaml_text(value).strip("\n")


def _bare(value: str) -> str:
    shown = yaml_text(value).removesuffix("\n")
    return json.dumps(value) if set(shown) & set(",[]{}") else shown
