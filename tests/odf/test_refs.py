"""Names, aliases and references: the published grammar cases and what they leave open."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import DatasetId, InvalidDatasetIdError
from odfbuild.odf.refs import (
    AmbiguousAlias,
    AmbiguousPattern,
    DatasetAlias,
    DatasetAliasPattern,
    DatasetAliasPatternRemote,
    DatasetAliasRemote,
    DatasetIdRemote,
    DatasetUrl,
    InvalidNameError,
    RepositoryName,
    is_name,
    matches,
    name_pattern_prefix,
    parse_any_pattern,
    parse_any_ref,
    parse_dataset_ref,
    parse_push_target,
    parse_ref_pattern,
    parse_remote_ref,
)
from tests.support.cases import load
from tests.support.values.strategies import aliases, dataset_ids, names

CASES = load("grammar")["vectors"]
ID = DatasetId(bytes(range(32)))
PARSERS = {
    "DatasetAlias": DatasetAlias.parse,
    "DatasetAliasRemote": DatasetAliasRemote.parse,
    "DatasetRefAny": parse_any_ref,
    "DatasetRefPattern": parse_ref_pattern,
    "DatasetRefAnyPattern": parse_any_pattern,
    "DatasetPushTarget": parse_push_target,
}


def cases(*types: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if case["type"] in types]


def facts(value: object) -> dict[str, Any]:
    """Return a parse in the terms of the published cases."""
    match value:
        case DatasetId():
            return {"kind": "ID", "dataset_id": str(value), "repo_name": None}
        case DatasetIdRemote(repo, dataset):
            return {"kind": "ID", "dataset_id": str(dataset), "repo_name": repo}
        case DatasetAlias(account, name):
            return {"kind": "LocalAlias", "account_name": account, "dataset_name": name}
        case DatasetAliasRemote(repo, account, name):
            parts = {"repo_name": repo, "account_name": account, "dataset_name": name}
            return {"kind": "Alias", **parts}
        case AmbiguousAlias(prefix, name):
            return {"kind": "AmbiguousAlias", "prefix": prefix, "dataset_name": name}
        case DatasetUrl(url):
            return {"kind": "Url", "url": url}
        case RepositoryName(name):
            return {"kind": "Repository", "repo_name": name}
        case DatasetAliasPattern(account, pattern):
            return {"kind": "PatternLocal", "account_name": account, "pattern": pattern}
        case AmbiguousPattern(prefix, pattern):
            return {"kind": "PatternAmbiguous", "prefix": prefix, "pattern": pattern}
    raise AssertionError(value)


def expected_facts(case: dict[str, Any]) -> dict[str, Any]:
    """Return what a case expects, in the same terms: it names some kinds differently by type."""
    expected = {key: item for key, item in case["expected"].items() if key != "valid"}
    kind = expected.pop("kind", None)
    if kind == "Ref":
        kind = expected.pop("ref_kind")
        if kind == "Alias" and case["type"] == "DatasetRefPattern":
            kind = "LocalAlias"
    elif kind == "Pattern":
        kind = "PatternLocal"
    return expected if kind is None else {"kind": kind, **expected}


@pytest.mark.parametrize("case", cases(*PARSERS))
def test_vector_texts_are_parsed_as_published(case: dict[str, Any]) -> None:
    parse = PARSERS[case["type"]]
    if not case["expected"]["valid"]:
        with pytest.raises(InvalidNameError):
            parse(case["input"])
        return
    found = facts(parse(case["input"]))
    assert found.items() >= expected_facts(case).items()


@pytest.mark.parametrize("case", cases("DatasetName"))
def test_vector_texts_are_names_or_not(case: dict[str, Any]) -> None:
    assert is_name(case["input"]) is case["expected"]["valid"]


@pytest.mark.parametrize("case", cases("DatasetRefAny.resolve"))
def test_vector_prefixes_are_resolved_by_the_known_repositories(case: dict[str, Any]) -> None:
    found = parse_any_ref(case["input"])
    assert isinstance(found, AmbiguousAlias)
    resolved = found.remote() if case["prefix_is_known_repo"] else found.local()
    expected = {**case["expected"]}
    del expected["valid"], expected["kind"]
    assert facts(resolved).items() >= expected.items()


@pytest.mark.parametrize("case", cases("DatasetRefPattern.matches"))
def test_vector_patterns_match_as_published(case: dict[str, Any]) -> None:
    given = case["input"]
    alias = DatasetAlias(given["account_name"], given["dataset_name"])
    dataset = DatasetId.parse(given["dataset_id"]) if "dataset_id" in given else None
    assert matches(parse_ref_pattern(given["pattern"]), alias, dataset) is case["expected"]


@pytest.mark.parametrize("case", cases("match_dataset_name_pattern (matched, rest)"))
def test_vector_patterns_end_where_published(case: dict[str, Any]) -> None:
    expected = None if case["expected"] is None else tuple(case["expected"])
    assert name_pattern_prefix(case["input"]) == expected


@pytest.mark.parametrize("case", cases("DatasetAlias.equal", "DatasetAliasRemote.equal"))
def test_vector_aliases_are_equal_without_regard_to_case(case: dict[str, Any]) -> None:
    one, other = map(PARSERS[case["type"].removesuffix(".equal")], case["input"])
    assert (one == other) is case["expected"]
    assert not case["expected"] or hash(one) == hash(other)


def test_every_vector_is_used() -> None:
    used = {"DatasetName", "DatasetRefAny.resolve", "DatasetRefPattern.matches", *PARSERS}
    used |= {"DatasetAlias.equal", "DatasetAliasRemote.equal"}
    used |= {"match_dataset_name_pattern (matched, rest)"}
    assert {case["type"] for case in CASES} == used


@given(aliases)
def test_an_alias_survives_its_text_with_its_spelling(alias: DatasetAlias) -> None:
    again = DatasetAlias.parse(str(alias))
    assert (again.account, again.name) == (alias.account, alias.name)


@given(aliases, aliases)
def test_aliases_are_ordered_and_equal_by_lower_case_text(
    one: DatasetAlias, other: DatasetAlias
) -> None:
    assert (one == other) is (str(one).lower() == str(other).lower())
    assert (one < other) + (other < one) + (one == other) == 1
    assert DatasetAlias.parse(str(one).upper()) == one


def test_values_of_different_kinds_are_never_equal() -> None:
    assert DatasetAlias("a", "b") != AmbiguousAlias("a", "b")
    assert DatasetAlias("a", "b") != "a/b"
    with pytest.raises(TypeError):
        sorted([DatasetAlias("a", "b"), AmbiguousAlias("a", "b")])


@given(dataset_ids | aliases)
def test_a_local_reference_survives_its_text(ref: DatasetId | DatasetAlias) -> None:
    assert parse_dataset_ref(str(ref)) == ref


@pytest.mark.parametrize(
    "text", [f"repo.x/{ID}", str(ID), "repo/name", "repo/account/name", "odf+https://h/p"]
)
def test_a_remote_reference_survives_its_text(text: str) -> None:
    assert str(parse_remote_ref(text)) == text
    assert str(parse_any_ref(text)) == text


def test_a_remote_name_needs_its_repository() -> None:
    with pytest.raises(InvalidNameError, match="'name' is not a remote alias"):
        parse_remote_ref("name")


@pytest.mark.parametrize(
    "parse", [parse_dataset_ref, parse_remote_ref, parse_any_ref, parse_ref_pattern]
)
def test_a_damaged_id_is_not_taken_for_a_name(parse: Any) -> None:
    with pytest.raises(InvalidDatasetIdError):
        parse("did:odf:fed01aa")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("%", DatasetAliasPattern),
        ("a/b.%", AmbiguousPattern),
        ("repo/account/%.x", DatasetAliasPatternRemote),
        ("https://h/100%25", DatasetUrl),
    ],
)
def test_a_percent_sign_makes_a_pattern_but_in_a_url(text: str, kind: type) -> None:
    found = parse_any_pattern(text)
    assert type(found) is kind
    assert str(found) == text


@pytest.mark.parametrize("text", ["a_%", "%/%", "a/b/c/%", "a..%", "%--a", "", "/%", "%.%"])
def test_other_characters_and_shapes_are_no_pattern(text: str) -> None:
    with pytest.raises(InvalidNameError):
        parse_any_pattern(text)
    with pytest.raises(InvalidNameError):
        parse_ref_pattern(text)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("a%a", "a", False),
        ("a%a", "aa", True),
        ("%ab%b%", "abb", True),
        ("%ab%b%", "ab", False),
        ("%a%a%", "a", False),
        ("a%b%c", "a.b.x.c", True),
        ("a%b%bc", "abc", False),
    ],
)
def test_a_percent_sign_stands_for_any_run_even_none(
    pattern: str, name: str, expected: bool
) -> None:
    assert matches(parse_ref_pattern(pattern), DatasetAlias(None, name), None) is expected


@given(names, st.data())
def test_a_name_matches_itself_with_any_part_replaced(name: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(name)))
    end = data.draw(st.integers(start, len(name)))
    pattern = DatasetAliasPattern(None, f"{name[:start]}%{name[end:]}")
    assert matches(pattern, DatasetAlias("any", name.swapcase()), None)


def test_an_account_in_a_pattern_must_be_the_same() -> None:
    pattern = parse_ref_pattern("Acc/x%")
    assert matches(pattern, DatasetAlias("acc", "xy"), None)
    assert not matches(pattern, DatasetAlias(None, "xy"), None)
    assert not matches(pattern, DatasetAlias("other", "xy"), None)


def test_a_name_without_account_means_a_dataset_of_any_account() -> None:
    assert matches(DatasetAlias(None, "x"), DatasetAlias("acc", "X"), None)
    assert not matches(DatasetAlias("acc", "x"), DatasetAlias(None, "x"), None)


def test_an_id_means_the_dataset_with_that_id_only() -> None:
    assert matches(ID, DatasetAlias(None, "x"), ID)
    assert not matches(ID, DatasetAlias(None, "x"), None)


@given(st.text(st.sampled_from("ab.-/%:_0+"), max_size=12))
def test_any_text_is_parsed_back_to_itself_or_refused(text: str) -> None:
    for parse in (parse_any_pattern, parse_remote_ref, parse_push_target, parse_ref_pattern):
        try:
            assert str(parse(text)) == text
        except ProtocolError as error:
            assert error.fix
