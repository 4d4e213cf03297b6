"""Make the projects that are measured.  Equal arguments make equal files."""

import random
from pathlib import Path

__all__ = ["many_datasets", "one_table"]

_SETTINGS = "odfbuild: 1\nname: bench\ndatasets: [datasets]\n"
_ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: "data/{name}/*.csv"}}
      read:
        kind: Csv
        header: true
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
_CITIES = ("Ardle", "Brack", "Corrow", "Dunmere", "Esk", "Farrin", "Glaise", "Hollin")


def many_datasets(folder: Path, count: int, *, rows: int = 5) -> None:
    """Write a project of `count` datasets: roots of a few rows, and a derivative of each."""
    _settings(folder)
    for number in range(count // 2):
        name = f"bench.root-{number:05d}"
        _declare(folder, name, _ROOT.format(name=name, merge="{kind: Ledger, primaryKey: [id]}"))
        _csv(folder / "data" / name / "1.csv", rows, seed=number)
        derived = f"bench.derived-{number:05d}"
        _declare(folder, derived, _DERIVATIVE.format(name=derived, source=name))


def one_table(folder: Path, rows: int) -> Path:
    """Write a project of one root dataset that reads one CSV file; return that file."""
    _settings(folder)
    name = "bench.table"
    _declare(folder, name, _ROOT.format(name=name, merge="{kind: Append}"))
    return _csv(folder / "data" / name / "1.csv", rows, seed=1)


def _settings(folder: Path) -> None:
    (folder / "datasets").mkdir(parents=True)
    (folder / "odfbuild.yaml").write_text(_SETTINGS, "utf-8")


def _declare(folder: Path, name: str, text: str) -> None:
    (folder / "datasets" / f"{name}.yaml").write_text(text, "utf-8")


def _csv(path: Path, rows: int, *, seed: int) -> Path:
    """Write rows in no order of time: about 100 bytes each."""
    chance = random.Random(seed)  # noqa: S311
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8") as out:
        out.write("time,id,city,amount,note\n")
        for number in range(rows):
            second = chance.randrange(365 * 86_400)
            day, rest = divmod(second, 86_400)
            stamp = f"2031-{1 + day // 31:02d}-{1 + day % 28:02d}T{rest // 3600:02d}:"
            stamp += f"{rest // 60 % 60:02d}:{rest % 60:02d}Z"
            note = f"{chance.getrandbits(128):032x}"
            out.write(
                f"{stamp},{number},{chance.choice(_CITIES)},{chance.random() * 1000:.4f},{note}\n"
            )
    return path
