"""References to datasets of repositories: which texts are some, and what they are called here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias, DatasetAliasRemote, DatasetUrl
from odfbuild.planner.plan.remote_inputs import (
    RemoteInput,
    local_alias,
    names_in_workspace,
    query_name,
    reference_key,
    remote_ref,
    unresolved_id,
)

ID = DatasetId(bytes(range(32)))
names = st.from_regex(r"[a-z0-9]{1,4}(?:[.-][a-z0-9]{1,3})?", fullmatch=True)


def read(alias: str, id: DatasetId) -> RemoteInput:
    ref = DatasetAliasRemote("hub", None, alias)
    return RemoteInput(ref=ref, alias=DatasetAlias("hub", alias), id=id, is_resolved=True, path=())


@pytest.mark.parametrize("text", ["rates", "acme/rates", "a/b/c/d", "", "/rates", "HUB2/rates"])
def test_what_names_no_repository_is_a_dataset_here(text: str) -> None:
    assert remote_ref(text, {"hub"}) is None


@pytest.mark.parametrize(
    ("text", "alias", "name"),
    [
        ("hub/rates", "hub/rates", "rates"),
        ("Hub/Rates", "Hub/Rates", "Rates"),
        ("hub/acme/rates", "hub.acme/rates", "rates"),
        ("other/acme/rates", "other.acme/rates", "rates"),
        ("https://data.example.org/odf/rates/", "data.example.org/rates", "rates"),
        ("s3+http://127.0.0.1:9000/bucket/rates", "127.0.0.1/rates", "rates"),
        ("file:///srv/odf/rates", "url/rates", "rates"),
        (f"hub/{ID}", "hub/0001020304050607", "0001020304050607"),
    ],
)
def test_a_reference_is_a_name_here_and_in_queries(text: str, alias: str, name: str) -> None:
    ref = remote_ref(text, {"hub"})
    assert ref is not None
    assert (str(local_alias(ref)), query_name(ref)) == (alias, name)


@given(names, names, names)
def test_names_are_the_same_for_the_same_dataset_only(repo: str, account: str, name: str) -> None:
    texts = [f"{repo}/{name}", f"{repo}/{account}/{name}", f"{repo}/{name}/{account}"]
    refs = [remote_ref(text, {repo}) for text in texts]
    aliases = {str(local_alias(ref)).lower() for ref in refs if ref is not None}
    assert len(aliases) == len({text.lower() for text in texts})
    assert all(DatasetAlias.parse(alias) for alias in aliases)


@given(names, names)
def test_a_reference_is_known_in_any_spelling(repo: str, name: str) -> None:
    one, other = DatasetAliasRemote(repo, None, name), DatasetAliasRemote(repo.upper(), None, name)
    assert reference_key(one) == reference_key(other)
    assert unresolved_id(one) == unresolved_id(other)
    assert reference_key(DatasetUrl("https://h/A/")) != reference_key(DatasetUrl("https://h/a/"))


def test_a_name_that_another_dataset_has_gets_a_part_of_the_id() -> None:
    other = DatasetId(bytes(32))
    known = {DatasetAlias("hub", "rates"): other}
    assert names_in_workspace([read("rates", ID)], known) == {
        ID: DatasetAlias("hub", "rates-00010203")
    }


def test_two_datasets_whose_references_make_one_name_have_two() -> None:
    other = DatasetId(bytes(32))
    found = names_in_workspace([read("a", ID), read("a", other)], {})
    assert set(found) == {ID, other}
    assert len(set(found.values())) == 2


def test_a_dataset_that_was_pulled_by_hand_keeps_its_name() -> None:
    mine = DatasetAlias(None, "mine")
    assert names_in_workspace([read("rates", ID)], {mine: ID}) == {ID: mine}


def test_of_several_references_to_one_dataset_the_first_name_counts() -> None:
    found = names_in_workspace([read("b", ID), read("a", ID)], {})
    assert found == {ID: DatasetAlias("hub", "a")}
