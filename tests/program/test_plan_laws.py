"""Laws of plans: what they are made of, what is left after them, and that order is no matter."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.app.selection import PlanScope, scoped_plan
from odfbuild.cli.formats.outputs import PlanFormat, PlanFormatOptions, plan_output
from odfbuild.odf.events import SetInfo
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, Move, Plan
from odfbuild.planner.plan.reasons import InputMayAdvance, SourceToAsk
from odfbuild.planner.plan.subset import UnchosenInputError, restrict
from odfbuild.planner.saved import canonical, from_json, to_json
from odfbuild.state.chain.commit_request import CommitRequest
from tests.support.effort import examples
from tests.support.process.inside import lay_out
from tests.support.projects import odfbuild
from tests.support.projects.texts import root
from tests.support.servers.http import Server, serving
from tests.support.values.drawn import NOW, Drawn, Floor, evolved, in_another_order, projects

few = settings(max_examples=examples(8, 200))
pairs = projects().flatmap(lambda before: st.tuples(st.just(before), evolved(before)))


@contextmanager
def grown(before: Drawn, after: Drawn) -> Iterator[Callable[[], Floor]]:
    """Give equal projects, as many as are asked for: applied as `before`, now as `after`."""
    with TemporaryDirectory() as folder:
        numbers = count()

        def make() -> Floor:
            made = Floor(Path(folder) / str(next(numbers)), before.files())
            made.apply(made.plan())
            lay_out(made.folder, after.files())
            return made

        yield make


def document(plan: Plan) -> str:
    return canonical(to_json(plan))


# --- what is left ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as found:
        found.put_file("/a.csv", b"t,k,v\n2024-01-01,a,1\n", changed=1_700_000_000)
        yield found


@few
@given(pairs)
def test_after_apply_sources_are_to_be_asked_and_nothing_else_is_left(
    server: Server, pair: tuple[Drawn, Drawn]
) -> None:
    with TemporaryDirectory() as folder:
        made = Floor(Path(folder), {})
        for drawn in pair:
            lay_out(made.folder, drawn.files(f"{server.url}/a.csv"))
            made.apply(made.plan(), jobs=4)
        left = made.plan()
        remote = {n for n, each in zip(drawn.names, drawn.nodes, strict=True) if each.remote}
    assert left.is_empty
    asked = {str(step.target) for step in left.steps if isinstance(step.reasons[0], SourceToAsk)}
    assert asked == remote
    assert all(
        isinstance(reason, SourceToAsk | InputMayAdvance)
        for step in left.steps
        for reason in step.reasons
    )


# --- what plans are made of ------------------------------------------------------------------


@few
@given(pairs)
def test_planning_twice_gives_the_same_bytes(pair: tuple[Drawn, Drawn]) -> None:
    with grown(*pair) as make:
        made = make()
        assert document(made.plan()) == document(made.plan())


@few
@given(pairs, st.randoms(use_true_random=False), st.integers(0, 2**31))
def test_order_and_age_of_files_and_the_environment_are_no_part_of_it(
    pair: tuple[Drawn, Drawn], random: Random, age: int
) -> None:
    before, after = pair
    with grown(before, after) as make:
        first, other = make(), make()
        files = list(after.files().items())
        random.shuffle(files)
        for name, text in files:
            (other.folder / name).unlink()
            lay_out(other.folder, {name: text})
            os.utime(other.folder / name, (age, age))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SOMETHING_ELSE", str(age))
            patch.setenv("LANG", "tr_TR.UTF-8")
            patch.setenv("TZ", "Pacific/Apia")
            found = document(other.plan())
        assert found == document(first.plan())


def test_the_order_of_hashes_is_no_part_of_it(tmp_path: Path) -> None:
    names = [f"acme.r{number}" for number in range(7)]
    lay_out(tmp_path, {f"datasets/{name}.yaml": root(name) for name in names})
    found = [
        odfbuild("plan", "-o", "json", cwd=tmp_path, PYTHONHASHSEED=seed, XDG_CACHE_HOME=cache)
        for seed, cache in (("1", str(tmp_path / "x")), ("2", str(tmp_path / "y")))
    ]
    assert found[0] == found[1]
    assert found[0].code == 0, found[0].err


# --- order -----------------------------------------------------------------------------------


@few
@given(pairs, st.randoms(use_true_random=False))
def test_any_order_that_the_steps_allow_gives_the_same_chains(
    pair: tuple[Drawn, Drawn], random: Random
) -> None:
    with grown(*pair) as make:
        found = []
        for order, jobs in ((lambda plan: plan, 1), (lambda p: in_another_order(p, random), 1),
                            (lambda plan: plan, 4)):  # fmt: skip
            made = make()
            made.apply(order(made.plan()), jobs=jobs)
            found.append(made.chains())
    assert found[0] == found[1] == found[2]
    assert set(found[0]) == set(pair[1].names)


@few
@given(pairs)
def test_a_plan_that_was_written_and_read_gives_the_same_chains(pair: tuple[Drawn, Drawn]) -> None:
    with grown(*pair) as make:
        direct, saved = make(), make()
        direct.apply(direct.plan())
        read = from_json(json.loads(document(saved.plan())))
        assert isinstance(read, Plan)
        saved.apply(read)
        assert saved.chains() == direct.chains()


# --- selecting -------------------------------------------------------------------------------


@few
@given(pairs)
def test_selecting_everything_is_not_selecting(pair: tuple[Drawn, Drawn]) -> None:
    with grown(*pair) as make:
        made = make()
        plan = made.plan()
        assert restrict(plan, plan.datasets) == plan
        for select in (("*",), ("acme.*",), tuple(map(str, plan.datasets)), ("kind:root+",)):
            assert scoped_plan(made.opened, PlanScope(select=select)).plan == plan


@few
@given(st.data(), pairs)
def test_restricting_twice_is_restricting_to_what_both_mean(
    data: st.DataObject, pair: tuple[Drawn, Drawn]
) -> None:
    with grown(*pair) as make:
        plan = make().plan()
    some = st.frozensets(st.sampled_from(sorted(plan.datasets)))
    for _ in range(8):
        one, other = data.draw(some), data.draw(some)
        first = _restricted(plan, one)
        if first is not None:
            assert _restricted(first, other) == _restricted(plan, one & other)


def _restricted(plan: Plan, chosen: frozenset[DatasetAlias]) -> Plan | None:
    try:
        return restrict(plan, chosen)
    except UnchosenInputError:
        return None


@few
@given(pairs, st.data())
def test_what_is_selected_is_a_part_of_the_whole(
    pair: tuple[Drawn, Drawn], data: st.DataObject
) -> None:
    with grown(*pair) as make:
        plan = make().plan()
    chosen = data.draw(st.frozensets(st.sampled_from(sorted(plan.datasets))))
    part = _restricted(plan, chosen)
    if part is None:
        return
    whole = {step.id: step for step in plan.steps}
    assert all(step.target in chosen and step.work == whole[step.id].work for step in part.steps)
    definitions = {s.id for s in plan.steps if isinstance(s.work, Append | Move)}
    assert {s.id for s in part.steps} >= {i for i in definitions if whole[i].target in chosen}


# --- saved plans -----------------------------------------------------------------------------


@settings(max_examples=8)
@given(pairs, st.data())
def test_a_saved_plan_is_refused_with_nothing_done_once_any_head_moved(
    pair: tuple[Drawn, Drawn], data: st.DataObject
) -> None:
    with grown(*pair) as make:
        made = make()
        saved = made.folder / "plan.json"
        saved.write_text(document(made.plan()), "utf-8")
        _move(made, data.draw(st.sampled_from(pair[0].names)))
        before = made.contents()
        with pytest.MonkeyPatch.context() as patch:
            code = _apply(made.folder, saved, patch)
        assert code == 5
        assert made.contents() == before


def _move(made: Floor, name: str) -> None:
    dataset = made.opened.workspace.open(DatasetAlias.parse(name))
    assert dataset is not None
    dataset.commit(CommitRequest((SetInfo(description="else"),), NOW), on=dataset.state())


def _apply(folder: Path, saved: Path, patch: pytest.MonkeyPatch) -> int:
    from odfbuild.cli.main import main
    from odfbuild.executors.engine.spark import engine as spark
    from tests.support.engines import FakeEngine

    patch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    patch.setattr(sys, "argv", ["odfbuild", "apply", "-C", str(folder), str(saved)])
    with pytest.raises(SystemExit) as end:
        main()
    assert isinstance(end.value.code, int)
    return end.value.code


# --- many from one template ------------------------------------------------------------------

TEMPLATE = root("x").replace("  name: x\n", "").replace("data/*", "data/{{ each.key }}/*")
keys = st.sets(st.text("abcdef", min_size=1, max_size=3), min_size=2, max_size=5)


def _generated(items: Sequence[str]) -> Mapping[str, str]:
    each = "".join(f"      {key}: {{}}\n" for key in items)
    settings = f"odfbuild: 1\ngenerate:\n  g:\n    template: t.yaml.j2\n    for_each:\n{each}"
    data = {f"data/{key}/1.csv": "t,k,v\n2024-01-01,a,1\n" for key in items}
    return {
        "odfbuild.yaml": settings + '    name: "acme.{{ each.key }}"\n',
        "t.yaml.j2": TEMPLATE,
        **data,
    }


@few
@given(keys, st.booleans(), st.data())
def test_an_item_more_or_less_touches_no_other(
    items: set[str], applied: bool, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(sorted(items)))
    odd = data.draw(st.sampled_from(order))
    with TemporaryDirectory() as folder:
        made = Floor(Path(folder), _generated(order))
        if applied:
            made.apply(made.plan())
        whole = made.plan()
        lay_out(made.folder, _generated([key for key in order if key != odd]))
        part = made.plan()
    alone = {DatasetAlias.parse(f"acme.{odd}")}
    assert _entries(part, alone) == _entries(whole, alone)


def _entries(plan: Plan, without: set[DatasetAlias]) -> Mapping[str, Any]:
    made = to_json(plan)
    names = {str(each) for each in without}
    return {
        "datasets": [each for each in made["datasets"] if each["name"] not in names],
        "steps": [each for each in made["steps"] if each["target"] not in names],
    }


# --- secrets ---------------------------------------------------------------------------------

MARK = "s3cr3t-mArk"
SAID = "${{ env.ODFBUILD_LAW }}"
addresses = st.sampled_from(
    [
        f"https://example.org/{SAID}/a.csv",
        f"https://user:{SAID}@example.org/a.csv",
        f"https://{SAID}.example.org/a.csv",
        f"https://example.org/a.csv?key={SAID}",
        f"https://example.org/a.csv#{SAID}",
        f"file:data/{SAID}.csv",
    ]
)


@few
@given(addresses, st.booleans())
def test_no_value_of_the_environment_is_in_a_plan(address: str, header: bool) -> None:
    headers = (
        f", headers: [{{name: A, value: 'Bearer {SAID}'}}]"
        if header and address.startswith("http")
        else ""
    )
    fetch = f"{{kind: Url, url: '{address}'{headers}}}"
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODFBUILD_LAW", MARK)
        made = Floor(Path(folder), {"datasets/web.yaml": root("web", fetch=fetch)})
        plan = made.plan()
        texts = [document(plan)]
        texts += [
            plan_output(plan, each, PlanFormatOptions(explain=True, blocks=True))
            for each in PlanFormat
        ]
    assert all(MARK not in text for text in texts)
    assert SAID in texts[0]
