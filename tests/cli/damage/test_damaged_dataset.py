"""Damage to one dataset stops it and what reads it; every command does the same for the others."""

import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.projects.market import steady
from tests.support.projects.texts import GOOD, derivative, root

NEWS = "t,k,v\n2024-01-03,c,3\n"
SEEDS = [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 30))]
DAMAGES = ("name", "head", "block", "no name", "no head", "no blocks", "closed")


class Project:
    """Roots and derivatives of one another, as drawn; `readers` has all that are made of each."""

    def __init__(self, draw: random.Random) -> None:
        self.files: dict[str, str | bytes | None] = {}
        self.inputs: dict[str, str] = {}
        self.names = [f"d{number}" for number in range(draw.randint(4, 6))]
        for number, name in enumerate(self.names):
            if number < 2 or draw.random() < 0.3:
                fetch = f"{{kind: FilesGlob, path: {name}/*.csv}}"
                self.files[f"datasets/{name}.yaml"] = root(name, fetch=fetch)
                self.files[f"{name}/1.csv"] = GOOD
            else:
                self.inputs[name] = draw.choice(self.names[:number])
                self.files[f"datasets/{name}.yaml"] = derivative(name, self.inputs[name])

    def readers(self, of: str) -> set[str]:
        found = {of}
        for name in self.names:
            if self.inputs.get(name) in found:
                found.add(name)
        return found - {of}

    def news(self) -> Mapping[str, str]:
        return {f"{name}/2.csv": NEWS for name in self.names if name not in self.inputs}


def ids(project: Path) -> dict[str, str]:
    found = (project / ".odfbuild/names").iterdir()
    return {path.name: path.read_text().split("\n")[0].removeprefix("did:odf:") for path in found}


def damage(project: Path, name: str, how: str, draw: random.Random) -> None:
    """Damage one file of a dataset, or delete it; an index as another machine has it is none."""
    state = project / ".odfbuild"
    folder = state / "datasets" / ids(project)[name]
    blocks = sorted((folder / "blocks").iterdir())
    path = {
        "name": state / "names" / name,
        "head": folder / "refs/head",
        "no name": state / "names" / name,
        "no head": folder / "refs/head",
        "closed": draw.choice([state / "names" / name, folder / "refs/head"]),
    }.get(how, draw.choice(blocks))
    if draw.random() < 0.7:
        for each in state.glob("index.sqlite*"):
            each.unlink()
    if how == "closed":
        path.unlink()
        path.mkdir()  # nobody can read a folder as a file
    elif how.startswith("no "):
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        at = draw.randrange(len(data))
        data[at] ^= 1 << draw.randrange(7)
        path.write_bytes(data if draw.random() < 0.7 else data[:at])


def each_of(run: Within, names: list[str]) -> list[str]:
    """Return what commands say of some datasets, one by one or of them alone."""
    said = []
    commands = [(command, name) for command in ("log", "show") for name in names[:2]]
    commands += [
        (*command, *names) for command in (("status", "-o", "json"), ("verify",), ("plan",))
    ]
    for command in commands:
        if names:
            done = run(*command)
            said.append(f"{command}: {done.code}\n{done.out}")
    return [steady(each) for each in said]


@pytest.mark.parametrize("seed", SEEDS)
def test_others_are_as_without_the_damage(
    seed: int,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from odfbuild.executors.engine.spark import engine as spark

    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    draw = random.Random(seed)
    project = Project(draw)
    built = lay_out(
        tmp_path / "built", {"odfbuild.yaml": "odfbuild: 1\nname: p\n", **project.files}
    )
    assert Within(built, capfd, monkeypatch)("apply", "--yes").code == 0
    lay_out(built, project.news())
    for how in draw.sample(DAMAGES, 4):
        wrong = draw.choice(project.names)
        others = [each for each in project.names if each not in {wrong, *project.readers(wrong)}]
        folder = shutil.copytree(built, tmp_path / "p")
        run = Within(folder, capfd, monkeypatch)
        before = each_of(run, others)
        damage(folder, wrong, how, draw)
        noticed = checked(run, wrong, others, before, how)
        applied(run, wrong, others, project, noticed=noticed)
        shutil.rmtree(folder)


def checked(run: Within, wrong: str, others: list[str], before: list[str], how: str) -> bool:
    """Compare what is said of others; say whether the damage was noticed without a look for it."""
    assert each_of(run, others) == before, how
    status, plan, listed = run("status", "-o", "json"), run("plan"), run("list", "--workspace")
    found = {each["dataset"] for each in json.loads(status.out)}
    assert found.issuperset(others)
    noticed = wrong not in found
    whole = (plan,) if how == "no name" else (status, plan, listed)  # nobody else knows the name
    for done in whole:
        assert done.code == (1 if noticed else 0), (how, done)
        if noticed:
            assert f"{wrong}: " in done.out + done.err, (how, done)
    for command in (("doctor",), ("verify",), ("gc", "--older-than", "0"), ("lineage", "list")):
        done = run(*command)
        assert "error[internal]" not in done.err, (how, command, done)
    return noticed


def applied(run: Within, wrong: str, others: list[str], project: Project, *, noticed: bool) -> None:
    """Build what is new of the others, and nothing of what is damaged or made of it."""
    before, names = heads(run.folder), ids_of(run.folder)
    done = run("apply", "--yes")
    after = heads(run.folder)
    assert "error[internal]" not in done.err, done
    fresh = {each for each in others if before[names[each]] != after[names[each]]}
    assert fresh == set(others), done
    if noticed and "no dataset named" not in done.err:
        assert done.code == 4, done
        assert set(after) == set(before), done
        for each in project.readers(wrong):
            assert before[names[each]] == after[names[each]], done


def test_the_chain_of_another_dataset_is_damage(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from odfbuild.executors.engine.spark import engine as spark

    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    fetch = "{{kind: FilesGlob, path: {}/*.csv}}"
    files = {f"datasets/{each}.yaml": root(each, fetch=fetch.format(each)) for each in "abc"}
    rows = {f"{each}/1.csv": GOOD for each in "abc"}
    project = lay_out(tmp_path, {"odfbuild.yaml": "odfbuild: 1\nname: p\n", **files, **rows})
    run = Within(project, capfd, monkeypatch)
    assert run("apply", "--yes").code == 0
    before = each_of(run, ["b", "c"])
    folders = {name: project / ".odfbuild/datasets" / id for name, id in ids_of(project).items()}
    for part in ("blocks", "data", "refs"):
        shutil.copytree(folders["c"] / part, folders["a"] / part, dirs_exist_ok=True)
    assert each_of(run, ["b", "c"]) == before
    for command in (("show", "a"), ("log", "a"), ("status",), ("plan",), ("doctor",), ("verify",)):
        done = run(*command)
        assert done.code not in (0, 70), (command, done)
        assert "is that of did:odf:" in done.out + done.err, (command, done)


def ids_of(project: Path) -> dict[str, str]:
    """Return the folders of datasets by the names that can be read."""
    found = {}
    for path in (project / ".odfbuild/names").iterdir():
        if path.is_file():
            first, _, _ = path.read_bytes().partition(b"\n")
            found[path.name] = first.decode("latin-1").removeprefix("did:odf:")
    return found


def heads(project: Path) -> dict[str, bytes]:
    """Return the heads that can be read, by folder."""
    found = (project / ".odfbuild/datasets").glob("*/refs/head")
    return {path.parts[-3]: path.read_bytes() for path in found if path.is_file()}


NAMED = (
    *("status {}", "show {}", "log {}", "inspect schema {}", "verify {}", "lineage {}"),
    *("explain {}", "diff {} --data", "reset {} --sequence 1 --dry-run", "watermark {}"),
    *("rebuild {} --dry-run", "compact {} --dry-run", "mv {} other", "explain-row {} 0"),
    *("list --workspace {}", "plan {}", "run {}", "ref list {}", "rebuild {} --restore"),
)


@pytest.mark.parametrize("how", ["name", "head"])
def test_a_damaged_dataset_that_is_named_is_not_unknown(
    how: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from odfbuild.executors.engine.spark import engine as spark

    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    files = {"datasets/src.yaml": root(), "data/1.csv": GOOD}
    project = lay_out(tmp_path, {"odfbuild.yaml": "odfbuild: 1\nname: p\n", **files})
    run = Within(project, capfd, monkeypatch)
    assert run("apply", "--yes").code == 0
    (project / "datasets/src.yaml").unlink()  # nothing else knows the name
    state = project / ".odfbuild"
    path = {"name": state / "names/src", "head": next(state.glob("datasets/*/refs/head"))}[how]
    path.write_bytes(path.read_bytes()[:-5])
    wrong = []
    for words in NAMED:
        if how == "head" and words.startswith("mv "):  # it is about definitions and names
            continue
        done = run(*words.format("src").split())
        said = done.out + done.err
        if done.code == 0 or "no dataset" in said or ("damaged" not in said and "hash" not in said):
            wrong.append((words, done))
    assert not wrong, "\n".join(map(str, wrong))


def test_a_block_that_was_deleted_is_seen_also_by_a_plan_that_knew_of_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from odfbuild.executors.engine.spark import engine as spark

    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    files = {"datasets/src.yaml": root(), "datasets/two.yaml": root("two"), "data/1.csv": GOOD}
    project = lay_out(tmp_path, {"odfbuild.yaml": "odfbuild: 1\nname: p\n", **files})
    run = Within(project, capfd, monkeypatch)
    assert run("apply", "--yes").code == 0
    assert run("plan").code == 0
    assert run("plan").code == 0
    folder = project / ".odfbuild/datasets" / ids(project)["src"]
    (folder / "blocks" / (folder / "refs/head").read_text().strip()).unlink()
    lay_out(project, {"data/2.csv": NEWS})
    for news in (None, NEWS):
        lay_out(project, {"data/2.csv": news})
        done = run("plan")
        assert done.code == 1
        assert "error[missing-object]: src: " in done.out
        assert ("ingest" in done.out) == (news is not None)
