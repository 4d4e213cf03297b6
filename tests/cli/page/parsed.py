"""A page as a browser parses it: elements with their attributes and texts."""

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

__all__ = ["Parsed", "parse"]


@dataclass
class Parsed:
    """What is in a page, in its order."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)

    def text(self, tag: str) -> str:
        """Return all that is in elements of a name, directly."""
        return "".join(self.texts.get(tag, []))

    def policy(self) -> str:
        """Return the Content-Security-Policy."""
        found = [a for _, a in self.elements if a.get("http-equiv") == "Content-Security-Policy"]
        assert len(found) == 1
        return found[0]["content"] or ""

    def data(self) -> dict[str, Any]:
        """Return the data of the page."""
        return dict(json.loads(self.texts["data"][0]))


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found = Parsed()
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.elements.append((tag, dict(attrs)))
        self._open = dict(attrs).get("id") or tag if tag == "script" else tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        self.found.texts.setdefault(self._open, []).append(data)


def parse(page: str) -> Parsed:
    """Return what a page says."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    return parser.found
