"""A project as somebody grows it over a month, each step held against plain Python."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects import Done, environment

pytestmark = pytest.mark.spark

SETTINGS = """\
odfbuild: 1
name: shop
datasets: [datasets]
gates: {data: error}
defaults:
  "shop.big": {on_query_change: restate}
"""
ORDERS = """\
kind: DatasetSnapshot
version: 1
content:
  name: shop.orders
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: orders/*.csv}
      read:
        kind: Csv
        header: true
        schema: [id INT NOT NULL, at TIMESTAMP NOT NULL, customer STRING, cents BIGINT]
      merge: {kind: Ledger, primaryKey: [id]}
    - {kind: SetVocab, eventTimeColumn: at}
"""
CUSTOMERS = r"""
kind: DatasetSnapshot
version: 1
content:
  name: shop.customers
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch:
        kind: FilesGlob
        path: customers/*.csv
        eventTime: {kind: FromPath, pattern: '(\d{4}-\d{2}-\d{2})'}
      read:
        kind: Csv
        header: true
        schema: [customer STRING NOT NULL, city STRING]
      merge: {kind: Snapshot, primaryKey: [customer]}
"""
DERIVED = """\
kind: DatasetSnapshot
version: 1
content:
  name: shop.NAME
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: INPUTS
      transform: {kind: Sql, engine: spark, query: "QUERY"}
    - {kind: SetVocab, eventTimeColumn: at}
"""
ON_ORDERS = "[{datasetRef: shop.orders, alias: o}]"
ON_BOTH = "[{datasetRef: shop.orders, alias: o}, {datasetRef: shop.customers, alias: c}]"
BIG = "select at, id, cents from o where cents >= LEAST"
SPENT = (
    "select max(at) as at, customer, count(*) as orders, sum(cents) as cents "
    "from o group by customer"
)
CITIES = "select o.at, o.id, c.city, o.cents from o join c on o.customer = c.customer"
UNIT = """\
dataset: shop.spent
batches:
  - inputs:
      shop.orders:
        - {id: 1, at: 2031-01-01, customer: ann, cents: 100}
        - {id: 2, at: 2031-01-02, customer: ann, cents: 50}
    expect: [{customer: ann, orders: 2, cents: 150}]
  - inputs: {shop.orders: [{id: 3, at: 2031-01-03, customer: bob, cents: 7}]}
    adds: [{customer: bob, orders: 1, cents: 7}]
"""
DATA = """\
dataset: shop.orders
checks:
  - range: {column: cents, min: 0}
    on: new-rows
  - not_null: [customer]
    on: new-rows
"""
NAMES = ("ann", "bob", "cleo", "dora")
PLACES = ("Oslo", "Turin", "Gent")


def derived(name: str, inputs: str, query: str) -> str:
    text = DERIVED.replace("NAME", name).replace("INPUTS", inputs)
    return text.replace("QUERY", query)


@dataclass
class Month:
    """The project, and what plain Python knows of it."""

    project: Path
    run: Inside
    orders: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    cities: dict[str, str] = field(default_factory=dict)
    least: int = 5000

    def day(
        self, day: int, count: int, *, cents: int | None = None
    ) -> dict[int, tuple[str, str, int]]:
        """Write the file of a day; what it says is known once it was taken in."""
        rows = {
            day * 100 + n: (
                f"2031-01-{day:02}T{n:02}:00:00.000Z",
                NAMES[(day * 7 + n * 3) % len(NAMES)],
                (day * 1_933 + n * 2_741) % 9_000 if cents is None else cents,
            )
            for n in range(count)
        }
        lines = [f"{id},{at},{who},{cents}" for id, (at, who, cents) in rows.items()]
        self.put(f"orders/2031-01-{day:02}.csv", "\n".join(["id,at,customer,cents", *lines, ""]))
        return rows

    def move(self, day: int, cities: dict[str, str]) -> None:
        """Write the customers as they are from a day on."""
        lines = [f"{customer},{city}" for customer, city in cities.items()]
        text = "\n".join(["customer,city", *lines, ""])
        self.put(f"customers/2031-01-{day:02}.csv", text)
        self.cities = cities

    def put(self, name: str, text: str) -> None:
        lay_out(self.project, {name: text})

    def edit(self, name: str, old: str, new: str) -> None:
        file = self.project / "datasets" / f"{name}.yaml"
        text = file.read_text("utf-8")
        assert old in text
        file.write_text(text.replace(old, new), "utf-8")

    def done(self, command: str, *arguments: str, code: int = 0) -> Done:
        done = self.run(command, *arguments)
        assert done.code == code, f"{command}: {done.out}{done.err}"
        return done

    def expected(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return what has to be in each dataset."""
        orders = [(id, *row) for id, row in self.orders.items()]
        spent = []
        for who in {row[2] for row in orders}:
            own = [row for row in orders if row[2] == who]
            spent.append((max(r[1] for r in own), who, len(own), sum(r[3] for r in own)))
        return {
            "shop.orders": sorted((at, id, who, cents) for id, at, who, cents in orders),
            "shop.customers": sorted(self.cities.items()),
            "shop.big": sorted((at, id, c) for id, at, _, c in orders if c >= self.least),
            "shop.spent": sorted(spent),
            "shop.cities": sorted(
                (at, id, self.cities[who], c) for id, at, who, c in orders if who in self.cities
            ),
        }

    def check(self) -> None:
        """Compare what stands with what has to, and heads with the files that they name."""
        for name, rows in self.expected().items():
            assert self.standing(name) == rows, name
        check_heads(self.project)

    def standing(self, name: str) -> list[tuple[Any, ...]]:
        shown = json.loads(self.done("show", name, "--current", "-n", "1000", "-o", "json").out)
        hidden = {"offset", "op", "system_time", "event_time"}
        return sorted(tuple(v for k, v in row.items() if k not in hidden) for row in shown)


def check_heads(project: Path) -> None:
    """Hold every head, and every other block that is there, against the bytes of its file.

    A killed run may leave a block under a pending name; nothing reads it until `gc` clears it.
    """
    for folder, head in heads(project).items():
        blocks = project / ".odfbuild" / "datasets" / folder / "blocks"
        assert (blocks / head).is_file()
        for block in blocks.glob("[!.]*"):
            digest = hashlib.sha3_256(block.read_bytes()).hexdigest()
            assert block.name == f"f1620{digest}"


def blocks(project: Path) -> int:
    return len(list((project / ".odfbuild" / "datasets").glob("*/blocks/f*")))


def killed(project: Path, after: int) -> int:
    """Apply in a process of its own, and kill it after so many more blocks; return its code."""
    program, begun = str(Path(sys.executable).parent / "odfbuild"), blocks(project)
    with subprocess.Popen(
        [program, "apply", "--yes"], cwd=project, env=environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        while blocks(project) < begun + after and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        return process.wait()


def folder_of(project: Path, name: str) -> Path:
    """Return the folder of a dataset, as the workspace calls it."""
    did = (project / ".odfbuild" / "names" / name).read_text("ascii").split()[0]
    return project / ".odfbuild" / "datasets" / did.removeprefix("did:odf:")


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the JVM that the commands within this process share."""
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        engine.prepare()
        yield


@pytest.fixture
def month(
    jvm: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Month:
    project = lay_out(
        tmp_path / "shop",
        {
            "odfbuild.yaml": SETTINGS,
            "datasets/orders.yaml": ORDERS,
            "datasets/customers.yaml": CUSTOMERS,
            "datasets/big.yaml": derived("big", ON_ORDERS, BIG.replace("LEAST", "5000")),
            "datasets/spent.yaml": derived("spent", ON_ORDERS, SPENT),
            "datasets/cities.yaml": derived("cities", ON_BOTH, CITIES),
            "tests/unit/spent.yaml": UNIT,
            "tests/data/orders.yaml": DATA,
        },
    )
    return Month(project, Inside(project, capsys, monkeypatch))


def test_a_project_grows_over_a_month(
    month: Month, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begins(month)
    a_definition_is_edited(month)
    a_bad_edit_is_caught(month)
    a_bad_file_is_held_back(month)
    a_run_is_killed_and_gone_on_with(month)
    a_run_is_taken_back(month)
    other = lay_out(month.project.parent / "other", {})
    is_taken_over(month, Inside(other, capsys, monkeypatch))
    ends(month)


def begins(month: Month) -> None:
    month.move(1, {"ann": PLACES[0], "bob": PLACES[1]})
    month.orders |= month.day(1, 4)
    month.done("apply", "--yes")
    month.check()
    month.orders |= month.day(3, 5)
    month.done("run")
    month.check()
    assert month.done("plan").out.startswith("No changes.")


def a_definition_is_edited(month: Month) -> None:
    """Restated: what is written of older orders changes as well."""
    month.edit("big", "cents >= 5000", "cents >= 4000")
    month.orders |= month.day(5, 5)
    month.least = 4000
    month.done("apply", "--yes")
    month.check()


def a_bad_edit_is_caught(month: Month) -> None:
    before = heads(month.project)
    month.edit("spent", "sum(cents)", "sum(2 * cents)")
    told = month.done("test", "--unit", code=7)
    assert "150" in told.out
    assert "300" in told.out
    month.edit("spent", "sum(2 * cents)", "sum(cents)")
    month.done("test", "--batches")
    assert heads(month.project) == before


def a_bad_file_is_held_back(month: Month) -> None:
    before = heads(month.project)
    month.day(11, 3, cents=-1)
    told = month.done("apply", "--yes", code=7)
    assert "data-check" in told.err
    assert "2031-01-11.csv" in told.err
    assert heads(month.project) == before
    month.orders |= month.day(11, 3)
    month.done("apply", "--yes")
    month.check()


def a_run_is_killed_and_gone_on_with(month: Month) -> None:
    month.move(14, {"ann": PLACES[0], "bob": PLACES[2], "cleo": PLACES[1]})
    month.orders |= month.day(13, 6) | month.day(14, 6)
    assert killed(month.project, 1) == -signal.SIGKILL
    month.done("verify")
    told = month.done("runs", "last").out
    assert "interrupted" in told
    month.done("apply", "--resume", "last")
    month.check()
    assert month.done("plan").out.startswith("No changes.")


def a_run_is_taken_back(month: Month) -> None:
    before, known = heads(month.project), dict(month.orders)
    month.orders |= month.day(18, 4, cents=1)
    month.done("apply", "--yes")
    month.check()
    assert heads(month.project) != before
    month.done("undo", "last", "--yes")
    month.orders = known
    month.check()
    assert heads(month.project) == before
    month.orders |= month.day(18, 4)
    month.done("apply", "--yes")
    month.check()


def is_taken_over(month: Month, other: Inside) -> None:
    for name in ("shop.orders", "shop.customers", "shop.cities"):
        taken = other("import", str(folder_of(month.project, name)))
        assert taken.code == 0, taken.err
    there = heads(month.project)
    assert {there[folder] for folder in heads(other.project)} == set(heads(other.project).values())
    assert len(heads(other.project)) == 3
    check_heads(other.project)
    assert other("plan").out.startswith("No changes.")
    assert Month(other.project, other).standing("shop.cities") == month.expected()["shop.cities"]
    assert other("verify", "--replay").code == 0


def ends(month: Month) -> None:
    month.move(28, {"ann": PLACES[1], "dora": PLACES[2]})
    month.orders |= month.day(27, 6) | month.day(28, 2)
    month.done("run")
    month.check()
    month.done("gc", "--older-than", "0")
    month.done("verify", "--replay")
    month.check()
    runs = json.loads(month.done("runs", "-o", "json").out)
    assert {each["outcome"] for each in runs} == {"done", "interrupted", "failed"}
