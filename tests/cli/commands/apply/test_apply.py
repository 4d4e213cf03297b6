"""odfbuild apply: it asks, it waits its turn, and its exit code is the truth."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odfbuild.odf.events import SetInfo
from tests.support.process.inside import command, heads, lay_out, without_jvm
from tests.support.process.terminals import Terminal, terminal
from tests.support.projects import shell
from tests.support.projects.market import append

NEWS = {"data/2.csv": "t,k,v\n2024-01-03,c,3\n"}
QUESTION = 'Only "yes" is accepted: '


@contextmanager
def on_terminal(project: Path, *arguments: str) -> Iterator[Terminal]:
    words, env = command("apply", *arguments)
    with terminal(words, project, env) as shown:
        yield shown


@pytest.fixture
def news(project: Path) -> Path:
    """Return a project whose source has a new file."""
    return lay_out(project, NEWS)


def test_what_is_done_is_told_step_by_step(news: Path) -> None:
    done = without_jvm("apply", "--yes", cwd=news)
    assert done.code == 0
    assert done.err.splitlines() == [
        "[1/2] ok      ingest:src: 1 block, 1 row",
        "[2/2] ok      transform:out: 1 block, 1 row",
    ]
    assert done.out.splitlines()[-1] == "Done: 2 blocks committed to 2 datasets, 2 rows."
    assert without_jvm("plan", cwd=news).out.startswith("No changes.")


def test_nothing_to_do_asks_nothing(project: Path) -> None:
    before = heads(project)
    done = without_jvm("apply", cwd=project)
    assert done.code == 0
    assert done.out == "No changes. 2 datasets match the project.\n"
    assert heads(project) == before


def test_where_nobody_can_answer_nothing_is_done(news: Path) -> None:
    before = heads(news)
    done = without_jvm("apply", cwd=news)
    assert done.code == 64
    assert "Plan: 0 to add" in done.out
    assert "error[usage]" in done.err
    assert "repeat the command with --yes" in done.err
    assert heads(news) == before


def test_a_variable_can_say_yes(news: Path) -> None:
    assert without_jvm("apply", cwd=news, ODFBUILD_YES="1").code == 0


def test_yes_on_a_terminal_does_it(news: Path) -> None:
    before = heads(news)
    with on_terminal(news) as shown:
        shown.expect(QUESTION)
        assert heads(news) == before
        shown.type("yes\n")
        assert shown.end() == 0
    assert set(before.values()).isdisjoint(heads(news).values())


@pytest.mark.parametrize("answer", ["no\n", "y\n", "YES!\n", "\n", "\x04"], ids=repr)
def test_any_other_answer_does_nothing(news: Path, answer: str) -> None:
    before = heads(news)
    with on_terminal(news) as shown:
        shown.expect(QUESTION)
        shown.type(answer)
        assert shown.end() == 64
    assert "nothing was changed" in shown.text
    assert heads(news) == before


def test_an_interrupt_at_the_question_does_nothing(news: Path) -> None:
    before = heads(news)
    with on_terminal(news) as shown:
        shown.expect(QUESTION)
        shown.interrupt()
        assert shown.end() == 130
    assert "odfbuild: interrupted" in shown.text
    assert "Traceback" not in shown.text
    assert heads(news) == before


def test_on_a_terminal_the_results_stand_one_below_the_other(news: Path) -> None:
    with on_terminal(news, "--yes") as shown:
        assert shown.end() == 0
    assert "\x1b[2K" in shown.said
    summary = shown.screen.index("Plan: 0 to add, 0 to change, 2 with new data only, 0 unchanged.")
    assert shown.screen[summary + 1 :] == [
        "[1/2] ok      ingest:src: 1 block, 1 row",
        "[2/2] ok      transform:out: 1 block, 1 row",
        "Done: 2 blocks committed to 2 datasets, 2 rows.",
        "",
    ]


def test_progress_can_be_plain_on_a_terminal(news: Path) -> None:
    with on_terminal(news, "--yes", "--no-progress") as shown:
        assert shown.end() == 0
    assert "\x1b" not in shown.said
    assert "[2/2] ok      transform:out" in shown.said


def test_a_plan_that_others_overtook_is_not_done(news: Path) -> None:
    with on_terminal(news) as shown:
        shown.expect(QUESTION)
        busy = without_jvm("apply", "--yes", "--on-busy", "fail", cwd=news)
        assert (busy.code, "error[busy]" in busy.err) == (6, True)
        append(news, "src", SetInfo(description="by one that asks for no lease"))
        after = heads(news)
        shown.type("yes\n")
        assert shown.end() == 5
    assert "error[stale-plan]" in shown.text
    assert "fix: plan again" in shown.text
    assert heads(news) == after


HOLDER = """
import sys
from pathlib import Path
from odfbuild.state.files.lock import locked
with locked(Path(sys.argv[1]), timeout=0, note=Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(project: Path, folder: Path) -> Iterator[int]:
    """Let another process hold a dataset, as one that commits does; yield its number."""
    note = project / ".odfbuild" / "cache" / "locks" / folder.name
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), str(note)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.kill()


def source_folder(project: Path) -> Path:
    text = (project / ".odfbuild" / "names" / "src").read_text().split("\n")[0]
    return project / ".odfbuild" / "datasets" / text.removeprefix("did:odf:")


def test_a_dataset_that_others_hold_is_told_with_its_holder(news: Path) -> None:
    before = heads(news)
    with held(news, source_folder(news)) as holder:
        done = without_jvm("apply", "--yes", "--lock-timeout", "0", cwd=news)
    assert done.code == 6
    assert "error[locked]" in done.err
    assert f"is locked by process {holder} on " in done.err
    assert "--lock-timeout" in done.err
    assert heads(news) == before
    assert without_jvm("apply", "--yes", cwd=news).code == 0  # freed when its holder died


def test_reading_waits_for_nobody(project: Path) -> None:
    with held(project, source_folder(project)):
        for line in ("plan", "status", "log src", "show src", "verify"):
            assert without_jvm(*line.split(), cwd=project).code == 0


@pytest.mark.parametrize("blocks", [0, 1])
def test_a_full_disk_is_told_and_changes_nothing(news: Path, blocks: int) -> None:
    before = heads(news)
    words, env = command("apply", "--yes")
    line = f"ulimit -f {blocks}; exec {' '.join(words)}"
    done = shell(line, news, PYTHONPATH=env["PYTHONPATH"])
    assert done.code == 1
    assert "error[state]: src: " in done.err
    assert "File too large" in done.err
    assert "Traceback" not in done.err
    assert heads(news) == before
    assert without_jvm("apply", "--yes", cwd=news).code == 0
    assert without_jvm("verify", cwd=news).code == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_workspace_that_may_not_be_written_is_told(news: Path) -> None:
    before = heads(news)
    folders = [path for path in (news / ".odfbuild").rglob("*") if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert without_jvm("plan", cwd=news).code == 0
        done = without_jvm("apply", "--yes", cwd=news)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert done.code == 1
    assert "Permission denied" in done.err
    assert "Traceback" not in done.err
    assert heads(news) == before


@pytest.mark.parametrize("pipe", ["| true", "2>&1 | true"])
def test_the_work_is_done_also_if_nobody_reads_of_it(news: Path, pipe: str) -> None:
    words, env = command("apply", "--yes")
    done = shell(f"({' '.join(words)}; echo $? > code) {pipe}", news, PYTHONPATH=env["PYTHONPATH"])
    assert "Traceback" not in done.err
    assert (news / "code").read_text() == "0\n"
    assert without_jvm("plan", cwd=news).out.startswith("No changes.")


def test_a_mistake_of_the_program_is_told_as_one(news: Path) -> None:
    lay_out(news, {".odfbuild/cache/settled": "{}"})
    words = [
        sys.executable,
        "-c",
        "from odfbuild.app.plan import make_plan\n"
        "make_plan.plan_result = lambda *_: 1 // 0\n"
        "from odfbuild.cli.main import main\n"
        "main()",
        "plan",
    ]
    done = subprocess.run(words, cwd=news, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "error[internal]: ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr
    env = {**os.environ, "ODFBUILD_TRACEBACK": "1"}
    told = subprocess.run(words, cwd=news, env=env, capture_output=True, text=True, check=False)
    assert "Traceback" in told.stderr
