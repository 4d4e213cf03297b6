"""Patterns of files mean what Python makes of them, but for links that lead back."""

import glob
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.fetch.globs import matches

NAMES = st.text("ab.", min_size=1, max_size=2).filter(lambda name: name.strip(".") != "")
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(tuple)
PARTS = st.sampled_from(["**", "*", "a", "b", "a*", "?", "[ab]", ".a", ".*", "..", ".", "**b"])
PATTERNS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)


@given(paths=st.sets(PATHS, max_size=8), pattern=PATTERNS)
def test_patterns_match_what_the_glob_module_matches(
    tmp_path_factory: pytest.TempPathFactory, paths: set[tuple[str, ...]], pattern: str
) -> None:
    base = tmp_path_factory.mktemp("glob")
    for path in paths:
        file = base.joinpath(*path)
        if not any(each.is_file() for each in file.parents) and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    listed = glob.glob(pattern, root_dir=base, recursive=True)  # noqa: PTH207
    expected = {str(base / each) for each in listed if (base / each).is_file()}
    found = [each for each in matches(pattern, str(base)) if Path(each).is_file()]
    assert sorted(str(Path(each)) for each in found) == sorted(expected)
