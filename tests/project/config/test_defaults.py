"""Defaults: what datasets are said to be by selector, and which of several says it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.errors import ProjectErrors
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan.policy import BadRows, IngestOptions, OnQueryChange, Traits
from odfbuild.project.config.defaults import Defaulted, apply_defaults
from odfbuild.project.config.project_file import Config, parse_config
from odfbuild.project.read import read_manifests

ROOT = "kind: DatasetSnapshot\nversion: 1\ncontent: {name: %s, kind: %s, metadata: []}\n"


def declare(name: str, file: str = "datasets/a.yaml", kind: str = "Root") -> Declared:
    (declared,) = read_manifests(ROOT % (name, kind), file).declared
    return declared


def config(text: str, selectors: str = "") -> Config:
    return parse_config(
        f"odfbuild: 1\nselectors: {{{selectors}}}\ndefaults:\n{text}", default_name="x"
    )


def applied(text: str, *declared: Declared, selectors: str = "") -> Defaulted:
    settings = config(text, selectors)
    return apply_defaults(settings.defaults, declared, settings.selectors)


def traits(text: str, *declared: Declared, selectors: str = "") -> Traits:
    """Return the traits of the first of some datasets."""
    return applied(text, *declared, selectors=selectors).declared[0].traits


A = declare("org.a", "datasets/rates/eur.yaml")
B = declare("org.b", "datasets/other.yaml")


def test_without_defaults_datasets_stay_as_they_are() -> None:
    assert apply_defaults((), [A, B]) == Defaulted((A, B))


def test_a_default_counts_for_what_its_selector_means() -> None:
    text = "  path:datasets/rates: {tags: [x], owner: me, on_query_change: restate}\n"
    found = applied(text, B, A)
    assert [each.alias for each in found.declared] == [B.alias, A.alias]
    assert found.declared[0] == B
    assert found.declared[1].traits == Traits(("x",), "me", OnQueryChange.RESTATE)
    assert {alias: len(given) for alias, given in found.given.items()} == {A.alias: 1}


def test_tags_add_up() -> None:
    text = '  org.a: {tags: [c, a]}\n  "*": {tags: [b, a]}\n  kind:root: {owner: me}\n'
    assert traits(text, A, B).tags == ("a", "b", "c")


LADDER = [
    '"*"',
    "kind:root",
    "package:common",
    "path:datasets",
    "file:datasets/rates/eur.yaml",
    "org*",
    "org.*",
    "org.a",
]


@given(st.permutations(LADDER))
def test_the_most_specific_owner_wins_in_any_order(order: list[str]) -> None:
    declared = Declared(
        alias=A.alias,
        snapshot=A.snapshot,
        written=A.written,
        file=A.file,
        document=0,
        places=A.places,
        package="common",
    )
    lines = [f"  {each}: {{owner: '{LADDER.index(each)}'}}\n" for each in order]
    found = applied("".join(lines), declared)
    owners = [each.owner for each in found.given[A.alias]]
    assert owners == [str(n) for n in range(len(LADDER))]
    assert found.declared[0].traits.owner == str(len(LADDER) - 1)


def test_each_key_is_taken_from_the_most_specific_that_says_it() -> None:
    text = (
        "  org.a: {tags: [x]}\n  org.*: {owner: me}\n  '*': {owner: all, on_query_change: restate}"
    )
    assert traits(text, A, B) == Traits(("x",), "me", OnQueryChange.RESTATE)


def test_between_equals_the_later_wins() -> None:
    assert traits("  tag:t: {owner: one}\n  kind:root: {owner: two, tags: [t]}\n", A).owner == "two"
    assert traits("  kind:root: {owner: two, tags: [t]}\n  tag:t: {owner: one}\n", A).owner == "one"


def test_of_a_union_the_part_that_means_the_dataset_counts() -> None:
    text = "  kind:root org.b: {owner: union}\n  path:datasets: {owner: path}\n"
    found = applied(text, A, B)
    assert [each.traits.owner for each in found.declared] == ["path", "union"]


def test_an_intersection_is_as_specific_as_its_most_specific_part_and_then_more() -> None:
    text = "  path:datasets,kind:root: {owner: both}\n  path:datasets: {owner: path}\n"
    assert traits(text, A).owner == "both"
    assert traits(text + "  file:other.yaml: {}\n  org.a: {owner: name}\n", A, B).owner == "name"


def test_what_is_excluded_does_not_make_a_selector_specific() -> None:
    text = "  '* --exclude org.b': {owner: rest}\n  kind:root: {owner: roots}\n"
    found = applied(text, A, B)
    assert [each.owner for each in found.given[A.alias]] == ["rest", "roots"]
    assert [each.owner for each in found.given[B.alias]] == ["roots"]


def test_a_named_selector_counts_as_what_it_means() -> None:
    text = "  selector:mine: {owner: mine}\n  path:datasets: {owner: path}\n"
    assert traits(text, A, B, selectors="mine: org.a kind:derivative").owner == "mine"
    assert traits(text, A, B, selectors='mine: "*"').owner == "path"


def test_a_dataset_goes_before_a_selector_of_the_same_name() -> None:
    found = applied("  org.a: {owner: me}\n", A, B, selectors="org.a: org.b")
    assert [each.traits.owner for each in found.declared] == ["me", None]


def test_selectors_by_tag_and_owner_see_what_other_defaults_give() -> None:
    text = "  tag:x: {owner: team}\n  owner:all: {tags: [late]}\n  org.a: {tags: [x]}\n"
    assert traits(text + "  '*': {owner: all}\n", A, B) == Traits(("late", "x"), "team")


def test_traits_that_a_dataset_has_already_stay_where_no_default_says_more() -> None:
    own = Traits(("own",), "me", OnQueryChange.RESTATE)
    declared = Declared(
        alias=A.alias,
        snapshot=A.snapshot,
        written=A.written,
        file=A.file,
        document=0,
        places=A.places,
        traits=own,
    )
    assert traits("  org.a: {tags: [x]}\n", declared) == Traits(
        ("own", "x"), "me", OnQueryChange.RESTATE
    )


def test_a_dataset_that_is_not_there_is_refused_at_its_place() -> None:
    with pytest.raises(ProjectErrors) as caught:
        applied("  kind:root org.aa: {owner: me}\n  'org.z': {owner: me}\n", A, B)
    shown = render_diagnostics(caught.value.found)
    assert shown.startswith(
        "odfbuild.yaml:4:13: error[unknown-dataset]: no dataset named 'org.aa'\n"
        "  4 |   kind:root org.aa: {owner: me}\n"
        "    |             ^^^^^^\n"
    )
    assert "odfbuild.yaml:5:4: error[unknown-dataset]: no dataset named 'org.z'" in shown


def test_a_default_that_means_nothing_is_worth_a_warning() -> None:
    (note,) = applied("  path:datasets/rate: {owner: me}\n", A, B).notes
    assert (str(note.span), note.code) == ("odfbuild.yaml:4:8", "selects-nothing")


def test_a_name_in_a_named_selector_that_is_not_there_shows_the_default() -> None:
    with pytest.raises(ProjectErrors) as caught:
        applied("  selector:mine: {owner: me}\n", A, selectors="mine: org.z")
    assert [str(each.span) for each in caught.value.found] == ["odfbuild.yaml:4:3"]


@given(st.lists(st.sampled_from([A, B, declare("org.c"), declare("x")]), unique=True))
def test_datasets_keep_their_order_and_the_others_do_not_matter(some: list[Declared]) -> None:
    text = "  '*': {tags: [all]}\n  org.*: {owner: me}\n  path:datasets/rates: {tags: [r]}\n"
    whole = {
        each.alias: each for each in applied(text, A, B, declare("org.c"), declare("x")).declared
    }
    found = applied(text, *some).declared
    assert [each.alias for each in found] == [each.alias for each in some]
    assert all(each.traits == whole[each.alias].traits for each in found)


def test_names_compare_without_regard_to_case() -> None:
    assert traits("  ORG.A: {owner: me}\n", A).owner == "me"
    assert DatasetAlias.parse("ORG.A") in applied("  ORG.A: {owner: me}\n", A).given


def test_bad_rows_are_refused_unless_a_default_says_otherwise() -> None:
    assert traits('  "*": {owner: me}\n', A).ingest == IngestOptions()
    text = '  org.a: {max_bad_rows: 5%}\n  "*": {bad_rows: divert, max_bad_rows: 7}\n'
    divert = BadRows.DIVERT
    assert traits(text, A, B).ingest == IngestOptions(bad_rows=divert, max_bad_percent=5)
    assert traits(text, B, A).ingest == IngestOptions(bad_rows=divert, max_bad_rows=7)
