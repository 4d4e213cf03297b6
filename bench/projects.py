"""Make the projects that are measured.  Equal arguments make equal files."""

import random
from collections.abc import Iterator
from pathlib import Path

__all__ = ["FORMS", "many_datasets", "one_table", "small_files"]

_SETTINGS = "odfbuild: 1\nname: bench\ndatasets: [datasets]\n"
_ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: "data/{name}/*"}}
      read:
        {form}
        schema: [time TIMESTAMP, id BIGINT, city STRING, amount DOUBLE, note STRING]
      merge: {merge}
    - {{kind: SetVocab, eventTimeColumn: time}}
"""
_DERIVATIVE = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: {source}, alias: source}}]
      transform:
        kind: Sql
        engine: spark
        query: select time, id, city, amount * 2 as doubled from source where amount > 10
    - {{kind: SetVocab, eventTimeColumn: time}}
"""
FORMS = {"csv": "kind: Csv\n        header: true", "ndjson": "kind: NdJson"}
"""How each kind of text file is read."""
_CITIES = ("Ardle", "Brack", "Corrow", "Dunmere", "Esk", "Farrin", "Glaise", "Hollin")


def many_datasets(folder: Path, count: int, *, rows: int = 5) -> None:
    """Write a project of `count` datasets: roots of a few rows, and a derivative of each."""
    _settings(folder)
    for number in range(count // 2):
        name = f"bench.root-{number:05d}"
        _declare(folder, name, _root(name, "csv", "{kind: Ledger, primaryKey: [id]}"))
        _csv(folder / "data" / name / "1.csv", rows, seed=number)
        derived = f"bench.derived-{number:05d}"
        _declare(folder, derived, _DERIVATIVE.format(name=derived, source=name))


def one_table(folder: Path, rows: int, form: str = "csv", *, ingest: str = "spark") -> None:
    """Write a project of one root dataset that reads one file; `ingest` is what merges it."""
    _settings(folder, f"engine: {{ingest: {ingest}}}\n")
    name = "bench.table"
    _declare(folder, name, _root(name, form, "{kind: Append}"))
    _WRITERS[form](folder / "data" / name / f"1.{form}", rows, seed=1)


def small_files(folder: Path, count: int, rows: int) -> None:
    """Write a project of one root dataset that reads many small files, each its own block."""
    _settings(folder)
    name = "bench.files"
    _declare(folder, name, _root(name, "csv", "{kind: Append}"))
    for number in range(count):
        _csv(folder / "data" / name / f"{number:06d}.csv", rows, seed=number)


def _root(name: str, form: str, merge: str) -> str:
    return _ROOT.format(name=name, form=FORMS[form], merge=merge)


def _settings(folder: Path, more: str = "") -> None:
    (folder / "datasets").mkdir(parents=True)
    (folder / "odfbuild.yaml").write_text(_SETTINGS + more, "utf-8")


def _declare(folder: Path, name: str, text: str) -> None:
    (folder / "datasets" / f"{name}.yaml").write_text(text, "utf-8")


def _csv(path: Path, rows: int, *, seed: int) -> None:
    """Write about 100 bytes a row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as out:
        out.write("time,id,city,amount,note\n")
        for time, number, city, amount, note in _values(rows, seed):
            out.write(f"{time},{number},{city},{amount:.4f},{note}\n")


def _ndjson(path: Path, rows: int, *, seed: int) -> None:
    """Write about 140 bytes a row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as out:
        for time, number, city, amount, note in _values(rows, seed):
            out.write(
                f'{{"time":"{time}","id":{number},"city":"{city}","amount":{amount:.4f},'
                f'"note":"{note}"}}\n'
            )


def _values(rows: int, seed: int) -> Iterator[tuple[str, int, str, float, str]]:
    """Yield rows in no order of time."""
    chance = random.Random(seed)  # noqa: S311
    for number in range(rows):
        day, rest = divmod(chance.randrange(365 * 86_400), 86_400)
        stamp = f"2031-{1 + day // 31:02d}-{1 + day % 28:02d}T{rest // 3600:02d}:"
        stamp += f"{rest // 60 % 60:02d}:{rest % 60:02d}Z"
        note = f"{chance.getrandbits(128):032x}"
        yield stamp, number, chance.choice(_CITIES), chance.random() * 1000, note


_WRITERS = {"csv": _csv, "ndjson": _ndjson}
