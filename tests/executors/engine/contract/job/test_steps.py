"""Steps of our own engines that go as jobs: which do, and that their blocks do not show it."""

import json
import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.bucket import Link, linked
from odfbuild.odf.events import AddData, ExecuteTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.executors.engine.contract.job.test_projects import (
    RUN,
    check_interrupted,
    scripted,
    sleeping,
)
from tests.support.projects import Done, odfbuild
from tests.support.servers.object_proxy import proxying
from tests.support.servers.object_store import CREDENTIALS, ObjectServer

ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: sales
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: data/*.csv}
      read: {kind: Csv, header: true, schema: [t TIMESTAMP, k STRING, v BIGINT]}
      merge: {kind: Ledger, primaryKey: [t, k]}
    - {kind: SetVocab, eventTimeColumn: t}
"""
READER = """\
kind: DatasetSnapshot
version: 1
content:
  name: %s
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: %s, alias: given}]
      transform: {kind: Sql, engine: %s, query: "%s"}
    - {kind: SetVocab, eventTimeColumn: t}
"""
QUERIES = {
    "large": ("sales", "select t, k, v * 2 as v from given where v > 1"),
    "totals": ("sales", "select max(t) as t, k, sum(v) as v, count(*) as n from given group by k"),
    "again": ("totals", "select t, k, v from given where n > 1"),
}
TAGS = "defaults: {large: {tags: [big]}, totals: {tags: [other, big]}, again: {tags: [big]}}"


Slices = Mapping[str, Sequence[object]]


class Sales:
    """A project whose steps are carried out here, or as jobs."""

    def __init__(
        self, folder: Path, steps: str, command: list[str] = RUN, more: str = "",
        engine: str = "datafusion",
    ) -> None:  # fmt: skip
        self.folder = folder
        (folder / "data").mkdir(parents=True)
        (folder / "datasets").mkdir()
        (folder / "datasets" / "sales.yaml").write_text(ROOT)
        for name, (given, query) in QUERIES.items():
            text = READER % (name, given, engine, query)
            (folder / "datasets" / f"{name}.yaml").write_text(text)
        entry = f"command: {json.dumps(command)}, engine: {engine}{more}"
        steps = f", steps: {steps}" if steps else ""
        lines = ("odfbuild: 1", "engine: {ingest: arrow}", TAGS, "targets: {dev: {}, prod: {}}")
        settings = (*lines, "default_target: dev", f"engines: {{batch: {{{entry}{steps}}}}}")
        (folder / "odfbuild.yaml").write_text("\n".join(settings) + "\n")
        policy = folder.with_name(f"{folder.name}.policy")
        policy.write_text('odfbuild_policy: 1\nengines: ["command:*"]\nstores: ["s3+http://*"]\n')
        self.policy = policy
        self.month = 0

    def grow(self) -> None:
        """Add a file, with a key that is there and one that is new."""
        self.month += 1
        rows = [f"2020-{self.month:02}-01T00:00:00Z,{key},{self.month}" for key in "ab"]
        rows.append(f"2020-{self.month:02}-02T00:00:00Z,new{self.month},{10 * self.month}")
        text = "\n".join(["t,k,v", *rows]) + "\n"
        (self.folder / "data" / f"{self.month}.csv").write_text(text)

    def __call__(self, *arguments: str, **more: str) -> Done:
        given = {"CI": "", "ODFBUILD_POLICY": str(self.policy), **CREDENTIALS, **more}
        return odfbuild(*arguments, cwd=self.folder, **given)

    def apply(self, *more: str) -> dict[str, str | None]:
        """Add rows and apply; return where the transforms were carried out."""
        self.grow()
        done = self("apply", "--yes", "-o", "json", *more)
        assert done.code == 0, done.err
        steps = [each for each in json.loads(done.out)["steps"] if each["work"] == "transform"]
        return {each["target"]: place for each in steps for place in _places(each)}

    def opened(self, name: str) -> Dataset:
        """Return a dataset that was built."""
        found = Workspace(self.folder / ".odfbuild").open(DatasetAlias.parse(name))
        assert found is not None
        return found

    def slices(self) -> Slices:
        """Return the rows of all slices but their system times, with the watermarks."""
        found = {}
        for name in ("sales", *QUERIES):
            dataset = self.opened(name)
            events = [block.event for _, block in dataset.blocks()]
            found[name] = [
                (_rows(dataset.data_path(each.new_data.physical_hash)), each.new_watermark)
                for each in events
                if isinstance(each, AddData | ExecuteTransform) and each.new_data is not None
            ]
        return found


def _rows(path: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = pq.read_table(path).drop_columns("system_time").to_pylist()
    return rows


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Slices:
    """Return the slices of a project that grew twice, all computed in its own process."""
    project = Sales(tmp_path_factory.mktemp("here") / "project", "")
    assert set((project.apply() | project.apply()).values()) == {None}
    return project.slices()


def _places(step: Mapping[str, list[dict[str, str]]]) -> list[str | None]:
    return [each.get("place") for each in step["rounds"] if each["blocks"]]


PLACES = [
    ("{tags: [big]}", "dev", {"large": "batch", "totals": "batch", "again": "batch"}),
    ("{tags: [other, none]}", "dev", {"large": None, "totals": "batch", "again": None}),
    ("{from: 1B}", "dev", {"large": "batch", "totals": "batch", "again": "batch"}),
    ("{from: 1TB}", "dev", {"large": None, "totals": None, "again": None}),
    (
        "{from: 1TB, tags: [other], targets: [prod]}",
        "prod",
        {"large": None, "totals": "batch", "again": None},
    ),
    ("{tags: [big], targets: [prod]}", "dev", {"large": None, "totals": None, "again": None}),
]
"""A setting of `steps`, a target, and where the steps of each dataset are carried out then."""


@pytest.mark.parametrize(("steps", "target", "places"), PLACES)
def test_steps_go_where_their_tags_and_sizes_say_and_give_the_same_slices(
    tmp_path: Path, here: Slices, steps: str, target: str, places: dict[str, str | None]
) -> None:
    there = Sales(tmp_path / "there", steps)
    found = there.apply("--target", target) | there.apply("--target", target)
    assert found == places
    assert here == there.slices()
    assert list((there.folder / ".odfbuild" / "staging").iterdir()) == []
    verified = there("verify", "--recompute")
    assert verified.code == 0, verified.out


@pytest.mark.parametrize("store", ["running_store", "simulated_store"], indirect=True)
def test_files_of_datasets_are_sent_to_a_store_once(
    tmp_path: Path, here: Slices, store: ObjectServer, request: pytest.FixtureRequest
) -> None:
    prefix = f"jobs/{request.node.name}"
    objects = f", objects: '{store.url(prefix)}'"
    there = Sales(tmp_path / "there", "{tags: [big]}", more=objects)
    sent: dict[str, datetime] = {}
    for _ in range(2):
        assert set(there.apply().values()) == {"batch"}
        listed = [each for page in store.store(prefix).list() for each in page]
        assert all(each["path"].startswith("files/f1620") for each in listed)
        now = {each["path"]: each["last_modified"] for each in listed}
        assert sent.items() <= now.items()
        assert len(now) > len(sent)
        sent = now
    assert here == there.slices()


def test_steps_of_a_workspace_in_a_store_go_as_jobs(
    tmp_path: Path, here: Slices, store: ObjectServer, request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    there = Sales(tmp_path / "there", "{tags: [big]}", more=f", objects: '{store.url(name)}'")
    settings = there.folder / "odfbuild.yaml"
    workspace = f"dev: {{workspace: '{store.url(f'{name}-workspace')}'}}"
    settings.write_text(settings.read_text().replace("dev: {}", workspace))
    for _ in range(2):
        assert set(there.apply().values()) == {"batch"}
    assert there("workspace", "move", ".odfbuild").code == 0
    settings.write_text(settings.read_text().replace(workspace, "dev: {}"))
    assert here == there.slices()


WIDE = 40_000  # rows of random texts, that is a slice of more than a megabyte
LITTLE = 400_000  # bytes of blocks, results, requests and answers
NARROW = {
    "large": "select t, k, v from given where v > 39990",
    "totals": "select max(t) as t, v % 10 as k, count(*) as n from given group by v % 10",
}


def _wide(folder: Path, month: int) -> None:
    texts = random.Random(month)
    rows = (
        f"2020-{month:02}-03T00:00:00Z,{texts.randbytes(24).hex()},{number}"
        for number in range(WIDE)
    )
    (folder / "data" / f"wide{month}.csv").write_text("\n".join(["t,k,v", *rows]) + "\n")


def through(tmp_path: Path, link: Link, server: ObjectServer) -> list[str]:
    """Return a command that runs a job without the link to the server."""
    script = (
        "import os\n"
        f"given = sys.argv[1].replace(':{link.port}/', ':{server.port}/')\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'odfbuild', 'step', 'run', given])\n"
    )
    return scripted(tmp_path, script)


@pytest.mark.parametrize("query", ["large", "totals"])
@pytest.mark.parametrize("apart", [False, True], ids=["one bucket", "two servers"])
def test_the_files_of_a_step_elsewhere_are_not_brought_here(
    tmp_path: Path,
    running_store: ObjectServer,
    simulated_store: ObjectServer,
    request: pytest.FixtureRequest,
    apart: bool,
    query: str,
) -> None:
    """Within a store they are copied; from one to another they pass, and no file is kept."""
    name = request.node.name.replace(" ", "-").replace("[", "-").replace("]", "")
    of_jobs = simulated_store if apart else running_store
    with linked(running_store.port) as link, linked(of_jobs.port) as second:
        jobs = second if apart else link
        objects = f", objects: '{of_jobs.url(name).replace(str(of_jobs.port), str(jobs.port))}'"
        command = through(tmp_path, jobs, of_jobs)
        project = Sales(tmp_path / "project", "{tags: [big]}", command, objects)
        for each in QUERIES:
            (project.folder / "datasets" / f"{each}.yaml").unlink()
        text = READER % (query, "sales", "datafusion", NARROW[query])
        (project.folder / "datasets" / f"{query}.yaml").write_text(text)
        settings = project.folder / "odfbuild.yaml"
        place = running_store.url(f"{name}-workspace")
        place = place.replace(str(running_store.port), str(link.port))
        tag = f"defaults: {{{query}: {{tags: [big]}}}}"
        text = settings.read_text().replace(TAGS, tag)
        settings.write_text(text.replace("dev: {}", f"dev: {{workspace: '{place}'}}"))
        _wide(project.folder, 1)
        here, there = (
            {f"XDG_{kind}_HOME": str(tmp_path / each / kind) for kind in ("CACHE", "STATE")}
            for each in ("here", "there")
        )
        assert project("apply", "--yes", "--target", "dev", "sales", **here).code == 0
        link.start()
        done = project("apply", "--yes", "-o", "json", query, **there)
        assert done.code == 0, done.err
        (step,) = (e for e in json.loads(done.out)["steps"] if e["work"] == "transform")
        assert _places(step) == ["batch"]
        objects_there = [
            each for page in running_store.store(f"{name}-workspace").list() for each in page
        ]
        size, path = max((each["size"], each["path"]) for each in objects_there)
        assert size > 1 << 20
        cache = tmp_path / "there" / "CACHE" / "odfbuild" / "objects"
        assert not [*cache.rglob(path.rpartition("/")[2])]
        assert [*cache.rglob("f1620*")]
        passed = size if apart else 0
        assert passed <= link.received < passed + LITTLE
        assert link.sent < LITTLE
        if apart:
            assert size <= second.sent < size + LITTLE
            assert second.received < LITTLE


def test_a_store_that_keeps_jobs_is_said_once_and_gc_deletes_them_later(
    tmp_path: Path, running_store: ObjectServer, request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    with proxying(running_store.port) as proxy:
        place = running_store.url(name).replace(str(running_store.port), str(proxy.port))
        project = Sales(tmp_path / "project", "{tags: [big]}", more=f", objects: '{place}'")
        proxy.keeps = True
        project.grow()
        done = project("apply", "--yes")
        assert done.code == 0, done.err
        assert (done.out + done.err).count("warning[jobs-kept]") == 1
        left = [each["path"] for page in running_store.store(name).list() for each in page]
        assert len({path.partition("/")[0] for path in left}) == 1 + len(QUERIES)
        looked = project("gc", "--older-than", "0s")
        assert looked.code == 0, looked.err
        assert "jobs in" not in looked.out, "they are young"
        project.policy.write_text("odfbuild_policy: 1\n")
        looked = project("gc")
        assert looked.code == 0, looked.err
        assert f"skipped: jobs in {place}" in looked.out


@pytest.mark.parametrize("damage", ["gone", "other bytes", "shorter"])
def test_a_file_that_a_store_lost_or_changed_is_no_other_row(
    tmp_path: Path, store: ObjectServer, request: pytest.FixtureRequest, damage: str
) -> None:
    prefix = f"jobs/{request.node.name.replace(' ', '-')}"
    objects = f", objects: '{store.url(prefix)}'"
    project = Sales(tmp_path / "project", "{tags: [big]}", more=objects)
    project.apply()
    there = store.store(prefix)
    for path in [each["path"] for page in there.list() for each in page]:
        if damage == "gone":
            there.delete(path)
        else:
            data = bytes(there.get(path).bytes())
            there.put(path, data[:-1] if damage == "shorter" else data[:-1] + b"?")
    before = project.slices()
    project.grow()
    done = project("apply", "--yes")
    if damage == "other bytes":
        assert done.code == 4
        assert "is not the file that the request names: its hash is another" in done.err
        left = project.slices()
        assert len(left["large"]) == 2, "a query row by row reads no slice from before"
        assert (left["totals"], left["again"]) == (before["totals"], before["again"])
        for path in [each["path"] for page in there.list() for each in page]:
            there.delete(path)
        done = project("apply", "--yes")
    assert done.code == 0, done.err
    assert project("verify", "--recompute").code == 0


def test_who_sees_the_files_of_a_job_can_change_no_dataset(tmp_path: Path) -> None:
    script = (
        "folder = pathlib.Path(sys.argv[1]).parent\n"
        "for each in folder.glob('f1620*'):\n"
        "    data = each.read_bytes()\n"
        "    each.unlink()\n"
        "    each.write_bytes(data[:-1] + b'?')\n"
        "sys.exit(subprocess.run([sys.executable, '-m', 'odfbuild', 'step', 'run', sys.argv[1]])"
        ".returncode)\n"
    )
    project = Sales(tmp_path / "project", "{tags: [big]}", scripted(tmp_path, script))
    project.grow()
    done = project("apply", "--yes")
    assert done.code == 4
    assert "is not the file that the request names" in done.err
    assert project("verify").code == 0


ELSEWHERE = """
import json, os
folder = pathlib.Path(sys.argv[1]).parent
job = folder / 'other'
job.mkdir()
for each in folder.iterdir():
    if each.is_file() and each.name != 'command.log':
        (job / each.name).write_bytes(each.read_bytes())
subprocess.run([sys.executable, '-m', 'odfbuild', 'step', 'run', str(job / 'request.json')])
answer = json.loads((job / 'request.answer.json').read_text())
written, = [each for each in answer['files'] if each['path'] == 'rows.parquet']
"""
LEFT_OUT = """
answer['files'].remove(written)
rows, place = job / written['hash'], folder / 'rows.parquet'
%s
(folder / 'request.answer.json').write_text(json.dumps(answer))
"""


@pytest.mark.parametrize(
    "left",
    ["rows.rename(place)", "place.symlink_to(rows)", "os.mkfifo(place)", "place.mkdir()"],
)
def test_rows_that_an_answer_does_not_name_are_not_taken(tmp_path: Path, left: str) -> None:
    error = refused_rows(tmp_path, ELSEWHERE + LEFT_OUT % left)
    assert "left rows.parquet beside the request, which its answer does not name" in error


def refused_rows(tmp_path: Path, script: str) -> str:
    """Return the error of an apply whose rows, carried out by a script, are not taken."""
    project = Sales(tmp_path / "project", "{tags: [large]}", scripted(tmp_path, script))
    settings = project.folder / "odfbuild.yaml"
    settings.write_text(settings.read_text().replace(TAGS, "defaults: {large: {tags: [large]}}"))
    project.grow()
    done = project("apply", "--yes")
    assert done.code == 4
    assert project.slices()["large"] == []
    assert project("verify").code == 0
    return done.err


LYING = """
import hashlib, pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
rows = pq.read_table(job / written['hash'])
def put(name, values):
    kept = rows.drop_columns([each for each in rows.column_names if each == name])
    return kept.append_column(name, values)
%s
pq.write_table(rows, job / 'lie')
data = (job / 'lie').read_bytes()
written.update(size=len(data), hash='f1620' + hashlib.sha3_256(data).hexdigest())
(job / 'lie').rename(folder / written['hash'])
answer['answer']['numRecords'] = len(rows)
(job / 'request.answer.json').write_text(json.dumps(answer))
(job / 'request.answer.json').rename(folder / 'request.answer.json')
"""


@pytest.mark.holds("engine-jobs")
@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ("rows = rows.append_column('k', rows['k'])", "wrote two columns named 'k'"),
        ("rows = rows.append_column('offset', pa.array(range(len(rows))))", "a column 'offset'"),
        ("rows = rows.append_column('system_time', rows['t'])", "a column 'system_time'"),
        ("rows = rows.drop_columns(['t'])", "wrote rows without the column 't'"),
        ("rows = put('t', pc.cast(rows['t'], pa.string()))", "of string"),
        ("rows = put('t', pa.nulls(len(rows), rows['t'].type))", "without"),
        ("rows = put('t', pa.array([2**62] * len(rows), rows['t'].type))", "years 1 to 9999"),
        ("rows = put('op', pa.array([2**40] * len(rows)))", "'op' that is"),
        ("rows = put('op', pa.array(['+A'] * len(rows)))", "not integers"),
        ("answer['engine'] = '0.1'", "answered with 0.1 of the engine, and the step is for"),
        ("answer['engine'] = None", "answered with no version of the engine"),
    ],
)  # fmt: skip
def test_rows_that_no_engine_here_gives_are_not_taken(tmp_path: Path, lie: str, said: str) -> None:
    error = refused_rows(tmp_path, ELSEWHERE + LYING % lie)
    assert "error[engine-answer]" in error
    assert said in error


FALSE_COUNTS = """
import hashlib, json, os, shutil
folder, done = pathlib.Path(sys.argv[1]).parent, pathlib.Path(__file__).with_name('done')
if not done.exists():  # the step is carried out once
    shutil.copytree(folder, done)
    there = str(done / 'request.json')
    subprocess.run([sys.executable, '-m', 'odfbuild', 'step', 'run', there], check=True)
answer = json.loads((done / 'request.answer.json').read_text())
answer['request'] = 'f1620' + hashlib.sha3_256(pathlib.Path(sys.argv[1]).read_bytes()).hexdigest()
rows, counts = sorted(answer['files'], key=lambda each: each['path'], reverse=True)
data, made = (done / counts['hash']).read_bytes(), folder / 'made'
exec(pathlib.Path(__file__).with_name('lie').read_text())
counts.update(size=len(data), hash='f1620' + hashlib.sha3_256(data).hexdigest())
shutil.copyfile(done / rows['hash'], folder / rows['hash'])
(folder / counts['hash']).write_bytes(data)
(folder / 'made').write_text(json.dumps(answer))
(folder / 'made').rename(folder / 'request.answer.json')
"""
COUNTED = """
import pyarrow as pa, pyarrow.parquet as pq
table = pq.read_table(done / counts['hash'])
at = table.column_names.index('__odf_n')
pq.write_table(table.set_column(at, table.schema.field(at), pa.array([%s] * len(table))), made)
data = made.read_bytes()
"""


@pytest.mark.spark
@pytest.mark.holds("engine-jobs")
@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ("data = b''", "is not one that can be read"),
        (COUNTED % 0, "counts what cannot be"),
        ("data = b'something'", "is not one that can be read"),
        ("data = data[:-1]", "is not one that can be read"),
        ("data = data[:len(data) // 2]", "is not one that can be read"),
        ("data = data[:4] + bytes(60) + data[64:]", "is not one that can be read"),
        (COUNTED % -1, "counts what cannot be"),
        ("data = (done / rows['hash']).read_bytes()", "is not one that can be read"),
    ],
)
def test_a_checkpoint_that_no_engine_here_leaves_is_not_taken(
    tmp_path: Path, lie: str, said: str
) -> None:
    """The next step would leave it aside, and count all rows again without a word."""
    command = scripted(tmp_path, FALSE_COUNTS)
    project = Sales(tmp_path / "project", "{tags: [other]}", command, engine="spark")
    project.grow()
    (tmp_path / "lie").write_text(lie)
    done = project("apply", "--yes", "sales", "totals")
    assert done.code == 4, lie  # sales were made before it
    assert "error[engine-answer]" in done.err
    assert f"wrote a checkpoint that {said}" in " ".join(done.err.split())
    assert project.opened("totals").slices() == ()
    (tmp_path / "lie").write_text("")
    done = project("apply", "--yes", "sales", "totals")
    assert done.code == 0, done.err
    assert len(project.opened("totals").slices()) == 1


@pytest.mark.holds("engine-commands")
def test_a_plan_warns_of_what_the_policy_refuses(tmp_path: Path) -> None:
    project = Sales(tmp_path / "project", "{tags: [big]}")
    project.policy.write_text("odfbuild_policy: 1\n")
    project.grow()
    planned = project("plan")
    assert planned.code == 0
    assert "warning[engine-not-permitted]: apply is refused here" in planned.out
    done = project("apply", "--yes")
    assert done.code == 1
    assert "engine-not-permitted" in done.err
    assert not [*(project.folder / ".odfbuild").glob("datasets/*")]
    assert "engine-not-permitted" not in project("plan", "--metadata-only").out


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("{tags: [bigg]}", "'bigg' is no tag of a dataset here"),
        ("{tags: [big], targets: [prdo]}", "did you mean 'prod'?"),
        ("{tags: [big], targets: [dev]}", None),
        ("{from: 1GB}", None),
    ],
)
def test_a_plan_warns_of_tags_and_targets_that_are_not_there(
    tmp_path: Path, steps: str, said: str | None
) -> None:
    project = Sales(tmp_path / "project", steps)
    planned = project("plan")
    assert planned.code == 0
    warned = " ".join(planned.out.split())
    assert ("warning[config]" in warned) == (said is not None)
    assert said is None or said in warned


def test_an_interrupted_run_ends_the_command_of_a_step(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    project = Sales(tmp_path / "project", "{tags: [big]}", scripted(tmp_path, sleeping(mark)))
    project.grow()
    check_interrupted(project.folder, str(project.policy), mark)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("command: [a, '{request}'], steps: {tags: [big]}", "cannot carry out steps of others"),
        ("address: 'here:1', engine: spark, steps: {tags: [a]}", "cannot carry out steps of"),
        ("command: [a, '{request}'], engine: spark, steps: {}", "says of no step"),
        ("command: [a, '{request}'], engine: spark, steps: {from: big}", "'big' is not a size"),
        ("command: [a, '{request}'], engine: spark, steps: {from: 0GB}", "'0GB' is not a size"),
        ("command: [a, '{request}'], engine: spark, steps: {tags: big}", "must be a list"),
        ("command: [a, '{request}'], engine: spark, steps: {tag: [a]}", "'tag'"),
        ("command: [a, '{request}'], engine: spark, steps: [a]", "must be a mapping"),
        ("command: [a, '{request}'], engine: spark, steps: {from: 1GB, tags: []}", "is empty"),
        ("command: [a, '{request}'], engine: spark, steps: {from: 1GB, targets: []}", "is empty"),
        (
            "command: [a, '{request}'], objects: s3://bucket/jobs, mounted: /there",
            "does not see the folder of the workspace",
        ),
    ],
)
def test_rules_of_steps_that_say_nothing_are_refused_with_their_place(
    tmp_path: Path, entry: str, said: str
) -> None:
    project = Sales(tmp_path / "project", "")
    (project.folder / "odfbuild.yaml").write_text(f"odfbuild: 1\nengines: {{batch: {{{entry}}}}}\n")
    done = project("check")
    assert done.code in (1, 3)
    assert said in done.err + done.out
    assert "odfbuild.yaml:" in done.err + done.out
