"""Parser of the selector language: a text into a tree.  Pure.

    selector     = union / [union] "--exclude" union
    union        = intersection (space intersection)*
    intersection = term ("," term)*
    term         = [[n] "+"] atom ["+" [n]]  /  "@" atom
    atom         = name / glob / method ":" value

A value or name with spaces or commas in it is put in quotes: `file:"a b.yaml"`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.refs import is_name
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.planner.select.tree import (
    AllOf,
    AnyOf,
    Atom,
    By,
    Expression,
    Glob,
    Method,
    NameSelector,
    Reach,
    Relatives,
    Selector,
    StateFlag,
    Subtraction,
    atoms,
)
from odfbuild.planner.select.url_schemes import SourceKind
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

_EXCLUDE = "--exclude"
_ORIGIN = "selector"
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+|["']""")
_PART = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,])*""")
_TERM = re.compile(r"(?:(?P<at>@)|(?P<up>[0-9]*)\+)?(?P<atom>.*?)(?P<down>\+[0-9]*)?", re.DOTALL)
_GLOB = re.compile(r"[*?\[]")
_METHOD = re.compile(r"(?P<method>[^:/.]*):(?P<value>.*)", re.DOTALL)


class SelectorError(ProjectErrors):
    """A selector is invalid, or names something that does not exist."""

    code = "selector"


def parse_selector(
    text: str, named: Mapping[str, str] | None = None, *, origin: str = _ORIGIN
) -> Selector:
    """Read a selector; `named` are those of the project, `origin` says where this one stands.

    Raises SelectorError with everything that is wrong with it and with those that it refers to.
    """
    reading = _SelectorReader(named or {})
    root = reading.selector(text, origin)
    if root is not None:
        reading.follow(root)
    if root is None or reading.found:
        raise SelectorError(reading.found)
    return Selector(root, {key: each for key, each in reading.known.items() if each is not None})


@dataclass(frozen=True, slots=True)
class _SelectorPiece:
    """A part of a selector: its text, where it starts, and the whole that it is of."""

    text: str
    start: int
    whole: str
    origin: str

    def part(self, start: int, stop: int) -> "_SelectorPiece":
        return _SelectorPiece(self.text[start:stop], self.start + start, self.whole, self.origin)

    def span(self) -> SourceSpan:
        before = self.whole[: self.start]
        line = before.count("\n")
        first = before.rfind("\n") + 1
        return SourceSpan(
            file=self.origin,
            line=line + 1,
            column=self.start - first + 1,
            length=max(1, len(self.text.split("\n")[0])),
            excerpt=self.whole.split("\n")[line],
        )


@dataclass(slots=True)
class _SelectorReader:
    named: Mapping[str, str]
    known: dict[str, Expression | None] = field(default_factory=dict)
    found: list[Diagnostic] = field(default_factory=list)

    def follow(self, expression: Expression) -> None:
        """Read the named selectors that an expression may mean, and what they may mean."""
        for atom in atoms(expression):
            name = _name_of(atom)
            if name is not None and name in self.named and name not in self.known:
                self.known[name] = None  # before it is read: it may lead back to itself
                self.known[name] = read = self.selector(
                    self.named[name], f"{_ORIGIN} {name!r} of odfbuild.yaml"
                )
                if read is not None:
                    self.follow(read)

    def selector(self, text: str, origin: str) -> Expression | None:
        words = [
            _SelectorPiece(word[0], word.start(), text, origin) for word in _WORD.finditer(text)
        ]
        at = next((n for n, word in enumerate(words) if word.text == _EXCLUDE), len(words))
        whole = _SelectorPiece(text, 0, text, origin)
        if at == len(words):
            return self.union(words, whole)
        base = self.union(words[:at], whole) if at else Glob("*", whole.span())
        excluded = self.union([w for w in words[at:] if w.text != _EXCLUDE], words[at])
        return None if base is None or excluded is None else Subtraction(base, excluded)

    def union(self, words: list[_SelectorPiece], around: _SelectorPiece) -> Expression | None:
        if not words:
            self.refuse(
                around,
                "nothing is selected here",
                "a selector has at least one part",
                "name a dataset; * is all of them",
            )
            return None
        parts = [self.intersection(word) for word in words]
        read = tuple(part for part in parts if part is not None)
        if len(read) < len(parts):
            return None
        return read[0] if len(read) == 1 else AnyOf(read)

    def intersection(self, word: _SelectorPiece) -> Expression | None:
        parts = [self.term(part) for part in _split(word)]
        read = tuple(part for part in parts if part is not None)
        if len(read) < len(parts):
            return None
        return read[0] if len(read) == 1 else AllOf(read, word.span())

    def term(self, piece: _SelectorPiece) -> Expression | None:
        found = _TERM.fullmatch(piece.text)
        if found is None or not piece.text:
            self.refuse(
                piece,
                "a part of the selector is empty",
                "a comma joins two parts that must both match, without spaces",
                "remove the comma, or write what else has to hold",
            )
            return None
        atom = self.atom(piece.part(*found.span("atom")))
        if atom is None:
            return None
        down = found["down"]
        if found["at"] is None:
            if found["up"] is None and down is None:
                return atom
            return Reach(atom, _hops(found["up"]), _hops(None if down is None else down[1:]))
        if down is not None:
            self.refuse(
                piece,
                "'@' and '+' do not go together",
                "@name already includes what is downstream, and all inputs of that",
                "omit one of the two",
            )
            return None
        return Relatives(atom)

    def atom(self, piece: _SelectorPiece) -> Atom | None:
        method = _METHOD.fullmatch(piece.text)
        if method is not None:
            return self.by(piece, method)
        text = _without_quotes(piece.text)
        if _GLOB.search(text):
            return Glob(text, piece.span())
        parts = text.split("/")
        if len(parts) > 2 or not all(map(is_name, parts)):
            self.refuse(piece, *_no_name(text))
            return None
        return NameSelector(text, piece.span())

    def by(self, piece: _SelectorPiece, found: re.Match[str]) -> By | None:
        word = found["method"]
        known = {each.value: each for each in Method}
        if word not in known:
            self.refuse(
                piece.part(*found.span("method")),
                f"{word!r} is nothing to select by",
                "before a colon stands what datasets are selected by",
                did_you_mean(word, known),
            )
            return None
        value = _without_quotes(found["value"])
        at = piece.part(*found.span("value"))
        if not value:
            self.refuse(
                piece,
                f"'{word}:' has no value",
                "it is compared with that of each dataset",
                f"write one behind the colon, without a space: {word}:VALUE",
            )
            return None
        return self.valued(known[word], value, at)

    def valued(self, method: Method, value: str, at: _SelectorPiece) -> By | None:
        choices = _CHOICES.get(method)
        if choices is not None:
            value = value.lower()
        elif method is Method.SELECTOR:
            choices = tuple(self.named)
        if choices is not None and value not in choices:
            what = (
                f"no selector is named {value!r}"
                if method is Method.SELECTOR
                else (f"{method.value}:{value} is not known")
            )
            fix = did_you_mean(value, choices) or "odfbuild.yaml has none under `selectors`"
            self.refuse(at, what, _WHY_CHOICES[method], fix)
            return None
        return By(method, value, at.span())

    def refuse(self, piece: _SelectorPiece, what: str, why: str, fix: str) -> None:
        self.found.append(
            Diagnostic(code="selector", what=what, why=why, fix=fix, span=piece.span())
        )


_CHOICES: Mapping[Method, tuple[str, ...]] = {
    Method.KIND: tuple(each.value.lower() for each in DatasetKind),
    Method.STATE: tuple(each.value for each in StateFlag),
    Method.CHANGE: tuple(each.value for each in ChangeClass),
    Method.SOURCE: tuple(each.value for each in SourceKind),
}
_WHY_CHOICES: Mapping[Method, str] = {
    Method.KIND: "a dataset is a root or a derivative",
    Method.STATE: "it is the state of a dataset relative to its chain",
    Method.CHANGE: "it is the class of the change that a plan holds",
    Method.SOURCE: "it says where the data of a root comes from",
    Method.SELECTOR: "named selectors are in odfbuild.yaml",
}


def _name_of(atom: Atom) -> str | None:
    """Return the named selector that an atom may mean."""
    match atom:
        case NameSelector(text):
            return text
        case By(Method.SELECTOR, value):
            return value
        case _:
            return None


def _split(word: _SelectorPiece) -> Iterator[_SelectorPiece]:
    at = 0
    while True:
        found = _PART.match(word.text, at)
        stop = at if found is None else found.end()
        yield word.part(at, stop)
        if stop == len(word.text):
            return
        at = stop + 1


def _hops(digits: str | None) -> int | None:
    """Return how far a plus sign reaches: None is no sign, nothing before it all the way."""
    if digits is None:
        return 0
    return int(digits) if digits else None


def _without_quotes(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text


def _no_name(text: str) -> tuple[str, str, str]:
    why = "names are letters, digits, inner dots and dashes, maybe after an account and a slash"
    if text.startswith("-"):
        return (
            f"{text!r} is no option of a selector",
            "--exclude is the only one",
            ("write --exclude and what to leave out at the end"),
        )
    if not text:
        return (
            "a '+' or '@' without a name",
            "it is written next to what it is about",
            ("remove the space: +name, name+, @name"),
        )
    return f"{text!r} is not the name of a dataset", why, "check the spelling"
