"""Tests of patterns that are compiled late."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import odfbuild
from odfbuild.texts.patterns import late_pattern

_ROOT = Path(odfbuild.__file__).parent
_USERS = sorted(
    ".".join(path.relative_to(_ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in _ROOT.rglob("*.py")
    if "= late_pattern(" in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", _USERS)
def test_each_late_pattern_of_a_module_is_a_pattern(name: str) -> None:
    kind = type(late_pattern(""))
    found = [each for each in vars(import_module(name)).values() if isinstance(each, kind)]
    assert found
    for each in found:
        assert re.compile(each.pattern, each.flags).groups == each.groups


@pytest.mark.parametrize("text", ["", "a", "Ab-12", "12 ab ab\n3"])
def test_a_late_pattern_finds_what_an_early_one_finds(text: str) -> None:
    for given, flags in ((r"\d+", 0), (r"(a)(b)?", re.IGNORECASE), (r"^.", re.MULTILINE)):
        late, early = late_pattern(given, flags), re.compile(given, flags)
        for _ in range(2):
            assert late.findall(text) == early.findall(text)
            assert late.sub("x", text) == early.sub("x", text)
            assert bool(late.fullmatch(text)) == bool(early.fullmatch(text))


def test_a_late_pattern_that_is_none_is_refused_when_it_is_used() -> None:
    late = late_pattern("(")
    with pytest.raises(re.error):
        late.search("")
