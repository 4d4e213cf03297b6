"""Projects for the catalogue, as files, and the page of one with its data taken out of it."""

import base64
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odfbuild.app import open_project
from odfbuild.app.inspection.catalogue import Catalogue, catalogue_of
from odfbuild.app.load_project import load
from odfbuild.cli.page.catalogue.document import catalogue_document
from tests.cli.page.parsed import Parsed, parse
from tests.support.process.inside import lay_out
from tests.support.projects.texts import root

__all__ = ["BAD", "RICH", "Taken", "catalogue_in", "described", "page_in", "taken", "transform"]

BAD = (
    "</script><script>window.hit=1</script><!--<img src=http://x.invalid/ onerror=alert(1)>{{7*7}}"
)


def described(text: str, description: str) -> str:
    """Return a definition with a description, a licence and a file."""
    return f"""{text}    - kind: SetInfo
      description: {json.dumps(description)}
      keywords: [{json.dumps(description[:20])}]
    - kind: SetLicense
      shortName: {json.dumps(description[:30])}
      name: {json.dumps(description[:30])}
      websiteUrl: "javascript:alert(1)"
    - kind: SetAttachments
      attachments:
        kind: Embedded
        items: [{{path: README.md, content: {json.dumps(description)}}}]
"""


def transform(name: str, inputs: Mapping[str, str], query: str) -> str:
    """Return a derivative of several datasets, by the names that its query gives them."""
    given = ", ".join(f"{{datasetRef: {each}, alias: {alias}}}" for alias, each in inputs.items())
    return f"""kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{given}]
      transform: {{kind: Sql, engine: spark, query: {json.dumps(query)}}}
    - {{kind: SetVocab, eventTimeColumn: t}}
"""


RICH: Mapping[str, str] = {
    "odfbuild.yaml": """odfbuild: 1
name: shop
defaults:
  "path:datasets/raw": {tags: [raw, daily], owner: ops}
  "path:datasets/report": {owner: analysts}
""",
    "datasets/raw/orders.yaml": described(root("shop.orders"), "Orders as they came.\n\nDaily."),
    "datasets/raw/prices.yaml": root("shop.prices", fetch="{kind: FilesGlob, path: prices/*.csv}"),
    "datasets/report/sales.yaml": transform(
        "shop.sales",
        {"o": "shop.orders", "p": "shop.prices"},
        "select o.t, o.k, o.v * p.v as total from o join p on o.k = p.k where o.v > 0",
    ),
    "datasets/report/top.yaml": transform(
        "shop.top", {"s": "shop.sales"}, "select t, k as name, total from s"
    ),
    "tests/data/orders.yaml": "dataset: shop.orders\nchecks:\n  - not_null: [k]\n"
    "  - range: {column: v, min: 0}\n    severity: warn\n",
}


def catalogue_in(folder: Path, files: Mapping[str, str]) -> Catalogue:
    """Return the catalogue of a project of these files, which nobody has applied."""
    opened = open_project(lay_out(folder, files))
    return catalogue_of(opened, load(opened, partly=True))


def page_in(folder: Path, files: Mapping[str, str]) -> str:
    """Return the page of a project of these files, which nobody has applied."""
    return catalogue_document(catalogue_in(folder, files))


class Taken:
    """The data of a page, by the names of datasets."""

    def __init__(self, page: str) -> None:
        self.parsed: Parsed = parse(page)
        self.index: dict[str, Any] = json.loads(self._text("index"))
        self.names = [row[0] for row in self.index["rows"]]
        self.columns: list[Any] = _unpacked(self._text("columns"))
        count = len(self.names)
        chunks = range(0, -(-count // self.index["chunk"]))
        self.details: list[dict[str, Any]] = [
            each for number in chunks for each in _unpacked(self._text(f"details-{number}"))
        ]

    def state(self, name: str) -> str:
        return str(self.index["states"][self.index["rows"][self.names.index(name)][5]])

    def detail(self, name: str) -> dict[str, Any]:
        return self.details[self.names.index(name)]

    def row(self, name: str) -> list[Any]:
        return list(self.index["rows"][self.names.index(name)])

    def _text(self, id: str) -> str:
        return "".join(self.parsed.texts[id])


def _unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text, validate=True)))


def taken(page: str) -> Taken:
    """Return the data of a page."""
    return Taken(page)
