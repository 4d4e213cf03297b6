"""Programs of Pipe steps: what they see of the machine."""

import os
import shutil
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.executors import confinement
from odfbuild.executors.pipe import PipeError, Surroundings
from odfbuild.executors.prepare import prepare
from odfbuild.odf.events import PrepStepPipe
from odfbuild.permissions import DEFAULTS, Permissions, PipeNotPermittedError

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
        monkeypatch.setattr("odfbuild.executors.pipe.confinement", lambda found=found: found)
        with pytest.raises(PipeNotPermittedError):
            piped(project, "cat", permissions=required)
    assert piped(project, "cat", permissions=replace(DEFAULTS, confine="off")) == "row\n"
