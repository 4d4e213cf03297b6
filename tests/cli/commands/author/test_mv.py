"""odfbuild mv: a dataset is renamed everywhere or nowhere, and its chain goes on."""

import json
from pathlib import Path

import pytest

from odfbuild.project.load import load_project
from tests.support.process.inside import Inside, heads, lay_out, without_jvm
from tests.support.process.within import Within
from tests.support.projects import Done

ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: shop.orders   # its name
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: s
      read: {kind: NdJson, schema: [id INT]}
      merge: {kind: Append}
"""
READER = """\
kind: DatasetSnapshot
version: 1
content:
  name: shop.big
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs:
        - datasetRef: Shop.Orders
        # and themselves
      transform: {kind: Sql, engine: spark, query: "select id from `Shop.Orders`"}
---
kind: DatasetSnapshot
version: 1
content:
  name: shop.small
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: shop.orders, alias: o}]
      transform: {kind: Sql, engine: spark, query: select id from o}
"""
TEMPLATE = READER.partition("---")[0].replace("shop.big", "shop.{{ 'made' }}")
PROJECT = """\
odfbuild: 1
accept: [{code: ODF201, dataset: shop.orders, until: 2031-01-01}]
selectors: {mine: shop.orders+}
"""


@pytest.fixture
def within(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    files = {"datasets/root.yaml": ROOT, "datasets/reader.yaml": READER}
    lay_out(tmp_path, {"odfbuild.yaml": PROJECT, **files})
    return Within(tmp_path, capfd, monkeypatch)


def texts(within: Within) -> dict[str, str]:
    found = (path for path in within.folder.rglob("*.y*ml*") if path.is_file())
    return {path.relative_to(within.folder).as_posix(): path.read_text() for path in found}


def test_definition_inputs_and_settings_follow(within: Within) -> None:
    within.done("mv", "shop.orders", "shop.sales")
    after = texts(within)
    assert after["datasets/root.yaml"] == ROOT.replace("shop.orders", "shop.sales")
    assert after["datasets/reader.yaml"] == READER.replace(
        "datasetRef: Shop.Orders\n", "datasetRef: shop.sales\n          alias: Shop.Orders\n"
    ).replace("{datasetRef: shop.orders", "{datasetRef: shop.sales")
    assert after["odfbuild.yaml"] == (
        PROJECT.replace("dataset: shop.orders", "dataset: shop.sales")
        + "moved:\n  - from: shop.orders\n    to: shop.sales\n"
    )


def test_every_edit_is_shown(within: Within) -> None:
    said = within.done("mv", "shop.orders", "shop.sales").splitlines()
    assert said == [
        "datasets/root.yaml:4:9: name: shop.orders -> shop.sales",
        "datasets/reader.yaml:9:23: input Shop.Orders -> shop.sales",
        "datasets/reader.yaml:9:11: alias: Shop.Orders, as the query calls it",
        "datasets/reader.yaml:20:29: input shop.orders -> shop.sales",
        "odfbuild.yaml:2:10: accepted for shop.sales",
        "odfbuild.yaml: moved from shop.orders to shop.sales",
        "odfbuild.yaml:3: still names shop.orders: selectors: {mine: shop.orders+}",
        "Moved shop.orders to shop.sales. Next: odfbuild plan",
    ]


FIXTURE = """\
dataset: shop.big
batches:
  - inputs: {{{big}: [{{id: 1, event_time: 2031-04-01}}]}}
    expect: [{{id: 1}}]
---
dataset: shop.small  # by its alias, and by its name
schemas: {{{small}: [id BIGINT, event_time TIMESTAMP]}}
batches:
  - inputs: {{o: [{{id: 1, event_time: 2031-04-01}}]}}
    expect: [{{id: 1}}]
"""
CHECKS = """\
dataset: {one}
checks:
  - not_null: id
  - relationship: {{column: id, to: {two}}}
"""


def test_tests_follow(within: Within) -> None:
    fixture = FIXTURE.format(big="Shop.Orders", small="shop.orders")
    checks = CHECKS.format(one="Shop.Orders", two="shop.big")
    other = CHECKS.format(one="shop.small", two="shop.orders")
    lay_out(within.folder, {
        "tests/unit/a.yaml": fixture, "tests/data/b.yaml": checks, "tests/data/c.yaml": other,
    })  # fmt: skip
    said = within.done("mv", "shop.orders", "shop.sales").splitlines()
    assert said[4:7] == [
        "tests/data/b.yaml:1:10: Shop.Orders -> shop.sales",
        "tests/data/c.yaml:4:36: shop.orders -> shop.sales",
        "odfbuild.yaml:2:10: accepted for shop.sales",
    ]
    assert said[-2] == "tests/unit/a.yaml:7:11: still names shop.orders: write shop.sales, or o"
    within.done("mv", "shop.big", "shop.large")
    after = texts(within)
    assert after["tests/unit/a.yaml"] == fixture.replace("shop.big", "shop.large")
    assert after["tests/data/b.yaml"] == CHECKS.format(one="shop.sales", two="shop.large")
    assert after["tests/data/c.yaml"] == CHECKS.format(one="shop.small", two="shop.sales")
    (within.folder / "tests/unit/a.yaml").write_text(
        after["tests/unit/a.yaml"].replace("{shop.orders: [id", "{shop.sales: [id")
    )
    found = [each for each in within("check").out.splitlines() if "error[" in each]
    assert all("error[no-event-time]" in each for each in found), found  # of these definitions


def test_queries_say_the_same_afterwards(within: Within) -> None:
    before = {str(each.alias): each.snapshot for each in load_project(within.folder).declared}
    within.done("mv", "shop.big", "shop.large")
    within.done("mv", "shop.orders", "shop.sales")
    after = {str(each.alias): each.snapshot for each in load_project(within.folder).declared}
    assert set(after) == {"shop.sales", "shop.large", "shop.small"}
    for old, new in (("shop.big", "shop.large"), ("shop.small", "shop.small")):
        ((_, was), (_, now)) = ((each.kind, each.metadata[0]) for each in (before[old], after[new]))
        assert now.transform == was.transform  # type: ignore[union-attr]
        aliases = [[i.alias for i in each.inputs] for each in (was, now)]  # type: ignore[union-attr]
        assert aliases[0] == aliases[1]


def test_going_back_turns_the_move_round(within: Within) -> None:
    within.done("mv", "shop.small", "shop.tiny")
    within.done("mv", "shop.tiny", "shop.small")
    assert "moved:\n  - from: shop.tiny\n    to: shop.small\n" in texts(within)["odfbuild.yaml"]


def test_a_second_move_follows_the_first(within: Within) -> None:
    within.done("mv", "shop.small", "shop.tiny")
    within.done("mv", "shop.tiny", "shop.least")
    moved = load_project(within.folder).config.moved
    assert [(str(each.old), str(each.new)) for each in moved] == [
        ("shop.small", "shop.tiny"),
        ("shop.tiny", "shop.least"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "error", "help"),
    [
        ("shop.order", "shop.sales", "unknown-dataset", "shop.orders"),
        ("shop.orders", "shop.BIG", "taken-name", "another"),
        ("shop.orders", "SHOP.orders", "taken-name", "case"),
        ("shop.orders", "shop sales", "invalid-name", ""),
    ],
)
def test_what_cannot_be_moved_is_refused(
    within: Within, old: str, new: str, error: str, help: str
) -> None:
    before = texts(within)
    done = within("mv", old, new)
    assert done.code == 1
    assert f"error[{error}]" in done.err
    assert help in done.err
    assert texts(within) == before


def test_what_a_template_writes_is_named_and_nothing_changes(within: Within) -> None:
    lay_out(within.folder, {"datasets/made.yaml.j2": TEMPLATE})
    before = texts(within)
    done = within("mv", "shop.orders", "shop.sales")
    assert done.code == 1
    assert "datasets/made.yaml.j2:9:23: error[not-written-here]: an input of shop.made" in done.err
    assert "alias: shop.orders" in done.err
    assert texts(within) == before
    done = within("mv", "shop.made", "shop.make")
    assert "datasets/made.yaml.j2:4:9" in done.err
    assert "moved: [{from: shop.made, to: shop.make}]" in done.err
    assert texts(within) == before


def test_one_file_that_cannot_be_edited_leaves_all_as_they_are(within: Within) -> None:
    odd = READER.replace(
        "datasetRef: Shop.Orders", "datasetRef: &it shop.orders\n          alias: *it"
    )
    lay_out(within.folder, {"datasets/reader.yaml": odd})
    before = texts(within)
    done = within("mv", "shop.orders", "shop.sales")
    assert done.code == 1
    assert "error[unusual-layout]" in done.err
    assert texts(within) == before


def test_a_project_that_does_not_load_afterwards_is_put_back(within: Within) -> None:
    lay_out(within.folder, {"odfbuild.yaml": PROJECT + "moved: [{from: x, to: shop.sales}]\n"})
    before = texts(within)
    done = within("mv", "shop.orders", "shop.sales")
    assert done.code == 1
    assert "moved to shop.sales" in done.err
    assert texts(within) == before


def test_what_was_built_goes_on_under_the_new_name(tmp_path: Path) -> None:
    def run(*arguments: str) -> Done:
        done = without_jvm(*arguments, cwd=tmp_path)
        assert done.code == 0, done.err
        return done

    run("init", ".")
    run("apply", "--yes")
    before = heads(tmp_path)
    run("mv", "shop.orders", "shop.sales")
    assert "shop.orders \u2192 shop.sales" in run("plan").out
    run("apply", "--yes")
    after = heads(tmp_path)
    assert set(after) == set(before)
    assert "shop.sales" in run("status").out
    assert "shop.orders" not in run("status").out
    assert run("plan").out.startswith("No changes.")


def test_a_move_foresees_no_step_that_has_nothing_to_do(market: Path, ask: Inside) -> None:
    name = next(path.stem for path in (market / ".odfbuild/names").iterdir() if "src" in path.stem)
    assert ask("mv", name, "moved.src").code == 0
    assert _steps(ask) == {"move:moved.src"}
    lay_out(market, {"data/2.csv": "t,k,v\n2024-01-03,c,3\n"})
    foreseen = _steps(ask)
    assert "ingest:moved.src" in foreseen
    done = ask("apply", "--yes")
    assert done.code == 0, done.err
    assert not [line for line in done.err.splitlines() if "nothing new" in line]
    assert {line.split()[2].rstrip(":") for line in done.err.splitlines()} == foreseen


def _steps(ask: Inside) -> set[str]:
    return {step["id"] for step in json.loads(ask("plan", "-o", "json").out)["steps"]}
