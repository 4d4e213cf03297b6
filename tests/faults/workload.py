"""What runs are disturbed: a first and a second apply of five datasets, four steps at a time.

Ledger, Append and Snapshot roots of several files, a derivative of one and one of two, and a change
of a definition in the second apply.
"""

from pathlib import Path

from tests.support.process.inside import lay_out
from tests.support.projects.texts import derivative, root

__all__ = ["APPLY", "NAMES", "first", "memory", "second"]

NAMES = ("book", "visits", "prices", "copy", "both")
APPLY = ("apply", "--yes", "-j", "4", "--no-progress")
_MERGES = {
    "book": "{kind: Ledger, primaryKey: [k]}",
    "visits": "{kind: Append}",
    "prices": "{kind: Snapshot, primaryKey: [k]}",
}
_BOTH = """\
kind: DatasetSnapshot
version: 1
content:
  name: both
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: book, alias: b}, {datasetRef: copy, alias: c}]
      transform:
        kind: Sql
        engine: spark
        query: select t, k, v from b union all select t, k, v from c
    - kind: SetVocab
      eventTimeColumn: t
"""


def first(project: Path) -> Path:
    """Write the project with two files a root."""
    files = {
        f"datasets/{name}.yaml": root(
            name, fetch=f"{{kind: FilesGlob, path: {name}/*.csv}}", merge=merge
        )
        for name, merge in _MERGES.items()
    }
    files["datasets/copy.yaml"] = derivative("copy", "visits")
    files["datasets/both.yaml"] = _BOTH
    return lay_out(project, {**files, **_data(1, 2)})


def second(project: Path) -> Path:
    """Add two files a root, and a description to one."""
    old = (project / "datasets" / "visits.yaml").read_text("utf-8")
    described = old + "    - kind: SetInfo\n      description: who came\n"
    return lay_out(project, {"datasets/visits.yaml": described, **_data(3, 4)})


def memory() -> str | None:
    """Return a folder that is kept in memory, where writes cost little, if there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108


def _data(*days: int) -> dict[str, str]:
    line = "2024-01-0{day},{key}{day},{day}\n"
    return {
        f"{name}/{day}.csv": "t,k,v\n"
        + "".join(line.format(day=day, key=k) for k in (name, "same"))
        for name in _MERGES
        for day in days
    }
