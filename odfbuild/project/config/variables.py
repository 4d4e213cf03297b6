"""Variables of a project: declared in odfbuild.yaml, given by --var and --vars-file.

A value is what YAML makes of it; a date stays the text that it is written as, such as 2024-01-31.
Later ones win: defaults, then files in their order, then single values in theirs.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from math import isfinite
from pathlib import Path

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.host.files import MOST, read_regular
from odfbuild.project.config.settings import Section, SettingsReader, parse_day
from odfbuild.project.yaml import Value, decode, read_documents, resolve_plain
from odfbuild.texts.redaction import excerpt
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

RESERVED = frozenset(
    {"each", "row", "env", "var", "vars", "py"}
    | {"loop", "self", "super", "varargs", "kwargs", "caller"}
    | {"true", "false", "none", "True", "False", "None", "not", "and", "or", "in", "is"}
    | {"if", "elif", "else", "for", "recursive", "import", "from", "as", "with", "without"}
)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEYS = ("type", "enum", "default")


class VariableType(Enum):
    """What a value may be."""

    STRING = "string"
    INT = "int"
    NUMBER = "number"
    BOOL = "bool"
    DATE = "date"
    LIST = "list"
    MAP = "map"

    def fits(self, value: Value) -> bool:
        """Tell whether a value is of this type; a whole number is a number, too."""
        match self:
            case VariableType.STRING:
                return isinstance(value, str)
            case VariableType.BOOL:
                return isinstance(value, bool)
            case VariableType.INT:
                return isinstance(value, int) and not isinstance(value, bool)
            case VariableType.NUMBER:
                return _is_number(value)
            case VariableType.DATE:
                return isinstance(value, str) and parse_day(value) is not None
            case VariableType.LIST:
                return isinstance(value, list)
            case VariableType.MAP:
                return isinstance(value, dict)


_FORMS = {
    VariableType.STRING: "write a text, in quotes if YAML would read another type",
    VariableType.INT: "write digits without a dot or quotes, such as 12",
    VariableType.NUMBER: "write a finite number without quotes, such as 1.5",
    VariableType.BOOL: "write true or false, without quotes",
    VariableType.DATE: "write year, month and day, such as 2024-01-31",
    VariableType.LIST: "write a list, such as [a, b]",
    VariableType.MAP: "write a mapping, such as {a: 1, b: 2}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable as declared; no default: it must be given.  No `enum`: any value of its type."""

    name: str
    type: VariableType
    default: Value = None
    enum: tuple[Value, ...] = ()
    span: SourceSpan


def is_word(name: str) -> bool:
    """Tell whether a template may use a text as a name of its own."""
    return _WORD.fullmatch(name) is not None and name not in RESERVED


def read_variables(reading: SettingsReader, value: Value) -> dict[str, Variable]:
    """Return the variables that `vars` declares."""
    found: dict[str, Variable] = {}
    for name, entry in reading.any_mapping(value, ("vars",)).items():
        if not is_word(name):
            reading.refuse(
                ("vars", name),
                f"'{name}' is not a name for a variable",
                "templates use it as a name of their own",
                "use letters, digits and '_', no digit first, and no word of the templates",
                key=True,
            )
            continue
        section = reading.section(entry, ("vars", name), _KEYS, ("type",))
        variable = _variable(name, section)
        if variable is not None:
            found[name] = variable
    return found


def resolve_variables(
    declared: Mapping[str, Variable], given: Sequence[str], files: Sequence[Path]
) -> Mapping[str, Value]:
    """Return the value of every declared variable, in the order in which they are declared.

    `given` are texts of the form K=V, `files` YAML files with a mapping of values.  Raises
    ProjectErrors with everything that is wrong with them, and with what is missing.
    """
    resolving = _Resolving(declared)
    for path in files:
        resolving.file(path)
    for text in given:
        resolving.text(text)
    return resolving.values()


def printed(value: Value) -> str:
    """Return a value as --var takes it: texts, numbers and truth as they are, YAML of the rest."""
    return value if isinstance(value, str) else _flow(value)


class _Resolving:
    """Collects values by name, and what is wrong with them."""

    def __init__(self, declared: Mapping[str, Variable]) -> None:
        self._declared = declared
        self._values: dict[str, Value] = {}
        self._refused: set[str] = set()
        self._found: list[Diagnostic] = []

    def file(self, path: Path) -> None:
        try:
            documents = read_documents(decode(read_regular(path, MOST), str(path)), str(path))
        except OSError as error:
            self._problem(
                f"the file of variables '{path}' cannot be read: {error.strerror}",
                "its values would be missing",
                "correct the path that follows --vars-file",
            )
            return
        except ProjectErrors as errors:
            self._found += errors.found
            return
        for document in documents:
            reading = SettingsReader(document)
            for name, value in reading.any_mapping(document.value, ()).items():
                known = self._variable_of(name, reading.places.key((name,)), "")
                if known is not None:
                    self._put(known, value, reading.places.value((name,)), "")
            self._found += reading.found

    def text(self, text: str) -> None:
        name, equals, written = text.partition("=")
        if not equals:
            self._problem(
                f"--var {text}: there is no '='",
                "it gives a variable its value",
                f"write: --var {text}=VALUE",
            )
            return
        source = f"--var {name}: "
        variable = self._variable_of(name, None, source)
        if variable is not None:
            try:
                value = _parse_value(variable.type, written)
            except ProjectErrors as errors:
                self._found += [
                    replace(each, code="variable", what=f"{source}{each.what}", span=None)
                    for each in errors.found
                ]
                self._refused.add(name)
            else:
                self._put(variable, value, None, source)

    def values(self) -> dict[str, Value]:
        for name, variable in self._declared.items():
            if name in self._values or name in self._refused:
                continue
            if variable.default is None:
                self._problem(
                    f"the variable '{name}' has no value",
                    "it is declared without a default",
                    f"add: --var {name}=VALUE; or a default",
                    variable.span,
                )
        if self._found:
            raise ProjectErrors(self._found)
        return {name: self._values.get(name, each.default) for name, each in self._declared.items()}

    def _variable_of(self, name: str, span: SourceSpan | None, source: str) -> Variable | None:
        variable = self._declared.get(name)
        if variable is None:
            self._problem(
                f"{source}there is no variable '{name}'",
                "a value that nothing uses is probably a mistake",
                did_you_mean(name, self._declared) or "declare it in odfbuild.yaml, below 'vars'",
                span,
            )
        return variable

    def _put(self, variable: Variable, value: Value, span: SourceSpan | None, source: str) -> None:
        problem = _misfit(variable.name, variable.type, variable.enum, value)
        if problem is None:
            self._values[variable.name] = value
            return
        self._refused.add(variable.name)
        what, why, fix = problem
        self._problem(f"{source}{what}", why, fix, span)

    def _problem(self, what: str, why: str, fix: str, span: SourceSpan | None = None) -> None:
        self._found.append(Diagnostic(code="variable", what=what, why=why, fix=fix, span=span))


def _variable(name: str, section: Section) -> Variable | None:
    named = section.choice("type", [each.value for each in VariableType])
    if named is None:
        return None
    kind = VariableType(named)
    enum = _enum(name, kind, section)
    default = section.entries.get("default")
    if "default" in section.entries:
        problem = _misfit(name, kind, enum, default)
        if problem is not None:
            section.wrong("default", *problem)
    return Variable(name=name, type=kind, default=default, enum=enum, span=section.span())


def _enum(name: str, kind: VariableType, section: Section) -> tuple[Value, ...]:
    if "enum" not in section.entries:
        return ()
    reading, path = section.reading, section.at("enum")
    values = reading.items(section.entries["enum"], path)
    if not values and isinstance(section.entries["enum"], list | None):
        section.wrong(
            "enum", "'enum' is empty", "no value would be permitted", "list values, or remove it"
        )
    kept: list[Value] = []
    for at, value in enumerate(values):
        problem = _misfit(name, kind, (), value)
        if problem is None and value in kept:
            what = f"'{printed(value)}' occurs twice in 'enum'"
            problem = (what, "each value counts once", "remove one of the two")
        if problem is not None:
            reading.refuse((*path, at), *problem)
        else:
            kept.append(value)
    return tuple(kept)


def _misfit(
    name: str, kind: VariableType, enum: tuple[Value, ...], value: Value
) -> tuple[str, str, str] | None:
    """Return what, why and fix if a value is none of a variable's."""
    if not kind.fits(value):
        article = "an" if kind is VariableType.INT else "a"
        why = f"'{name}' is {article} {kind.value}"
        return f"{_quote_value(value)} is not a value for '{name}'", why, _FORMS[kind]
    if enum and value not in enum:
        listed = [printed(each) for each in enum]
        why = f"it is one of: {', '.join(listed)}"
        return (
            f"{_quote_value(value)} is not a value for '{name}'",
            why,
            did_you_mean(printed(value), listed),
        )
    return None


def _quote_value(value: Value) -> str:
    text = excerpt(printed(value), 60)
    return f"'{text}'" if isinstance(value, str) else text


def _parse_value(kind: VariableType, written: str) -> Value:
    """Return what the V of K=V means; ProjectErrors if it should be YAML and is none."""
    if kind in (VariableType.STRING, VariableType.DATE):
        return written
    if kind not in (VariableType.LIST, VariableType.MAP):
        return resolve_plain(written.strip())
    documents = read_documents(written, "--var")
    return documents[0].value if len(documents) == 1 else None


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _flow(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _escape(value)
        case float() if not isfinite(value):
            return {"inf": ".inf", "-inf": "-.inf"}.get(str(value), ".nan")
        case int() | float():
            return str(value)
        case list():
            return f"[{', '.join(map(_flow, value))}]"
        case dict():
            entries = (f"{_escape(key)}: {_flow(each)}" for key, each in value.items())
            return f"{{{', '.join(entries)}}}"


def _escape(text: str) -> str:
    """Return a text in double quotes, with escapes for what YAML does not take as it is."""
    import json

    shown = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in shown)
