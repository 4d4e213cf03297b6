"""Saved plans bind where steps are carried out: no program runs that a plan does not name."""

import json
import random
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from odfbuild.app.maintenance import rewrite
from odfbuild.app.maintenance.rebuild_engines import rebuild_engines
from odfbuild.odf.identity import sha3_256
from odfbuild.planner.plan.places import EnginePlace
from odfbuild.planner.saved import canonical, from_json, to_json
from tests.support.process.inside import heads, lay_out
from tests.support.process.placed import TAGGED, Placed
from tests.support.projects import REPOSITORY
from tests.support.projects.texts import derivative
from tests.support.values.plans import EVERYTHING, alias

NONE: Mapping[str, str] = {}


def test_a_plan_says_where_its_steps_are_carried_out(placed: Placed) -> None:
    placed.settings({"a": placed.entry("a", "{tags: [big], from: 1GB}")}, {"src": "big"})
    said = placed.plan()
    assert placed.places() == {"a": (["src"], ["out"], 1_000_000_000)}
    assert "new files of src are read and merged by a: the tag 'big'" in said
    assert "steps of out are carried out by a if they may read 1,000,000,000 bytes" in said
    placed.settings({"a": placed.entry("a", "{tags: [big]}")})
    assert "steps of out are carried out by a: the tag 'big'" in placed.plan()
    assert placed.places() == {"a": (["out"], [], None)}
    placed.settings({"a": placed.entry("a", "{tags: [big], targets: [prod]}")})
    assert "carried out by" not in placed.plan()
    assert placed.places() == {}
    placed.settings({"a": placed.entry("a", "{tags: [big]}")}, {"src": "big", "out": "big"})
    placed.plan("src")
    assert placed.places() == {"a": (["src"], [], None)}


STEPS = "{tags: [big]}"
EDITS = {
    "an engine is added": ({}, TAGGED, {"a": ("x", STEPS, "")}, TAGGED),
    "by size": ({}, TAGGED, {"a": ("x", "{from: 1B}", "")}, TAGGED),
    "another is added": ({"a": ("a", "{tags: [no]}", "")}, TAGGED, {"a": ("x", STEPS, "")}, TAGGED),
    "a tag is given": ({"a": ("x", STEPS, "")}, NONE, {"a": ("x", STEPS, "")}, TAGGED),
    "a rule is changed": ({"a": ("x", "{from: 1TB}", "")}, NONE, {"a": ("x", STEPS, "")}, NONE),
    "another program": ({"a": ("a", STEPS, "")}, TAGGED, {"a": ("x", STEPS, "")}, TAGGED),
    "a limit": ({"a": ("x", STEPS, "")}, TAGGED, {"a": ("x", STEPS, ", limit: 9s")}, TAGGED),
    "by size, too": (
        {"a": ("x", STEPS, "")}, TAGGED, {"a": ("x", "{tags: [big], from: 1B}", "")}, TAGGED,
    ),
    "removed": ({"a": ("a", STEPS, "")}, TAGGED, {}, TAGGED),
    "the tag is removed": ({"a": ("a", STEPS, "")}, TAGGED, {"a": ("a", STEPS, "")}, NONE),
    "one before it": (
        {"a": ("a", STEPS, "")}, TAGGED,
        {"x": ("x", STEPS, ""), "a": ("a", STEPS, "")}, TAGGED,
    ),
}  # fmt: skip
"""Engines and tags when a plan was made, and when it is carried out."""
STALE = ("a rule is changed", "another program", "a limit", "by size, too", "removed")
NAMED = ("the tag is removed", "one before it")  # whose program the plan names


@pytest.mark.holds("project-places")
@pytest.mark.parametrize("edit", EDITS)
def test_a_saved_plan_runs_no_program_that_it_does_not_name(placed: Placed, edit: str) -> None:
    engines, tags, later, later_tags = EDITS[edit]
    placed.settings({name: placed.entry(*each) for name, each in engines.items()}, tags)
    placed.plan()
    before = heads(placed.folder)
    placed.settings({name: placed.entry(*each) for name, each in later.items()}, later_tags)
    code, _, err = placed("apply", "plan.json")
    assert placed.ran() == ({"a"} if edit in NAMED else set())
    if edit in STALE:
        assert code == 5, err
        assert "error[stale-plan]: the engine a " in err
        assert heads(placed.folder) == before
    else:
        assert code == (4 if edit in NAMED else 0), err


REBUILDS = {"out": ["out"], "in a new chain": ["out", "--full"], "all": ["src", "out", "--full"]}


@pytest.mark.holds("project-places")
@pytest.mark.parametrize("chosen", REBUILDS.values(), ids=REBUILDS)
@pytest.mark.parametrize("edit", EDITS)
def test_a_saved_rebuild_runs_no_program_that_it_does_not_name(
    placed: Placed, edit: str, chosen: list[str]
) -> None:
    placed.settings({}, NONE)
    assert placed("apply", "--yes")[0] == 0
    engines, tags, later, later_tags = EDITS[edit]
    placed.settings({name: placed.entry(*each) for name, each in engines.items()}, tags)
    code, out, err = placed("rebuild", *chosen, "--out", "plan.json")
    assert code == 0, err
    saved = json.loads((placed.folder / "plan.json").read_text())
    named = {
        each["engine"] for step in saved.get("steps", [saved]) for each in step.get("places", ())
    }
    assert all(f"by {name} (command:" in out for name in named)
    before = heads(placed.folder)
    placed.settings({name: placed.entry(*each) for name, each in later.items()}, later_tags)
    code, _, err = placed("apply", "plan.json")
    assert (code, placed.ran()) == (5, set()), err
    assert "out would be rebuilt in another place: " in err
    assert heads(placed.folder) == before
    placed.settings({name: placed.entry(*each) for name, each in engines.items()}, tags)
    placed("apply", "plan.json")
    assert placed.ran() == {mark for name, (mark, *_) in engines.items() if tags and name in named}


@pytest.mark.holds("project-places")
@pytest.mark.parametrize("later", ["master: spark://elsewhere:7077", "objects: s3://elsewhere/f"])
def test_a_saved_rebuild_binds_where_spark_runs(placed: Placed, later: str) -> None:
    before = "master: spark://here:7077, objects: s3://here/f"
    key = later.partition(":")[0]
    text = "odfbuild: 1\nengine: {spark: {%s}}\n"
    placed.settings({}, NONE)
    assert placed("apply", "--yes")[0] == 0
    lay_out(placed.folder, {"odfbuild.yaml": text % before})
    code, out, err = placed("rebuild", "out", "--out", "plan.json")
    assert code == 0, err
    assert "with the master spark://here:7077, with the store s3://here/f" in out
    changed = ", ".join(each for each in (*before.split(", "), later) if key not in each)
    lay_out(placed.folder, {"odfbuild.yaml": text % f"{changed}, {later}"})
    code, _, err = placed("apply", "plan.json")
    assert code == 5
    assert "out would be rebuilt in another place: " in err
    assert "elsewhere" in err


def test_a_policy_that_changed_refuses_the_program_of_a_saved_plan(placed: Placed) -> None:
    placed.settings({"a": placed.entry("a", STEPS)})
    placed.plan()
    before = heads(placed.folder)
    placed.allow("other")
    code, _, err = placed("apply", "plan.json")
    assert code == 1
    assert "engine-not-permitted" in err
    assert placed.ran() == set()
    assert heads(placed.folder) == before


@pytest.mark.holds("project-places")
def test_the_program_of_a_query_is_that_of_the_saved_plan(placed: Placed) -> None:
    text = derivative("more", engine="duck", query="select t, k, v from src")
    lay_out(placed.folder, {"datasets/more.yaml": text})
    command = [sys.executable, placed.script, "{request}"]
    entries = [f"{{command: {json.dumps([*command, each])}, engine: spark}}" for each in "ax"]
    placed.settings({"duck": entries[0]})
    placed.plan()
    assert placed.places() == {"duck": (["more"], [], None)}
    placed.settings({"duck": entries[1]})
    code, _, err = placed("apply", "plan.json")
    assert (code, placed.ran()) == (5, set())
    assert "the engine duck in `engines` is another one than when the plan was made" in err
    placed.settings({"duck": entries[0]})
    placed("apply", "plan.json")
    assert placed.ran() == {"a"}


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_edited_only_programs_of_the_plan_run(placed: Placed, seed: int) -> None:
    draw = random.Random(seed)

    def drawn() -> tuple[dict[str, str], dict[str, str]]:
        engines = {}
        for name in draw.sample("abc", draw.randint(0, 3)):
            rule = draw.choice(["{tags: [big]}", "{tags: [no, big]}", "{from: 1B}", "{from: 1TB}"])
            mark = f"{name}{draw.randint(0, 1)}"
            engines[name] = placed.entry(mark, rule, draw.choice(["", ", limit: 90s"]))
        tags = {name: draw.choice(["big", "no"]) for name in ("src", "out") if draw.random() < 0.7}
        return engines, tags

    engines, tags = drawn()
    placed.settings(engines, tags)
    placed.plan()
    named = {mark for name in placed.places() for mark in (f"{name}0", f"{name}1")}
    named = {each for each in named if f'"{each}"' in engines.get(each[0], "")}
    later, later_tags = drawn()
    placed.settings({**later, **engines} if draw.random() < 0.5 else later, later_tags)
    code, _, err = placed("apply", "plan.json")
    assert placed.ran() <= named, err
    assert code in (0, 5) or "error[engine-failed]" in err, err


@pytest.mark.holds("project-reads")
def test_a_plan_warns_of_a_program_that_is_not_there_and_starts_none(placed: Placed) -> None:
    entry = f"{{command: [no-such-program, '{{request}}'], engine: spark, steps: {STEPS}}}"
    placed.settings({"a": entry})
    said = " ".join(placed.plan().split())
    assert "warning[engine-unreachable]: the engine a has a command whose program is not" in said
    assert "no-such-program" in said
    placed.settings({"a": placed.entry("a", STEPS)})
    assert "engine-unreachable" not in placed.plan()
    assert placed.ran() == set()


def test_places_are_saved_and_come_back() -> None:
    place = EnginePlace(
        engine="a", runs="command:submit", settings=sha3_256(b"entry"), datasets=(alias("x"),),
        large=(alias("y"),), least=10,
    )  # fmt: skip
    plan = replace(EVERYTHING, places=(place, replace(place, engine="b", large=(), least=None)))
    written = json.loads(canonical(to_json(plan)))
    assert from_json(written) == plan
    published = json.loads((REPOSITORY / "schemas" / "plan.schema.json").read_text("utf-8"))
    jsonschema.validate(written, published)
    assert "places" not in to_json(EVERYTHING)


MASTER = "engine: {spark: {master: 'spark://%s:7077'%s}}"
USES = {
    "nothing": "",
    "local": "engine: {spark: {master: 'local[2]'}}",
    "one": MASTER % ("one", ""),
    "two": MASTER % ("two", ""),
    "one with a store": MASTER % ("one", ", objects: 's3://bucket/a'"),
    "one with another store": MASTER % ("one", ", objects: 's3://bucket/b'"),
    "events": "openlineage: {url: 'http://127.0.0.1:1'}",
    "events elsewhere": "openlineage: {url: 'http://127.0.0.1:2'}",
    "events with a token": "openlineage: {url: 'http://127.0.0.1:1', token_env: HOME}",
}
"""Settings of what a run uses outside of the project."""
PARTS: Mapping[str, set[str]] = {
    "nothing": set(),
    "local": set(),
    "one with a store": {"one", "s3://bucket/a"},
    "one with another store": {"one", "s3://bucket/b"},
    "events with a token": {"events", "HOME"},
}
"""What they name, for those that do not name themselves."""


@pytest.mark.holds("project-places")
@pytest.mark.parametrize("planned", USES)
def test_a_saved_plan_uses_no_cluster_store_or_server_that_it_does_not_name(
    placed: Placed, planned: str
) -> None:
    policy = placed.folder.with_name("policy.yaml")
    policy.write_text("odfbuild_policy: 1\nmasters: ['*']\nstores: ['*']\nsource_env: ['*']\n")

    def write(uses: str) -> None:
        lay_out(placed.folder, {"odfbuild.yaml": f"odfbuild: 1\n{USES[uses]}\n"})

    write(planned)
    placed.plan()
    before = heads(placed.folder)
    named = PARTS.get(planned, {planned})
    for later in USES:
        if PARTS.get(later, {later}) <= named:
            continue
        write(later)
        code, _, err = placed("apply", "plan.json")
        assert code == 5, (later, err)
        assert "error[stale-plan]: " in err
        assert heads(placed.folder) == before
    write("local" if planned == "nothing" else "nothing")
    code, _, err = placed("apply", "plan.json")
    assert code == 0, err
    assert heads(placed.folder) != before


def test_a_rebuild_runs_where_it_was_to_run_whatever_definitions_say_by_then(
    placed: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed.settings({"a": placed.entry("a", "{tags: [big]}")}, {"'path:datasets/big'": "big"})
    definition = placed.folder / "datasets" / "out.yaml"

    def later(*given: Any) -> Any:
        definition.parent.joinpath("big").mkdir()
        definition.rename(definition.parent / "big" / definition.name)
        return rebuild_engines(*given)

    monkeypatch.setattr(rewrite, "rebuild_engines", later)
    code, _, err = placed("rebuild", "out", "--yes")
    assert (code, err, placed.ran()) == (0, "", set())
    monkeypatch.undo()
    assert placed("rebuild", "out", "--yes")[0] != 0
    assert placed.ran() == {"a"}
