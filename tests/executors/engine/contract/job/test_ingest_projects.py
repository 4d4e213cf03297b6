"""Projects whose roots are read and merged by `odfbuild step run`, in a process of its own."""

import json
import signal
from pathlib import Path

import pytest

from odfbuild.odf.events import AddData, OffsetInterval
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace
from tests.executors.engine.contract.job.test_projects import RUN, scripted
from tests.support.projects import Done, odfbuild, program
from tests.support.servers.object_store import CREDENTIALS, ObjectServer

ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: %s
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: data/*.csv}
      read: {kind: Csv, header: true, schema: [t TIMESTAMP, k STRING, v BIGINT, op INT]}
      %s
      merge: {%s}
    - {kind: SetVocab, eventTimeColumn: t}
"""
MERGES = {
    "append": "kind: Append",
    "ledger": "kind: Ledger, primaryKey: [t, k]",
    "snapshot": "kind: Snapshot, primaryKey: [k]",
    "upserts": "kind: UpsertStream, primaryKey: [k]",
    "changelog": "kind: ChangelogStream, primaryKey: [k]",
}
NO_OP = ("append", "ledger", "snapshot")  # whose sources have no column of operations
ONCE = "once = pathlib.Path(__file__).with_name('once')\n"
STEP = "[sys.executable, '-m', 'odfbuild', 'step', 'run', sys.argv[1]]"


class Roots:
    """A project of roots, which are taken in here or as jobs."""

    def __init__(
        self,
        folder: Path,
        merges: tuple[str, ...],
        steps: str = "{tags: [big]}",
        command: list[str] = RUN,
        more: str = "",
        query: str = "",
    ) -> None:
        self.folder, self.merges = folder, merges
        (folder / "data").mkdir(parents=True)
        (folder / "datasets").mkdir()
        for each in merges:
            text = ROOT % (each, query, MERGES[each])
            if each in NO_OP:
                text = text.replace(", op INT", "")
            if not query:
                text = text.replace("      \n", "")
            (folder / "datasets" / f"{each}.yaml").write_text(text)
        tags = ", ".join(f"{each}: {{tags: [big]}}" for each in merges)
        entry = f"command: {json.dumps(command)}, engine: datafusion{more}"
        entry += f", steps: {steps}" if steps else ""
        lines = ("odfbuild: 1", "engine: {ingest: arrow}", f"defaults: {{{tags}}}")
        settings = (*lines, "targets: {dev: {}}", f"engines: {{batch: {{{entry}}}}}")
        (folder / "odfbuild.yaml").write_text("\n".join(settings) + "\n")
        policy = folder.with_name(f"{folder.name}.policy")
        policy.write_text('odfbuild_policy: 1\nengines: ["command:*"]\nstores: ["s3+http://*"]\n')
        self.policy = policy

    def grow(self, month: int) -> None:
        """Add a file: a key that is there, one that is new, and one that changes."""
        rows = [f"2020-{month:02}-01T00:00:00Z,{key},{month}" for key in "ab"]
        rows += [f"2020-{month:02}-02T00:00:00Z,new{month},10", "2020-01-03T00:00:00Z,same,1"]
        with_op = {*self.merges}.isdisjoint(NO_OP)
        text = "\n".join(["t,k,v" + ",op" * with_op, *(each + ",0" * with_op for each in rows)])
        (self.folder / "data" / f"{month}.csv").write_text(text + "\n")

    def __call__(self, *arguments: str, **more: str) -> Done:
        given = {"CI": "", "ODFBUILD_POLICY": str(self.policy), **CREDENTIALS, **more}
        return odfbuild(*arguments, cwd=self.folder, **given)

    def apply(self) -> set[str | None]:
        """Apply; return where files were read."""
        done = self("apply", "--yes", "-o", "json")
        assert done.code == 0, done.err
        steps = [each for each in json.loads(done.out)["steps"] if each["work"] == "ingest"]
        return {each.get("place") for step in steps for each in step["rounds"] if each["blocks"]}

    def data(self) -> dict[str, list[tuple[OffsetInterval | None, object, object]]]:
        """Return the blocks of data of each root, without the place of anything."""
        workspace = Workspace(self.folder / ".odfbuild")
        found: dict[str, list[tuple[OffsetInterval | None, object, object]]] = {}
        for each in self.merges:
            dataset = workspace.open(DatasetAlias.parse(each))
            events = [] if dataset is None else [block.event for _, block in dataset.blocks()]
            found[each] = [
                (
                    None if e.new_data is None else e.new_data.offset_interval,
                    e.new_watermark,
                    e.new_source_state,
                )
                for e in events
                if isinstance(e, AddData)
            ]
        return found

    def rows(self) -> list[str]:
        """Return all records of all roots, without system times."""
        shown = []
        for each in self.merges:
            text = self("show", each, "-o", "ndjson", "--limit", "1000").out
            rows = map(json.loads, text.splitlines())
            shown += [json.dumps({**row, "system_time": 0, "of": each}) for row in rows]
        return shown

    def command(self, command: list[str]) -> None:
        """Have another command take the jobs from now on."""
        settings = self.folder / "odfbuild.yaml"
        before, _, rest = settings.read_text().partition("command: ")
        _, _, after = rest.partition(", engine: datafusion")
        text = f"{before}command: {json.dumps(command)}, engine: datafusion{after}"
        settings.write_text(text)


@pytest.mark.parametrize("merges", [NO_OP, ("changelog", "upserts")], ids=str)
def test_roots_that_are_read_by_another_process_have_the_rows_that_they_have_here(
    tmp_path: Path, merges: tuple[str, ...]
) -> None:
    here, there = Roots(tmp_path / "here", merges, ""), Roots(tmp_path / "there", merges)
    for month in (1, 2):
        here.grow(month)
        there.grow(month)
        assert here.apply() == {None}
        assert there.apply() == {"batch"}
    assert here.data() == there.data()
    assert here.rows() == there.rows()
    assert here.rows()
    assert list((there.folder / ".odfbuild" / "staging").iterdir()) == []
    assert there("verify", "--replay").code == 0


@pytest.mark.parametrize(
    ("steps", "query", "said", "place"),
    [
        ("{tags: [big]}", "", "are read and merged by batch: the tag 'big'", "batch"),
        ("{from: 1B}", "", "are read and merged by batch: 113 bytes, from 1 on", "batch"),
        ("{from: 1TB}", "", None, None),
        ("{tags: [big], targets: [dev]}", "", "by batch: the tag 'big'", "batch"),
        (
            "{tags: [other, big]}",
            'preprocess: {kind: Sql, engine: spark, query: "select t, k, v from input"}',
            "here, not by batch (the tag 'big'), whose engine is not that of `preprocess`",
            None,
        ),
    ],
)
def test_a_plan_says_where_files_are_read_and_why(
    tmp_path: Path, steps: str, query: str, said: str | None, place: str | None
) -> None:
    project = Roots(tmp_path / "project", ("ledger",), steps, query=query)
    project.grow(1)
    planned = project("plan")
    assert planned.code in (0, 2), planned.err
    assert ("ingest-place" in planned.out) == (said is not None)
    assert said is None or said in planned.out
    if not query:
        assert project.apply() == {place}


KILLED = {
    "before it begins": f"{ONCE}if not once.exists():\n    once.touch()\n    sys.exit(9)\n",
    "once it has written": f"""
{ONCE}
if not once.exists():
    once.touch()
    folder = pathlib.Path(sys.argv[1]).parent
    job = folder / 'other'
    job.mkdir()
    for each in folder.iterdir():
        if each.is_file() and each.name != 'command.log':
            (job / each.name).write_bytes(each.read_bytes())
    subprocess.run([*{STEP}[:-1], str(job / 'request.json')], check=True)
    for each in job.glob('f1620*'):
        each.rename(folder / each.name)
    sys.exit(9)
""",
}


@pytest.mark.parametrize("when", KILLED)
def test_a_job_that_is_killed_leaves_nothing_and_the_next_apply_is_right(
    tmp_path: Path, when: str
) -> None:
    script = f"{KILLED[when]}\nsubprocess.run({STEP}, check=True)"
    project = Roots(tmp_path / "project", ("ledger",), command=scripted(tmp_path, script))
    project.grow(1)
    done = project("apply", "--yes")
    assert done.code == 4, done.err
    assert "ended with 9" in done.err
    assert project.data() == {"ledger": []}
    assert list((project.folder / ".odfbuild" / "staging").iterdir()) == []
    assert project("verify").code == 0
    assert project.apply() == {"batch"}
    assert [each[0] for each in project.data()["ledger"]] == [OffsetInterval(0, 3)]


def test_a_request_that_is_repeated_has_the_same_answer(tmp_path: Path) -> None:
    script = f"""
folder, kept = pathlib.Path(sys.argv[1]).parent, pathlib.Path(__file__).with_name('kept')
kept.mkdir()
jobs = [folder / 'first', folder / 'first', folder / 'again']
given = [each for each in folder.iterdir() if each.is_file() and each.name != 'command.log']
for number, job in enumerate(jobs):
    job.mkdir(exist_ok=True)
    for each in given:
        (job / each.name).write_bytes(each.read_bytes())
    step = [*{STEP}[:-1], str(job / 'request.json')]
    done = subprocess.run(step, check=True, capture_output=True, text=True)
    (kept / f'{{number}}.txt').write_text(done.stdout)
    (kept / f'{{number}}.json').write_bytes((job / 'request.answer.json').read_bytes())
for each in [*job.glob('f1620*'), job / 'request.answer.json']:
    each.rename(folder / each.name)
"""
    project = Roots(tmp_path / "project", ("ledger",), command=scripted(tmp_path, script))
    project.grow(1)
    assert project.apply() == {"batch"}
    kept = tmp_path / "kept"
    first, again, anew = ((kept / f"{number}.txt").read_text() for number in range(3))
    assert first.startswith("ExecuteIngest is answered: 1 file")
    assert again.startswith("ExecuteIngest was answered earlier: 1 file")
    assert anew.startswith("ExecuteIngest is answered: 1 file")
    assert len({(kept / f"{number}.json").read_bytes() for number in range(3)}) == 1


@pytest.mark.holds("engine-jobs")
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            "rows.write_bytes(data[:-1] + b'?')",
            "is not the file that the request names: its hash is another",
        ),
        ("rows.unlink()", "names a file that does not exist"),
        (
            "place = folder / 'request.answer.json'\n"
            'place.write_text(place.read_text().replace(\'"engine": "\', \'"engine": "0.\'))',
            "of the engine, and the step is for",
        ),
    ],
    ids=["other bytes", "no file", "another version"],
)
def test_an_answer_that_was_damaged_is_not_taken(tmp_path: Path, damage: str, said: str) -> None:
    script = f"""
folder = pathlib.Path(sys.argv[1]).parent
job = folder / 'other'
job.mkdir()
for each in folder.iterdir():
    if each.is_file() and each.name != 'command.log':
        (job / each.name).write_bytes(each.read_bytes())
subprocess.run([*{STEP}[:-1], str(job / 'request.json')], check=True)
folder, there = job, folder
(rows,) = folder.glob('f1620*')
data = rows.read_bytes()
{damage}
for each in folder.glob('f1620*'):
    each.rename(there / each.name)
(folder / 'request.answer.json').rename(there / 'request.answer.json')
"""
    project = Roots(tmp_path / "project", ("append",), command=scripted(tmp_path, script))
    project.grow(1)
    done = project("apply", "--yes")
    assert done.code == 4
    assert said in done.err
    assert project.data() == {"append": []}
    project.command(RUN)
    assert project.apply() == {"batch"}


def test_what_is_wrong_with_a_file_is_said_as_here(tmp_path: Path) -> None:
    said: list[list[str]] = []
    for steps in ("", "{tags: [big]}"):
        project = Roots(tmp_path / f"project{len(said)}", ("ledger",), steps)
        project.grow(1)
        (project.folder / "data" / "2.csv").write_text("t,k,v\n2020-01-01T00:00:00Z,a,many\n")
        done = project("apply", "--yes")
        assert done.code == 4
        assert len(project.data()["ledger"]) == 1
        said.append([line for line in done.err.splitlines() if "invalid-source" in line])
    assert said[0] == said[1] != []


def test_files_of_a_root_go_to_a_store_and_only_slices_stay(
    tmp_path: Path, running_store: ObjectServer
) -> None:
    prefix = "jobs/ingests"
    objects = f", objects: '{running_store.url(prefix)}'"
    project = Roots(tmp_path / "project", ("ledger", "snapshot"), more=objects)
    left = []
    for month in (1, 2):
        project.grow(month)
        assert project.apply() == {"batch"}
        listed = [each for page in running_store.store(prefix).list() for each in page]
        left.append(len(listed))
        assert all(each["path"].startswith("files/f1620") for each in listed)
    assert left == [0, 2]
    assert project("verify", "--replay").code == 0


@pytest.mark.parametrize("when", ["before it is carried out", "once it has an answer"])
def test_a_run_that_is_killed_while_a_file_is_read_elsewhere_leaves_nothing(
    tmp_path: Path, when: str
) -> None:
    kill = "subprocess.run(['kill', '-9', str(__import__('os').getppid())], check=True)"
    script = f"{ONCE}first = not once.exists()\nonce.touch()\n"
    if when.startswith("before"):
        script += f"if first:\n    {kill}\n    sys.exit(9)\nsubprocess.run({STEP}, check=True)\n"
    else:
        script += f"subprocess.run({STEP}, check=True)\nif first:\n    {kill}\n"
    here = Roots(tmp_path / "here", ("ledger",), "")
    project = Roots(tmp_path / "there", ("ledger",), command=scripted(tmp_path, script))
    for month in (1, 2):
        here.grow(month)
        project.grow(month)
    policy = {"CI": "", "ODFBUILD_POLICY": str(project.policy)}
    killed = program("apply", "--yes", cwd=project.folder, **policy)
    assert killed.code == -signal.SIGKILL
    assert project.data() == {"ledger": []}
    assert project("verify").code == 0
    assert project.apply() == {"batch"}
    assert here.apply() == {None}
    assert project.data() == here.data()
    assert project.rows() == here.rows()
    assert project("verify", "--replay").code == 0
