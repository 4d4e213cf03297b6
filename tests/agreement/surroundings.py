"""Random projects with all that may stand around definitions.

Each definition is in a file, a template, an item of a generator, a package, or has its query in
a file of its own; there are defaults, a lock file that may be old, and a dataset that another
project puts into a repository.  Whatever is drawn here leaves alone what `Drawn` draws of a seed.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from odfbuild.odf.merge_strategies import TRAITS, Operations, name_of
from tests.agreement.random_projects import Drawn

__all__ = ["Around", "Publisher"]

_PLACES = ("file", "file", "template", "each", "rows", "package", "shared template", "query")
_ANY = "kind: DatasetSnapshot\nversion: 1\ncontent: {{ WHAT | tojson }}\n"
_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "on_query_change": ("forward", "restate"),
    "bad_rows": ("refuse", "divert"),
    "repeated_keys": ("warn", "refuse"),
    "columns": ("exact", "by-name", "union"),
    "empty": ("accept", "warn", "refuse"),
    "reread": ("changed", "late", "never"),
    "watermark_lag": ("1 day", "0"),
    "tags": (["x"],),
    "owner": ("somebody",),
}
_WRONG_DEFAULTS: tuple[Mapping[str, Any], ...] = (
    {"on_query_change": "backward"},
    {"watermark_lag": "one day"},
    {"max_bad_rows": "5%"},
    {"colums": "exact"},
)
_FAR = "hub/acme/far"


class Around(Drawn):
    """A project with its surroundings; `publisher` is who makes an input in a repository."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._own = Random(f"around {seed}")
        self._seed = seed
        self._places: dict[str, str] = {}
        self._defaults: dict[str, dict[str, Any]] = {}
        self._pinned: dict[str, str] = {}
        own = self._own
        hub = folder.with_name(f"{folder.name}-hub")
        self.publisher = Publisher(seed, hub) if own.random() < 0.4 else None
        self._is_locked = own.random() < 0.5
        self._astray = own.random() < 0.3
        for _ in range(own.choice((0, 1, 2))):
            self.change_defaults()
        super().__init__(seed)

    def known(self) -> dict[str, tuple[dict[str, str], str]]:
        found = super().known()
        if self.publisher is not None:
            found[_FAR] = (dict(self.publisher.columns), "t")
        return found

    def changed(self) -> list[str]:
        made = super().changed()
        while self._own.random() < 0.4:
            made.append(self._own.choice(_AROUND)(self))
        return made

    def commands(self) -> Iterator[str]:
        """Yield what somebody runs before the project is planned."""
        if _held_in(self.files, "lib/") != self._pinned and self._own.random() < 0.9:
            self._pinned = _held_in(self.files, "lib/")
            yield "deps update"
        if self._is_locked and self._own.random() < 0.6:
            yield "lock"

    def settings(self) -> dict[str, Any]:
        found = super().settings()
        if self._defaults:
            found["defaults"] = self._defaults
        if self.publisher is not None:
            found["repositories"] = {"hub": {"url": f"{self.publisher.hub.as_uri()}/"}}
        if self._at("package", "shared template"):
            found["packages"] = [{"path": "lib/common", "name": "common"}]
        generate: dict[str, Any] = {}
        definitions = self.definitions()
        shared = {n: {"made": definitions[n]["content"]} for n in self._at("shared template")}
        own = {n: {"made": definitions[n]["content"]} for n in self._at("each")}
        for name, items, template in (
            ("own", own, "templates/any.yaml.j2"),
            ("shared", shared, "common/templates/any.yaml.j2"),
        ):
            if items:
                generate[name] = {"template": template, "for_each": items, "name": "{{ each.key }}"}
        if self._at("rows"):
            of_rows = {"template": "templates/row.yaml.j2", "from": "items.yaml", "key": "id"}
            generate["listed"] = {**of_rows, "name": "{{ row.id }}"}
        if generate:
            found["generate"] = generate
        if self._at("template"):
            found["vars"] = {"nothing": {"type": "string", "default": ""}}
        return found

    def placed(self, definitions: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, definition in definitions.items():
            text = json.dumps(definition, indent=1)
            match self._place(name):
                case "template":
                    text = f"{{% if nothing == '' %}}\n{text}\n{{% endif %}}\n"
                    found[f"datasets/{name}.yaml.j2"] = text
                case "package":
                    found[f"lib/common/defs/{name}.yaml"] = text
                case "query":
                    found |= _with_query_apart(name, definition)
                case "file":
                    found[f"datasets/{name}.yaml"] = text
        found["datasets/.keep"] = ""
        if self._at("each"):
            found["templates/any.yaml.j2"] = _ANY.replace("WHAT", "each.value.made")
        if items := self._at("rows"):
            rows = [{"id": name, "made": definitions[name]["content"]} for name in items]
            found["items.yaml"] = json.dumps(rows)
            found["templates/row.yaml.j2"] = _ANY.replace("WHAT", "row.made")
        if self._at("package", "shared template"):
            folders = {"datasets": ["defs"]} if self._at("package") else {}
            found["lib/common/odfbuild.yaml"] = json.dumps({"odfbuild": 1, **folders})
            template = _ANY.replace("WHAT", "each.value.made")
            found["lib/common/templates/any.yaml.j2"] = template
        return found

    def _place(self, name: str) -> str:
        if name not in self._places:
            self._places[name] = self._own.choice(_PLACES)
        return self._places[name]

    def _at(self, *places: str) -> list[str]:
        return [name for name in self.datasets if self._place(name) in places]

    # Changes

    def change_place(self) -> str:
        name = self._own.choice(list(self.datasets))
        self._places[name] = self._own.choice(_PLACES)
        return f"{name} is in {self._places[name]}"

    def change_defaults(self) -> str:
        own = self._own
        if self._defaults and own.random() < 0.4:
            self._defaults.pop(own.choice(list(self._defaults)))
            return "defaults are gone"
        keys = own.sample(list(_DEFAULTS), own.randint(1, 3))
        found: dict[str, Any] = {key: own.choice(_DEFAULTS[key]) for key in keys}
        if self._astray and own.random() < 0.1:
            found = dict(own.choice(_WRONG_DEFAULTS))
        scope = own.choice(
            ("kind:root", "kind:derivative", "*", "r*", "r1" if self._astray else "d*")
        )
        self._defaults[scope] = found
        return f"defaults of {scope}: {found}"

    def change_lock(self) -> str:
        self._is_locked = not self._is_locked
        return f"locked: {self._is_locked}"

    def change_far(self) -> str:
        return "nothing" if self.publisher is None else self.publisher.change()


_AROUND: tuple[Callable[[Around], str], ...] = (
    Around.change_place,
    Around.change_defaults,
    Around.change_lock,
    Around.change_far,
    Around.change_far,
)


def _held_in(files: Mapping[str, bytes | None], folder: str) -> dict[str, str]:
    return {n: c.decode() for n, c in files.items() if n.startswith(folder) and c is not None}


def _with_query_apart(name: str, definition: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of a definition whose query, if it has one, is in a file."""
    found = json.loads(json.dumps(definition))
    for event in found["content"]["metadata"]:
        transform = event.get("transform") or event.get("preprocess")
        if isinstance(transform, dict) and "query" in transform:
            query, transform["query"] = transform["query"], "@apart"
            text = json.dumps(found, indent=1).replace('"@apart"', f'!include "../sql/{name}.sql"')
            return {f"datasets/{name}.yaml": text, f"sql/{name}.sql": query}
    return {f"datasets/{name}.yaml": json.dumps(found, indent=1)}


class Publisher:
    """Another project, whose dataset is put into a repository."""

    def __init__(self, seed: int, hub: Path) -> None:
        self._draw = Random(f"publisher {seed}")
        self.hub = hub
        self.folder = hub.with_name(f"{hub.name}-of")
        self.columns = {"t": "TIMESTAMP", "k": "STRING", "v": "BIGINT"}
        self._files: dict[str, str] = {}
        possible = [m for m, of in TRAITS.items() if of.operations is not Operations.REQUIRED]
        self._merge = self._draw.choice(possible)
        self.is_there = True
        self._add_file()

    def laid_out(self) -> Mapping[str, str]:
        """Return the files of the project."""
        merge: dict[str, Any] = {"kind": name_of(self._merge)}
        if hasattr(self._merge, "primary_key"):
            merge["primaryKey"] = ["k"]
        schema = [f"{n} {t}{' NOT NULL' if n in 'tk' else ''}" for n, t in self.columns.items()]
        source = {
            "kind": "SetPollingSource",
            "fetch": {"kind": "FilesGlob", "path": "data/*.csv"},
            "read": {"kind": "Csv", "header": True, "schema": schema},
            "merge": merge,
        }
        vocab = {"kind": "SetVocab", "eventTimeColumn": "t"}
        content = {"name": "far", "kind": "Root", "metadata": [source, vocab]}
        definition = {"kind": "DatasetSnapshot", "version": 1, "content": content}
        return {
            "odfbuild.yaml": json.dumps({"odfbuild": 1, "name": "other"}),
            "datasets/far.yaml": json.dumps(definition),
            **self._files,
        }

    def publish(self) -> None:
        """Put the dataset as it is into the repository, or nothing."""
        place = self.hub / "acme" / "far"
        shutil.rmtree(place, ignore_errors=True)
        made = sorted((self.folder / ".odfbuild" / "datasets").glob("*"))
        if self.is_there and made:
            shutil.copytree(made[0], place)

    def change(self) -> str:
        """Change what the project gives."""
        draw = self._draw
        match draw.choice(("rows", "rows", "rows", "column", "no column", "gone", "again")):
            case "rows":
                self._add_file()
                return "far has more rows"
            case "column":
                self.columns[f"c{len(self.columns)}"] = draw.choice(("STRING", "DOUBLE"))
                self._add_file()
                return "far has another column"
            case "no column" if len(self.columns) > 2:
                gone = draw.choice([c for c in self.columns if c not in "tk"])
                del self.columns[gone]
                self._add_file()
                return f"far has no {gone}"
            case "gone":
                self.is_there = not self.is_there
                return f"far is there: {self.is_there}"
            case "again":
                shutil.rmtree(self.folder / ".odfbuild", ignore_errors=True)
                return "far is rebuilt"
        return "far stays"

    def _add_file(self) -> None:
        number = len(self._files) + 1
        rows = [
            ",".join(self._value(name, kind, 3 * number + n) for name, kind in self.columns.items())
            for n in range(self._draw.randint(1, 3))
        ]
        lines = [",".join(self.columns), *rows]
        self._files[f"data/{number:03}.csv"] = "\n".join(lines) + "\n"

    def _value(self, name: str, kind: str, number: int) -> str:
        if name == "t":
            return f"2024-03-{number % 28 + 1:02}T00:00:00Z"
        if name == "k":
            again = self._draw.random() < 0.3 and number > 9
            return f"f{number - 9 if again else number}"
        return self._draw.choice(("", "1", "2.5" if kind == "DOUBLE" else "3"))
