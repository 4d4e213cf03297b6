"""Engines in containers: what they make, what they reach, and that none is left."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.executors.engine.contract.test_projects import Project
from tests.support.process.engine_images import (
    EngineImages,
    PlayedImages,
    PodmanImages,
    why_not_played,
    why_not_podman,
)
from tests.support.projects import REPOSITORY, environment
from tests.support.servers.second_engine import MODULE

PORT = 2884
LISTENING = f"import socket, time; s = socket.create_server(('', {PORT}))"
SETTING = "engines: {{duck: {{image: '{image}'{more}}}}}"


@pytest.fixture(params=["played", "podman"])
def images(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> EngineImages:
    why = why_not_played() if request.param == "played" else why_not_podman()
    if why is not None:
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("images")
    return PlayedImages(folder) if request.param == "played" else PodmanImages(folder)


def project(folder: Path, images: EngineImages, image: str, more: str = "") -> Project:
    found = Project(folder, SETTING.format(image=image, more=more))
    found.env = {**found.env, **images.env}
    return found


def engine(images: EngineImages, *, port: int = PORT) -> str:
    return images.image(sys.executable, "-m", MODULE, str(port))


def test_a_dataset_is_made_and_corrected_by_an_image(tmp_path: Path, images: EngineImages) -> None:
    project(tmp_path, images, engine(images)).check_steps()


def test_blocks_name_the_image_that_made_the_rows(tmp_path: Path) -> None:
    """And a command that records nothing new refuses to run another one."""
    if (why := why_not_played()) is not None:
        pytest.skip(why)
    images = PlayedImages(tmp_path / "images")
    first, second, third = (engine(images, port=port) for port in (PORT, PORT, 5544))
    assert first != second
    (tmp_path / "project").mkdir()
    made = project(tmp_path / "project", images, first)
    definition = tmp_path / "project" / "datasets" / "totals.yaml"
    definition.write_text(definition.read_text().replace('        version: "1.5"\n', ""))
    for number, image in enumerate((first, second)):
        made.settings(SETTING.format(image=image, more=""))
        made.rows(f"{number}.csv", "d,1")
        accepted = made("accept", "ODF212", "totals", "--until", "2999-01-01", "--reason", "x")
        assert accepted.code == 0, accepted.out + accepted.err
        done = made("apply", "--yes")
        assert done.code == 0, done.out + done.err
        assert image.partition("@")[2] in made("inspect", "query", "totals").out
        assert "No changes" in made("plan").out
    made.settings(SETTING.format(image=third, more=", port: 5544"))
    made.rows("9.csv", "e,1")
    assert third.partition("@")[2] in made("plan", "-o", "json").out
    refused = made("run")
    assert refused.code != 0
    assert "error[engine-version]" in refused.err
    assert second.partition("@")[2] in refused.err


def test_the_port_of_an_image_may_be_another(tmp_path: Path, images: EngineImages) -> None:
    made = project(tmp_path, images, engine(images, port=5544), ", port: 5544")
    assert made("apply", "--yes").code == 0


@pytest.mark.holds("engine-images")
@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("import sys; sys.exit('no such model')", "no such model"),
        ("import socket; print(socket.if_nameindex())", "[(1, 'lo')]"),
        ("import os; open('/opt/engine/in/more', 'w')", "Read-only file system"),
        ("import os; print(sorted(os.listdir('/opt/engine')))", "['in', 'out']"),
        ("import os; print(sorted(os.listdir('/opt/engine/in')))", "['input.parquet']"),
        ("print('x' * 200_000); print('the end')", "the end"),
    ],
)
def test_an_engine_that_ends_is_reported_with_what_it_printed(
    tmp_path: Path, images: EngineImages, program: str, printed: str
) -> None:
    made = project(tmp_path, images, images.python(program))
    done = made("apply", "--yes")
    assert done.code == 4
    assert "before it answered" in done.err
    assert printed in " ".join(done.err.split())
    assert "engine-failed" in done.err
    assert made("show", "prices", "-o", "ndjson").out == ""


@pytest.mark.holds("engine-images")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("later", [0.0, 0.05, 0.15, 0.3, None])
def test_no_container_is_left_by_a_command_that_ends(
    tmp_path: Path, images: EngineImages, how: signal.Signals, later: float | None
) -> None:
    """`later` are seconds since the container was asked for; None is when its engine listens."""
    mark = f"unique-{os.getpid()}-{time.time_ns()}"
    made = project(tmp_path, images, images.python(f"{mark!r}; {LISTENING}; time.sleep(600)"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "odfbuild"), "apply", "--yes"],
        cwd=made.folder,
        env={
            **environment(CI="", PYTHONPATH=str(REPOSITORY), TMPDIR=str(temporary)),
            **images.env,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    await_(lambda: running_with("container_keeper.py", str(tmp_path)))
    if later is None:
        await_(lambda: running_with(mark) and running_with("contract/relay.py", str(tmp_path)))
    else:
        time.sleep(later)
    process.send_signal(how)
    if how is signal.SIGINT:
        time.sleep(0.5)
        process.send_signal(how)
    process.wait(60)
    await_(lambda: not running_with("container_keeper.py", str(tmp_path)))
    await_(lambda: not running_with("contract/relay.py", str(tmp_path)))
    assert not running_with(mark)
    assert [each.name for each in temporary.iterdir() if list(each.iterdir())] == []


@pytest.mark.parametrize("name", ["a%20b", "a#b", "a,b c", "ä", "long" * 30])
def test_the_folder_of_temporary_files_may_have_any_name(
    tmp_path: Path, images: EngineImages, name: str
) -> None:
    temporary = tmp_path / name
    temporary.mkdir()
    (tmp_path / "project").mkdir()
    made = project(tmp_path / "project", images, engine(images))
    done = made("apply", "--yes", TMPDIR=str(temporary))
    assert done.code == 0, done.err


def test_what_an_engine_prints_takes_no_space(tmp_path: Path, images: EngineImages) -> None:
    endless = "while time.time() < end: os.write(1, b'x' * 60000)"
    text = f"import os, time; end = time.time() + 3\n{endless}\nprint(); print('the end')"
    made = project(tmp_path, images, images.python(text))
    done = made("apply", "--yes")
    assert "the end" in done.err
    assert sum(each.stat().st_size for each in tmp_path.rglob("*") if each.is_file()) < 1 << 20


@pytest.mark.parametrize("program", ["import time", LISTENING])
def test_an_engine_in_vain_waited_for_is_reported_with_what_it_printed(
    tmp_path: Path, images: EngineImages, program: str
) -> None:
    image = images.python(f"{program}; print('loading', flush=True); time.sleep(600)")
    done = project(tmp_path, images, image, ", limit: 3s")("apply", "--yes")
    assert done.code == 4
    assert "engine-timeout" in done.err
    assert "it printed: loading" in done.err
    listens = "nothing listened at port 2884" in " ".join(done.err.split())
    assert listens == (program == "import time")


def test_an_image_of_another_name_with_that_digest_is_not_run(
    tmp_path: Path, images: EngineImages
) -> None:
    _, _, digest = engine(images).partition("@")
    done = project(tmp_path, images, f"ghcr.invalid/acme/engine@{digest}")("apply", "--yes")
    assert done.code == 4
    assert "error[container]" in done.err
    assert "cannot be pulled" in " ".join(done.err.split())


def await_(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def running_with(*marks: str) -> list[int]:
    """Return the processes that have all these texts among their arguments."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and int(each.name) != os.getpid():
            try:
                words = (each / "cmdline").read_bytes()
            except OSError:
                continue
            if all(mark.encode() in words for mark in marks):
                found.append(int(each.name))
    return found


def test_variables_of_proxies_do_not_reach_a_container(tmp_path: Path) -> None:
    if (why := why_not_played()) is not None:
        pytest.skip(why)
    images = PlayedImages(tmp_path / "images")
    (tmp_path / "project").mkdir()
    made = project(tmp_path / "project", images, images.python("pass"))
    made("apply", "--yes", HTTPS_PROXY="http://me:secret@proxy", https_proxy="http://me:secret@x")
    found = {each["argv"][0]: each for each in images.commands()}
    assert "secret" in json.dumps(found["image"])  # it may have to be pulled
    assert "secret" not in json.dumps(found["run"])
    assert "--network=none" in found["run"]["argv"]


@pytest.mark.holds("engine-images")
@pytest.mark.parametrize("policy", ["containers: []", "containers: ['other*']"])
def test_an_image_that_the_policy_does_not_name_is_not_started(tmp_path: Path, policy: str) -> None:
    (tmp_path / "policy.yaml").write_text(f"odfbuild_policy: 1\n{policy}\n")
    (tmp_path / "project").mkdir()
    images = PlayedImages(tmp_path / "images")
    made = project(tmp_path / "project", images, images.python("pass"))
    made.env = {**made.env, "ODFBUILD_POLICY": str(tmp_path / "policy.yaml")}
    assert "apply is refused here" in made("plan").out
    done = made("apply", "--yes")
    assert done.code in (1, 4)
    assert "container-not-permitted" in done.err
    assert not (tmp_path / "images" / "asked.ndjson").exists()


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    await_(lambda: not running_with("contract/relay.py"))
