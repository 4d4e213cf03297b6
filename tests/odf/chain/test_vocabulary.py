"""When the names of the system columns may change."""

import pytest

from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.errors import ChainProfile, InvalidEventError
from odfbuild.odf.events import SetVocab
from tests.support.data.chains import ROOT, SCHEMA, after, grown

RENAMED = SetVocab(event_time_column="day")


def test_the_vocabulary_may_change_before_there_is_a_schema() -> None:
    state = grown(ROOT, SetVocab(offset_column="o"))
    check_append(state, after(state, RENAMED).block, profile=ChainProfile.SPEC)


def test_the_vocabulary_may_not_change_after_that() -> None:
    state = grown(ROOT, SCHEMA)
    with pytest.raises(InvalidEventError, match="system columns have other names"):
        check_append(state, after(state, RENAMED).block, profile=ChainProfile.SPEC)


def test_saying_the_same_again_is_no_change() -> None:
    state = grown(ROOT, RENAMED, SCHEMA)
    check_append(state, after(state, RENAMED).block, profile=ChainProfile.SPEC)


@pytest.mark.parametrize("profile", [ChainProfile.REFERENCE_2024, ChainProfile.REFERENCE_HEAD])
def test_the_references_do_not_look_at_it(profile: ChainProfile) -> None:
    state = grown(ROOT, SCHEMA)
    check_append(state, after(state, RENAMED).block, profile=profile)


DEFAULTS = {"offset_column": "offset", "operation_type_column": "op",
            "system_time_column": "system_time", "event_time_column": "event_time"}  # fmt: skip


@pytest.mark.parametrize("column", DEFAULTS)
@pytest.mark.parametrize("other", DEFAULTS)
def test_two_system_columns_have_two_names(column: str, other: str) -> None:
    """Whichever is renamed: to the default of another one, or both to one name."""
    for named in (
        SetVocab(**{column: DEFAULTS[other]}),
        SetVocab(**{column: "x", other: "x"}),
    ):
        state = grown(ROOT)
        block = after(state, named).block
        if column == other:
            check_append(state, block)
            continue
        with pytest.raises(InvalidEventError, match="is the name of two system columns"):
            check_append(state, block)
        check_append(state, block, profile=ChainProfile.REFERENCE_HEAD)


def test_names_may_be_exchanged() -> None:
    grown(ROOT, SetVocab(offset_column="op", operation_type_column="offset"))


@pytest.mark.parametrize("column", DEFAULTS)
def test_a_system_column_has_a_name(column: str) -> None:
    state = grown(ROOT)
    with pytest.raises(InvalidEventError, match="an empty name"):
        check_append(state, after(state, SetVocab(**{column: ""})).block)
