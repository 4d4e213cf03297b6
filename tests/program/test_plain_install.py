"""The program where nothing is installed but what a plain install brings."""

import importlib.metadata
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.projects import EXAMPLES, REPOSITORY, Done, run
from tests.test_dependencies import PLAIN, distributions

PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import odfbuild.cli.main as m; m.program()"
)
Plain = Callable[[str], Done]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the packages of a plain install, and no others."""
    folder = tmp_path_factory.mktemp("site")
    tops = dict[str, Path]()
    for name in distributions(PLAIN):
        with suppress(importlib.metadata.PackageNotFoundError):  # of other versions of Python
            found = importlib.metadata.distribution(name)
            place = Path(str(found.locate_file("")))
            names = {each.parts[0] for each in found.files or ()} - {"..", "__pycache__"}
            eggs = {each.name for each in place.glob(f"{name}-*.egg-info")}  # without its own name
            tops |= {each: place / each for each in names | eggs if (place / each).exists()}
    tops["odfbuild"] = REPOSITORY / "odfbuild"
    for name, path in tops.items():
        (folder / name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def plain(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Plain:
    """Return how to run a line in an example that was built twice, the second time with more."""
    project = shutil.copytree(EXAMPLES / "bakery", tmp_path_factory.mktemp("plain") / "bakery")

    def ran(line: str) -> Done:
        words = shlex.split(line)
        done = run([sys.executable, "-S", "-P", "-c", PROGRAM, str(site), *words], project, {})
        assert done.code == 0, f"{line}: {done.out}{done.err}"
        return done

    last = project / "data" / "sales" / "2031-04-04.csv"
    aside = last.rename(project / "later.csv")
    ran("apply --yes")
    aside.rename(last)
    ran("apply --yes")
    return ran


@pytest.mark.parametrize(
    "line",
    [
        "test",
        "verify --replay",
        "verify --recompute",
        "doctor",
        "log bakery.takings",
        "show bakery.takings",
        "lineage bakery.takings",
        "docs build --out page.html",
        "check",
    ],
)
def test_a_command_needs_no_more(plain: Plain, line: str) -> None:
    plain(line)


@pytest.mark.spark
def test_questions_are_answered(plain: Plain) -> None:
    assert "97" in plain("sql 'select count(*) as n from `bakery.sales`'").out


def test_a_record_is_followed_to_its_file(plain: Plain) -> None:
    assert "2031-04-01.csv:2" in plain("explain-row bakery.sales 0").out


def test_rows_are_compared(plain: Plain) -> None:
    assert "+" in plain("diff bakery.takings --data 1 head").out


def test_what_a_repository_needs_is_named(site: Path, tmp_path: Path) -> None:
    config = "odfbuild: 1\nrepositories: {hub: {url: s3://bucket/odf}}\n"
    (tmp_path / "datasets").mkdir()
    (tmp_path / "odfbuild.yaml").write_text(config, "utf-8")
    words = ["repo", "check", "-o", "json"]
    done = run([sys.executable, "-S", "-P", "-c", PROGRAM, str(site), *words], tmp_path, {})
    assert "pip install 'odfbuild[s3]'" in done.out, done.err


def test_nothing_else_is_there(site: Path) -> None:
    assert not [*site.glob("numpy*"), *site.glob("pandas*"), *site.glob("cffi*")]
