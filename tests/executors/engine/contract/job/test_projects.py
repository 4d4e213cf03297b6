"""Projects whose queries are carried out as jobs, in the workspace's folder or an object store."""

import json
import os
import signal
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.executors.engine.contract.test_projects import Project
from tests.support.projects import Done, environment, program
from tests.support.servers.object_store import CREDENTIALS, ObjectServer

RUN = [sys.executable, "-m", "odfbuild", "step", "run", "{request}"]


def engines(command: list[str], more: str = "") -> str:
    return f"engines: {{duck: {{command: {json.dumps(command)}, engine: datafusion{more}}}}}"


def scripted(folder: Path, script: str) -> list[str]:
    """Return a command that runs a script in Python; the request is its argument."""
    path = folder / "command.py"
    path.write_text(f"import subprocess, sys, time, pathlib\n{script}\n")
    return [sys.executable, str(path), "{request}"]


class JobProject(Project):
    """A project whose commands may run what it names."""

    def __init__(self, folder: Path, command: list[str], more: str = "") -> None:
        super().__init__(folder, engines(command, more))
        totals = folder / "datasets" / "totals.yaml"
        text = totals.read_text().replace('        version: "1.5"\n', "")
        totals.write_text(text.replace("::bigint", ""))
        policy = folder.with_name(f"{folder.name}.policy")
        policy.write_text('odfbuild_policy: 1\nengines: ["command:*"]\nstores: ["*+http://*"]\n')
        self.policy = str(policy)

    def __call__(self, *arguments: str, **more: str) -> Done:
        return super().__call__(*arguments, ODFBUILD_POLICY=self.policy, **more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def test_steps_are_carried_out_as_jobs_and_their_files_are_cleared(folder: Path) -> None:
    project = JobProject(folder, RUN)
    assert project("check").code == 0
    project.check_steps()
    assert list((folder / ".odfbuild" / "staging").iterdir()) == []


@pytest.mark.parametrize(
    "store", ["running_store", "simulated_store", "azure_store", "google_store"], indirect=True
)
def test_steps_are_carried_out_as_jobs_in_an_object_store(
    folder: Path, store: ObjectServer, request: pytest.FixtureRequest
) -> None:
    prefix = f"jobs/{request.node.name}"
    project = JobProject(folder, RUN, f", objects: '{store.url(prefix)}'")
    done = project("apply", "--yes", **store.credentials)
    assert done.code == 0, done.err
    assert project.standing() == [{"n": 2, "s": 3}]
    assert [each for page in store.store(prefix).list() for each in page] == []


def test_a_command_may_end_before_its_job(folder: Path) -> None:
    later = "subprocess.Popen(['sh', '-c', 'sleep 1; exec \"$@\"', '-', sys.executable, '-m', "
    later += "'odfbuild', 'step', 'run', sys.argv[1]], start_new_session=True)"
    project = JobProject(folder, scripted(folder, later))
    done = project("apply", "--yes")
    assert done.code == 0, done.err
    assert project.standing() == [{"n": 2, "s": 3}]


def write(text: str) -> str:
    return f"pathlib.Path(sys.argv[1].replace('.json', '.answer.json')).write_text({text!r})"


ANSWERS = {
    "no JSON": "x",
    "another document": "{}",
    "of another request": json.dumps(
        {
            "odfbuild_answer": 1,
            "request": "f1620" + "0" * 64,
            "engine": None,
            "answer": {"kind": "Success", "numRecords": 1},
            "files": [],
        }
    ),
}


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param("sys.exit('the cluster is full')", "engine-failed", id="it fails"),
        pytest.param("time.sleep(60)", "engine-timeout", id="it hangs"),
        pytest.param("", "engine-timeout", id="nobody answers"),
        *(pytest.param(write(text), "engine-answer", id=name) for name, text in ANSWERS.items()),
    ],
)
def test_what_is_wrong_with_a_job_ends_its_step_and_commits_nothing(
    folder: Path, script: str, code: str
) -> None:
    project = JobProject(folder, scripted(folder, script), ", limit: 3s")
    done = project("apply", "--yes")
    assert done.code in (1, 4)
    assert code in done.err
    assert "Traceback" not in done.err
    assert "the cluster is full" in done.err or code != "engine-failed"
    assert project("show", "prices", "-o", "ndjson").out == ""
    project.settings(engines(RUN))
    assert project("apply", "--yes").code == 0
    assert project.standing() == [{"n": 2, "s": 3}]


def test_a_folder_that_the_engine_sees_elsewhere_is_named_as_it_does(folder: Path) -> None:
    elsewhere = folder.with_name("elsewhere")
    elsewhere.symlink_to(folder / ".odfbuild")
    said = f"assert sys.argv[1].startswith({str(elsewhere)!r}), sys.argv\n"
    said += "subprocess.run([sys.executable, '-m', 'odfbuild', 'step', 'run', sys.argv[1]])"
    project = JobProject(folder, scripted(folder, said), f", mounted: {elsewhere}")
    done = project("apply", "--yes")
    assert done.code == 0, done.err
    assert project.standing() == [{"n": 2, "s": 3}]


@pytest.mark.holds("engine-commands")
@pytest.mark.parametrize("stores", ["", 'stores: ["s3://*"]'])
def test_a_store_that_is_not_permitted_gets_no_job(folder: Path, stores: str) -> None:
    project = JobProject(folder, RUN, ", objects: 's3+http://127.0.0.1:9/jobs'")
    Path(project.policy).write_text(f'odfbuild_policy: 1\nengines: ["command:*"]\n{stores}\n')
    done = project("apply", "--yes")
    assert done.code == 1
    assert "store-not-permitted" in done.err
    assert not [*(folder / ".odfbuild").glob("datasets/*")]


@pytest.mark.holds("engine-commands")
def test_a_command_that_is_not_permitted_is_refused_before_the_first_block(folder: Path) -> None:
    project = JobProject(folder, RUN)
    Path(project.policy).write_text("odfbuild_policy: 1\n")
    done = project("apply", "--yes")
    assert done.code == 1
    assert "engine-not-permitted" in done.err
    assert f"command:{sys.executable}" in done.err
    assert not [*(folder / ".odfbuild").glob("datasets/*")]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{}", "does not give 'address'"),
        ("{address: 'here:1', command: [a, '{request}']}", "'address' and 'command'"),
        ("{command: []}", "no program"),
        ("{command: [run-it]}", "{request}"),
        ("{command: ['{request}']}", "{request}"),
        ("{command: ['./run.sh', '{request}']}", "neither a name nor an absolute path"),
        ("{command: [a, '{request}'], objects: /srv}", "no prefix of an object store"),
        ("{address: 'here:1', objects: 's3://bucket/x'}", "has no objects"),
        ("{command: run-it}", "must be a list"),
    ],
)
def test_settings_that_name_no_engine_are_refused_with_their_place(
    folder: Path, entry: str, said: str
) -> None:
    project = JobProject(folder, RUN)
    project.settings(f"engines: {{duck: {entry}}}")
    done = project("check")
    assert done.code in (1, 3)
    assert said.replace("no prefix", "not a prefix") in done.err + done.out
    assert "odfbuild.yaml:" in done.err + done.out


def sleeping(mark: Path) -> str:
    """Return a script that writes its number into a file, and goes on for minutes."""
    return f"import os; pathlib.Path({str(mark)!r}).write_text(str(os.getpid())); time.sleep(600)"


def check_interrupted(folder: Path, policy: str, mark: Path) -> None:
    """Interrupt an apply whose command sleeps: the second signal ends both."""
    command = [sys.executable, "-m", "odfbuild", "apply", "--yes"]
    env = environment(ODFBUILD_POLICY=policy, CI="")
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=folder, env=env, stdout=nothing, stderr=nothing) as process:
        end = time.monotonic() + 60
        while not (mark.exists() and mark.read_text()):
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)  # ends after the step
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_an_interrupted_run_ends_its_command(folder: Path) -> None:
    mark = folder / "pid"
    project = JobProject(folder, scripted(folder, sleeping(mark)))
    check_interrupted(folder, project.policy, mark)


@pytest.mark.parametrize("gone", [(), ("f1620*",), ("request.json", "*.parquet", "f1620*")])
def test_what_a_killed_run_left_in_a_store_is_no_matter_for_the_next(
    folder: Path, store: ObjectServer, request: pytest.FixtureRequest, gone: tuple[str, ...]
) -> None:
    """Some of it may be gone by then."""
    prefix = f"jobs/{request.node.name}"
    script = "subprocess.run([sys.executable, '-m', 'odfbuild', 'step', 'run', sys.argv[1]])\n"
    script += "once = pathlib.Path(__file__).with_name('once')\n"
    script += "if not once.exists():\n    once.touch()\n"
    script += (
        "    subprocess.run(['kill', '-9', str(__import__('os').getppid())])\n    time.sleep(5)"
    )
    project = JobProject(folder, scripted(folder, script), f", objects: '{store.url(prefix)}'")
    more = {**CREDENTIALS, "ODFBUILD_POLICY": project.policy, "CI": ""}
    assert program("apply", "--yes", cwd=folder, **more).code == -signal.SIGKILL
    left = store.store(prefix)
    for path in [each["path"] for page in left.list() for each in page]:
        if any(fnmatch(path.rpartition("/")[2], each) for each in gone):
            left.delete(path)
    before = sorted(each["path"] for page in left.list() for each in page)
    done = project("apply", "--yes", **CREDENTIALS)
    assert done.code == 0, done.err
    assert project.standing() == [{"n": 2, "s": 3}]
    assert sorted(each["path"] for page in left.list() for each in page) == before


def test_equal_requests_at_the_same_time_are_jobs_of_their_own(
    folder: Path, store: ObjectServer, request: pytest.FixtureRequest
) -> None:
    prefix = f"jobs/{request.node.name}"
    project = JobProject(folder, RUN, f", objects: '{store.url(prefix)}'")
    totals = folder / "datasets" / "totals.yaml"
    for number in range(4):
        same = totals.read_text().replace("name: totals", f"name: totals{number}")
        (folder / "datasets" / f"totals{number}.yaml").write_text(same)
    done = project("apply", "--yes", "--jobs", "5", **CREDENTIALS)
    assert done.code == 0, done.err
    for number in range(4):
        question = f"select n, s from totals{number}"
        shown = project("sql", "--engine", "datafusion", question, "-o", "ndjson").out
        assert json.loads(shown) == {"n": 2, "s": 3}
    assert [each for page in store.store(prefix).list() for each in page] == []


def test_a_secret_that_a_failing_command_prints_is_not_shown(folder: Path) -> None:
    script = "import os\nprint('key is', os.environ['BATCH_TOKEN'])\nsys.exit(3)"
    project = JobProject(folder, scripted(folder, script))
    done = project("apply", "--yes", BATCH_TOKEN="qwertz-4711-secret")
    assert "key is" in done.err
    assert "qwertz-4711" not in done.err + done.out


@pytest.mark.parametrize(
    "script",
    [
        "import shutil\nshutil.rmtree(pathlib.Path(sys.argv[1]).parent)",
        "pathlib.Path(sys.argv[1]).with_name('command.log').unlink()\nsys.exit(3)",
        "pathlib.Path(sys.argv[1]).with_name('output.parquet').mkdir()\n"
        "subprocess.run([sys.executable, '-m', 'odfbuild', 'step', 'run', sys.argv[1]])",
        "print('x' * 100_000)\nsys.exit(3)",
    ],
)
def test_a_command_that_changes_the_folder_of_its_job_is_named(folder: Path, script: str) -> None:
    project = JobProject(folder, scripted(folder, script), ", limit: 3s")
    done = project("apply", "--yes")
    assert done.code in (1, 4)
    assert "engine-" in done.err
    assert "duck" in done.err
    assert "printed nothing" not in done.err or "x" * 9 not in script


_ANSWERS = {
    "refused": {"kind": "InvalidQuery", "message": "no"},
    "failed": {"kind": "InternalError", "message": "no"},
    "no file": {"kind": "Success", "numRecords": 1},
    "no answer": {"kind": "Success"},
    "another": {"kind": "Success", "numRecords": 0},
}


@pytest.mark.parametrize("wrong", _ANSWERS)
def test_an_answer_in_a_store_that_ends_a_step_is_not_found_by_the_next_run(
    folder: Path, store: ObjectServer, request: pytest.FixtureRequest, wrong: str
) -> None:
    """By then the engine may be another."""
    hash = "sha3_256(place.get(name) + b'.')" if wrong == "another" else "sha3_256(place.get(name))"
    files = "[{'path': path, 'size': 1, 'hash': str(sha3_256(b'x'))}]" if "file" in wrong else "[]"
    script = (
        "import json, os\n"
        "from odfbuild.executors.engine.contract.job.place import place_of\n"
        "from odfbuild.odf.identity import sha3_256\n"
        "if os.environ.get('WRONG'):\n"
        "    place, name = place_of(sys.argv[1])\n"
        "    path = json.loads(place.get(name))['request']['outputDataPath']\n"
        f"    answer = {{'odfbuild_answer': 1, 'request': str({hash}), 'engine': None}}\n"
        f"    answer |= {{'answer': {_ANSWERS[wrong]!r}, 'files': {files}}}\n"
        "    place.create('request.answer.json', json.dumps(answer).encode())\n"
        "else:\n"
        "    subprocess.run([sys.executable, '-m', 'odfbuild', 'step', 'run', sys.argv[1]])\n"
    )
    prefix = f"jobs/{request.node.name.replace(' ', '-')}"
    project = JobProject(folder, scripted(folder, script), f", objects: '{store.url(prefix)}'")
    assert project("apply", "--yes", **CREDENTIALS, WRONG="1").code != 0
    done = project("apply", "--yes", **CREDENTIALS)
    assert done.code == 0, done.err
    assert project.standing() == [{"n": 2, "s": 3}]
    assert [each for page in store.store(prefix).list() for each in page] == []
