"""Hidden names: no column and no query has them, in any case."""

from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.engine.arrow.hidden_names import PREFIX, hidden_prefix

_PARTS = st.sampled_from(["__odf_", "__ODF_", "__odf1_", "__Odf2_", "__odf", "pos", "state", "1_"])


@given(st.lists(st.lists(_PARTS, max_size=4).map("".join) | st.text(max_size=8), max_size=6))
def test_no_name_has_the_prefix(names: list[str]) -> None:
    found = hidden_prefix(names)
    assert not any(found in name.casefold() or found in name.lower() for name in names)
    assert found.startswith("__odf")
    assert found.isascii()


def test_there_is_one_for_ordinary_names() -> None:
    assert hidden_prefix(["a", "odf_pos", "_odf_x"]) == PREFIX
    assert hidden_prefix(["__ODF_x", "select 1 as __odf1_y"]) == "__odf2_"
