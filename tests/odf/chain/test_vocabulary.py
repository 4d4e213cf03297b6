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
