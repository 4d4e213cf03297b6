"""The image of our engines: built and run by podman and docker, it makes what they make here."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.odf.hashing import logical_hash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace
from tests.executors.engine.contract.test_container import await_, running_with
from tests.executors.engine.contract.test_projects import READER, ROOT, Project
from tests.support.process.engine_images import registry, why_not_docker, why_not_podman
from tests.support.process.runtimes import runtime_settings
from tests.support.projects import REPOSITORY, environment

pytestmark = pytest.mark.slow  # it downloads what the image is made of

_LINE = re.compile(r'our-(\w+): \{image: "([a-z0-9.:/-]+?)@(sha256:[0-9a-f]{64})", engine')
_RUNTIME = "ODFBUILD_CONTAINER_RUNTIME"


@dataclass(frozen=True)
class Built:
    """An image that was built, the environment in which a program has it, and its files."""

    name: str
    digest: str
    env: Mapping[str, str]
    files: Path

    @property
    def reference(self) -> str:
        return f"{self.name}@{self.digest}"

    def runtime(self, *words: str) -> "subprocess.CompletedProcess[str]":
        env = {**os.environ, **self.env}
        return subprocess.run(
            [shutil.which(env[_RUNTIME]) or "", *words],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def containers(self) -> str:
        """Return the containers that there are; docker removes them after their end."""
        return self.runtime("ps", "--all", "--quiet").stdout


def build(folder: Path, name: str, *more: str, **env: str) -> Built:
    """Build an image as `make image` does."""
    store = Path(tempfile.gettempdir()) / f"odfbuild-engine-images-{os.getuid()}"
    settings = {**runtime_settings(store), _RUNTIME: "podman", **env}
    command = [sys.executable, "-m", "image.build", "--tag", name, "--keep", str(folder), *more]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **settings, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if settings[_RUNTIME] == "docker":
        assert done.stdout.startswith(f"Built {name}.  Push it")
        return Built(name, "", settings, folder)
    found = _LINE.search(done.stdout)
    assert found is not None, done.stdout
    assert found[1] == "datafusion"
    return Built(found[2], found[3], settings, folder)


@contextmanager
def _of_podman(folder: Path) -> Iterator[Built]:
    if (why := why_not_podman()) is not None:
        pytest.skip(why)
    found = build(folder / "root", f"localhost/odfbuild-engine-test-{os.getpid()}")
    yield found
    found.runtime("rmi", "--force", found.name)


@contextmanager
def _of_docker(folder: Path) -> Iterator[Built]:
    """Yield an image with the digest that a registry gives it: docker has none before."""
    if (why := why_not_docker()) is not None:
        pytest.skip(why)
    with registry(folder / "registry") as place:
        name = f"{place}/odfbuild-engine-test"
        found = build(folder / "root", name, **{_RUNTIME: "docker"})
        assert found.runtime("push", name).returncode == 0
        done = found.runtime("image", "inspect", name, "--format={{index .RepoDigests 0}}")
        yield replace(found, digest=done.stdout.strip().partition("@")[2])
        found.runtime("rmi", "--force", name)


@pytest.fixture(scope="module", name="image", params=["podman", "docker"])
def _image(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Built]:
    made = _of_docker if request.param == "docker" else _of_podman
    with made(tmp_path_factory.mktemp("image")) as found:
        yield found


def project(folder: Path, engine: str, settings: str, env: Mapping[str, str]) -> Project:
    folder.mkdir()
    made = Project(folder, settings)
    made.env = {**made.env, **env}
    head = READER.partition('        version: "1.5"\n')[0].replace("engine: duck", engine)
    query = "select k, max(event_time) as event_time, count(*) as n, sum(v) as s from prices"
    text = f"{head}        query: {query} group by k\n"
    (folder / "datasets" / "totals.yaml").write_text(text)
    (folder / "datasets" / "prices.yaml").write_text(ROOT.replace("engine: duck", engine))
    return made


def hashes(made: Project) -> list[str]:
    """Return the logical hashes of all slices, with one system time."""
    workspace = Workspace(made.folder / ".odfbuild")
    found = []
    for name in ("prices", "totals"):
        dataset = workspace.open(DatasetAlias.parse(name))
        assert dataset is not None
        for _, block in dataset.blocks():
            piece = getattr(block.event, "new_data", None)
            if piece is not None:
                rows = pq.read_table(dataset.data_path(piece.physical_hash))
                kind = rows.schema.field("system_time")
                same = pa.repeat(pa.scalar(0, pa.int64()).cast(kind.type), rows.num_rows)
                at = rows.schema.get_field_index("system_time")
                found.append(str(logical_hash(rows.set_column(at, kind, same))))
    return found


def offsets(row: dict[str, Any]) -> list[Any]:
    return [each["offsets"] for each in row["made_of"]]


def test_the_image_makes_what_the_engine_makes_here(tmp_path: Path, image: Built) -> None:
    settings = f"engines: {{ours: {{image: '{image.reference}', engine: datafusion}}}}"
    there = project(tmp_path / "there", "engine: ours", settings, image.env)
    here = project(tmp_path / "here", "engine: datafusion", "", {})
    for number, rows in enumerate((["a,1", "b,2"], ["a,10", "c,5"], ["b,7", "d,1"]), 1):
        for each in (there, here):
            each.rows(f"{number}.csv", *rows)
            done = each("apply", "--yes")
            assert done.code == 0, done.err
    assert hashes(there) == hashes(here)
    assert len(hashes(there)) == 6
    await_(lambda: not image.containers())
    for offset in ("0", "2", "3"):
        found = json.loads(there("explain-row", "totals", offset, "-o", "json").out)
        expected = json.loads(here("explain-row", "totals", offset, "-o", "json").out)
        (one,), (other,) = (each["why"]["rows"][:1] for each in (found, expected))
        assert one["exact"], one
        assert offsets(one) == offsets(other)
    await_(lambda: not image.containers())


def test_an_engine_that_is_not_in_the_image_is_named(tmp_path: Path, image: Built) -> None:
    settings = f"engines: {{ours: {{image: '{image.reference}', engine: spark}}}}"
    done = project(tmp_path / "p", "engine: ours", settings, image.env)("apply", "--yes")
    assert done.code != 0
    assert "there is no engine spark here" in " ".join(done.err.split())


def test_the_image_has_no_shell_and_another_user(image: Built) -> None:
    (found,) = json.loads(image.runtime("image", "inspect", image.name).stdout)
    assert found["Config"]["User"] == "65532:65532"
    names = {each.name for each in (image.files / "usr/bin").iterdir()}
    assert all(each.startswith("py") for each in names), names
    assert not (image.files / "bin").exists()
    done = image.runtime("run", "--rm", "--network=none", "--entrypoint", "/bin/sh", image.name)
    assert done.returncode == 127
    done = image.runtime(
        "run", "--rm", "--network=none", "--entrypoint", "python3", image.name, "-c",
        "import os; print(os.getuid()); open('/opt/odfbuild/x', 'w')",
    )  # fmt: skip
    assert done.stdout == "65532\n"
    assert "Permission denied" in done.stderr


def test_nothing_in_the_image_names_this_machine(image: Built) -> None:
    marks = [str(REPOSITORY).encode(), str(Path(sys.prefix)).encode(), b"odfbuild-image-"]
    for path in image.files.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert not any(mark in data for mark in marks), path


@pytest.mark.parametrize("image", ["podman"], indirect=True)
def test_an_image_that_is_built_again_is_the_same(tmp_path: Path, image: Built) -> None:
    again = build(tmp_path / "root", f"{image.name}-again")
    try:
        assert again.digest == image.digest
    finally:
        again.runtime("rmi", "--force", again.name)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("what", ["apply", "explain-row"])
def test_no_container_is_left_by_a_command_that_ends(
    tmp_path: Path, image: Built, how: signal.Signals, what: str
) -> None:
    settings = f"engines: {{ours: {{image: '{image.reference}', engine: datafusion}}}}"
    made = project(tmp_path / "p", "engine: ours", settings, image.env)
    words = ["apply", "--yes"]
    if what == "explain-row":
        assert made("apply", "--yes").code == 0
        words = ["explain-row", "totals", "0"]
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "odfbuild"), *words],
        cwd=made.folder,
        env={**environment(CI="", PYTHONPATH=str(REPOSITORY)), **image.env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    await_(lambda: running_with("container_keeper.py", str(tmp_path)))
    time.sleep(0.7)
    process.send_signal(how)
    process.wait(60)
    await_(lambda: not running_with("container_keeper.py", str(tmp_path)))
    await_(lambda: not running_with("contract/relay.py", str(tmp_path)))
    await_(lambda: not image.containers())
