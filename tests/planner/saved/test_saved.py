"""Saved plans of every kind as documents, by law: any value comes back, damage has its place."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import DatasetKind
from odfbuild.planner.maintenance.batch import HousekeepingPlan
from odfbuild.planner.maintenance.compaction import Limits
from odfbuild.planner.maintenance.rewrite import MODES, REBUILD, Extent, Housekeeping, Stranded
from odfbuild.planner.maintenance.undo import HeadReturn, Undo
from odfbuild.planner.plan import Plan
from odfbuild.planner.saved import (
    SavedPlan,
    canonical,
    document_hash,
    from_json,
    moved_datasets,
    plan_from_json,
    to_json,
)
from odfbuild.planner.saved.codec import DamagedPlanError, NotAPlanError, PlanVersionError
from tests.support.values.plans import EVERYTHING, plans
from tests.support.values.strategies import aliases, dataset_ids, multihashes, timestamps

_numbers = st.integers(0, 2**40)
_words = st.text(max_size=8)
_kinds = st.sampled_from(DatasetKind)
_extents = st.builds(Extent, _numbers, _numbers, _numbers, st.none() | _numbers)
_stranded = st.lists(
    st.builds(
        Stranded,
        aliases,
        multihashes,
        st.none() | _numbers,
        st.lists(aliases, max_size=2).map(tuple),
    ),
    max_size=2,
).map(tuple)
_place = {"project": _words, "target": _words, "workspace": _words}
_backs = st.builds(
    HeadReturn,
    alias=aliases,
    id=dataset_ids,
    kind=_kinds,
    expected=st.none() | multihashes,
    to=st.none() | multihashes,
    old_name=st.none() | aliases,
    blocks=_numbers,
    records=_numbers,
)
undos = st.builds(
    Undo,
    run=st.none() | _words,
    **_place,
    steps=st.lists(_backs, max_size=3).map(tuple),
    diverging=_stranded,
)


@st.composite
def steps(draw: st.DrawFn, /, **place: Any) -> Housekeeping:
    """Draw a reset, a compaction or a rebuild of a dataset."""
    work = draw(st.sampled_from(sorted(MODES)))
    counts = st.dictionaries(_words, _numbers, max_size=2)
    reads = st.dictionaries(_words, st.none() | _numbers, max_size=2)
    return Housekeeping(
        **place,
        work=work,
        mode=draw(st.sampled_from(MODES[work])),
        limits=draw(st.none() | st.builds(Limits, _numbers, _numbers)),
        alias=draw(aliases),
        id=draw(dataset_ids),
        kind=draw(_kinds),
        based_on=draw(multihashes),
        places=draw(st.sampled_from([(), EVERYTHING.places])),
        outside=draw(st.sampled_from([(), EVERYTHING.outside])),
        head=draw(multihashes if work == "reset" else st.none() | multihashes),
        kept=draw(_numbers),
        before=draw(_extents),
        after=draw(_extents),
        watermarks=draw(st.tuples(st.none() | timestamps, st.none() | timestamps)),
        dropped=draw(counts),
        stranded=draw(_stranded),
        reads=draw(reads) if work == REBUILD else {},
        definition=draw(st.none() | multihashes),
    )


@st.composite
def housekeeping(draw: st.DrawFn) -> HousekeepingPlan:
    """Draw a plan of one or more steps for the same project and target."""
    place = {name: draw(words) for name, words in _place.items()}
    alone = draw(st.booleans())
    most = 1 if alone else 3
    found = draw(st.lists(steps(**place), min_size=1, max_size=most))
    return HousekeepingPlan(tuple(found), alone=alone)


saved_plans: st.SearchStrategy[SavedPlan] = st.one_of(plans(), undos, housekeeping())


@given(saved_plans)
def test_what_is_saved_comes_back_and_is_written_as_it_was(saved: SavedPlan) -> None:
    text = canonical(to_json(saved))
    found = from_json(json.loads(text))
    assert found == saved
    assert canonical(to_json(found)) == text


_DERIVED = {"ddl", "action", "passed", "summary", "plan_hash"}  # written for others to read
_OF_ODF = {"blocks", "odf"}  # their places are those of the manifest's reader


def places(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of all values that a reader looks at, but for those within metadata."""
    if path:
        yield path
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = [(key, item) for key, item in value.items() if key not in _DERIVED]
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, item in items:
        if (path[-1:] == ("work",) and key == "steps") or path[-1:] == ("odf",):
            continue  # the steps of a dataset are listed twice
        if path and path[-1] in _OF_ODF and not isinstance(key, int):
            continue
        if len(path) > 1 and path[-2] == "blocks":
            continue
        yield from places(item, *path, key)


def spelled(path: tuple[str | int, ...]) -> str:
    """Return a path as errors have it."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


def altered(document: dict[str, Any], path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """Return a document with another value at a path, and the hash that it should have."""
    found: Any = copy.deepcopy(document)
    at = found
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    try:
        return {**found, "plan_hash": document_hash(found)}
    except (AttributeError, KeyError, TypeError):  # too far from a plan to be hashed
        return dict(found)


@given(saved_plans, st.data())
def test_a_value_of_another_type_is_refused_at_its_place(
    saved: SavedPlan, data: st.DataObject
) -> None:
    document = json.loads(canonical(to_json(saved)))
    path = data.draw(st.sampled_from(list(places(document))))
    wrong = data.draw(st.sampled_from([{"\0": []}, [[]], 1.5]))
    with pytest.raises((DamagedPlanError, NotAPlanError)) as caught:
        from_json(altered(document, path, wrong))
    if isinstance(caught.value, DamagedPlanError):
        assert caught.value.path.startswith(spelled(path))
        assert caught.value.path in caught.value.what
    else:
        assert path in {(key,) for key in document if key.endswith("_version")}


@given(housekeeping().filter(lambda saved: not saved.alone), st.data())
def test_what_is_said_of_all_steps_is_read_as_well(saved: SavedPlan, data: st.DataObject) -> None:
    document = json.loads(canonical(to_json(saved)))
    said = [("project",), ("target",), ("target", "name"), ("target", "workspace"), ("stranded",)]
    path = data.draw(st.sampled_from(said))
    with pytest.raises(DamagedPlanError) as caught:
        from_json(altered(document, path, data.draw(st.sampled_from([{"\0": []}, 1.5]))))
    assert caught.value.path.startswith(spelled(path))


@given(saved_plans, st.data())
def test_what_is_altered_without_its_hash_is_refused(saved: SavedPlan, data: st.DataObject) -> None:
    document = json.loads(canonical(to_json(saved)))
    paths = [p for p in places(document) if p[0] != "git" and "foreseen" not in p]
    path = data.draw(st.sampled_from(paths))
    found = altered(document, path, data.draw(st.none() | st.integers() | _words | st.booleans()))
    if canonical(found) == canonical(document):
        return
    with pytest.raises((DamagedPlanError, NotAPlanError, PlanVersionError)):
        from_json({**found, "plan_hash": document["plan_hash"]})


@given(saved_plans, st.data())
def test_a_missing_key_is_named(saved: SavedPlan, data: st.DataObject) -> None:
    document = json.loads(canonical(to_json(saved)))
    may_lack = {"outside", "options", "errors", "reads", "definition"}
    paths = [p for p in places(document) if isinstance(p[-1], str) and p[-1] not in may_lack]
    path = data.draw(st.sampled_from([p for p in paths if _is_key_of_a_form(p)]))
    damaged = copy.deepcopy(document)
    at = damaged
    for step in path[:-1]:
        at = at[step]
    del at[path[-1]]
    with pytest.raises((DamagedPlanError, NotAPlanError)) as caught:
        from_json(damaged)
    if isinstance(caught.value, DamagedPlanError):
        assert str(path[-1]) in caught.value.what


def _is_key_of_a_form(path: tuple[str | int, ...]) -> bool:
    names_of_others = {"dropped", "reads", "options"}  # whose keys are names, or may lack
    return not names_of_others & set(path[:-1])


@given(st.one_of(undos, housekeeping()))
def test_what_is_no_plan_is_not_read_as_one(saved: SavedPlan) -> None:
    with pytest.raises(NotAPlanError):
        plan_from_json(to_json(saved))


def test_a_plan_of_no_steps_is_no_housekeeping() -> None:
    document = {"housekeeping_version": "1.1", "work": "several", "steps": []}
    with pytest.raises(DamagedPlanError, match="steps: there are none"):
        from_json(document)


@given(saved_plans, multihashes)
def test_what_moved_does_not_fit(saved: SavedPlan, other: Any) -> None:
    heads: dict[Any, Any] = {}
    match saved:
        case Plan():
            for alias, planned in saved.datasets.items():
                if planned.based_on is not None:
                    heads.setdefault(planned.moved_from or alias, planned.based_on.head)
        case Undo():
            heads = {step.id: step.expected for step in saved.steps}
        case _:
            heads = {step.id: step.based_on for step in saved.steps}
    moved = moved_datasets(saved, heads)
    if len(set(heads)) == len(saved.datasets if isinstance(saved, Plan) else saved.steps):
        assert moved == ()
    for at in heads:
        assert moved_datasets(saved, {**heads, at: other}) or heads[at] == other
