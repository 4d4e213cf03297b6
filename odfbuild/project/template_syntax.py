"""Say in plain words why a text is not a Jinja template."""

import re

from jinja2.exceptions import TemplateSyntaxError

from odfbuild.planner.names import did_you_mean
from odfbuild.project.template_env import TemplateEnvironment, TemplateText

__all__ = ["syntax_words"]

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
_WORD = re.compile(r"\{%[-+]?\s*(\w+)")


def syntax_words(
    error: TemplateSyntaxError, text: TemplateText, environment: TemplateEnvironment
) -> tuple[str, str, str, int]:
    """Return what, why and fix, and the offset of the place."""
    message = re.sub(r" at \d+$", "", (error.message or "").strip())
    at = min(error.lineno - 1, len(text.source.text.rstrip()))
    why = f"not a Jinja template: {message[:1].lower()}{message[1:].rstrip('.')}"
    if found := re.search(r"innermost block that needs to be closed is '(\w+)'", message):
        opened = _opened(text, found[1])
        if message.startswith("Unexpected end of template") and opened is not None:
            what = f"the tag '{found[1]}' has no end"
            return what, why, f"add: {{% end{found[1]} %}}", opened
    if found := re.search(r"[Uu]nknown tag '(\w+)'", message):
        if found[1] in _ALL:
            return f"the tag '{found[1]}' has no beginning", why, "remove it, or begin it", at
        return f"no tag is called '{found[1]}'", why, did_you_mean(found[1], _ALL), at
    for kind, known in (("filter", environment.filters), ("test", environment.tests)):
        if found := re.search(rf"No {kind} named '(\w+)'", message):
            what = f"no {kind} is called '{found[1]}'"
            return what, why, _nearest(found[1], known), _named(text, at, found[1])
    if message.startswith("Missing end of"):
        what = "a comment has no end" if "comment" in message else "the tag 'raw' has no end"
        return what, why, "add: #}" if "comment" in message else "add: {% endraw %}", at
    if message.endswith(("char '\"'", 'char "\'"')):
        return "a text in quotes has no end", why, "add the closing quote", at
    if "unexpected char" in message:
        return "a sign that means nothing here", why, "remove it, or put the text in quotes", at
    return "this is not an expression or tag of Jinja", why, "correct what is marked", at


def _nearest(name: str, known: object) -> str:
    assert isinstance(known, dict)  # noqa: S101 - Jinja's own tables
    return did_you_mean(name, sorted(known)) or "use one of Jinja's own, or a macro"


def _named(text: TemplateText, at: int, name: str) -> int:
    """Return where a name stands in the tag that holds an offset."""
    start, end = text.tag(at) or (at, at)
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text.source.text[start:end])
    return at if found is None else start + found.start()


def _opened(text: TemplateText, word: str) -> int | None:
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
