"""The selector language: what each form means over one fixed graph, its laws, and its errors."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.planner.select.methods import Selectable
from odfbuild.planner.select.parse import SelectorError, parse_selector
from odfbuild.planner.select.select import Fact, Selected, SelectionGraph, choose, needs, select
from odfbuild.planner.select.tree import StateFlag
from odfbuild.planner.select.url_schemes import SourceKind

INPUTS: Mapping[str, str] = {
    "eur": "",
    "gbp": "",
    "stations": "",
    "acme/orders": "",
    "rates.all": "eur gbp",
    "rates.daily": "rates.all",
    "weather": "stations",
    "report.pnl": "rates.daily acme/orders",
    "report.mix": "weather rates.daily",
    "report.top": "report.pnl",
    "2024-archive": "report.top report.mix",
}
TAGS = {
    "eur": "rates daily",
    "gbp": "rates daily",
    "rates.all": "rates",
    "rates.daily": "rates daily",
    "2024-archive": "heavy daily",
    "weather": "daily",
}
FILES = {
    "eur": "datasets/rates/rate.yaml.j2",
    "gbp": "datasets/rates/rate.yaml.j2",
    "rates.all": "datasets/rates/all.yaml",
    "rates.daily": "datasets/rates/daily.yaml",
    "weather": "datasets/weather.yaml",
    "stations": "datasets/my stations.yaml",
}
STATES = {
    "eur": (StateFlag.STALE,),
    "gbp": (StateFlag.FAILED, StateFlag.STALE),
    "rates.daily": (StateFlag.MODIFIED,),
    "weather": (StateFlag.NEW,),
    "acme/orders": (StateFlag.DRIFTED,),
}
CHANGES = {"rates.daily": ChangeClass.BREAKING, "weather": ChangeClass.METADATA}
SOURCES = {
    "eur": (SourceKind.HTTP,),
    "gbp": (SourceKind.HTTP, SourceKind.PUSH),
    "stations": (SourceKind.FILE,),
}
NAMED = {
    "nightly": "tag:daily --exclude tag:heavy",
    "rates-only": "tag:rates,kind:derivative",
    "weather": "eur",
    "round": "selector:about",
    "about": "selector:round eur",
    "both": "selector:nightly rates-only",
}
ALL = frozenset(map(DatasetAlias.parse, INPUTS))


def graph() -> SelectionGraph:
    return SelectionGraph(
        {
            DatasetAlias.parse(name): Selectable(
                alias=DatasetAlias.parse(name),
                kind=DatasetKind.DERIVATIVE if INPUTS[name] else DatasetKind.ROOT,
                file=FILES.get(name, "datasets/other/x.yaml"),
                tags=tuple(TAGS.get(name, "").split()),
                owner="Markets Team" if name.startswith("rates") else None,
                package="common" if name.startswith("acme") else None,
                sources=frozenset(SOURCES.get(name, ())),
                state=frozenset(STATES.get(name, ())),
                change=CHANGES.get(name, ChangeClass.NONE),
            )
            for name in INPUTS
        },
        {
            DatasetAlias.parse(name): tuple(map(DatasetAlias.parse, inputs.split()))
            for name, inputs in INPUTS.items()
        },
    )


GRAPH = graph()


def chosen(text: str) -> Selected:
    return choose(parse_selector(text, NAMED), GRAPH)


def names(text: str) -> set[str]:
    return set(map(str, chosen(text).datasets))


def told(text: str) -> str:
    with pytest.raises(SelectorError) as caught:
        chosen(text)
    return render_diagnostics(caught.value.diagnostics())


RATES = "eur gbp rates.all rates.daily"
TABLE = {
    # names
    "eur": "eur",
    "EUR": "eur",
    "rates.daily": "rates.daily",
    "Acme/Orders": "acme/orders",
    "2024-archive": "2024-archive",
    # globs
    "*": " ".join(INPUTS),
    "rates.*": "rates.all rates.daily",
    "RATES.*": "rates.all rates.daily",
    "report.*": "report.pnl report.mix report.top",
    "*/*": "acme/orders",
    "acme/*": "acme/orders",
    "??r": "eur",
    "[eg]*": "eur gbp",
    "*s": "stations acme/orders",
    # the graph
    "+eur": "eur",
    "eur+": "eur rates.all rates.daily report.pnl report.mix report.top 2024-archive",
    "+rates.daily": "eur gbp rates.all rates.daily",
    "1+rates.daily": "rates.all rates.daily",
    "0+rates.daily": "rates.daily",
    "2+rates.daily": "eur gbp rates.all rates.daily",
    "9+rates.daily": "eur gbp rates.all rates.daily",
    "rates.daily+0": "rates.daily",
    "rates.daily+1": "rates.daily report.pnl report.mix",
    "rates.daily+2": "rates.daily report.pnl report.mix report.top 2024-archive",
    "1+rates.daily+1": "rates.all rates.daily report.pnl report.mix",
    "+rates.daily+1": "eur gbp rates.all rates.daily report.pnl report.mix",
    "1+rates.daily+": "rates.all rates.daily report.pnl report.mix report.top 2024-archive",
    "+rates.daily+": f"{RATES} report.pnl report.mix report.top 2024-archive",
    "+2024-archive": " ".join(INPUTS),
    "1+2024-archive": "report.top report.mix 2024-archive",
    "@stations": " ".join(each for each in INPUTS),
    "@2024-archive": " ".join(INPUTS),
    "@report.top": " ".join(INPUTS),
    "rates.*+1": "rates.all rates.daily report.pnl report.mix",
    "acme/orders+": "acme/orders report.pnl report.top 2024-archive",
    "1+report.*": "rates.daily acme/orders weather report.pnl report.mix report.top",
    # methods
    "tag:rates": RATES,
    "tag:r*": RATES,
    "tag:heavy": "2024-archive",
    "tag:rates+1": f"{RATES} report.pnl report.mix",
    "kind:root": "eur gbp stations acme/orders",
    "kind:ROOT": "eur gbp stations acme/orders",
    "kind:derivative": "rates.all rates.daily weather report.pnl report.mix report.top "
    "2024-archive",
    "path:datasets": " ".join(INPUTS),
    "path:datasets/rates": RATES,
    "path:./datasets/rates/": RATES,
    "path:datasets/rates/all.yaml": "rates.all",
    "path:datasets/*/rate.yaml.j2": "eur gbp",
    "path:.": " ".join(INPUTS),
    "file:rate.yaml.j2": "eur gbp",
    "file:rate": "eur gbp",
    "file:all.yaml": "rates.all",
    "file:datasets/rates/all.yaml": "rates.all",
    'file:"my stations.yaml"': "stations",
    "file:'my stations'+1": "stations weather",
    'owner:"Markets Team"': "rates.all rates.daily",
    "owner:Markets*": "rates.all rates.daily",
    "package:common": "acme/orders",
    "state:new": "weather",
    "state:modified": "rates.daily",
    "state:modified+1": "rates.daily report.pnl report.mix",
    "state:drifted": "acme/orders",
    "state:stale": "eur gbp",
    "state:failed": "gbp",
    "change:breaking": "rates.daily",
    "change:metadata": "weather",
    "source:http": "eur gbp",
    "source:file": "stations",
    "source:push": "gbp",
    # named
    "nightly": "eur gbp rates.daily weather",
    "selector:nightly": "eur gbp rates.daily weather",
    "1+selector:rates-only": "eur gbp rates.all rates.daily",
    "rates-only": "rates.all rates.daily",
    "weather": "weather",
    "selector:weather": "eur",
    "both": "eur gbp rates.daily rates.all weather",
    # sets
    "eur gbp": "eur gbp",
    "  eur\n gbp ": "eur gbp",
    "tag:rates,tag:daily": "eur gbp rates.daily",
    "tag:rates,tag:daily,kind:root": "eur gbp",
    "tag:rates,kind:root weather": "eur gbp weather",
    "+report.pnl,kind:root": "eur gbp acme/orders",
    "eur+,gbp+,report.*": "report.pnl report.mix report.top",
    "tag:daily --exclude tag:rates": "weather 2024-archive",
    "--exclude tag:rates": "stations acme/orders weather report.pnl report.mix report.top "
    "2024-archive",
    "* --exclude rates.* report.*": "eur gbp stations acme/orders weather 2024-archive",
    "eur+ --exclude 2024-archive report.*": "eur rates.all rates.daily",
    "eur --exclude eur": "",
}


@pytest.mark.parametrize(("text", "expected"), TABLE.items(), ids=TABLE)
def test_a_selector_means_these_datasets(text: str, expected: str) -> None:
    assert names(text) == set(expected.split())


def test_the_graph_has_all_it_should() -> None:
    assert names("@stations") == names("+2024-archive") == set(map(str, ALL))


# laws

atoms = st.sampled_from([text for text in TABLE if " " not in text.strip() and '"' not in text])
plain = st.sampled_from(sorted(INPUTS))
hops = st.integers(0, 6)


@given(atoms, atoms)
def test_a_space_is_union_and_a_comma_intersection(one: str, other: str) -> None:
    assert names(f"{one} {other}") == names(one) | names(other)
    assert names(f"{one},{other}") == names(one) & names(other)


@given(atoms, atoms, atoms)
def test_exclusion_is_difference_and_comes_last(one: str, other: str, less: str) -> None:
    assert names(f"{one} --exclude {less}") == names(one) - names(less)
    assert names(f"{one} {other} --exclude {less}") == names(f"{one} --exclude {less}") | names(
        f"{other} --exclude {less}"
    )


@given(atoms, atoms, atoms)
def test_intersection_distributes_over_union(one: str, other: str, more: str) -> None:
    both = names(f"{one},{more}") | names(f"{other},{more}")
    assert (names(one) | names(other)) & names(more) == both


@given(plain, hops)
def test_reaching_further_never_loses_a_dataset(name: str, steps: int) -> None:
    for near, far, all_the_way in (
        (f"{steps}+{name}", f"{steps + 1}+{name}", f"+{name}"),
        (f"{name}+{steps}", f"{name}+{steps + 1}", f"{name}+"),
    ):
        assert {name} <= names(near) <= names(far) <= names(all_the_way)


@given(plain)
def test_all_the_way_is_closed_and_goes_both_ways(name: str) -> None:
    up, down = names(f"+{name}"), names(f"{name}+")
    assert names(" ".join(f"+{each}" for each in up)) == up
    assert names(" ".join(f"{each}+" for each in down)) == down
    assert names(f"+{name}+") == up | down
    assert all(name in names(f"{each}+") for each in up)


@given(plain)
def test_an_at_sign_takes_in_all_that_downstream_needs(name: str) -> None:
    assert names(f"@{name}") == names(" ".join(f"+{each}" for each in names(f"{name}+")))


@given(st.lists(atoms, min_size=1, max_size=4))
def test_a_selector_is_the_same_in_any_order(texts: list[str]) -> None:
    assert names(" ".join(texts)) == names(" ".join(reversed(texts)))


@given(st.text(alphabet="ab.+@:,*/ -'\"tagx1\n", max_size=30))
def test_any_text_is_a_selector_or_is_refused_with_places(text: str) -> None:
    try:
        found = chosen(text)
    except SelectorError as error:
        for each in error.found:
            assert each.span is not None
            assert each.span.excerpt is not None
            assert 1 <= each.span.column <= len(each.span.excerpt) + 1
    else:
        assert found.datasets <= ALL


# columns


def test_the_readers_of_a_column_come_from_the_callback() -> None:
    asked: list[tuple[str, str, int | None]] = []

    def users(dataset: DatasetAlias, column: str, steps: int | None) -> list[DatasetAlias]:
        asked.append((str(dataset), column, steps))
        return [DatasetAlias.parse("report.pnl")]

    def found(text: str) -> set[str]:
        return set(map(str, select(parse_selector(text), GRAPH, users)))

    assert found("column:rates.daily.price+") == {"rates.daily", "report.pnl"}
    assert found("column:acme/orders.who.name+2") == {"acme/orders", "report.pnl"}
    assert found("column:eur.x") == {"eur"}
    assert found("1+column:rates.daily.x+") == {"rates.all", "rates.daily", "report.pnl"}
    assert asked == [
        ("rates.daily", "price", None),
        ("acme/orders", "who.name", 2),
        ("rates.daily", "x", None),
    ]


def test_without_knowledge_of_columns_all_that_is_downstream_counts_as_a_reader() -> None:
    assert names("column:rates.daily.price+1") == names("rates.daily+1")


# what a selector asks for


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("eur gbp,tag:x kind:root file:x", set()),
        ("+eur", {Fact.INPUTS}),
        ("eur+2,tag:daily", {Fact.INPUTS}),
        ("--exclude @eur", {Fact.INPUTS}),
        ("state:new", {Fact.NEW}),
        ("state:modified+ --exclude state:failed", {Fact.MODIFIED, Fact.FAILED, Fact.INPUTS}),
        ("change:breaking", {Fact.CHANGE}),
        ("column:eur.x+", {Fact.COLUMNS, Fact.INPUTS}),
        ("later", {Fact.STALE}),
        ("selector:later", {Fact.STALE}),
    ],
)
def test_only_what_is_asked_for_has_to_be_known(text: str, facts: set[Fact]) -> None:
    assert needs(parse_selector(text, {"later": "state:stale", "other": "state:new"})) == facts


# warnings and errors


def test_what_selects_nothing_is_a_warning_with_a_guess() -> None:
    found = chosen("eur tag:dayly")
    assert set(map(str, found.datasets)) == {"eur"}
    (note,) = found.notes
    assert note.what == "'tag:dayly' selects nothing"
    assert note.fix == "did you mean 'tag:daily'?"
    assert note.span is not None
    assert (note.span.column, note.span.length) == (9, 5)


@pytest.mark.parametrize(
    ("text", "guess"),
    [
        ("path:dataset", "path:datasets"),
        ("file:dayly.yaml", "file:daily.yaml"),
        ("owner:markets-team", "owner:Markets Team"),
        ("package:comon", "package:common"),
    ],
)
def test_a_value_that_nothing_has_is_held_against_those_there_are(text: str, guess: str) -> None:
    assert chosen(text).notes[0].fix == f"did you mean '{guess}'?"


def test_parts_that_exclude_each_other_are_told_once() -> None:
    assert [note.what for note in chosen("eur,gbp").notes] == ["no dataset is in all parts of this"]
    assert [note.what for note in chosen("eur,x*").notes] == ["'x*' selects nothing"]


def test_a_name_that_there_is_not_is_an_error_with_a_guess_and_a_caret() -> None:
    assert told("eur rates.dayly+") == (
        "selector:1:5: error[unknown-dataset]: no dataset named 'rates.dayly'\n"
        "  1 | eur rates.dayly+\n"
        "    |     ^^^^^^^^^^^\n"
        "  why: an exact name matches one dataset; * matches any characters\n"
        "  fix: did you mean 'rates.daily'?"
    )


def test_all_names_that_there_are_not_are_told_at_once() -> None:
    assert told("nobody eur no/body").count("error[unknown-dataset]") == 2


@pytest.mark.parametrize(
    ("text", "what", "column"),
    [
        ("", "nothing is selected here", 1),
        ("eur --exclude", "nothing is selected here", 5),
        ("eur,", "a part of the selector is empty", 5),
        ("eur,,gbp", "a part of the selector is empty", 5),
        (",eur", "a part of the selector is empty", 1),
        ("@eur+", "'@' and '+' do not go together", 1),
        ("+", "a '+' or '@' without a name", 2),
        ("eur @", "a '+' or '@' without a name", 6),
        ("tagg:x", "'tagg' is nothing to select by", 1),
        ("tag:", "'tag:' has no value", 1),
        ("gbp kind:rot", "kind:rot is not known", 10),
        ("state:changed", "state:changed is not known", 7),
        ("change:braking", "change:braking is not known", 8),
        ("source:htp", "source:htp is not known", 8),
        ("selector:nightl", "no selector is named 'nightl'", 10),
        ("a/b/c", "'a/b/c' is not the name of a dataset", 1),
        ("eur!", "'eur!' is not the name of a dataset", 1),
        ("eur++", "'eur+' is not the name of a dataset", 1),
        ("--exlude eur", "'--exlude' is no option of a selector", 1),
        ("column:nobody.x", "no dataset named 'nobody'", 8),
        ("column:x", "no dataset named 'x'", 8),
    ],
)
def test_what_cannot_be_read_is_told_where_it_stands(text: str, what: str, column: int) -> None:
    with pytest.raises(SelectorError) as caught:
        chosen(text)
    (found,) = caught.value.found
    assert found.what == what
    assert found.span is not None
    assert found.span.column == column


def test_everything_wrong_with_a_selector_is_told_at_once() -> None:
    assert told("tagg:x kind:y a//b").endswith("3 errors")


def test_an_error_in_a_named_selector_says_which_one_it_is() -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector("eur bad", {"bad": "tag:x worse", "worse": "kind:z"})
    (found,) = caught.value.found
    assert found.span is not None
    assert found.span.file == "selector 'worse' of odfbuild.yaml"
    assert found.span.excerpt == "kind:z"


def test_named_selectors_that_lead_back_to_themselves_are_refused() -> None:
    assert "round -> about -> round" in told("selector:round")
    assert "about -> round -> about" in told("about")


def test_a_named_selector_gives_way_to_a_dataset_of_its_name() -> None:
    read = parse_selector("weather", {"weather": "weather"})
    assert set(map(str, select(read, GRAPH))) == {"weather"}
