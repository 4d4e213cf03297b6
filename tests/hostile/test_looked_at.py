"""What a project from a stranger cannot do by being looked at.

`plan`, `check`, `render`, `list` and `graph` read the project, its declared packages and the
settings of the user; they write nothing but caches, in the workspace or in the user's own folder,
start nothing, and print nothing that steers a terminal.  What they may look at beside that is what
a project declares: the names of files that a source matches, and folders of packages by their path.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.process.confined import confined
from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.projects import Done

COMMANDS = (
    ("plan",),
    ("plan", "-o", "json"),
    ("plan", "-o", "markdown"),
    ("check",),
    ("check", "-o", "sarif"),
    ("render",),
    ("render", "--trace"),
    ("list",),
    ("list", "-o", "csv"),
    ("graph",),
    ("graph", "-o", "dot"),
    ("graph", "-o", "mermaid", "--columns"),
)
SECRET = "hunter2"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: data/*.csv}}
      read: {{kind: Csv, header: true, schema: [day DATE, price DOUBLE]}}
      merge: {{kind: Append}}
    - {{kind: SetVocab, eventTimeColumn: day}}
"""
READER = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: {ref}}}]
      transform:
        kind: Sql
        engine: spark
        query: {query}
    - {{kind: SetVocab, eventTimeColumn: day}}
"""
SETTINGS = "odfbuild: 1\nname: theirs\n"
GENERATED = """\
generate:
  made: {template: templates/t.yaml.j2, from: rows.csv, key: id, name: "made.{{ row.id }}"}
"""
WHOLE = {
    "odfbuild.yaml": SETTINGS + "packages: [{path: shared}]\n" + GENERATED,
    "shared/macros/m.j2": "{% macro day() %}day DATE{% endmacro %}\n",
    "macros/m.j2": "{% macro price() %}price DOUBLE{% endmacro %}\n",
    "templates/t.yaml.j2": "{% from 'm.j2' import price %}{% from 'shared/m.j2' import day %}\n"
    + ROOT.format(name="x").replace("  name: x\n", "").replace("day DATE", "{{ day() }}"),
    "rows.csv": "id\n1\n2\n",
    "sql/q.sql": "select day from plain\n",
    "datasets/plain.yaml": ROOT.format(name="plain"),
    "datasets/reader.yaml": READER.format(
        name="reader", ref="plain", query="!include ../sql/q.sql"
    ),
    "data/one.csv": "day,price\n2031-01-01,1\n",
}

Project = Callable[[Mapping[str, str | bytes | None]], Within]

each_command = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder beside the project, with something worth reading in every form."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text(f"{SECRET}: [unreadable\n")
    (folder / "settings").write_text(f"odfbuild: 1\nname: {SECRET}\n{SECRET}: 1\n")
    (folder / "sql").mkdir()
    (folder / "sql" / "q.sql").write_text(f"select {SECRET} frm x where\n")
    return folder


@pytest.fixture
def project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Project:
    def make(files: Mapping[str, str | bytes | None]) -> Within:
        return Within(lay_out(tmp_path / "project", files), capsys, monkeypatch)

    return make


def folders_of_the_user() -> tuple[Path, Path]:
    """Return where settings for all projects are, and where plans are kept for a while."""
    return Path.home() / ".config" / "odfbuild", Path.home() / ".cache"


@pytest.mark.holds("project-reads")
@each_command
def test_a_project_is_all_that_is_touched(project: Project, command: tuple[str, ...]) -> None:
    ours = project(WHOLE)
    before = set(ours.folder.rglob("*"))
    with confined(ours.folder, *folders_of_the_user()) as seen:
        done = ours(*command)
    assert (done.code, done.err, seen) == (0, "", [])
    new = set(ours.folder.rglob("*")) - before
    assert all(each.relative_to(ours.folder).parts[0] == ".odfbuild" for each in new)


@each_command
@pytest.mark.parametrize("how", ["a setting", "a link"])
def test_nothing_is_written_where_a_workspace_could_be(
    project: Project, outside: Path, how: str, command: tuple[str, ...]
) -> None:
    ours = project(WHOLE)
    if how == "a link":
        (ours.folder / ".odfbuild").symlink_to(outside, target_is_directory=True)
    else:
        settings = f"{WHOLE['odfbuild.yaml']}targets: {{dev: {{workspace: ../outside}}}}\n"
        (ours.folder / "odfbuild.yaml").write_text(settings)
    before = {each: each.stat().st_mtime_ns for each in outside.rglob("*")}
    assert ours(*command).code == 0
    assert {each: each.stat().st_mtime_ns for each in outside.rglob("*")} == before


LINKS = {
    "a definition": "datasets/a.yaml",
    "a template": "datasets/a.yaml.j2",
    "a query": "sql/q.sql",
    "rows": "rows.csv",
    "a macro": "macros/m.j2",
    "a template of a generator": "templates/t.yaml.j2",
    "the settings": "odfbuild.yaml",
    "the lock file": "odfbuild.lock",
    "profiles": "profiles.yaml",
}


@pytest.mark.holds("template-files")
@each_command
@pytest.mark.parametrize("name", LINKS.values(), ids=LINKS)
def test_a_link_out_of_the_project_is_refused(
    project: Project, outside: Path, name: str, command: tuple[str, ...]
) -> None:
    ours = project(WHOLE)
    _link(ours.folder / name, outside / ("settings" if name == "odfbuild.yaml" else "secret"))
    with confined(ours.folder, *folders_of_the_user()) as seen:
        done = ours(*command)
    assert done.code == 1
    assert "outside-project" in done.out + done.err
    assert SECRET not in done.out + done.err
    assert seen == []


@pytest.mark.holds("template-files")
@pytest.mark.parametrize("name", ["datasets", "sql", "macros", "templates"])
def test_a_folder_that_is_a_link_is_not_entered(project: Project, outside: Path, name: str) -> None:
    ours = project(WHOLE)
    for each in sorted((ours.folder / name).iterdir()):
        each.rename(outside / each.name)
    (ours.folder / name).rmdir()
    (ours.folder / name).symlink_to(outside, target_is_directory=True)
    for command in COMMANDS:
        with confined(ours.folder, *folders_of_the_user()) as seen:
            done = ours(*command)
        assert done.code == 1
        assert "outside-project" in done.out + done.err or "no-folder" in done.out + done.err
        assert SECRET not in done.out + done.err
        assert seen == []


PATHS = {
    "a query above": {"datasets/r.yaml": READER.format(
        name="r", ref="plain", query="!include ../../outside/sql/q.sql")},
    "a query by its whole path": {"datasets/r.yaml": READER.format(
        name="r", ref="plain", query="!include /etc/passwd")},
    "an include in a template": {
        "datasets/t.yaml.j2": "{% include '../../outside/secret' %}\n" + ROOT.format(name="t")},
    "an import in a template": {
        "datasets/t.yaml.j2": "{% import '/etc/passwd' as m %}\n" + ROOT.format(name="t")},
    "a base of a template": {"datasets/t.yaml.j2": "{% extends '../outside/secret' %}\n"},
    "a folder of definitions": {"odfbuild.yaml": SETTINGS + "datasets: [../outside]\n"},
    "a template of a generator": {"odfbuild.yaml": SETTINGS + GENERATED.replace(
        "templates/t.yaml.j2", "../outside/secret")},
    "rows of a generator": {"odfbuild.yaml": SETTINGS + GENERATED.replace(
        "rows.csv", "/etc/passwd")},
    "a package by its whole path": {"odfbuild.yaml": SETTINGS + "packages: [{path: /etc}]\n"},
}  # fmt: skip


@pytest.mark.holds("template-files")
@pytest.mark.parametrize("files", PATHS.values(), ids=PATHS)
def test_a_path_out_of_the_project_is_refused(
    project: Project, outside: Path, files: Mapping[str, str]
) -> None:
    assert outside.is_dir()
    ours = project({**WHOLE, **files})
    for command in COMMANDS:
        with confined(ours.folder, *folders_of_the_user()) as seen:
            done = ours(*command)
        assert done.code == 1
        assert SECRET not in done.out + done.err
        assert seen == []


def test_a_package_by_its_path_is_the_only_folder_outside(project: Project, outside: Path) -> None:
    lay_out(outside / "shared", {"macros/m.j2": "{% macro day() %}day DATE{% endmacro %}\n"})
    _link(outside / "shared" / "macros" / "more.j2", outside / "secret")
    ours = project({
        **WHOLE, "odfbuild.yaml": SETTINGS + "packages: [{path: ../outside/shared}]\n" + GENERATED
    })  # fmt: skip
    done = ours("check")
    assert done.code == 1
    assert "unsafe-package" in done.out
    (outside / "shared" / "macros" / "more.j2").unlink()
    with confined(ours.folder, *folders_of_the_user(), outside / "shared") as seen:
        assert ours("check").code == 0
    assert seen == []


MARKS = 'open("ran", "w").close()\ndef f():\n    open("ran", "w").close()\n    return "x"\n'


@each_command
def test_python_runs_only_where_the_settings_ask_for_it(
    project: Project, command: tuple[str, ...]
) -> None:
    template = ROOT.format(name="t.{{ py.m.f() }}")
    ours = project({"macros/m.py": MARKS, "datasets/t.yaml.j2": template})
    assert ours(*command).code == 1
    assert not (ours.folder / "ran").exists()


@pytest.mark.holds("package-python")
def test_python_of_a_package_never_runs(project: Project) -> None:
    template = ROOT.format(name="t.{{ py.m.f() }}")
    ours = project({
        "odfbuild.yaml": SETTINGS + "macros: {python: true}\npackages: [{path: shared}]\n",
        "shared/odfbuild.yaml": SETTINGS + "macros: {python: true}\ndatasets: [datasets]\n",
        "shared/macros/m.py": MARKS,
        "shared/datasets/t.yaml.j2": template,
    })  # fmt: skip
    assert ours("check").code == 1
    assert not (ours.folder / "ran").exists()


def test_python_that_nothing_calls_does_not_run_either(project: Project) -> None:
    files = {"odfbuild.yaml": SETTINGS + "macros: {python: true}\n", "macros/m.py": MARKS}
    ours = project({**files, "datasets/t.yaml.j2": ROOT.format(name="t")})
    assert ours("check").code == 0
    assert not (ours.folder / "ran").exists()


WAYS_OUT = (
    "{{ ''.__class__ }}",
    "{{ '' | attr('__class__') }}",
    "{{ ''['__class__'] }}",
    "{{ '{0.__class__}'.format('') }}",
    "{{ '%s' % range.__globals__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.popen('touch ran').read() }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ env._values }}",
    "{{ env | attr('_values') }}",
    "{{ vars._label }}",
    "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
    "{{ [].__class__.__base__.__subclasses__() }}",
    "{{ ([1] | map('__class__')) | list }}",
    "{{ [''] | map(attribute='__class__') | list }}",
    "{{ [''] | groupby('__class__') }}",
    "{{ [] | sort(attribute='__class__') }}{{ [''] | sum('__class__') }}",
)


@pytest.mark.holds("template-sandbox")
@pytest.mark.parametrize("text", WAYS_OUT)
def test_templates_stay_in_their_sandbox(project: Project, text: str) -> None:
    ours = project({"datasets/t.yaml.j2": f"# {text}\n" + ROOT.format(name="t")})
    with confined(ours.folder, *folders_of_the_user()) as seen:
        done = ours("render")
    assert done.code == 1
    assert re.search(r"error\[template-(error|undefined|syntax)\]", done.err), done.err
    assert seen == []
    assert not (ours.folder / "ran").exists()


@pytest.mark.holds("project-env")
@each_command
def test_the_environment_is_read_only_as_declared(
    project: Project, command: tuple[str, ...]
) -> None:
    source = ROOT.replace("path: data/*.csv", "path: 'data/${{{{ env.THEIR_TOKEN }}}}/*.csv'")
    ours = project({
        "odfbuild.yaml": SETTINGS + "env: [REGION]\n",
        "datasets/a.yaml": source.format(name="a"),
        "datasets/b.yaml.j2": ROOT.format(name="b.{{ env.REGION }}"),
    })  # fmt: skip
    done = ours(*command, THEIR_TOKEN=SECRET, REGION="eu")
    assert done.code == 0
    assert SECRET not in done.out + done.err
    ours = project({"datasets/c.yaml.j2": ROOT.format(name="c.{{ env.THEIR_TOKEN }}")})
    done = ours(*command, THEIR_TOKEN=SECRET, REGION="eu")
    assert done.code == 1
    assert SECRET not in done.out + done.err


@pytest.mark.holds("project-env")
def test_a_secret_is_not_read_even_when_it_is_declared(project: Project) -> None:
    ours = project({
        "odfbuild.yaml": SETTINGS + "env: [THEIR_TOKEN]\n",
        "datasets/c.yaml.j2": ROOT.format(name="c.{{ env.THEIR_TOKEN }}"),
    })  # fmt: skip
    done = ours("check", THEIR_TOKEN=SECRET)
    assert done.code == 1
    assert SECRET not in done.out + done.err


ESC = "\x1b[31mred\u202e\x07"
QUOTED = '"\\e[31mred\\u202e\\a"'
STEERS = {
    "a description": {"datasets/a.yaml": ROOT.format(name="a")
        + f"    - kind: SetInfo\n      description: {QUOTED}\n      keywords: [{QUOTED}]\n"},
    "a pattern of files": {"datasets/a.yaml": ROOT.format(name="a").replace(
        "data/*.csv", QUOTED)},
    "the name of a file": {f"datasets/{ESC}.yaml": ROOT.format(name="a")},
    "the name of a broken file": {f"datasets/{ESC}.yaml": "kind: x"},
    "the name of data": {f"data/{ESC}.csv": "day,price\n"},
    "a name": {"datasets/a.yaml": ROOT.format(name=QUOTED)},
    "a key": {"datasets/a.yaml": ROOT.format(name="a") + f"      {QUOTED}: 1\n"},
    "a query": {"datasets/a.yaml": READER.format(
        name="a", ref="plain", query='"select \'\\e[31m\' as \\e[31m from plain"')},
    "a constant of a query": {"datasets/a.yaml": READER.format(
        name="a", ref="plain", query='"select day, \'\\e[31m\\u202e\' as x from plain"')},
    "a name in a query": {"datasets/a.yaml": READER.format(
        name="a", ref="plain", query='"select day as `\\e[31m\\u202e` from plain"')},
    "a column": {"datasets/a.yaml": ROOT.format(name="a").replace(
        "price DOUBLE", '"\\e[31mprice DOUBLE"')},
    "the name of a project": {"odfbuild.yaml": f"odfbuild: 1\nname: {QUOTED}\n"},
    "a target": {"odfbuild.yaml": SETTINGS
        + f"targets: {{{QUOTED}: {{workspace: ./x}}}}\ndefault_target: {QUOTED}\n"},
    "a workspace": {"odfbuild.yaml": SETTINGS + f"targets: {{dev: {{workspace: {QUOTED}}}}}\n"},
    "tags and owner": {"odfbuild.yaml": SETTINGS
        + f'defaults: {{"*": {{tags: [{QUOTED}], owner: {QUOTED}}}}}\n'},
    "a selector": {"odfbuild.yaml": SETTINGS + f"selectors: {{a: {QUOTED}}}\n"},
    "an acceptance": {"odfbuild.yaml": SETTINGS + "accept: [{code: ODF201, dataset: plain, "
        f"column: {QUOTED}, until: 2999-01-01, reason: {QUOTED}}}]\n"},
    "an item of a generator": {
        "odfbuild.yaml": SETTINGS + "generate: {g: {template: t.yaml.j2, "
        f'for_each: {{{QUOTED}: 1}}, name: "a"}}}}\n',
        "t.yaml.j2": ROOT.format(name="a")},
    "an item of a broken generator": {
        "odfbuild.yaml": SETTINGS
        + f"generate: {{g: {{template: t.yaml.j2, for_each: {{{QUOTED}: 1}}}}}}\n",
        "t.yaml.j2": ROOT.format(name="{{ each.key }}")},
    "what a template says": {"datasets/a.yaml.j2": "{{ '" + ESC + "' }}" + ROOT.format(name="a")},
    "what a template fails with": {
        "datasets/a.yaml.j2": "{{ vars['" + ESC + "'] }}" + ROOT.format(name="a")},
    "what a template makes": {
        "datasets/a.yaml.j2": "# {{ '\\x1b[31m' }}\n" + ROOT.format(name="a")},
    "a macro": {"datasets/a.yaml.j2": "{% import '" + ESC + ".j2' as m %}"},
    "the name of a macro file": {f"macros/{ESC}.j2": "",
        "datasets/a.yaml.j2": "{% import 'x.j2' as m %}"},
    "what Python fails with": {
        "odfbuild.yaml": SETTINGS + "macros: {python: true}\n",
        "macros/m.py": 'def f():\n    raise ValueError("\\x1b[31m\\u202e")\n',
        "datasets/a.yaml.j2": "{{ py.m.f() }}"},
    "a package": {"odfbuild.yaml": SETTINGS + f"packages: [{{path: {QUOTED}}}]\n"},
    "the name of a file of a package": {
        "odfbuild.yaml": SETTINGS + "packages: [{path: shared}]\n",
        f"shared/macros/{ESC}.j2": ""},
    "the lock file": {"odfbuild.lock": f"odfbuild: {QUOTED}\n"},
    "the lock file, whole": {"odfbuild.lock": f"odfbuild: 1\n{ESC}: 1\n"},
}  # fmt: skip


@pytest.mark.holds("terminal-steering")
@pytest.mark.parametrize("files", STEERS.values(), ids=STEERS)
def test_nothing_steers_the_terminal(project: Project, files: Mapping[str, str | bytes]) -> None:
    ours = project({"datasets/plain.yaml": ROOT.format(name="plain"), **files})
    for command in COMMANDS:
        if "csv" in command:
            continue  # it has no escapes: only what goes to a terminal is changed
        done = ours(*command)
        assert done.code in (0, 1)
        assert not _steering(done), (command, _steering(done))
        assert "error[internal]" not in done.err


def _steering(done: Done) -> list[str]:
    return [
        line for line in (done.out + done.err).replace("\t", " ").split("\n")
        if STEERING.search(line)
    ]  # fmt: skip


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)
