"""Programs of Pipe steps: what they see of the machine."""

import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.executors.ingest.prepare import PipeError, Surroundings, prepare
from odfbuild.executors.process import sandbox as confinement
from odfbuild.host.permissions import DEFAULTS, Permissions, PipeNotPermittedError
from odfbuild.odf.events import PrepStepPipe

SECRET = "hunter2-is-not-for-you"
needs_landlock = pytest.mark.skipif(
    not confinement.confinement().files, reason="the kernel has no landlock"
)
needs_no_network = pytest.mark.skipif(
    not confinement.confinement().network, reason="no network namespaces for this user"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project in a home folder, with secrets around it."""
    folder = tmp_path / "home" / "project"
    (folder / ".odfbuild" / "keys").mkdir(parents=True)
    (folder / ".odfbuild" / "keys" / "key").write_text(SECRET)
    (folder / "table.csv").write_text("a,1\n")
    (folder.parent / ".netrc").write_text(SECRET)
    (folder.parent / "other").mkdir()
    (folder.parent / "other" / "file").write_text(SECRET)
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("TOKEN", SECRET)
    return folder


def piped(project: Path, *command: str, permissions: Permissions = DEFAULTS) -> str:
    source = project / "data.csv"
    source.write_text("row\n")
    around = Surroundings(project, os.environ, permissions, (project / ".odfbuild",))
    staging = project.parent.parent / "staging"
    staging.mkdir(exist_ok=True)
    return prepare([PrepStepPipe(command)], source, staging, around=around).read_text()


def said(project: Path, *command: str, permissions: Permissions = DEFAULTS) -> str:
    """Return what a program prints, or what its failure says."""
    try:
        return piped(project, *command, permissions=permissions)
    except PipeError as error:
        return f"{error.why} {error.said.decode()}"


@pytest.mark.holds("source-environment")
def test_a_program_sees_little_of_the_environment(project: Path) -> None:
    lines = dict(line.split("=", 1) for line in piped(project, "env").splitlines())
    assert lines.keys() <= {
        "PATH",
        "HOME",
        "TMPDIR",
        "TZ",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LC_CTYPE",
    }
    assert not lines["HOME"].startswith(str(project.parent))
    assert not Path(lines["HOME"]).exists()
    allowed = replace(DEFAULTS, pipe_env=("TOK*",))
    assert f"TOKEN={SECRET}" in piped(project, "env", permissions=allowed)


@pytest.mark.holds("source-environment")
def test_a_program_inherits_no_open_file(project: Path) -> None:
    with (project.parent / ".netrc").open() as file:
        os.set_inheritable(file.fileno(), True)
        found = piped(project, "sh", "-c", "for f in /proc/self/fd/*; do readlink $f; done; true")
    assert ".netrc" not in found


PEEKS = {
    "a file of the home": "cat ../.netrc",
    "another folder of the home": "cat ../other/file",
    "the home by its name": "cat {home}/.netrc",
    "a way around": "cat .odfbuild/../../.netrc",
    "keys of datasets": "cat .odfbuild/keys/key",
    "a link": "ln -s {home}/.netrc $HOME/link; cat $HOME/link",
    "the environment of its parent": "cat /proc/{pid}/environ",
    "the memory maps of its parent": "cat /proc/{pid}/maps; cat /proc/{pid}/mem",
    "files of its parent": "cat /proc/{pid}/cwd/.odfbuild/keys/key",
    "root of its parent": "cat /proc/{pid}/root{home}/.netrc",
}


@needs_landlock
@pytest.mark.holds("source-confined")
@pytest.mark.parametrize("script", PEEKS.values(), ids=PEEKS)
def test_a_program_does_not_see_secrets(project: Path, script: str) -> None:
    text = script.format(home=project.parent, pid=os.getpid())
    found = said(project, "sh", "-c", f"{text} 2>&1; cat")
    assert SECRET not in found
    assert "denied" in found or "not permitted" in found.lower()


@needs_landlock
@pytest.mark.holds("source-confined")
@pytest.mark.parametrize("place", ["stolen", "../stolen", ".odfbuild/stolen", "../../stolen"])
def test_a_program_writes_to_its_scratch_folder_alone(project: Path, place: str) -> None:
    assert piped(project, "sh", "-c", "cat > $HOME/a; cat $HOME/a; cat table.csv") == "row\na,1\n"
    assert "ermission denied" in said(project, "sh", "-c", f"echo x > {place}")
    assert not (project / place).exists()


@needs_landlock
@pytest.mark.holds("source-confined")
def test_a_program_sends_no_signal_to_others(project: Path) -> None:
    assert "can" not in said(project, "sh", "-c", f"kill -0 {os.getpid()} 2>&1 && echo can").split()


@needs_landlock
@pytest.mark.holds("source-confined")
def test_a_program_uses_five_devices_alone(project: Path) -> None:
    shared = Path("/dev/shm") / f"odfbuild-test-{os.getpid()}"  # noqa: S108
    shared.write_text(SECRET)
    try:
        found = said(project, "sh", "-c", f"cat {shared} 2>&1; cat")
        assert SECRET not in found
        assert "denied" in found
        said(project, "sh", "-c", f"echo changed > {shared}")
        assert shared.read_text() == SECRET
        others = "for f in /dev/* /dev/*/*; do test -r $f -a ! -d $f || continue; case $f in "
        others += "/dev/null|/dev/zero|/dev/full|/dev/*random|/dev/fd*|/dev/std*);; "
        others += "*) (exec 3<$f) 2>/dev/null && echo opened $f;; esac; done; cat"
        assert "opened" not in said(project, "sh", "-c", others)
        used = "for f in null zero full random urandom; do head -c1 /dev/$f >/dev/null; done; cat"
        assert piped(project, "sh", "-c", used) == "row\n"
    finally:
        shared.unlink()


@needs_no_network
@pytest.mark.holds("source-confined")
@pytest.mark.parametrize("end", ["", "; exit 3", "; kill -9 $$", "; kill -15 $$"])
def test_what_a_program_starts_ends_with_it(project: Path, end: str) -> None:
    mark = f"{os.getpid()}.{len(end)}7"
    script = f"setsid sleep 1{mark} >/dev/null 2>&1 </dev/null & cat{end}"
    said(project, "sh", "-c", script)
    until = time.monotonic() + 60
    while any(is_run(mark)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not list(is_run(mark))


def is_run(mark: str) -> Iterator[int]:
    """Yield the processes whose command line has a mark in it."""
    for each in Path("/proc").iterdir():
        try:
            if (
                each.name.isdecimal()
                and f"sleep\0001{mark}\0".encode() in (each / "cmdline").read_bytes()
            ):
                yield int(each.name)
        except OSError:
            continue


@pytest.mark.holds("source-confined")
@pytest.mark.parametrize(
    ("end", "how"),
    [("exit 3", "exit code 3"), ("kill -9 $$", "SIGKILL"), ("kill -15 $$", "SIGTERM")],
)
def test_a_confined_program_ends_as_it_does_alone(project: Path, end: str, how: str) -> None:
    with pytest.raises(PipeError) as caught:
        piped(project, "sh", "-c", f"cat; {end}")
    assert how in caught.value.what


@needs_landlock
@pytest.mark.holds("source-home")
def test_a_project_that_is_the_home_hides_what_begins_with_a_dot(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".ssh").mkdir()
    (project / ".ssh" / "id").write_text(SECRET)
    (project / ".netrc").write_text(SECRET)
    monkeypatch.setenv("HOME", str(project))
    found = said(
        project, "sh", "-c", "cat table.csv; cat .ssh/id .netrc .odfbuild/keys/key 2>&1; true"
    )
    assert SECRET not in found
    assert "denied" in found


CALLS = {
    "tcp": "s.connect(('127.0.0.1', {port}))",
    "udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))",
    "listening": "s.bind(('0.0.0.0', 0))",
}


@needs_no_network
@pytest.mark.holds("source-confined")
@pytest.mark.parametrize("call", ["tcp", "udp"])
def test_a_program_has_no_network(project: Path, call: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as packets,
    ):
        port = server.getsockname()[1]
        packets.bind(("127.0.0.1", port))
        packets.settimeout(0.2)
        script = f"import socket; s = socket.socket(); {CALLS[call].format(port=port)}"
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
        said(project, python, "-c", script)
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()
        with pytest.raises(TimeoutError):
            packets.recv(1)


@pytest.mark.holds("source-confined")
def test_where_nothing_confines_a_policy_may_refuse(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    required = replace(DEFAULTS, confine="required")
    for found in (
        confinement.Confinement(files=False, tcp=False, network=False),
        confinement.Confinement(files=True, tcp=False, network=False),
        confinement.Confinement(files=False, tcp=True, network=True),
    ):
        monkeypatch.setattr(
            "odfbuild.executors.ingest.prepare.confinement", lambda found=found: found
        )
        with pytest.raises(PipeNotPermittedError):
            piped(project, "cat", permissions=required)
    assert piped(project, "cat", permissions=replace(DEFAULTS, confine="off")) == "row\n"
