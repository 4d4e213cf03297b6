"""An engine that a command at a terminal leaves running, for the commands after it."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from odfbuild.errors import Diagnostic
from odfbuild.executors.engine.spark.jvm import resident_start
from odfbuild.executors.engine.spark.jvm.resident import ResidentFolder, residence
from odfbuild.executors.engine.spark.jvm.resident_start import Awaited, is_attended
from tests.executors.engine.spark.jvm.test_resident import _MADE, _ROOT, runs
from tests.support.process.inside import lay_out
from tests.support.process.terminals import Terminal, terminal
from tests.support.projects import Done, environment, program

pytestmark = pytest.mark.spark

SECRET = "a secret of one command"
LEFT = "Spark keeps running for later commands"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """Give a project whose resident engine, if there is any, ends with the test."""
    files = {f"datasets/{name}.yaml": _ROOT.format(name=name) for name in "xy"}
    files |= {f"datasets/{name}-made.yaml": _MADE.format(name=name, factor=10) for name in "xy"}
    folder = lay_out(tmp_path / "project", {**files, "data/1.csv": "event_time,a\n2031-01-01,1\n"})
    yield folder
    assert command(folder, "engine", "stop", "--now").code == 0


def settings(**more: str) -> dict[str, str]:
    secrets = dict.fromkeys(("AWS_SECRET_ACCESS_KEY", "ODFBUILD_KEY_PASSPHRASE"), SECRET)
    return {**secrets, "ODFBUILD_CLASS_ARCHIVE": "off", "ODFBUILD_ENGINE": "auto", **more}


def command(folder: Path, *arguments: str, **more: str) -> Done:
    return program(*arguments, cwd=folder, **settings(**more))


def status(folder: Path) -> dict[str, object]:
    found = json.loads(command(folder, "engine", "status", "-o", "json").out)
    assert isinstance(found, dict)
    return found


def at_rest(folder: Path) -> dict[str, object]:
    """Return the status once the engine has seen that its last user has ended."""
    deadline = time.monotonic() + 30
    while (found := status(folder))["users"] and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def at_terminal(
    stack: ExitStack, folder: Path, *arguments: str, ci: str = "", **more: str
) -> Terminal:
    """Begin a command at a terminal of its own."""
    line = ["/usr/bin/env", f"CI={ci}", str(Path(sys.executable).parent / "odfbuild"), *arguments]
    return stack.enter_context(terminal(line, folder, environment(**settings(**more))))


def applied(folder: Path, *names: str, **more: str) -> list[str]:
    """Apply from as many terminals as there are names, at the same time; return what was said."""
    with ExitStack() as stack:
        begun = [at_terminal(stack, folder, "apply", "--yes", f"+{n}", **more) for n in names]
        assert [each.end() for each in begun] == [0] * len(names), [each.said for each in begun]
        return [each.said for each in begun]


def test_the_first_command_at_a_terminal_leaves_one_and_the_next_uses_it(project: Path) -> None:
    first, second = applied(project, "x.made", "y.made")
    assert (LEFT in first) or (LEFT in second)
    there = at_rest(project)
    assert (there["state"], there["idle_after"], there["users"]) == ("ready", 600.0, [])
    assert there["served"] == 2
    for pid in (there["pid"], there["java_pid"]):
        assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    line = next(
        line for line in command(project, "doctor").out.splitlines() if " resident " in line
    )
    assert line.startswith(f"ok    resident    Java process {there['java_pid']}, "), line
    assert line.endswith(" MB; no command uses it")
    (project / "data/2.csv").write_text("event_time,a\n2031-01-02,2\n")
    (third,) = applied(project, "x.made")
    assert LEFT not in third
    again = status(project)
    assert (again["served"], again["pid"]) == (3, there["pid"])
    (project / "odfbuild.yaml").write_text("odfbuild: 1\nengine: {spark: {memory: 1g}}\n")
    (project / "data/3.csv").write_text("event_time,a\n2031-01-03,3\n")
    (fourth,) = applied(project, "x.made")
    assert "was stopped: its memory is 2g, not 1g" in " ".join(fourth.split())
    other = status(project)
    assert (other["state"], other["served"]) == ("ready", 1)
    assert not runs(there["java_pid"])
    shown = command(project, "sql", "select b from `x.made` order by b", "-o", "json")
    assert [row["b"] for row in json.loads(shown.out)] == [10, 20, 30]


@pytest.mark.parametrize(
    ("ci", "more"), [("true", {}), ("", {"ODFBUILD_ENGINE": "existing"})], ids=["ci", "existing"]
)
def test_none_is_left_in_ci_or_where_none_is_wanted(
    ci: str, more: dict[str, str], project: Path
) -> None:
    with ExitStack() as stack:
        begun = at_terminal(stack, project, "apply", "--yes", "+x.made", ci=ci, **more)
        assert begun.end() == 0, begun.said
        assert LEFT not in begun.said
    assert status(project)["state"] == "none"


def test_none_is_left_without_a_terminal(project: Path) -> None:
    done = command(project, "apply", "--yes", "+x.made")
    assert (done.code, LEFT in done.err) == (0, False), done.err
    assert status(project)["state"] == "none"


@pytest.mark.parametrize("setting", ["off", "existing", "auto"])
def test_the_environment_takes_away_and_adds_nothing(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ["off", "existing", "auto"]
    for said in order:
        monkeypatch.setenv("ODFBUILD_ENGINE", said)
        assert residence(setting) == min(setting, said, key=order.index)
    monkeypatch.setenv("ODFBUILD_ENGINE", "")
    assert residence(setting) == setting


def test_an_unknown_word_in_the_environment_is_an_error(project: Path) -> None:
    done = command(project, "apply", "--yes", "+x.made", ODFBUILD_ENGINE="nonsense")
    assert (done.code, (project / ".odfbuild" / "datasets").exists()) == (1, False), done.err
    assert "ODFBUILD_ENGINE is 'nonsense', which is not one of off, existing, auto" in done.err
    started = command(project, "engine", "start", ODFBUILD_ENGINE="on")
    assert (started.code, "ODFBUILD_ENGINE is 'on'" in started.err) == (1, True), started.err


def test_a_process_without_streams_is_at_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert not is_attended()


def awaited(folder: Path, keeper: str, monkeypatch: pytest.MonkeyPatch) -> Awaited:
    """Start what takes the place of the keeper: a module with this text."""
    (folder / "odd_keeper.py").write_text(keeper)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(resident_start, "_KEEPER", "odd_keeper")
    place = ResidentFolder(folder / "cache")
    notes: list[Diagnostic] = []
    return Awaited(place=place, wanted={}, traits=dict, python="python", note=notes.append)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("raise SystemExit(1)", "it printed nothing"),
        ("raise SystemExit('no room')", "no room"),
        (
            'raise SystemExit(\'["Java hangs", "it printed nothing", "x"]\')',
            "Java hangs, it printed nothing",
        ),
    ],
    ids=["silent", "words", "error"],
)
def test_one_that_does_not_start_is_done_without(
    said: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = awaited(tmp_path, said, monkeypatch)
    notes: list[Diagnostic] = []
    there.note = notes.append
    assert there.attached(lambda: None) is None
    assert [each.what for each in notes] == [
        f"the resident engine is not used: it did not start: {why}"
    ]


def test_one_that_is_never_ready_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = awaited(tmp_path, "import time; time.sleep(5)", monkeypatch)
    notes: list[Diagnostic] = []
    there.note = notes.append
    monkeypatch.setattr(resident_start, "_PATIENCE", 0.1)
    keeper = there.keeper.pid
    assert there.attached(lambda: None) is None
    assert [each.what for each in notes] == [
        "the resident engine is not used: it was not ready after 0 seconds: it printed nothing"
    ]
    os.kill(keeper, signal.SIGKILL)
    os.waitpid(keeper, 0)


def test_one_that_finds_another_ending_is_started_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "starts").touch()
    count = "open({!r}, 'a').write('x')".format(str(tmp_path / "starts"))
    there = awaited(tmp_path, count, monkeypatch)
    assert there.attached(lambda: None) is None
    assert (tmp_path / "starts").read_text() == "xx"


def test_a_command_that_is_interrupted_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = awaited(tmp_path, "import time; time.sleep(60)", monkeypatch)

    def stop() -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        there.attached(stop)
    assert time.monotonic() - began < 30
    os.kill(there.keeper.pid, 9)
    there.keeper.wait()


def test_after_one_that_was_killed_there_is_another(project: Path) -> None:
    (first,) = applied(project, "x.made")
    there = status(project)
    assert LEFT in first
    os.kill(int(str(there["pid"])), 9)
    (second,) = applied(project, "y.made")
    assert LEFT in second
    again = status(project)
    assert (again["state"], again["served"]) == ("ready", 1)
    assert again["pid"] != there["pid"]
    assert not runs(there["java_pid"])
