"""Completion in shells: what a line that was begun may become, asked as the scripts ask."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.projects import environment, probe
from tests.support.projects.texts import root

SETTINGS = "odfbuild: 1\nname: x\ntargets:\n  dev: {workspace: ./here}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return lay_out(
        tmp_path / "project",
        {
            "odfbuild.yaml": SETTINGS,
            "datasets/rates.yaml": root("Rates.Daily"),
            "datasets/deep/other.yml": root("acme/side"),
            "datasets/notes.yaml": "name: nothing\n",
            "here/names/rates.daily": "x",
            "here/names/acme%2Fgone": "x",
            "here/names/.pending-00": "x",
            "here/names/$(touch hacked)": "x",
            ".odfbuild/names/usual": "x",
        },
    )


@pytest.fixture
def asked(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(project, capsys, monkeypatch)


def complete(asked: Within, line: str) -> list[str]:
    words = line.split(" ")
    said = asked.done(
        _ODFBUILD_COMPLETE="complete_bash",
        COMP_WORDS=line,
        COMP_CWORD=str(len(words) - 1),
    )
    return said.split()


def test_commands_and_options_are_completed(asked: Within) -> None:
    assert complete(asked, "odfbuild comp") == ["compact", "completion"]
    assert complete(asked, "odfbuild gc --d") == ["--dry-run"]
    assert complete(asked, "odfbuild completion ") == ["bash", "zsh", "fish"]
    assert complete(asked, "odfbuild key ex") == ["export"]


@pytest.mark.parametrize("command", ["show", "log", "check", "reset", "diff", "ref list"])
def test_names_of_the_workspace_and_the_project_are_completed(command: str, asked: Within) -> None:
    assert complete(asked, f"odfbuild {command} ") == [
        "acme/gone", "acme/side", "Rates.Daily", "usual",
    ]  # fmt: skip
    assert complete(asked, f"odfbuild {command} Ra") == ["Rates.Daily"]
    assert complete(asked, f"odfbuild {command} acme/s") == ["acme/side"]


def test_names_within_selectors_are_completed(asked: Within) -> None:
    assert complete(asked, "odfbuild check +us") == ["+usual"]
    assert complete(asked, "odfbuild check 2+us") == ["2+usual"]
    assert complete(asked, "odfbuild check tag:a,us") == ["tag:a,usual"]
    assert complete(asked, "odfbuild check @us") == ["@usual"]


def test_the_project_may_be_elsewhere_or_nowhere(
    project: Path, tmp_path: Path, asked: Within
) -> None:
    asked.folder = tmp_path
    assert complete(asked, "odfbuild show ") == []
    assert complete(asked, f"odfbuild -C {project} show us") == ["usual"]
    assert complete(asked, f"odfbuild -C {tmp_path} show us") == []
    asked.folder = project / "datasets" / "deep"
    assert complete(asked, "odfbuild show us") == ["usual"]


def test_what_a_shell_would_run_is_never_answered(project: Path, asked: Within) -> None:
    assert not [each for each in complete(asked, "odfbuild show ") if "$" in each]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script(shell: str, asked: Within) -> None:
    said = asked.done("completion", shell)
    assert f"_ODFBUILD_COMPLETE=complete_{shell}" in said
    program = shutil.which(shell)
    if program is not None:
        done = subprocess.run([program, "-n"], input=said, text=True, check=False)
        assert done.returncode == 0


def test_another_shell_is_refused(asked: Within) -> None:
    done = asked("completion", "tcsh")
    assert done.code == 64
    assert "tcsh" in done.err


def test_bash_completes_with_the_script(project: Path) -> None:
    line = (
        'eval "$(odfbuild completion bash)"; COMP_WORDS=(odfbuild show us); COMP_CWORD=2; '
        "_odfbuild_completion odfbuild; echo ${COMPREPLY[@]}"
    )
    bash = shutil.which("bash")
    assert bash is not None, "the script is for bash"
    done = subprocess.run(
        [bash, "--norc", "-c", line],
        cwd=project, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("usual\n", "")
    assert not (project / "hacked").exists()


def test_little_is_loaded_to_complete_a_name(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("_ODFBUILD_COMPLETE", "complete_bash"),
        ("COMP_WORDS", "odfbuild show us"),
        ("COMP_CWORD", "2"),
    ):
        monkeypatch.setitem(os.environ, name, value)
    modules, started = probe(cwd=project)
    assert {"yaml", "pyarrow", "pyspark", "rich", "sqlglot", "jinja2"}.isdisjoint(modules)
    assert not started
