"""Errors of templates in plain words, and where they are."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from jinja2 import Template
from jinja2.environment import TemplateModule
from jinja2.exceptions import SecurityError, TemplateNotFound, TemplateSyntaxError
from jinja2.sandbox import MAX_RANGE
from jinja2.utils import missing

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.project.files import UnreadableError
from odfbuild.project.template.bounds import LimitError
from odfbuild.project.template.environment import (
    MAX_OUTPUT,
    MAX_STEPS,
    Loader,
    TemplateEnvironment,
    TemplateText,
    UndefinedNameError,
)
from odfbuild.project.template.names import TemplateNames, UnprintableError, absent_of, label_of
from odfbuild.project.template.python import PythonError
from odfbuild.texts.redaction import excerpt
from odfbuild.texts.suggest import Suggestions, did_you_mean
from odfbuild.values import dataclass

_TAGS = ("for", "if", "macro", "call", "filter", "set", "block", "with", "autoescape")
_ALL = (
    *_TAGS,
    *(f"end{each}" for each in _TAGS),
    "else",
    "elif",
    "import",
    "from",
    "include",
    "raw",
)
_NO_SUCH = re.compile(r"there is no (?:tag|filter|test) '(\w+)'")
_WORD = re.compile(r"\{%[-+]?\s*(\w+)")


def syntax_words(
    error: TemplateSyntaxError, text: TemplateText, environment: TemplateEnvironment
) -> tuple[str, str, str, int]:
    """Return what, why and fix, and the offset of the place."""
    message = re.sub(r" at \d+$", "", (error.message or "").strip())
    at = min(error.lineno - 1, len(text.source.text.rstrip()))
    why = f"not a Jinja template: {message[:1].lower()}{message[1:].rstrip('.')}"
    if found := re.search(r"innermost block that needs to be closed is '(\w+)'", message):
        opened = _last_open_tag(text, found[1])
        if message.startswith("Unexpected end of template") and opened is not None:
            what = f"the tag '{found[1]}' has no end"
            return what, why, f"add: {{% end{found[1]} %}}", opened
    if found := re.search(r"[Uu]nknown tag '(\w+)'", message):
        if found[1] in _ALL:
            return f"the tag '{found[1]}' has no start", why, "remove it, or begin it", at
        return f"there is no tag '{found[1]}'", why, did_you_mean(found[1], _ALL), at
    for kind, known in (("filter", environment.filters), ("test", environment.tests)):
        if found := re.search(rf"No {kind} named '(\w+)'", message):
            what = f"there is no {kind} '{found[1]}'"
            return what, why, _nearest(found[1], known), _place_of_name(text, at, found[1])
    if message.startswith("Missing end of"):
        what = "a comment has no end" if "comment" in message else "the tag 'raw' has no end"
        return what, why, "add: #}" if "comment" in message else "add: {% endraw %}", at
    if message.endswith(("char '\"'", 'char "\'"')):
        return "a text in quotes has no end", why, "add the closing quote", at
    if "unexpected char" in message:
        return "an unexpected character", why, "remove it, or put the text in quotes", at
    return "this is not an expression or tag of Jinja", why, "correct the marked part", at


def _nearest(name: str, known: object) -> str:
    assert isinstance(known, dict)  # noqa: S101 - Jinja's own tables
    return did_you_mean(name, sorted(known)) or "use one of Jinja's own, or a macro"


def _place_of_name(text: TemplateText, at: int, name: str) -> int:
    """Return where a name is in the tag that holds an offset."""
    start, end = text.tag(at) or (at, at)
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text.source.text[start:end])
    return at if found is None else start + found.start()


def _last_open_tag(text: TemplateText, word: str) -> int | None:
    """Return where the last tag of a kind starts that is not ended again."""
    open_tags: list[tuple[str, int]] = []
    for start, end in text.tags:
        written = text.source.text[start:end]
        found = _WORD.match(written)
        if found is None:
            continue
        if found[1].startswith("end") and open_tags:
            open_tags.pop()
        elif found[1] in _TAGS and not (found[1] == "set" and "=" in written):
            open_tags.append((found[1], start))
    return next((start for name, start in reversed(open_tags) if name == word), None)


_INNER = re.compile(r"\{[{%][-+]?\s*(.*?)\s*[-+]?[%}]\}", re.DOTALL)
_LOCAL = re.compile(r"l_[0-9]+_(.+)")
_CALLERS = 3
_STRICT = "an undefined name would leave a gap in the definition"


def syntax_problem(error: TemplateSyntaxError, environment: TemplateEnvironment) -> Diagnostic:
    """Return why a text is no template, at its place; of every instance it is the same."""
    text = environment.texts[error.filename or ""]
    what, why, fix, at = syntax_words(error, text, environment)
    named = _NO_SUCH.match(what)
    name = "" if named is None else named[1]
    size = len(name) if text.source.text.startswith(name, at) else 0
    span = text.source.span(at, at + max(1, size))
    return Diagnostic(code="template-syntax", what=what, why=why, fix=fix, span=span)


def run_problem(
    error: Exception, environment: TemplateEnvironment, file: str, instance: str | None
) -> Diagnostic:
    """Return why a template, or a macro that it uses, failed; at the place of the failure."""
    frames = list(_frames(error.__traceback__))
    text = environment.texts[frames[-1].file if frames else file]
    found = _diagnostic(error, frames, environment)
    span = replace(_place(error, text, frames), instance=instance)
    return replace(found, why=found.why + _callers(frames[:-1], environment), span=span)


def _callers(frames: list["_Frame"], environment: TemplateEnvironment) -> str:
    """Return where a macro is called from, the nearest first."""
    places = dict.fromkeys(_start(environment, each) for each in reversed(frames))
    return f"; called from {', '.join(list(places)[:_CALLERS])}" if places else ""


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where one template stands: the offset of what it does, and the names known there."""

    file: str
    offset: int
    names: tuple[str, ...]


def _frames(place: TracebackType | None) -> Iterable[_Frame]:
    """Yield where each template stands that an error went through, the outermost first."""
    while place is not None:
        template = place.tb_frame.f_globals.get("__jinja_template__")
        if isinstance(template, Template) and template.filename is not None:
            offset = max(0, template.get_corresponding_lineno(place.tb_lineno) - 1)
            yield _Frame(template.filename, offset, _readable_names(place.tb_frame.f_locals))
        place = place.tb_next


def _readable_names(local: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names that a template can read at a point of its code."""
    context = local.get("context")
    known = [] if context is None else list(context.get_all())
    for name, value in local.items():
        found = _LOCAL.fullmatch(name)
        if found is not None and value is not missing:
            known.append(found[1])
    return tuple(sorted(set(known)))


def _place(error: Exception, text: TemplateText, frames: list[_Frame]) -> SourceSpan:
    """Return the place of a failure: the name that is meant, else the tag it is in."""
    offset = frames[-1].offset if frames else 0
    start, end = text.tag(offset) or (offset, offset + 1)
    written = text.source.text[start:end]
    named = _name_in(error)
    found = None if named is None else re.search(rf"(?<!\w){re.escape(named)}(?!\w)", written)
    if found is None:
        found = _INNER.fullmatch(written)
        return _span(text, start, end) if found is None else _group(text, start, found)
    return _span(text, start + found.start(), start + found.end())


def _group(text: TemplateText, start: int, found: "re.Match[str]") -> SourceSpan:
    return _span(text, start + found.start(1), start + found.end(1))


def _span(text: TemplateText, start: int, end: int) -> SourceSpan:
    return text.source.span(start, end)


def _name_in(error: Exception) -> str | None:
    if isinstance(error, UndefinedNameError):
        return str(error.name)
    return error.called if isinstance(error, PythonError) else None


def _start(environment: TemplateEnvironment, frame: _Frame) -> str:
    text = environment.texts[frame.file]
    start, _ = text.tag(frame.offset) or (frame.offset, 0)
    return str(text.source.span(start, start + 1))


def _diagnostic(
    error: Exception, frames: list[_Frame], environment: TemplateEnvironment
) -> Diagnostic:
    match error:
        case UndefinedNameError():
            return _absent(error, frames[-1].names if frames else ())
        case TemplateNotFound():
            return _not_found(error, environment)
        case SecurityError():
            return _error(
                f"a template may not do this: {_sentence(error)}",
                "templates turn values into text, and have no access to anything else",
                "use a variable, a filter or a macro",
            )
        case UnreadableError():
            rule = error.rule
            return Diagnostic(code=rule.code, what=rule.what, why=rule.why, fix=rule.fix)
        case LimitError():
            return _limit(str(error))
        case OverflowError() if str(error).startswith("Range too big"):
            return _limit(f"a range of more than {MAX_RANGE:,} numbers")
        case RecursionError():
            return _limit("macros that call each other without end")
        case UnprintableError():
            return _unprintable(str(error))
        case PythonError():
            return _error(
                f"'{error.called}' failed: {error}",
                f"see {error.file}" + ("" if error.line is None else f":{error.line}"),
                "correct the function or its arguments",
            )
    return _error(
        f"this fails: {_sentence(error)}",
        f"Jinja raised {_a(type(error).__name__)}",
        "correct the expression or its values",
    )


def _error(what: str, why: str, fix: str) -> Diagnostic:
    return Diagnostic(code="template-error", what=what, why=why, fix=fix)


def _undefined_name(what: str, why: str, fix: str) -> Diagnostic:
    return Diagnostic(code="template-undefined", what=what, why=why, fix=fix)


def _limit(what: str) -> Diagnostic:
    return Diagnostic(
        code="template-limit",
        what=f"the template does not end: {what}",
        why=f"a template may take {MAX_STEPS:,} iterations and calls, and write {MAX_OUTPUT:,} "
        "characters",
        fix="correct the loop, or split the template",
    )


def _unprintable(kind: str) -> Diagnostic:
    lazy = kind in ("generator", "dict_keys", "dict_values", "dict_items", "_Counted")
    return _error(
        f"a {kind} cannot be written into YAML",
        "YAML has texts, numbers, true, false, null, lists and mappings",
        "add the filter `list` or `join`" if lazy else "call it, or name one of its values",
    )


def _absent(error: UndefinedNameError, known: tuple[str, ...]) -> Diagnostic:
    name, owner = str(error.name), error.owner
    if error.is_plain and "does not export" in str(error):
        return _undefined_name(
            f"the imported file has no macro '{name}'", _STRICT, "correct the name in the import"
        )
    if error.is_plain:
        return _undefined_name(f"'{name}' is not defined", *_way_to(name, known))
    if isinstance(owner, TemplateModule):
        macros = [each for each in vars(owner) if not each.startswith("_")]
        return _undefined_name(f"the imported file has no '{name}'", _STRICT, _offer(name, macros))
    if isinstance(owner, TemplateNames):
        return _absent_in(owner, name)
    if isinstance(owner, Mapping):
        return _undefined_name(
            f"no '{name}' in this mapping", _STRICT, _offer(name, map(str, owner))
        )
    if isinstance(owner, list | tuple):
        return _undefined_name(f"no item {name} in this list", _STRICT, f"it has {len(owner)}")
    return _undefined_name(
        f"{_KINDS.get(type(owner), 'this value')} has no '{name}'", _STRICT, "correct the name"
    )


def _way_to(name: str, known: tuple[str, ...]) -> tuple[str, str]:
    """Return why a name is missed, and what to do."""
    if name in _CLOCKS:
        why = "templates must give the same result on every run, so they have no clock"
        return why, "declare a variable for it in odfbuild.yaml, below `vars`"
    if name == "py":
        why = "Python functions are available only if a project enables them"
        return why, "add to odfbuild.yaml: macros: {python: true}"
    own = [each for each in known if each not in _BUILT_IN and not each.startswith("_")]
    guess = Suggestions((*own, *_BUILT_IN)).nearest(name)
    return _STRICT, _offer(name, own) if guess is None else f"did you mean '{guess}'?"


_CLOCKS = ("now", "today", "time", "date", "datetime", "utcnow")
_BUILT_IN = ("cycler", "dict", "joiner", "namespace", "range", "var")
_KINDS = {
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "a truth value",
    type(None): "null",
}


def _absent_in(owner: TemplateNames, name: str) -> Diagnostic:
    label = label_of(owner)
    if name in absent_of(owner):
        return _undefined_name(
            f"the environment variable '{name}' is not set",
            "odfbuild.yaml declares it below `env`, and the template has no other value for it",
            f"set it, or write: {label}.{name} | default('...')",
        )
    if label == "env":
        return _undefined_name(
            f"the environment variable '{name}' is not declared",
            "a project can only depend on what it declares",
            f"add to odfbuild.yaml: env: [{name}]",
        )
    return _undefined_name(f"no '{name}' in '{label}'", _STRICT, _offer(name, owner))


def _not_found(error: TemplateNotFound, environment: TemplateEnvironment) -> Diagnostic:
    loader = environment.loader
    known = loader.names() if isinstance(loader, Loader) else []
    name = str(error.name)
    return Diagnostic(
        code="template-import",
        what=f"no file '{name}' to import",
        why="templates import from the macros folder, by a path in it, and from packages, "
        "by the package's name and a path in its macros folder",
        fix=_offer(name, known),
    )


def _offer(name: str, known: Iterable[str]) -> str:
    names = list(known)
    return did_you_mean(name, names) or "correct the name, or define it"


def _sentence(error: Exception) -> str:
    """Return an error's own words as the end of a sentence."""
    text = (str(error) or type(error).__name__).strip().rstrip(".")
    return excerpt(text, 300)


def _a(word: str) -> str:
    return f"an {word}" if word[:1] in "AEIOU" else f"a {word}"
