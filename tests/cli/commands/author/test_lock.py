"""odfbuild lock: what is written, what stays, and how --check ends."""

from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild.executors.engine.protocol import engine_version
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.lock import LOCK_FILE, Lock, read_lock
from tests.cli.commands.check.test_check import GROUPED, Checked, T
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.repositories import Repository
from tests.support.projects.texts import derivative, root

COLUMNS = ("t DATE NOT NULL", "k STRING", "v BIGINT")


@pytest.fixture
def check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Checked:
    return Checked(tmp_path / "project", capsys, monkeypatch)


def lock(check: Checked, *arguments: str, engine: FakeEngine | None = None) -> tuple[int, str]:
    return check(*arguments, engine=engine, command="lock")


def written(check: Checked) -> Lock:
    found = read_lock(check.folder)
    assert found is not None
    return found


def columns(check: Checked) -> dict[str, tuple[str, ...]]:
    return {name: each.columns for name, each in written(check).schemas.items()}


def test_the_columns_of_all_datasets_are_written(check: Checked) -> None:
    code, out = lock(check)
    assert code == 0
    assert out.endswith("odfbuild.lock, of 3 datasets, is written.\n")
    assert "  + out\n      + t DATE NOT NULL\n      + k STRING\n      + v BIGINT\n" in out
    assert columns(check) == {
        "src": ("t DATE NOT NULL", "k STRING NOT NULL", "v BIGINT"),
        "out": COLUMNS,
        "report": COLUMNS,
    }


def test_locking_again_writes_nothing(check: Checked) -> None:
    lock(check)
    path = check.folder / LOCK_FILE
    before = path.stat().st_mtime_ns
    engine = FakeEngine()
    assert lock(check, engine=engine) == (0, "odfbuild.lock, of 3 datasets, is up to date.\n")
    assert (path.stat().st_mtime_ns, engine.asked) == (before, [])


def test_a_change_shows_by_its_columns(check: Checked) -> None:
    lock(check)
    check.put(report=derivative("report", "out", "select t, k as name from src"))
    code, out = lock(check, "--check")
    assert code == 3
    assert out == (
        "  ~ report\n"
        "      - k STRING\n"
        "      - v BIGINT\n"
        "      + name STRING\n"
        "odfbuild.lock, of 3 datasets, is out of date.\n"
    )
    assert columns(check)["report"] == COLUMNS
    lock(check)
    assert columns(check)["report"] == ("t DATE NOT NULL", "name STRING")
    assert lock(check, "--check")[0] == 0


def test_a_dataset_that_is_gone_leaves_the_lock(check: Checked) -> None:
    lock(check)
    check.put(report=None)
    assert "  - report\n" in lock(check)[1]
    assert set(columns(check)) == {"src", "out"}


def test_what_is_not_selected_stays_as_it_was(check: Checked) -> None:
    lock(check)
    check.put(out=derivative(query="select t, k from src"), report=None)
    lock(check, "src")
    assert (set(columns(check)), columns(check)["out"]) == ({"src", "out", "report"}, COLUMNS)


def test_the_engine_is_asked_what_the_text_does_not_tell(check: Checked) -> None:
    query = "select t, unheard_of(k) as x from src"
    check.put(report=derivative("report", "out", query))
    engine = FakeEngine(columns={query: [T, pa.field("x", pa.binary())]})
    lock(check, engine=engine)
    assert engine.asked == [query]
    assert columns(check)["report"] == ("t DATE NOT NULL", "x BINARY")
    again = FakeEngine()
    lock(check, engine=again)
    assert (again.asked, again.started) == ([], [])


def test_a_query_that_names_what_is_not_there_is_not_taken_for_certain(check: Checked) -> None:
    query = "select t, k from src where kk > 1"
    check.put(report=derivative("report", "out", query))
    engine = FakeEngine(columns={query: [T]})
    lock(check, engine=engine)
    assert engine.asked == [query]


def test_a_query_that_cannot_be_run_yet_can_be_locked(check: Checked) -> None:
    check.put(report=derivative("report", "out", GROUPED))
    engine = FakeEngine(columns={GROUPED: [T, pa.field("n", pa.int64())]})
    assert lock(check, engine=engine)[0] == 0
    assert columns(check)["report"] == ("t DATE NOT NULL", "n BIGINT")


def test_a_refused_query_leaves_the_lock_as_it_was(check: Checked) -> None:
    lock(check)
    before = (check.folder / LOCK_FILE).read_bytes()
    query = "select t, unheard_of(k) as x from src"
    check.put(
        out=derivative(query="select t, rand() as r from src"),
        report=derivative("report", "src", query),
    )
    run = Inside(check.folder, check._capture, check._patch, FakeEngine(refused=frozenset({query})))
    done = run("lock")
    assert (done.code, done.out) == (1, "")
    assert "error[not-deterministic]" in done.err
    assert "error[invalid-query]" in done.err
    assert (check.folder / LOCK_FILE).read_bytes() == before


def test_columns_that_only_rows_decide_are_said_to_be_unknown(check: Checked) -> None:
    inferred = root().replace(", schema: [t DATE NOT NULL, k STRING NOT NULL, v BIGINT]", "")
    check.put(src=inferred)
    lock(check)
    entry = written(check).schemas["out"]
    assert (entry.columns, entry.unknown) == ((), "the columns of the input src are not known")
    assert lock(check, "--check")[0] == 0


def test_what_was_known_beside_the_data_stays_known_elsewhere(check: Checked, ask: Inside) -> None:
    """The schema of a source that declares none is that of its chain, where there is one."""
    source = ask.project / "datasets" / "raw" / "src.yaml"
    text = source.read_text()
    source.write_text(text.replace(", schema: [t DATE NOT NULL, k STRING NOT NULL, v BIGINT]", ""))
    assert source.read_text() != text
    assert ask("lock").code == 0
    known = read_lock(ask.project)
    assert known is not None
    assert known.schemas["src"].unknown is None
    (ask.project / ".odfbuild").rename(ask.project / "away")
    assert ask("lock", "--check").code == 0


def test_another_engine_with_the_same_answers_changes_nothing(check: Checked) -> None:
    lock(check)
    path = check.folder / LOCK_FILE
    old = path.read_text().replace(engine_version("spark") or "", "1.0.0+odfbuild.1")
    path.write_text(old)
    assert lock(check)[1] == "odfbuild.lock, of 3 datasets, is up to date.\n"
    assert path.read_text() == old


def test_packages_are_pinned_with_the_schemas(check: Checked) -> None:
    common = Repository(check.folder.parent / "common")
    first = common.commit({"macros/a.j2": "a"}, tag="v1")
    settings = "odfbuild: 1\npackages: [{git: ../common, rev: v1}, {path: ../common, name: here}]\n"
    lay_out(check.folder, {"odfbuild.yaml": settings})
    code, out = lock(check)
    assert (code, f"  + common  {first[:10]} (v1)" in out) == (0, True)
    assert written(check).packages["common"].commit == first
    common.commit({"macros/a.j2": "b"})
    code, out = lock(check, "--check")
    assert (code, "  ~ here  the package changed" in out) == (3, True)
    assert lock(check)[0] == 0
    assert written(check).packages["common"].commit == first
    assert lock(check, "--check")[0] == 0


def test_the_lock_is_read_by_alias_and_hashes(check: Checked) -> None:
    lock(check)
    entry = written(check).schemas["out"]
    out = DatasetAlias.parse("out")
    assert written(check).schema_of(out, entry.definition, entry.inputs) is not None


def test_a_damaged_lock_is_told_of_and_not_replaced(check: Checked) -> None:
    (check.folder / LOCK_FILE).write_text("odfbuild: 7\n")
    run = Inside(check.folder, check._capture, check._patch, FakeEngine())
    done = run("lock")
    assert (done.code, "odfbuild.lock:1:11: error[lock-file]" in done.err) == (1, True)
    assert (check.folder / LOCK_FILE).read_text() == "odfbuild: 7\n"
