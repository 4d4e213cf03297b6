"""Sources that are containers: what they are told, what they may say, and that none is left."""

import json
import os
import re
import stat
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.executors.ingest.fetch.download import sweep
from odfbuild.executors.ingest.fetch.source import Fetched, UpToDate, fetch
from odfbuild.executors.ingest.fetch.substitute import TemplateError
from odfbuild.executors.process.containers import ContainerError
from odfbuild.executors.process.interrupt import StoppedError, stop, stoppable
from odfbuild.executors.process.limits import BadLimitError
from odfbuild.odf.events import (
    DatasetKind,
    EnvVar,
    FetchStepContainer,
    ReadStepCsv,
    SetPollingSource,
    SourceState,
)
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.declared import Declared
from tests.planner.builders import declare
from tests.support.cases import load
from tests.support.process.runtimes import (
    Played,
    play,
    real_runtime,
    runtime_program,
    why_no_runtime,
)
from tests.support.workshop import Workshop, ledger

NOW = Timestamp.parse("2024-05-06T07:08:09Z")
VECTORS = {case["id"]: case for case in load("ingest-fetch")["cases"]}
START = "import json, os, sys, time\nenv = os.environ\n"
STATE = "open(env['ODF_NEW_ETAG_PATH'], 'w').write({!r})"
TIME = "open(env['ODF_NEW_LAST_MODIFIED_PATH'], 'w').write({!r})"
MORE = "open(env['ODF_NEW_HAS_MORE_DATA_PATH'], 'w')"
TELL = "print(json.dumps(dict(env)))"
PASSING = re.compile(r"^(--name=|--volume=|--env-file=)[^:]*")  # other words each time
DOCKER_RUN = {  # of its reference, those that mean the same to both programs
    *("--entrypoint", "--env", "--env-file", "--name"),
    *("--network", "--rm", "--security-opt", "--volume"),
}


@pytest.fixture
def podman(tmp_path: Path) -> Played:
    return play(tmp_path / "podman")


def step(*lines: str, env: Mapping[str, str | None] | None = None) -> FetchStepContainer:
    variables = tuple(EnvVar(name=name, value=value) for name, value in (env or {}).items())
    return FetchStepContainer(
        image=Played.IMAGE, args=(START + "\n".join(lines),), env=variables or None
    )


def fetched(
    source: FetchStepContainer,
    podman: Played,
    state: SourceState | None = None,
    env: Mapping[str, str] | None = None,
) -> Fetched | UpToDate:
    given = {
        "ODFBUILD_CONTAINER_RUNTIME": str(podman.program),
        "PATH": os.environ["PATH"],
        **(env or {}),
    }
    folder = podman.folder.parent
    return fetch(source, state, now=NOW, project_dir=folder, cache=cached(podman), env=given)


def cached(podman: Played) -> Path:
    return podman.folder.parent / "cache"


def news(
    source: FetchStepContainer,
    podman: Played,
    state: SourceState | None = None,
    env: Mapping[str, str] | None = None,
) -> Fetched:
    found = fetched(source, podman, state, env)
    assert isinstance(found, Fetched)
    return found


def refused(
    source: FetchStepContainer,
    podman: Played,
    state: SourceState | None = None,
    env: Mapping[str, str] | None = None,
) -> ContainerError:
    with pytest.raises(ContainerError) as caught:
        fetched(source, podman, state, env)
    assert podman.running() == []
    assert [each.name for each in cached(podman).glob(".container-*")] == []
    return caught.value


def etag(value: str) -> SourceState:
    return SourceState("default", "odf/etag", value)


def last_modified(value: str) -> SourceState:
    return SourceState("default", "odf/last-modified", value)


class TestWhatItIsTold:
    def test_fetch_vector_container_env(self, podman: Played) -> None:
        case = VECTORS["container-env"]
        variables = {each["name"]: each.get("value") for each in case["fetch"]["env"]}
        found = news(step(TELL, env=variables), podman, env=case["vars"])
        told = json.loads(found.path.read_text())
        expected = case["steps"][0]["expect"]["env"]
        assert {name: told[name] for name in expected} == expected

    @pytest.mark.parametrize(
        ("state", "told"),
        [
            (None, ("", "")),
            (etag("x"), ("x", "")),
            (last_modified("2024-01-01T00:00:00Z"), ("", "2024-01-01T00:00:00Z")),
        ],
    )
    def test_it_is_told_the_state(
        self, podman: Played, state: SourceState | None, told: tuple[str, str]
    ) -> None:
        got = json.loads(news(step(TELL), podman, state).path.read_text())
        assert (got["ODF_ETAG"], got["ODF_LAST_MODIFIED"]) == told

    def test_it_gets_no_other_variables_of_the_caller(self, podman: Played) -> None:
        told = json.loads(news(step(TELL), podman, env={"OTHER": "secret"}).path.read_text())
        assert {name for name in told if not name.startswith("ODF_")} <= {"PATH", "LC_CTYPE"}

    def test_fetch_vector_container_bad_batch_size(self, podman: Played) -> None:
        case = VECTORS["container-bad-batch-size"]
        expected = case["steps"][0]["expect"]
        for value in (expected["value"], "many", "", "1.5", "٣"):
            error = refused(step(env={expected["name"]: value}), podman)
            assert error.what == f"invalid format of the parameter ODF_BATCH_SIZE: {value!r}"
        assert podman.asked("run") == []

    def test_a_variable_without_a_value_must_be_known(self, podman: Played) -> None:
        assert "no value for the variable TOKEN" in refused(step(env={"TOKEN": None}), podman).what
        with pytest.raises(TemplateError, match=r"env\.TOKEN"):
            fetched(step(env={"X": "${{ env.TOKEN }}"}), podman)

    def test_command_and_arguments_reach_the_program_as_they_are(self, podman: Played) -> None:
        odd = ["-c", START + "print(sys.argv[1:])", "a b", "$HOME;'\"", "", "--rm", "${{ env.A }}"]
        source = FetchStepContainer(
            image=Played.IMAGE, command=("/usr/bin/env", "python3"), args=tuple(odd)
        )
        found = news(source, podman, env={"A": "é $(x)"})
        assert (
            found.path.read_text()
            == f"{['a b', chr(36) + 'HOME;' + chr(39) + chr(34), '', '--rm', 'é $(x)']}\n"
        )
        assert podman.asked("run")[0][-9:-7] == ["1" * 64, "python3"]


class TestSecrets:
    def test_values_are_not_on_the_command_line(self, podman: Played) -> None:
        variables = {"TOKEN": "Bearer ${{ env.KEY }}", "PATH": "/bin:${{ env.KEY }}", "KEY": None}
        told = json.loads(
            news(step(TELL, env=variables), podman, env={"KEY": "hunter2"}).path.read_text()
        )
        assert (told["TOKEN"], told["KEY"]) == ("Bearer hunter2", "hunter2")
        assert told["PATH"] == "/bin:hunter2"
        assert "hunter2" not in str(podman.asked("run"))

    def test_the_runtime_does_not_get_the_settings_of_the_container(self, podman: Played) -> None:
        variables = {"PATH": "/nowhere", "HTTPS_PROXY": "http://p", "DOCKER_HOST": "tcp://evil"}
        told = json.loads(news(step(TELL, env=variables), podman).path.read_text())
        assert variables.items() <= told.items()
        assert not set(podman.environments("run")[0].values()) & set(variables.values())
        file = next(each for each in podman.asked("run")[0] if each.startswith("--env-file="))
        assert not Path(file.partition("=")[2]).exists()

    def test_such_settings_have_one_line(self, podman: Played) -> None:
        assert "more than one line" in refused(step(env={"HOME": "a\nb"}), podman).what
        told = news(step(TELL, env={"TEXT": "a\nb"}), podman).path.read_text()
        assert json.loads(told)["TEXT"] == "a\nb"

    def test_what_it_says_is_shown_without_them(self, podman: Played) -> None:
        lines = "print('bad token', env['T'], file=sys.stderr)", "sys.exit(3)"
        error = refused(step(*lines, env={"T": "${{ env.KEY }}"}), podman, env={"KEY": "hunter2"})
        assert error.why == "it printed: bad token ***"
        assert (cached(podman) / "stderr.txt").read_text() == "bad token ***\n"
        assert str(cached(podman) / "stderr.txt") in error.fix


class TestWhatItSays:
    def test_what_it_prints_is_the_data(self, podman: Played) -> None:
        found = news(step("sys.stdout.write('a,1\\n' * 300_000)", STATE.format("v1")), podman)
        assert found.path.read_text() == "a,1\n" * 300_000
        assert found.state == etag("v1")
        assert (found.event_time, found.has_more, found.temporary) == (None, False, True)
        assert not found.is_empty

    def test_the_etag_wins_and_a_time_is_normalised(self, podman: Played) -> None:
        both = step("print(1)", STATE.format("v1\n"), TIME.format("2024-01-01T00:00:00Z"))
        assert news(both, podman).state == etag("v1")
        time_only = step("print(1)", TIME.format("2024-01-01T02:00:00+02:00\n"))
        assert news(time_only, podman).state == last_modified("2024-01-01T00:00:00Z")
        assert news(step("print(1)", STATE.format("")), podman).state is None

    @pytest.mark.parametrize("known", ["v1", "v1\n"])
    def test_the_same_state_and_nothing_printed_is_no_news(
        self, podman: Played, known: str
    ) -> None:
        assert fetched(step(STATE.format("v1")), podman, etag(known)) == UpToDate()
        assert fetched(step("pass"), podman, etag("v1")) == UpToDate()
        assert fetched(step("pass"), podman) == UpToDate()

    def test_another_state_and_nothing_printed_moves_the_state_alone(self, podman: Played) -> None:
        found = news(step(STATE.format("v2"), MORE), podman, etag("v1"))
        assert (found.state, found.is_empty, found.has_more) == (etag("v2"), True, True)

    def test_the_same_state_with_data_is_refused(self, podman: Played) -> None:
        error = refused(step("print(1)", STATE.format("v1")), podman, etag("v1"))
        assert "prints data, but writes the state that it was given" in error.what

    @pytest.mark.parametrize(
        ("line", "why"),
        [
            (TIME.format("yesterday"), "'yesterday' is no RFC 3339 time"),
            ("os.symlink('/etc/passwd', env['ODF_NEW_ETAG_PATH'])", "Too many levels"),
            ("os.mkfifo(env['ODF_NEW_ETAG_PATH'])", "it is not a regular file"),
            ("os.mkdir(env['ODF_NEW_ETAG_PATH'])", "it is not a regular file"),
            (STATE.format("x" * 70_000), "it is longer than 64 KiB"),
            ("open(env['ODF_NEW_ETAG_PATH'], 'wb').write(b'\\xff')", "it is not UTF-8"),
        ],
        ids=["time", "link", "pipe", "folder", "long", "bytes"],
    )
    def test_a_state_that_cannot_be_kept_is_refused(
        self, podman: Played, line: str, why: str
    ) -> None:
        error = refused(step("print(1)", line), podman)
        assert "wrote a state that cannot be stored to new-" in error.what
        assert error.why.startswith(why)

    def test_the_folder_is_closed_to_others_and_open_to_the_container(self, podman: Played) -> None:
        line = "print(os.path.dirname(env['ODF_NEW_ETAG_PATH']))"
        mode = "s = os.stat(os.path.dirname(env['ODF_NEW_ETAG_PATH'])); print(s.st_mode)"
        upper = "s = os.stat(os.path.dirname(env['ODF_NEW_ETAG_PATH']) + '/..'); print(s.st_mode)"
        out, inner, outer = news(step(line, mode, upper), podman).path.read_text().split()
        assert stat.S_IMODE(int(inner)) == 0o777
        assert stat.S_IMODE(int(outer)) == 0o700
        assert not Path(out).exists()


class TestRounds:
    COUNT = (
        "at = int(env['ODF_ETAG'] or 0)",
        "print(at)",
        "open(env['ODF_NEW_ETAG_PATH'], 'w').write(str(at + 1))",
        "if at < 3: open(env['ODF_NEW_HAS_MORE_DATA_PATH'], 'w')",
    )

    def test_rounds_follow_as_long_as_there_is_more(self, podman: Played) -> None:
        state, pages, more = None, [], True
        while more:
            found = news(step(*self.COUNT), podman, state)
            pages.append(found.path.read_text())
            state, more = found.state, found.has_more
            sweep(cached(podman))
        assert pages == ["0\n", "1\n", "2\n", "3\n"]

    def test_more_without_data_or_state_is_refused(self, podman: Played) -> None:
        assert "makes no progress" in refused(step(MORE), podman).what
        assert "makes no progress" in refused(step(MORE, STATE.format("v")), podman, etag("v")).what

    def test_more_with_the_same_data_again_is_refused(self, podman: Played) -> None:
        same = step("print(1)", MORE)
        assert news(same, podman).has_more
        sweep(cached(podman))
        error = refused(same, podman)
        assert error.why == "its state is the same, and it prints the same again"

    def test_a_queue_that_is_emptied_needs_no_state(self, podman: Played) -> None:
        assert news(step("print(1)", MORE), podman).has_more
        assert not news(step("print(1)"), podman).has_more
        assert news(step("print(1)", MORE), podman).has_more
        assert news(step("print(2)", MORE), podman).has_more


class TestImages:
    def test_an_image_is_pulled_once_and_run_by_what_it_is(self, podman: Played) -> None:
        source = FetchStepContainer(image=Played.REMOTE, args=("print(1)",))
        for _ in range(2):
            assert news(source, podman).name == f"{Played.REMOTE} (sha256:222222222222)"
        assert podman.asked("pull") == [["--quiet", Played.REMOTE]]
        assert all("3" * 64 in each and Played.REMOTE not in each for each in podman.asked("run"))
        note = json.loads((cached(podman) / "container.json").read_text())
        assert (note["image"], note["digest"]) == (Played.REMOTE, Played.DIGEST)
        sweep(cached(podman))
        assert [each.name for each in cached(podman).iterdir()] == ["container.json"]

    def test_an_image_that_cannot_be_had_is_named(self, podman: Played) -> None:
        source = FetchStepContainer(image="registry.example/none:${{ env.TAG }}")
        error = refused(source, podman, env={"TAG": "7"})
        assert error.what == "the image registry.example/none:7 cannot be pulled"
        assert "no such host" in error.why

    def test_without_a_runtime_both_are_named(self, podman: Played, tmp_path: Path) -> None:
        env = {"ODFBUILD_CONTAINER_RUNTIME": "", "PATH": str(tmp_path)}
        assert refused(step(), podman, env=env).what.endswith("need podman or docker")
        env["ODFBUILD_CONTAINER_RUNTIME"] = "nerdctl"
        assert "names 'nerdctl'" in refused(step(), podman, env=env).why

    def test_podman_comes_before_docker(self, podman: Played) -> None:
        os.link(podman.program, podman.folder / "docker")
        env = {"ODFBUILD_CONTAINER_RUNTIME": "", "PATH": str(podman.folder)}
        assert news(step("print(1)"), podman, env=env).path.read_text() == "1\n"
        podman.program.unlink()
        assert news(step("print(1)"), podman, env=env).path.read_text() == "1\n"

    def test_docker_is_told_what_podman_is(self, podman: Played) -> None:
        os.link(podman.program, podman.folder / "docker")
        source = replace(step(TELL, env={"A": "1", "PATH": "/bin"}), command=("python3", "-c"))
        for program in (podman.program, podman.folder / "docker"):
            env = {"ODFBUILD_CONTAINER_RUNTIME": str(program), "ODFBUILD_CONTAINER_NETWORK": "none"}
            news(source, podman, env=env)
        plain = [[PASSING.sub(r"\1...", word) for word in words] for words in podman.asked("run")]
        assert plain[0] == plain[1]
        options = {word.partition("=")[0] for word in plain[0] if word.startswith("--")}
        assert options <= DOCKER_RUN

    def test_the_network_is_what_the_environment_says(self, podman: Played) -> None:
        news(step("print(1)"), podman, env={"ODFBUILD_CONTAINER_NETWORK": "none"})
        news(step("print(1)"), podman)
        assert ["--network=none" in each for each in podman.asked("run")] == [True, False]


class TestEnds:
    @pytest.mark.parametrize(
        ("line", "how"),
        [
            ("sys.exit(3)", "ended with exit code 3"),
            ("os.kill(os.getpid(), 15)", "ended by the signal SIGTERM"),
            ("os.kill(os.getpid(), 9)", "ended by the signal SIGKILL"),
        ],
    )
    def test_an_exit_code_is_told(self, podman: Played, line: str, how: str) -> None:
        said = "print('no more\\nquota', file=sys.stderr, flush=True)"
        error = refused(step("print(1)", STATE.format("v"), said, line), podman)
        assert error.what == f"{Played.IMAGE} (sha256:222222222222) {how}"
        assert error.why == "it printed: no more | quota"

    def test_a_program_that_is_not_in_the_image_is_told(self, podman: Played) -> None:
        source = FetchStepContainer(image=Played.IMAGE, command=("nothing-like-it",))
        assert "no such program in the image" in refused(source, podman).fix

    def test_a_container_that_takes_too_long_is_removed(self, podman: Played) -> None:
        env = {"ODFBUILD_CONTAINER_TIMEOUT": "1"}
        error = refused(step("print(1, flush=True)", "time.sleep(60)"), podman, env=env)
        assert error.what.endswith("took more than 1 seconds")
        name = podman.asked("kill")[0][0]
        assert podman.asked("rm") == [["--force", name]]

    def test_a_container_that_prints_without_end_is_removed(self, podman: Played) -> None:
        env = {"ODFBUILD_CONTAINER_LIMIT": "3"}
        error = refused(step("while True: print('x' * 9999)"), podman, env=env)
        assert error.what.endswith("prints more than 3 MiB")
        with pytest.raises(BadLimitError):
            fetched(step(), podman, env={"ODFBUILD_CONTAINER_LIMIT": "all"})

    def test_giving_up_removes_it(self, podman: Played) -> None:
        def give_up() -> None:
            while not podman.running():
                time.sleep(0.01)
            stop()

        thread = threading.Thread(target=give_up)
        with stoppable():
            thread.start()
            with pytest.raises((ContainerError, StoppedError)):
                fetched(step("time.sleep(60)"), podman)
            thread.join()
        assert podman.running() == []

    def test_one_that_ended_well_is_left_to_the_runtime(self, podman: Played) -> None:
        news(step("print(1)"), podman)
        assert podman.asked("kill") == podman.asked("rm") == []


class TestInAProject:
    def test_rounds_become_commits_and_a_state_alone_retracts_nothing(
        self, tmp_path: Path, podman: Played
    ) -> None:
        lines = (
            "at = env['ODF_ETAG'] or '0'",
            "new = {'0': '1', '1': '2', '2': '3'}.get(at, at)",
            "if at == '0': print('2024-01-01,a,1'); print('2024-01-02,b,2')",
            "if at == '2': print('2024-01-03,c,3')",
            "open(env['ODF_NEW_ETAG_PATH'], 'w').write(new)",
            "if at in '01': open(env['ODF_NEW_HAS_MORE_DATA_PATH'], 'w')",
        )
        shop = Workshop(tmp_path)
        shop.env = {"ODFBUILD_CONTAINER_RUNTIME": str(podman.program)}
        declared = [pulled(step(*lines))]
        report = shop.apply(declared)
        assert report.failures == ()
        assert shop.kinds("src")[-3:] == ["AddData"] * 3
        assert shop.rows("src") == [(0, 0, "a", 1), (1, 0, "b", 2), (2, 0, "c", 3)]
        head = shop.dataset("src").head()
        assert shop.apply(declared).failures == ()
        assert shop.dataset("src").head() == head
        name = f"{Played.IMAGE} (sha256:222222222222)"
        assert shop.watcher.lines.count(("ingest:src", name)) == 3

    def test_what_cannot_be_read_stays_and_is_named(self, tmp_path: Path, podman: Played) -> None:
        shop = Workshop(tmp_path)
        shop.env = {"ODFBUILD_CONTAINER_RUNTIME": str(podman.program)}
        ((_, failed),) = shop.apply([pulled(step("print('no day,a,1')"))]).failures
        kept = failed.error.fix.rpartition(" ")[2]
        assert Path(kept).read_text() == "no day,a,1\n"
        assert shop.rows("src") == []


def pulled(source: FetchStepContainer) -> Declared:
    declared = ledger()
    polling, *rest = declared.snapshot.metadata
    assert isinstance(polling, SetPollingSource)
    assert isinstance(polling.read, ReadStepCsv)
    changed = replace(polling, fetch=source, read=replace(polling.read, header=False))
    return declare("src", DatasetKind.ROOT, (changed, *rest))


class TestReal:
    """The same from a real podman or docker."""

    @pytest.fixture(autouse=True)
    def _only_where_one_works(self) -> None:
        reason = why_no_runtime()
        if reason is not None:
            pytest.skip(reason)

    def fetch(
        self,
        folder: Path,
        script: str,
        state: SourceState | None = None,
        env: Mapping[str, str] | None = None,
        variables: Mapping[str, str | None] | None = None,
    ) -> Fetched | UpToDate:
        base, image = real_runtime()
        source = FetchStepContainer(
            image=image,
            command=("/bin/sh", "-c"),
            args=(script,),
            env=tuple(EnvVar(name=n, value=v) for n, v in (variables or {}).items()),
        )
        given = {**base, **(env or {})}
        return fetch(source, state, now=NOW, project_dir=folder, cache=folder / "c", env=given)

    def test_state_data_and_more(self, tmp_path: Path) -> None:
        script = (
            'n=$((${ODF_ETAG:-0} + 1)); echo "row $n of $ODF_BATCH_SIZE";'
            " echo $n > $ODF_NEW_ETAG_PATH;"
            " [ $n -ge 3 ] || : > $ODF_NEW_HAS_MORE_DATA_PATH"
        )
        state, rows, more = None, [], True
        while more:
            found = self.fetch(tmp_path, script, state, variables={"ODF_BATCH_SIZE": "7"})
            assert isinstance(found, Fetched)
            rows.append(found.path.read_text())
            state, more = found.state, found.has_more
        assert rows == ["row 1 of 7\n", "row 2 of 7\n", "row 3 of 7\n"]
        assert state == etag("3")
        assert (
            json.loads((tmp_path / "c" / "container.json").read_text())["digest"][:7] == "sha256:"
        )
        assert self.fetch(tmp_path, "echo 3 > $ODF_NEW_ETAG_PATH", etag("3")) == UpToDate()

    def test_fetch_vector_container_env(self, tmp_path: Path) -> None:
        case = VECTORS["container-env"]
        variables = {each["name"]: each.get("value") for each in case["fetch"]["env"]}
        variables |= {"HOME": "/h ${{ env.KAMU_TEST_PROPAGATED }}", "LINES2": "a\nb"}
        names = (*case["steps"][0]["expect"]["env"], "HOME", "LINES2")
        script = "; ".join(f'echo "{name}=[${name}]"' for name in names)
        found = self.fetch(tmp_path, script, env=case["vars"], variables=variables)
        assert isinstance(found, Fetched)
        expected = case["steps"][0]["expect"]["env"] | {"HOME": "/h foobar", "LINES2": "a\nb"}
        assert found.path.read_text() == "".join(f"{n}=[{expected[n]}]\n" for n in names)

    def test_exit_codes_and_what_it_says(self, tmp_path: Path) -> None:
        with pytest.raises(ContainerError) as caught:
            self.fetch(tmp_path, "echo no such page >&2; exit 3")
        assert caught.value.what.endswith("ended with exit code 3")
        assert caught.value.why == "it printed: no such page"
        assert (tmp_path / "c" / "stderr.txt").read_text() == "no such page\n"

    def test_too_long_is_killed_and_removed(self, tmp_path: Path) -> None:
        with pytest.raises(ContainerError, match="took more than 2 seconds"):
            self.fetch(
                tmp_path,
                f": {tmp_path}; trap : TERM INT; echo x; while :; do busybox sleep 1; done",
                env={"ODFBUILD_CONTAINER_TIMEOUT": "2"},
            )
        assert self.left(tmp_path) == []

    def test_giving_up_kills_and_removes(self, tmp_path: Path) -> None:
        def give_up() -> None:
            while not self.left(tmp_path):
                time.sleep(0.05)
            stop()

        thread = threading.Thread(target=give_up)
        with stoppable():
            thread.start()
            with pytest.raises(StoppedError):
                script = f": {tmp_path}; trap : TERM INT; while :; do busybox sleep 1; done"
                self.fetch(tmp_path, script)
            thread.join()
        assert self.left(tmp_path) == []

    def left(self, folder: Path) -> list[str]:
        """Return the commands of containers that name a folder: other tests have theirs."""
        import subprocess

        env, _ = real_runtime()
        shown = subprocess.run(
            [runtime_program() or "", "ps", "--all", "--no-trunc", "--format", "{{.Command}}"],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        return [line for line in shown.stdout.splitlines() if str(folder) in line]
