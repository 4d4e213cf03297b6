"""A run that finds another at work on the same datasets says who, and waits, skips or stops."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.lease import Worker, take_lease
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, command, heads
from tests.support.projects.texts import root

BY = Worker(
    user="alice", host="far", pid=77, since="2030-01-01T00:00:00Z", command="apply", run="r-1"
)
WHO = "odfbuild apply of alice on far (process 77, run r-1) since 2030-01-01T00:00:00Z"


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    (project / "data" / "2.csv").write_text("t,k,v\n2024-02-01,c,3\n", "utf-8")
    (project / "beside").mkdir()
    (project / "beside" / "1.csv").write_text("t,k,v\n2024-02-01,c,3\n", "utf-8")
    (project / "datasets" / "beside.yaml").write_text(
        root("beside", fetch="{kind: FilesGlob, path: beside/*.csv}"), "utf-8"
    )
    return Inside(project, capsys, monkeypatch, FakeEngine())


@contextmanager
def held(project: Path, *names: str, alone: bool = True) -> Iterator[Callable[[], None]]:
    """Have datasets as another run would; what is given lets go of them."""
    aliases = [DatasetAlias.parse(each) for each in names]
    lease, taken = take_lease(
        project / ".odfbuild",
        BY,
        written=aliases if alone else (),
        read=() if alone else aliases,
        waits=False,
    )
    assert not taken
    try:
        yield lease.release
    finally:
        lease.release()


COMMANDS = (
    ("apply", "--yes"),
    ("run",),
    ("reset", "src", "--sequence", "1", "--yes"),
    ("compact", "src", "--keep-metadata-only", "--yes"),
    ("rebuild", "out", "--yes"),
    ("undo", "last", "--yes"),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda each: each[0])
def test_fail_says_who_and_changes_nothing(run: Inside, arguments: tuple[str, ...]) -> None:
    before = heads(run.project)
    with held(run.project, "src", "out"):
        done = run(*arguments, "--on-busy", "fail")
    assert done.code == 6
    assert "error[busy]" in done.err
    assert WHO in done.err
    assert heads(run.project) == before


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda each: each[0])
def test_skip_leaves_out_what_is_busy(run: Inside, arguments: tuple[str, ...]) -> None:
    before = heads(run.project)
    with held(run.project, "src", "out"):
        done = run(*arguments, "--on-busy", "skip")
    assert done.code == 0
    assert f"is busy: {WHO}; skipped" in done.err
    after = heads(run.project)
    assert before.items() <= after.items()
    assert len(after) == len(before) + (arguments[0] == "apply")


def test_what_follows_from_a_busy_dataset_is_left_out_too(run: Inside) -> None:
    before = heads(run.project)
    with held(run.project, "src"):
        assert run("run", "--on-busy", "skip").code == 0
    assert heads(run.project) == before
    assert run("run").code == 0
    after = heads(run.project)
    assert all(after[each] != before[each] for each in before)


BOTH = """\
kind: DatasetSnapshot
version: 1
content:
  name: both
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: out, alias: out}, {datasetRef: beside, alias: beside}]
      transform: {kind: Sql, engine: spark, query: select t from out union all select t from beside}
    - {kind: SetVocab, eventTimeColumn: t}
"""


@pytest.mark.parametrize("busy", ["out", "both", "beside"])
@pytest.mark.parametrize(
    "arguments", [each for each in COMMANDS if each[0] in {"reset", "compact"}]
)
def test_nothing_is_rewritten_whose_readers_are_busy_and_were_to_be_rebuilt(
    run: Inside, arguments: tuple[str, ...], busy: str
) -> None:
    """Nor where a reader is to be rebuilt of something else that is busy."""
    (run.project / "datasets" / "both.yaml").write_text(BOTH, "utf-8")
    assert run("apply", "--yes").code == 0
    before = heads(run.project)
    with held(run.project, busy):
        done = run(*arguments, "--downstream", "--on-busy", "skip")
    assert done.code == 0
    assert f"{busy} is busy: {WHO}; skipped" in done.err
    assert "Left out: src" in done.err
    assert heads(run.project) == before
    assert run("verify").code == 0

    assert run(*arguments, "--downstream", "--on-busy", "skip").code == 0
    after = heads(run.project)
    assert sum(before[each] != after[each] for each in before) == len(("src", "out", "both"))


def once_told(word: str, do: Callable[[], None]) -> None:
    """Do something once a word was written to the standard error that a test captures."""
    captured: Any = sys.stderr
    ends = time.monotonic() + 60
    while word not in captured.getvalue() and time.monotonic() < ends:
        time.sleep(0.01)
    do()


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda each: each[0])
def test_waiting_is_the_default_and_is_told_once(
    run: Inside, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = heads(run.project)
    with held(run.project, "src", "out") as let_go:
        end = threading.Thread(target=once_told, args=("waiting", let_go))
        end.start()
        done = run(*arguments)
        end.join()
    assert done.code == 0, done.err
    assert done.err.count(WHO) == 1
    assert "waiting" in done.err
    assert "continuing" in done.err
    assert heads(run.project) != before


def test_datasets_that_are_only_read_are_shared(run: Inside) -> None:
    with held(run.project, "src", alone=False):
        assert run("rebuild", "out", "--yes", "--on-busy", "fail").code == 0
        assert run("reset", "src", "--sequence", "1", "--yes", "--on-busy", "fail").code == 6


@pytest.mark.parametrize("arguments", [("status",), ("show", "src"), ("plan",), ("verify",)])
def test_who_only_looks_waits_for_nobody(run: Inside, arguments: tuple[str, ...]) -> None:
    with held(run.project, "src", "out"):
        done = run(*arguments)
    assert "busy" not in done.err


def test_a_holder_that_dies_frees_its_datasets(run: Inside) -> None:
    script = (
        "import sys, time; from pathlib import Path\n"
        "from tests.cli.commands.apply.test_on_busy import held\n"
        f"with held(Path({str(run.project)!r}), 'src'):\n"
        "    print('has it', flush=True); time.sleep(600)\n"
    )
    arguments, environment = command()
    with subprocess.Popen(
        [arguments[0], "-c", script], stdout=subprocess.PIPE, env=environment, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "has it\n"
        assert run("run", "--on-busy", "fail").code == 6
        holder.kill()
        holder.wait()
    assert run("run", "--on-busy", "fail").code == 0
