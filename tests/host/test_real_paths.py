"""Real paths of many paths are those of the system, whatever links are among them."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.host.real_paths import RealPaths

_NAMES = ("a", "b", "c", "..", ".", "")
_PATHS = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=5).map("/".join)


@given(
    st.lists(st.tuples(_PATHS, st.one_of(_PATHS, st.none())), max_size=8),
    st.lists(_PATHS, max_size=8),
)
def test_they_are_those_of_the_system(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[tuple[str, str | None]],
    asked: list[str],
) -> None:
    top = tmp_path_factory.mktemp("links").joinpath(*"abcabc")
    top.mkdir(parents=True)
    for path, target in made:
        try:
            if target is None:
                Path(top, path).mkdir()
            else:
                Path(f"{top}/{path}").symlink_to(target)
        except OSError:
            continue
    paths = RealPaths()
    for path in (*asked, *(path for path, _ in made)):
        if not _is_endless(f"{top}/{path}"):
            assert paths.of(f"{top}/{path}") == os.path.realpath(f"{top}/{path}")


def _is_endless(path: str) -> bool:
    """Say whether links lead back to themselves: `realpath` then gives one place or another."""
    try:
        Path(path).stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def test_a_path_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="null"):
        RealPaths().of(f"{tmp_path}/a\0b")
