"""The sample of `make test`: the listed tests are there; of each with cases some stay."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import sample

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", sorted(sample.listed()))
def test_each_listed_test_is_there(name: str) -> None:
    path, *_, function = name.split("::")
    if not re.search(rf"^ *def {function}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE):
        module = import_module(path.removesuffix(".py").replace("/", "."))
        assert hasattr(module, function)  # it has those of another file


NAMES = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 40)).map(
        lambda each: f"{each[0]}[{each[1]}]"
    ),
    unique=True,
)


LONG = st.dictionaries(st.sampled_from("abcd"), st.floats(1, 4.9))


@given(NAMES, LONG, st.booleans())
def test_a_test_with_cases_stays_with_a_part_of_them(
    names: list[str], long: dict[str, float], each: bool
) -> None:
    stays = dict(zip(names, sample.sampled(names, long, each=each), strict=True))
    for family in "abcd":
        cases = [name for name in names if sample.family(name) == family]
        left = sum(stays[name] for name in cases)
        if family not in long:
            assert left == len(cases)
        elif len(cases) == 1:
            assert left in (0, each)
        else:
            assert left == -(-len(cases) // 8)


@given(st.dictionaries(st.text("abc", min_size=1), st.floats(1, 50)), st.integers(0))
def test_eight_commits_have_all_tests_between_them(long: dict[str, float], commit: int) -> None:
    samples = [sample.sampled(long, long, each=True, commit=commit + number) for number in range(8)]
    assert all(sum(stays) == 1 for stays in zip(*samples, strict=True))
    assert max(map(sum, samples)) - min(map(sum, samples)) <= 1
    assert not any(sample.sampled(long, long, commit=commit))


def test_what_took_long_is_listed() -> None:
    seconds = {
        "t.py::a": 0.9,
        "t.py::b": 1.0,
        "t.py::c[1]": 0.5,
        "t.py::c[x[y]]": 0.5,
        "t.py::d[1]": 0.9,
    }
    lines = [line.split() for line in sample.long_tests(seconds)]
    assert lines == [["1.0", "1", "t.py::b"], ["1.0", "2", "t.py::c"]]
