"""The wheel is complete: what was built from it works without the repository."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.projects import REPOSITORY

BUILD = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_it_has_the_schemas_the_template_and_the_licence(unpacked: Path) -> None:
    data = unpacked / "odfbuild" / "_data"
    published = {each for each in files(REPOSITORY / "schemas") if each.endswith((".json", ".fbs"))}
    assert files(data / "schemas") == published
    assert files(data / "project_template") == files(REPOSITORY / "project_template")
    assert files(data / "docs") == {"errors.md"}
    assert list(unpacked.glob("*.dist-info/licenses/LICENSE"))
    assert (unpacked / "odfbuild" / "py.typed").exists()


def test_it_has_the_parts_of_the_page_of_lineage(unpacked: Path) -> None:
    page = Path("odfbuild") / "cli" / "page"
    parts = {each for each in files(REPOSITORY / page) if not each.endswith((".py", ".pyc"))}
    assert {"page.css", "page.html", "start.js"} <= parts <= files(unpacked / page)


def test_it_has_nothing_else(unpacked: Path) -> None:
    assert {path.suffix or path.name for path in unpacked.iterdir()} == {"odfbuild", ".dist-info"}
    assert not [name for name in files(unpacked) if name.endswith(".pyc")]


def test_a_project_can_be_made_and_planned_from_it(unpacked: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    docs = ["docs", "build", "-C", "project", "--out", "page.html"]
    for arguments in (["init", "project"], ["plan", "-C", "project"], docs):
        done = subprocess.run(
            [sys.executable, "-m", "odfbuild", *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert files(tmp_path / "project") >= files(REPOSITORY / "project_template" / "minimal")
    assert (tmp_path / "page.html").stat().st_size > 50_000


def test_two_builds_of_one_revision_give_the_same_bytes(tmp_path: Path) -> None:
    """Whatever the clock, the folder, the umask and the language of who builds."""
    copies = []
    for number, (umask, language) in enumerate(((0o022, "C"), (0o077, "C.UTF-8"))):
        place, out = tmp_path / f"copy{number}", tmp_path / f"out{number}"
        for name in ("odfbuild", "schemas", "project_template", "docs"):
            shutil.copytree(
                REPOSITORY / name, place / name, copy_function=shutil.copyfile,
                ignore=shutil.ignore_patterns("__pycache__"),
            )  # fmt: skip
        for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore"):
            shutil.copyfile(REPOSITORY / name, place / name)
        for each in sorted(place.rglob("*"), reverse=number == 1):
            each.chmod((0o777 if each.is_dir() else 0o666) & ~umask)
        given = {"SOURCE_DATE_EPOCH": "1700000000", "LC_ALL": language, "PYTHONHASHSEED": "random"}
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps"]
        subprocess.run(
            [*pip, "--no-build-isolation", "--wheel-dir", str(out), str(place)],
            env={**os.environ, **given}, umask=umask, check=True, capture_output=True,
        )  # fmt: skip
        copies.append({each.name: each.read_bytes() for each in out.iterdir()})
    assert copies[0] == copies[1]
    assert len(copies[0]) == 1
