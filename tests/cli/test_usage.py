"""How commands are called: wrong calls end with 64 and say so."""

from pathlib import Path

import pytest

from odfbuild import __version__
from tests.support.projects import odfbuild, shell

WRONG = {
    "plna": "Did you mean 'plan'?",
    "plan --json": "No such option: --json",
    "plan -o yaml": "'yaml' is not one of",
    "show": "Missing argument",
    "show src -o xml": "'xml' is not one of",
    "show src -n 0": "0 is not in the range",
    "log src -n many": "'many' is not a valid int",
    "apply -j 0": "0 is not in the range",
    "apply --lock-timeout soon": "'soon' is not a valid float",
    "init one two": "unexpected extra argument",
}


@pytest.mark.parametrize(("line", "says"), WRONG.items(), ids=WRONG)
def test_a_wrong_call_is_told(project: Path, line: str, says: str) -> None:
    done = odfbuild(*line.split(), cwd=project)
    assert done.code == 64
    assert done.out == ""
    assert done.err.startswith("odfbuild: ")
    assert says in done.err
    command = "" if line == "plna" else f"{line.split(maxsplit=1)[0]} "
    assert done.err.endswith(f"Try: odfbuild {command}--help\n")


def test_no_command_shows_them_all(tmp_path: Path) -> None:
    done = odfbuild(cwd=tmp_path)
    assert done.code == 64
    assert done.err == odfbuild("--help", cwd=tmp_path).out


@pytest.mark.parametrize(
    "command", ["", "init", "plan", "apply", "status", "log", "show", "verify"]
)
def test_every_command_explains_itself_anywhere(tmp_path: Path, command: str) -> None:
    done = odfbuild(*command.split(), "--help", cwd=tmp_path)
    assert done.code == 0
    assert done.out.startswith(f"Usage: odfbuild {command}".rstrip())
    assert done.err == ""


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert odfbuild("--version", cwd=tmp_path).out == f"odfbuild {__version__}\n"


@pytest.mark.parametrize("command", ["show", "log", "verify", "status", "plan"])
def test_a_name_that_is_nearly_right_is_recognised(project: Path, command: str) -> None:
    done = odfbuild(command, "scr", cwd=project)
    assert done.code == 1
    assert "no dataset named 'scr'" in done.err
    assert "did you mean 'src'?" in done.err


@pytest.mark.parametrize("command", ["show", "log", "verify"])
def test_names_are_found_in_any_case(project: Path, command: str) -> None:
    assert odfbuild(command, "SRC", cwd=project).code == 0


@pytest.mark.parametrize("name", ["a b", "", "../src", "did:odf:nonsense", "\x1b[2J"])
def test_what_is_no_name_is_told(project: Path, name: str) -> None:
    done = odfbuild("show", name, cwd=project)
    assert done.code == 1
    assert "error[" in done.err
    assert "Traceback" not in done.err
    assert "\x1b" not in done.err


@pytest.mark.parametrize("command", ["plan", "status", "log src", "show src -o csv", "verify"])
def test_a_full_disk_behind_stdout_is_told(project: Path, command: str) -> None:
    done = shell(f"odfbuild {command} >/dev/full", project)
    assert done.code == 1
    assert "No space left on device" in done.err
    assert "Exception ignored" not in done.err


@pytest.mark.parametrize("command", ["plan", "status", "log src", "show src", "verify"])
def test_a_reader_that_leaves_is_no_error(project: Path, command: str) -> None:
    done = shell(f"(odfbuild {command}; echo code $? >&2) | true", project)
    assert done.err == "code 0\n"


def test_a_file_that_is_no_project_is_explained(tmp_path: Path) -> None:
    (tmp_path / "odfbuild.yaml").write_text("odfbuild: 1\ndatasets: [nowhere]\ntarget: x\n")
    done = odfbuild("plan", cwd=tmp_path)
    assert done.code == 1
    assert "odfbuild.yaml:2:12: error[no-folder]" in done.err
    assert "odfbuild.yaml:3:1: error[config]" in done.err
    assert "2 errors" in done.err
