"""Law of plans in part: what changed alone is planned, and what is printed is that of all."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from odfbuild import app
from odfbuild.app.plan import make_plan, part
from odfbuild.executors.engine.spark import engine as spark
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project import fingerprint
from odfbuild.state.chain import head_table
from odfbuild.state.workspace import Workspace
from tests.agreement.engine import DuckEngine
from tests.agreement.outcome import run_inside
from tests.agreement.random_projects import Drawn
from tests.support.process.inside import lay_out
from tests.support.projects import REPOSITORY, environment
from tests.support.projects.texts import derivative, root

_OLD = 10_000_000  # ns, after which files count as old here
_FORMS = ((), ("-o", "json"), ("--explain", "--changes-exit"))


class _Counted:
    """How many plans were made, and how many of them in part."""

    def __init__(self) -> None:
        self.asked = self.made = 0
        self._make = part.partial_plan

    def __call__(self, project: app.Opened, changed: app.Part) -> app.PlanResult | None:
        found = self._make(project, changed)
        self.asked += 1
        self.made += found is not None
        return found


@contextmanager
def without_memory() -> Iterator[None]:
    """Have all of a project planned, and nothing remembered."""
    with (
        patch.object(app, "changes_since_plan", lambda _: None, create=True),
        patch.object(make_plan, "remember", lambda *_, **__: None),
    ):
        yield


def _calm(folder: Path) -> None:
    """Add datasets that nobody changes, of which most have nothing to do with the others."""
    for number in range(4):
        name = f"calm{number}"
        lay_out(
            folder,
            {
                f"datasets/{name}.yaml": root(
                    name, fetch=f"{{kind: FilesGlob, path: 'data/{name}/*.csv'}}"
                ),
                f"datasets/{name}d.yaml": derivative(f"{name}d", name),
                f"data/{name}/1.csv": "t,k,v\n2024-01-01,a,1\n",
            },
        )


def _lay(folder: Path, drawn: Drawn) -> None:
    for name, content in drawn.laid_out().items():
        path = folder / name
        if content is None:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_bytes() != content:
            lay_out(folder, {name: content})


def _disturb(folder: Path, random: Random) -> str:
    """Do to the project what no command does; return what, in words."""
    heads = sorted((folder / ".odfbuild" / "datasets").glob("*/refs/head"))
    definitions = sorted((folder / "datasets").glob("*.yaml"))
    match random.randrange(11):
        case 0 if heads:
            head = random.choice(heads)
            head.write_bytes(head.read_bytes())
            return "a head is written again"
        case 1 if heads:
            os.utime(random.choice(heads))
            return "a head is touched"
        case 2 if definitions:
            path = random.choice(definitions)
            path.write_text(f"# a note\n{path.read_text('utf-8')}", "utf-8")
            return "a definition has another line"
        case 3:
            (folder / "odfbuild.yaml").write_bytes((folder / "odfbuild.yaml").read_bytes() + b"\n")
            return "the settings are written again"
        case 4 if heads:
            head = random.choice(heads)
            blocks = head.parent.parent / "blocks"
            head.write_text(random.choice(sorted(each.name for each in blocks.iterdir())), "ascii")
            return "a head goes back"
        case 5 if definitions:
            path = random.choice(definitions)
            path.rename(path.with_name(f"x{path.name}"))
            return "a definition is in another file"
        case 6 if definitions:
            random.choice(definitions).write_text("kind: [\n", "utf-8")
            return "a definition is no YAML"
        case 7 if definitions:
            os.utime(random.choice(definitions))
            return "a definition is touched"
        case 8 if definitions:
            path = random.choice(definitions)
            path.write_text(f"{path.read_text('utf-8')}# later\n", "utf-8")
            os.utime(path, ns=(1, 1))
            return "a definition is of a clock that was set back"
        case 9 if definitions:
            path, text = random.choice(definitions), "# {}\n"
            before = path.read_text("utf-8")
            path.write_text(before + text.format("a"), "utf-8")
            run_inside(folder, "plan")
            at = path.stat()
            path.write_text(before + text.format("b"), "utf-8")
            os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))
            return "a definition changes twice in one tick"
        case _:
            return ""


def _round(
    folder: Path,
    counted: _Counted,
    said: list[str],
    forms: Sequence[tuple[str, ...]] = _FORMS,
) -> None:
    for form in forms:
        with (
            patch.object(part, "partial_plan", counted),
            patch.object(app, "partial_plan", counted, create=True),
        ):
            first, again = (run_inside(folder, "plan", *form) for _ in range(2))
        with without_memory():
            whole = run_inside(folder, "plan", *form)
        assert first == whole, said
        assert again == whole, said


def check_seed(seed: int, folder: Path, rounds: int) -> tuple[int, int]:
    """Check a random project; return how many plans of changes were made, and made in part."""
    drawn, random, counted = Drawn(seed), Random(f"parts {seed}"), _Counted()
    said: list[str] = [f"seed {seed}"]
    with (
        patch.object(spark, "SparkEngine", lambda *_, **__: DuckEngine()),
        patch.object(fingerprint, "_TICK", _OLD),
        patch.object(head_table, "TICK", _OLD),
    ):
        _calm(folder)
        for _ in range(rounds):
            _lay(folder, drawn)
            _round(folder, counted, said)
            if random.random() < 0.6:
                run_inside(folder, "apply", "--yes")
                said.append("apply")
                _round(folder, counted, said)
            if random.random() < 0.5:
                said.append(_disturb(folder, random))
                _round(folder, counted, said)
            said += drawn.changed()
    return counted.asked, counted.made


@pytest.mark.parametrize(("seed", "few"), [(6, 0), (10, 200), (26, 0), (30, 200)])
def test_a_plan_in_part_is_that_of_all(seed: int, few: int, tmp_path: Path) -> None:
    with patch.object(part, "_FEW", few):  # rows are written with the others, or beside them
        _, made = check_seed(seed, tmp_path / "project", 3)
    assert made


def _definition(folder: Path) -> Path:
    return folder / "datasets" / "calm1d.yaml"


def _edit(old: str, new: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        text = _definition(folder).read_text("utf-8")
        assert old in text
        _definition(folder).write_text(text.replace(old, new), "utf-8")

    return change


def _head(folder: Path, name: str) -> Path:
    id = app.open_project(folder).workspace.names()[DatasetAlias.parse(name)]
    return folder / ".odfbuild" / "datasets" / id.multibase / "refs" / "head"


def _head_back(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        head = _head(folder, name)
        dataset = Workspace(folder / ".odfbuild").open(DatasetAlias.parse(name))
        assert dataset is not None
        head.write_text(str(list(dataset.blocks())[-2][0]), "ascii")

    return change


def _bits(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1
    path.write_bytes(data)


IN_PART: dict[str, Callable[[Path], object]] = {
    "a query is another": _edit("select t, k, v", "select t, k, v + 1 as v"),
    "a query leaves rows out": _edit("from src", "from src where v > 1"),
    "a comment is new": _edit("kind: DatasetSnapshot", "# a note\nkind: DatasetSnapshot"),
    "a file is new": lambda at: lay_out(at, {"data/calm1/2.csv": "t,k,v\n2024-01-02,b,1\n"}),
    "a file is late": lambda at: lay_out(at, {"data/calm1/0.csv": "t,k,v\n2024-01-02,b,1\n"}),
    "a file is another": lambda at: lay_out(at, {"data/calm1/1.csv": "t,k,v\n2024-01-01,a,2\n"}),
    "a head goes back": _head_back("calm2d"),
}


def _both(first: str, second: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        IN_PART[first](folder)
        IN_PART[second](folder)

    return change


IN_PART["a query is another, a file is new"] = _both("a query is another", "a file is new")
IN_PART["a query is another, a head goes back"] = _both("a query is another", "a head goes back")
WHOLE: dict[str, Callable[[Path], object]] = {
    "the head of an input goes back": _head_back("calm2"),
    "a definition went": lambda at: _definition(at).unlink(),
    "a definition is new": lambda at: lay_out(at, {"datasets/n.yaml": derivative("n", "calm3")}),
    "a definition is elsewhere": lambda at: _definition(at).rename(at / "datasets" / "x.yaml"),
    "an input is another": _edit("datasetRef: calm1", "datasetRef: calm2"),
    "a name is another": _edit("name: calm1d", "name: calm1x"),
    "a column is unknown": _edit("select t, k, v", "select t, k, w"),
    "a definition is no YAML": _edit("kind: DatasetSnapshot", "kind: ["),
    "a definition is twice": lambda at: lay_out(
        at, {"datasets/n.yaml": derivative("calm1d", "calm1")}
    ),
    "settings": lambda at: lay_out(at, {"odfbuild.yaml": "odfbuild: 1\nname: other\n"}),
    "a default": lambda at: lay_out(
        at, {"odfbuild.yaml": "odfbuild: 1\ndefaults:\n  '*': {tags: [x]}\n"}
    ),
    "a head is damaged": lambda at: _head(at, "calm2").write_text("x", "ascii"),
    "a head went": lambda at: _head(at, "calm2").unlink(),
    "a block went": lambda at: next(_head(at, "calm2").parents[1].glob("blocks/*")).unlink(),
    "a name went": lambda at: (at / ".odfbuild" / "names" / "calm2").unlink(),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    lay_out(folder, {"odfbuild.yaml": "odfbuild: 1\nname: calm\n"})
    _calm(folder)
    with patch.object(spark, "SparkEngine", lambda *_, **__: DuckEngine()):
        assert run_inside(folder, "apply", "--yes").code == 0
    return folder


def _change(
    built: Path,
    folder: Path,
    change: Callable[[Path], object],
    forms: Sequence[tuple[str, ...]] = _FORMS[:1],
) -> _Counted:
    """Change a copy of a project that was planned, and check what is said of it."""
    shutil.copytree(built, folder)
    counted = _Counted()
    with patch.object(spark, "SparkEngine", lambda *_, **__: DuckEngine()):
        assert run_inside(folder, "plan").out.startswith("No changes")
        change(folder)
        _round(folder, counted, [], forms)
    return counted


@pytest.mark.parametrize("name", IN_PART)
def test_what_changed_alone_is_planned(name: str, built: Path, tmp_path: Path) -> None:
    counted = _change(built, tmp_path / "project", IN_PART[name], _FORMS)
    assert counted.made >= 2  # as text, and for another form once more


@pytest.mark.parametrize("name", WHOLE)
def test_what_may_reach_more_has_all_planned(name: str, built: Path, tmp_path: Path) -> None:
    assert not _change(built, tmp_path / "project", WHOLE[name]).made


_BESIDE = """
import os, sys
from odfbuild.app.plan import cache
from odfbuild.project import second_process
os.sched_getaffinity = lambda _: {0, 1}
cache._MANY = 0
forks, start = [], second_process._start
second_process._start = lambda work: forks.append(work) or start(work)
from odfbuild.cli.main import main
try:
    main()
finally:
    print(len(forks), file=sys.stderr)
"""
_LOOKS: dict[str, tuple[Callable[[Path], object], int]] = {"nothing": (lambda _: None, 1)}
_LOOKS |= {name: (IN_PART[name], 2) for name in ("a file is new", "a head goes back")}
_LOOKS["a query is another"] = (IN_PART["a query is another"], 3)
_LOOKS |= {name: (change, 4) for name, change in IN_PART.items() if ", " in name}
_LOOKS |= {name: (WHOLE[name], 1) for name in ("a block went", "a name went", "a head is damaged")}


@pytest.mark.skipif(sys.platform != "linux", reason="a fork is safe on Linux only")
@pytest.mark.parametrize("name", _LOOKS)
def test_two_processes_see_what_one_sees(name: str, built: Path, tmp_path: Path) -> None:
    folder, (change, forks) = tmp_path / "project", _LOOKS[name]
    shutil.copytree(built, folder)
    run_inside(folder, "plan")
    change(folder)
    command = [sys.executable, "-c", _BESIDE, "plan", "-C", str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(), cwd=REPOSITORY
    )
    with without_memory():
        whole = run_inside(folder, "plan")
    assert (done.returncode, done.stdout) == (whole.code, whole.out)
    assert done.stderr.endswith(f"{forks}\n")


@pytest.mark.parametrize("at", [0, 9, 50, 700, -3])
@pytest.mark.parametrize("name", ["plan-rows", "settled"])
def test_of_damaged_rows_nothing_is_taken(name: str, at: int, built: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        IN_PART["a query is another"](folder)
        _bits(folder / ".odfbuild" / "cache" / name, at)

    assert not _change(built, tmp_path / "project", change).made


def test_rows_of_another_plan_are_not_taken(built: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        rows = folder / ".odfbuild" / "cache" / "plan-rows"
        before = rows.read_bytes()
        WHOLE["a definition is new"](folder)
        run_inside(folder, "plan")
        assert rows.read_bytes() != before
        rows.write_bytes(before)
        IN_PART["a query is another"](folder)

    assert not _change(built, tmp_path / "project", change).made


def test_of_files_that_nobody_read_names_count_alone(built: Path, tmp_path: Path) -> None:
    folder, counted = tmp_path / "project", _Counted()
    shutil.copytree(built, folder)
    name = "data/calm1/2.csv"
    lay_out(folder, {name: "t,k,v\n2024-01-02,b,1\n"})
    said = run_inside(folder, "plan")
    assert "1 new file: 2.csv" in said.out
    lay_out(folder, {name: "t,k,v\n2024-01-02,b,1\n2024-01-03,c,1\n"})
    with patch.object(app, "partial_plan", counted, create=True):
        assert run_inside(folder, "plan") == said
    assert not counted.asked
