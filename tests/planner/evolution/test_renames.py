"""Datasets under another name: declared as moved, or recognised."""

import pytest

from odfbuild.errors import SourceSpan
from odfbuild.odf.events import SetInfo
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff.chain_definitions import imagined
from odfbuild.planner.evolution.rules.renames import (
    Moves,
    ProbableRename,
    apply_moved,
    find_renames,
)
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.planner.plan.policy import RenamedDataset, Severity
from tests.planner.evolution.assessing import (
    ENGINES,
    Versions,
    alias,
    codes,
    derivative,
    root,
    source,
)
from tests.planner.evolution.rule_cases import CASES

LONG = "select event_time, id, fee * 2 as fee, note from src where id > 100 and note is not null"


def moved(*pairs: str) -> list[RenamedDataset]:
    """Return entries given as `old new`, in the lines of a file."""
    found = []
    for line, pair in enumerate(pairs, start=1):
        old, new = pair.split()
        span = SourceSpan(file="odfbuild.yaml", line=line)
        found.append(RenamedDataset(old=alias(old), new=alias(new), span=span))
    return found


def move(before: str, after: str, *pairs: str) -> Moves:
    """Apply entries to chains and declarations that are given by their names."""
    chains = imagined([root(each) for each in before.split()], engines=ENGINES, schemas={})
    return apply_moved(chains, moved(*pairs), [alias(each) for each in after.split()])


def test_a_chain_goes_on_under_its_new_name() -> None:
    before = imagined([root("a"), root("b")], engines=ENGINES, schemas={})
    found = apply_moved(before, moved("a c"), [alias("c"), alias("b")])
    assert found.problems == ()
    assert list(found.current) == [alias("c"), alias("b")]
    assert found.current[alias("c")] == before[alias("a")]
    assert found.old == {alias("c"): alias("a")}


def test_entries_add_up() -> None:
    assert move("a", "c", "a b", "b c").old == {alias("c"): alias("a")}
    assert move("b", "c", "a b", "b c").old == {alias("c"): alias("b")}


@pytest.mark.parametrize("before", ["c", ""])
def test_an_entry_that_was_followed_does_nothing(before: str) -> None:
    found = move(before, "c", "a c")
    assert (found.old, found.problems) == ({}, ())


@pytest.mark.parametrize(
    ("before", "after", "pairs", "says"),
    [
        ("a", "a c", ["a c"], "'a' is moved to 'c', but still declared"),
        ("a c", "c", ["a c"], "'a' cannot be moved: 'c' exists already"),
        ("a", "b", ["a c"], "'a' is moved to 'c', which is not declared"),
        ("a", "c", ["a b", "a c"], "'a' is moved twice"),
        ("a b", "c", ["a c", "b c"], "'c' is moved to twice"),
        ("a", "a", ["a b", "b a"], "moved entries form a cycle: a -> b -> a"),
        ("a", "a", ["a a"], "moved entries form a cycle: a -> a"),
    ],
)
def test_what_cannot_be_is_refused_at_its_entry(
    before: str, after: str, pairs: list[str], says: str
) -> None:
    found = move(before, after, *pairs)
    (problem,) = found.problems
    assert problem.what == says
    assert problem.code == "moved"
    assert problem.span is not None
    assert problem.fix
    assert found.old == {}


def test_one_wrong_entry_leaves_the_others() -> None:
    found = move("a b", "a x y", "a x", "b y")
    assert [each.what for each in found.problems] == ["'a' is moved to 'x', but still declared"]
    assert found.old == {alias("y"): alias("b")}


def renames(before: list[Declared], after: list[Declared]) -> list[tuple[str, str]]:
    found = find_renames(after, imagined(before, engines=ENGINES, schemas={}))
    assert all(isinstance(each, ProbableRename) for each in found)
    return [(str(each.old), str(each.new)) for each in found]


def test_a_root_is_known_by_its_source() -> None:
    assert renames([root("a")], [root("b", source(null_value="-"))]) == [("a", "b")]
    assert renames([root("a")], [root("b", source(path="b/*.csv"))]) == []
    assert renames([root("a")], [root("a"), root("b")]) == []


def test_a_push_source_is_known_by_its_name_and_what_it_reads() -> None:
    before, after = CASES["ODF121"].before, CASES["ODF121"].after
    (old,) = before
    assert renames([old], [root("b", *old.snapshot.metadata)]) == [("src", "b")]
    assert renames([old], [root("b", *after[0].snapshot.metadata[1:])]) == []


def test_a_derivative_is_known_by_its_inputs_and_a_query_that_is_nearly_the_same() -> None:
    src, other = root("src"), root("other", source(path="o"))
    old = derivative("a", LONG)
    near = derivative("b", LONG.replace("100", "101"))
    assert renames([src, old], [src, near]) == [("a", "b")]
    assert renames([src, old], [src, derivative("b", "select * from src")]) == []
    elsewhere = derivative("b", LONG.replace("src", "other"), "other")
    assert renames([src, other, old], [src, other, elsewhere]) == []


def test_an_input_that_is_renamed_along_is_the_same_input() -> None:
    before = [root("src"), derivative("a", LONG)]
    after = [root("source"), derivative("b", LONG.replace("src", "source"), "source")]
    assert renames(before, after) == [("src", "source"), ("a", "b")]


def test_of_several_the_nearest_is_taken_and_each_once() -> None:
    src = root("src")
    before = [src, derivative("a", LONG), derivative("z", LONG.replace("100", "200"))]
    after = [src, derivative("b", LONG.replace("100", "200")), derivative("c", LONG)]
    assert renames(before, after) == [("z", "b"), ("a", "c")]


def test_a_renamed_dataset_is_offered_as_moved() -> None:
    versions = Versions([root("src")], [root("other")])
    found = versions.of("src")
    assert found.change is ChangeClass.RETIRE
    assert found.hits[0].ways[:2] == (
        "moved: [{from: src, to: other}] in odfbuild.yaml",
        "odfbuild mv src other",
    )
    assert found.hits[0].severity is Severity.ERROR
    assert versions.of("other").change is ChangeClass.ADDITIVE


def test_a_chain_that_nobody_declares_is_noted_and_warned_of_while_it_is_read() -> None:
    src, out = root("src"), derivative("out", "select event_time, id from src")
    info = root("b", source(path="b"), SetInfo(description="b"))
    alone = Versions([src, info], [info], chains={})
    assert [(each.code, each.severity) for each in alone.hits("src")] == [("ODF115", Severity.OFF)]
    read = Versions([src, out], [out], chains={})
    (found,) = read.hits("src")
    assert (found.severity, found.message) == (
        Severity.WARN,
        "it is no longer declared, and out reads it",
    )
    assert [each.dataset for each in read.of("src").affected] == [alias("out")]
    renamed = Versions([src], [root("other")], chains={})
    assert codes(renamed.hits("src")) == ["ODF116"]
    assert renamed.hits("src")[0].severity is Severity.WARN
    revisions = Versions([src, info], [info])
    assert revisions.hits("src")[0].severity is Severity.ERROR
