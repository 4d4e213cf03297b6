"""Make one graph of datasets as three projects: for odfbuild, for dbt and for SQLMesh.

A fifth of the datasets are roots, the others lie in twenty levels above them and read one to three
datasets of lower levels, at least one of the level just below.  Equal arguments make equal files.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DEPTH", "Node", "for_dbt", "for_odfbuild", "for_sqlmesh", "layered"]

DEPTH = 20

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
        schema:
          - event_time TIMESTAMP
          - id BIGINT
          - city STRING
          - amount DOUBLE
          - note STRING
      merge: {{kind: Ledger, primaryKey: [id]}}
"""
_DERIVATIVE = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs:
{inputs}
      transform:
        kind: Sql
        engine: spark
        query: |
{query}
"""
_SELECT = """\
select
  event_time,
  id,
  upper(trim(city)) as city,
  case when amount > {limit} then amount * 2 else amount end as amount,
  concat(note, '-{number}') as note
from {source}
where amount is not null and id % {modulo} <> 0"""


@dataclass(frozen=True, slots=True)
class Node:
    """One dataset of the graph; a root reads nothing."""

    name: str
    inputs: tuple[str, ...]


def layered(count: int) -> tuple[Node, ...]:
    """Return a graph of so many datasets, inputs before what reads them."""
    chance = random.Random(count)  # noqa: S311
    levels: list[list[Node]] = [[Node(f"bench.r{n:05d}", ()) for n in range(max(count // 5, 1))]]
    left = count - len(levels[0])
    for depth in range(1, DEPTH + 1):
        size = left // DEPTH + (depth <= left % DEPTH)
        level = []
        for number in range(size):
            below = chance.choice(levels[-1]).name
            others = {chance.choice(chance.choice(levels)).name for _ in range(chance.randrange(3))}
            read = (below, *sorted(others - {below}))
            level.append(Node(f"bench.d{depth:02d}-{number:04d}", read))
        if level:
            levels.append(level)
    return tuple(node for level in levels for node in level)


def for_odfbuild(folder: Path, nodes: tuple[Node, ...]) -> None:
    """Write a project with a file for each dataset, a folder for each level."""
    folder.mkdir(parents=True)
    (folder / "odfbuild.yaml").write_text("odfbuild: 1\nname: bench\ndatasets: [datasets]\n")
    for number, node in enumerate(nodes):
        path = folder / "datasets" / node.name[6:9] / f"{node.name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not node.inputs:
            path.write_text(_ROOT.format(name=node.name))
            continue
        inputs = "\n".join(
            f"        - {{datasetRef: {each}, alias: i{at}}}" for at, each in enumerate(node.inputs)
        )
        query = _query(number, [f"i{at}" for at in range(len(node.inputs))])
        text = "\n".join(f"          {line}" for line in query.splitlines())
        path.write_text(_DERIVATIVE.format(name=node.name, inputs=inputs, query=text))


def for_dbt(folder: Path, nodes: tuple[Node, ...]) -> None:
    """Write a dbt project over DuckDB: the roots are seeds' stand-ins, views of no rows."""
    models = folder / "models"
    models.mkdir(parents=True)
    (folder / "dbt_project.yml").write_text(
        "name: bench\nversion: '1.0'\nprofile: bench\nmodel-paths: [models]\n"
    )
    (folder / "profiles.yml").write_text(
        "bench:\n  target: dev\n  outputs:\n    dev: {type: duckdb, path: bench.duckdb}\n"
    )
    for number, node in enumerate(nodes):
        sources = [f"{{{{ ref('{_plain(each)}') }}}}" for each in node.inputs]
        (models / f"{_plain(node.name)}.sql").write_text(_model(number, sources))


def for_sqlmesh(folder: Path, nodes: tuple[Node, ...]) -> None:
    """Write a SQLMesh project over DuckDB with the same models."""
    models = folder / "models"
    models.mkdir(parents=True)
    (folder / "config.yaml").write_text(
        "gateways:\n  dev:\n    connection: {type: duckdb, database: bench.duckdb}\n"
        "default_gateway: dev\nmodel_defaults: {dialect: duckdb, start: 2024-01-01}\n"
    )
    for number, node in enumerate(nodes):
        sources = [f"bench.{_plain(each)}" for each in node.inputs]
        head = f"MODEL (name bench.{_plain(node.name)}, kind VIEW);\n\n"
        (models / f"{_plain(node.name)}.sql").write_text(head + _model(number, sources))


def _model(number: int, sources: list[str]) -> str:
    return (_query(number, sources) if sources else _nothing()) + "\n"


def _nothing() -> str:
    return (
        "select cast(null as timestamp) as event_time, cast(null as bigint) as id,\n"
        "  cast(null as varchar) as city, cast(null as double) as amount,\n"
        "  cast(null as varchar) as note\nwhere false"
    )


def _query(number: int, sources: list[str]) -> str:
    return "\nunion all\n".join(_selects(number, sources))


def _selects(number: int, sources: list[str]) -> Iterator[str]:
    for at, source in enumerate(sources):
        yield _SELECT.format(source=source, number=number, limit=10 + at, modulo=7 + number % 90)


def _plain(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")
