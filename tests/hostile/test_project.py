"""Projects of strangers: what they ask for beside their own files, on a machine with a policy."""

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.executors.ingest.fetch.source import fetch
from odfbuild.executors.ingest.prepare import Surroundings, prepare
from odfbuild.host.permissions import (
    STRICT,
    ContainerNotPermittedError,
    EnvironmentNotPermittedError,
    PathNotPermittedError,
    Permissions,
    PipeNotPermittedError,
)
from odfbuild.odf.events import (
    EnvVar,
    FetchStep,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
    PrepStepPipe,
    RequestHeader,
)
from odfbuild.odf.timestamp import Timestamp
from tests.state.remote.scripted import serving_script
from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.projects import REPOSITORY, Done
from tests.support.projects.repositories import Repository

SECRET = "hunter2-is-not-for-you"
SETTINGS = "odfbuild: 1\nname: theirs\n"
SOURCE = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {fetch}
      read: {{kind: Csv, header: true, schema: [day DATE, price DOUBLE]}}
      merge: {{kind: Append}}
{more}    - {{kind: SetVocab, eventTimeColumn: day}}
"""
TEMPLATE = SOURCE.replace("{{", "{").replace("}}", "}")
COMMANDS = (("plan", ""), ("plan", "true"), ("check", "true"), ("list", "1"), ("render", "yes"))
Make = Callable[[Mapping[str, str | bytes | None]], Within]


def source(fetch: str, name: str = "a", more: str = "") -> str:
    return SOURCE.format(name=name, fetch=fetch, more=more)


def glob(path: str) -> str:
    return source(f"{{kind: FilesGlob, path: '{path}'}}")


def url(path: str) -> str:
    return source(f"{{kind: Url, url: '{path}'}}")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder without a policy."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "id.csv").write_text(SECRET)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME")
    return folder


@pytest.fixture
def make(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Make:
    def made(files: Mapping[str, str | bytes | None]) -> Within:
        given = {"odfbuild.yaml": SETTINGS, "datasets/.keep": "", **files}
        return Within(lay_out(tmp_path / "project", given), capsys, monkeypatch)

    return made


def policy(folder: Path, text: str) -> dict[str, str]:
    path = folder / "policy.yaml"
    path.write_text(f"odfbuild_policy: 1\n{text}")
    return {"ODFBUILD_POLICY": str(path)}


def refused(done: Done, code: str) -> None:
    said = done.out + done.err
    assert done.code == 1, said
    assert code in said
    assert SECRET not in said


PYTHON = {
    "odfbuild.yaml": SETTINGS + "macros: {python: true}\n",
    "macros/evil.py": "import pathlib\npathlib.Path('ran').write_text('x')\n"
    "def name():\n    return 'a'\n",
    "datasets/a.yaml.j2": TEMPLATE.replace("{name}", "{{ py.evil.name() }}")
    .replace("{fetch}", "{kind: FilesGlob, path: 'data/*.csv'}")
    .replace("{more}", ""),
}


@pytest.mark.holds("project-python")
@pytest.mark.parametrize(("command", "ci"), COMMANDS)
def test_python_of_the_project_is_not_run(make: Make, command: str, ci: str) -> None:
    ours = make(PYTHON)
    refused(ours(command, CI=ci), "python-not-permitted")
    assert not (ours.folder / "ran").exists()


@pytest.mark.holds("project-python")
def test_python_runs_where_the_user_says_so_and_nowhere_else(make: Make, tmp_path: Path) -> None:
    ours = make(PYTHON)
    elsewhere = policy(tmp_path, f"python: [{tmp_path}/other, {tmp_path}/proj]\n")
    refused(ours("list", **elsewhere), "python-not-permitted")
    assert not (ours.folder / "ran").exists()
    assert ours("list", CI="1", **policy(tmp_path, f"python: [{ours.folder}]\n")).code == 0
    assert (ours.folder / "ran").exists()


NAMES = (
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "GH_PAT", "DATABASE_URL",
    "PGPASS", "SLACK_WEBHOOK", "NPM_AUTH", "KUBECONFIG", "SSH_AUTH_SOCK", "STRIPE_SK", "DSN",
    "PATH", "HOME",
)  # fmt: skip


@pytest.mark.holds("project-env")
@pytest.mark.parametrize("name", NAMES)
def test_variables_are_read_by_templates_only_if_the_user_names_them(make: Make, name: str) -> None:
    ci = "true" if NAMES.index(name) % 2 else ""
    text = glob("data/*.csv").replace("name: a", f"name: a.{{{{ env.{name} }}}}")
    ours = make({"odfbuild.yaml": SETTINGS + f"env: [{name}]\n", "datasets/a.yaml.j2": text})
    done = ours("plan", CI=ci, **({name: SECRET} if name not in ("PATH", "HOME") else {}))
    said = done.out + done.err
    assert done.code == 1
    assert SECRET not in said
    assert "env-not-permitted" in said or "error[secret]" in said


@pytest.mark.holds("project-env")
def test_variables_that_the_policy_names_are_read(make: Make, tmp_path: Path) -> None:
    text = glob("data/*.csv").replace("name: a", "name: a.{{ env.REGION }}")
    ours = make({"odfbuild.yaml": SETTINGS + "env: [REGION]\n", "datasets/a.yaml.j2": text})
    refused(ours("list", CI="true", REGION="eu"), "env-not-permitted")
    allowed = policy(tmp_path, "env: ['REG*']\n")
    assert "a.eu" in ours.done("list", CI="true", REGION="eu", **allowed)


PATHS = {
    "the environment of a process": url("file:///proc/self/environ"),
    "files of a process": glob("/proc/self/*"),
    "a file of the system": url("file:///etc/passwd"),
    "files of the system": glob("/etc/*"),
    "a file by another way": url("file:///tmp/../etc/passwd"),
    "a host that is this one": url("file://localhost/etc/passwd"),
    "spelled in percents": url("file:///%65tc/passwd"),
    "files of devices": glob("/dev/*"),
    "deep below the system": glob("/etc/**"),
    "a folder with a mark": glob("/e?c/passwd"),
    "keys of the user": glob("../home/.ssh/*.csv"),
    "keys of the user, from the root": glob("/**/.ssh/*.csv"),
}


@pytest.mark.holds("source-paths")
@pytest.mark.parametrize("text", PATHS.values(), ids=PATHS)
def test_files_that_are_no_data_are_not_looked_at(make: Make, text: str) -> None:
    ours = make({"datasets/a.yaml": text})
    strict = ours("plan", CI="true")
    refused(strict, "path-not-permitted")
    assert "datasets/a.yaml:8:" in strict.out + strict.err
    if "/**/" in text:
        return
    home = ours("check")
    said = home.out + home.err
    assert not {"passwd\n", "environ\n", "id.csv", SECRET} & set(said.split(" "))
    if "?" not in text:
        refused(home, "path-not-permitted")


def fetched(step: FetchStep, project: Path, permissions: Permissions = STRICT) -> object:
    return fetch(
        step, None, now=Timestamp.from_millis(0), project_dir=project, cache=project / "cache",
        env={"T": SECRET}, permissions=permissions,
    )  # fmt: skip


@pytest.mark.holds("source-env")
@pytest.mark.parametrize(
    "step",
    [
        FetchStepUrl(url="http://127.0.0.1:1/?${{ env.T }}"),
        FetchStepUrl(url="http://127.0.0.1:1/?${{ env.X || 'a' || env.T }}"),
        FetchStepUrl(url="ftp://u:${{env.T}}@127.0.0.1:1/"),
        FetchStepUrl(url="http://127.0.0.1:1/", headers=(RequestHeader("A", "${{ env.T }}"),)),
        FetchStepContainer(image="x", env=(EnvVar("T"),)),
        FetchStepContainer(image="x", env=(EnvVar("A", "${{ env.T }}"),)),
        FetchStepContainer(image="x", args=("${{ env.T }}",)),
        FetchStepContainer(image="x:${{ env.T }}"),
    ],
)
def test_sources_get_no_variable_that_the_policy_does_not_name(
    step: FetchStep, tmp_path: Path
) -> None:
    permissions = replace(STRICT, containers=("*",))
    with pytest.raises(EnvironmentNotPermittedError) as found:
        fetched(step, tmp_path, permissions)
    assert SECRET not in str(found.value.diagnostics())


@pytest.mark.holds("source-programs")
def test_no_program_or_image_is_run_that_the_policy_does_not_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(ContainerNotPermittedError):
        fetched(FetchStepContainer(image="evil.example/x"), tmp_path)
    for pipes, command in (((), "touch"), (("jq",), "touch"), (("jq*", "tou"), "touch")):
        around = Surroundings(tmp_path, {}, replace(STRICT, pipes=pipes))
        step = PrepStepPipe((command, str(tmp_path / "ran")))
        with pytest.raises(PipeNotPermittedError):
            prepare((step,), tmp_path / "a", tmp_path, around=around)
    assert not (tmp_path / "ran").exists()


LINKS = {
    "a file": ("data/1.csv", "../../outside/secret.csv", "data/*.csv"),
    "a folder": ("data", "../outside", "data/*.csv"),
    "a folder on the way": ("in", "../outside", "in/deep/*.csv"),
    "a folder below **": ("data/in", "../../outside", "data/**"),
    "a file of the system": ("data/1.csv", "/etc/hostname", "data/*.csv"),
    "a process": ("data/1.csv", "/proc/self/environ", "data/*.csv"),
}


@pytest.mark.holds("source-links")
@pytest.mark.parametrize(("link", "target", "pattern"), LINKS.values(), ids=LINKS)
def test_links_do_not_lead_out(make: Make, link: str, target: str, pattern: str) -> None:
    ours = make({"datasets/a.yaml": glob(pattern)})
    outside = ours.folder.parent / "outside" / "deep"
    outside.mkdir(parents=True)
    for folder in (outside, outside.parent):
        (folder / "secret.csv").write_text(f"day,price\n2031-01-01,{SECRET}\n")
    (ours.folder / link).parent.mkdir(exist_ok=True)
    (ours.folder / link).symlink_to(target)
    refused(ours("plan", CI="true"), "path-not-permitted")
    step = FetchStepFilesGlob(path=pattern)
    for source in (step, FetchStepUrl(url=f"file:{link}/deep/secret.csv")):
        with pytest.raises(PathNotPermittedError):
            fetched(source, ours.folder)


@pytest.mark.holds("source-links")
@pytest.mark.parametrize(
    "target", ["/etc/hostname", "/proc/self/environ", "../../home/.ssh/id.csv"]
)
def test_links_to_what_is_no_data_lead_nowhere_at_home_either(make: Make, target: str) -> None:
    ours = make({"datasets/a.yaml": glob("data/*.csv"), "data/2.csv": "day,price\n"})
    (ours.folder / "data/1.csv").symlink_to(target)
    refused(ours("plan"), "path-not-permitted")


@pytest.mark.holds("source-paths")
def test_folders_that_the_policy_names_are_read(make: Make, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "1.csv").write_text("day,price\n")
    ours = make({"datasets/a.yaml": glob("../shared/*.csv")})
    refused(ours("plan", CI="true"), "path-not-permitted")
    allowed = policy(tmp_path, f"paths: [{tmp_path}/shared]\n")
    assert ours("plan", CI="true", **allowed).code == 0
    assert ours("plan").code == 0


@pytest.mark.holds("project-workspace")
@pytest.mark.parametrize("way", ["{there}", "../there", "linked"])
@pytest.mark.parametrize(
    "command", [("plan",), ("status",), ("sql", "select 1"), ("test",), ("apply", "--yes")]
)
def test_a_workspace_elsewhere_is_not_used_in_ci(
    make: Make, way: str, command: tuple[str, ...]
) -> None:
    ours = make({"datasets/a.yaml": glob("data/*.csv")})
    there = ours.folder.parent / "there"
    there.mkdir()
    (ours.folder / "linked").symlink_to("../there")
    place = way.replace("{there}", str(there))
    (ours.folder / "odfbuild.yaml").write_text(
        SETTINGS + f"targets: {{dev: {{workspace: '{place}'}}}}\n"
    )
    refused(ours(*command, CI="true"), "path-not-permitted")
    assert list(there.iterdir()) == []
    allowed = policy(ours.folder.parent, f"paths: [{there}]\n")
    assert "path-not-permitted" not in ours("status", CI="true", **allowed).err
    assert ours("status").code == 0


@pytest.mark.holds("package-paths")
@pytest.mark.parametrize("path", ["../outside", "../../../../../../etc"])
def test_packages_are_not_taken_from_outside_in_ci(make: Make, path: str) -> None:
    ours = make({"odfbuild.yaml": SETTINGS + f"packages: [{{path: {path}, name: p}}]\n"})
    outside = lay_out(ours.folder.parent / "outside", {"datasets/a.yaml": glob("data/*.csv")})
    assert ours("plan", CI="true").code == 1
    for command in (("deps", "install"), ("deps", "update"), ("lock",)):
        refused(ours(*command, CI="true"), "path-not-permitted")
    assert not (ours.folder / "odfbuild.lock").exists()
    if path == "../outside":
        allowed = policy(ours.folder.parent, f"paths: [{outside}]\n")
        assert ours("deps", "update", CI="true", **allowed).code == 0


@pytest.mark.holds("package-paths")
@pytest.mark.parametrize(
    "git", ["{outside}", "../outside", "file://{outside}", "FILE://localhost{outside}"]
)
def test_no_other_repository_of_the_machine_is_a_package_in_ci(make: Make, git: str) -> None:
    ours = make({})
    outside = Repository(ours.folder.parent / "outside")
    commit = outside.commit({"datasets/a.yaml": SECRET})
    address = git.replace("{outside}", str(outside.folder))
    entry = f"packages: [{{git: '{address}', rev: {commit}, name: p}}]\n"
    (ours.folder / "odfbuild.yaml").write_text(SETTINGS + entry)
    for command in (("deps", "install"), ("deps", "update"), ("lock",)):
        refused(ours(*command, CI="true"), "path-not-permitted")
    assert not (ours.folder / "packages").exists()


@pytest.mark.holds("project-master")
@pytest.mark.parametrize(
    ("master", "command"),
    [
        ("spark://evil.example:7077", ("sql", "select 1")),
        ("yarn", ("engine", "start")),
        ("k8s://https://evil.example", ("sql", "select 1")),
        ("local-cluster[1,1,1024]", ("engine", "start")),
        ("local://evil.example", ("sql", "select 1")),
        ("sc://evil.example", ("sql", "select 1")),
    ],
)
def test_no_cluster_of_a_stranger_is_used(
    make: Make, master: str, command: tuple[str, ...]
) -> None:
    ours = make({"odfbuild.yaml": SETTINGS + f"engine: {{spark: {{master: '{master}'}}}}\n"})
    done = ours(*command, CI="true" if len(master) % 2 else "")
    refused(done, "master-not-permitted")
    assert "odfbuild.yaml:3:" in done.err


@pytest.mark.holds("project-cluster-objects")
@pytest.mark.parametrize(
    ("place", "ci"), [("s3://theirs/files", "true"), ("s3+http://127.0.0.1:9/theirs", "")]
)
def test_files_of_steps_go_to_no_store_that_the_policy_does_not_name(
    make: Make, place: str, ci: str
) -> None:
    ours = make({"odfbuild.yaml": SETTINGS + f"engine: {{spark: {{objects: '{place}'}}}}\n"})
    done = ours("sql", "select 1", CI=ci)
    refused(done, "store-not-permitted")
    assert place in done.err


@pytest.mark.holds("project-azure")
@pytest.mark.parametrize(
    "command",
    [("repo", "check", "hub"), ("pull", "hub/a"), ("search", "a"), ("repo", "index", "hub")],
)
def test_a_repository_that_a_project_names_gets_no_credential_of_azure(
    make: Make, tmp_path: Path, command: tuple[str, ...]
) -> None:
    given = {
        "AZURE_STORAGE_ACCOUNT_NAME": "acme",
        "AZURE_STORAGE_SAS_TOKEN": f"sv=2021-08-06&sig={SECRET}",
    }
    with serving_script() as server:
        place = f"az+http://127.0.0.1:{server.port}/acme/lake"
        ours = make({"odfbuild.yaml": SETTINGS + f"repositories: {{hub: {{url: '{place}/x'}}}}\n"})
        for more in (
            {},
            policy(tmp_path, "stores: ['*', 'az+http://*', 'az+http://127.0.0.?*/*']\n"),
        ):
            done = ours(*command, **given, **more)
            assert done.code != 0
            assert "credentials may not be sent to" in done.out + done.err
        assert server.seen == []
        ours(*command, **given, **policy(tmp_path, f"stores: ['{place}/*']\n"))
        assert f"sig={SECRET}" in server.seen[0].path


@pytest.mark.holds("project-azure")
def test_a_workspace_that_the_policy_allows_by_a_pattern_gets_no_credential_of_azure(
    make: Make, tmp_path: Path
) -> None:
    given = {"AZURE_STORAGE_SAS_TOKEN": f"sv=2021-08-06&sig={SECRET}"}
    with serving_script() as server:
        place = f"az+http://127.0.0.1:{server.port}/acme/lake/x"
        ours = make({"odfbuild.yaml": f"{SETTINGS}targets: {{dev: {{workspace: '{place}'}}}}\n"})
        refused(ours("status", **given), "store-not-permitted")
        more = policy(tmp_path, "stores: ['az+http://*']\n")
        refused(ours("status", **given, **more), "untrusted-store")
        assert server.seen == []
        ours("status", **given, **policy(tmp_path, f"stores: ['{place}']\n"))
        assert f"sig={SECRET}" in server.seen[0].path


@pytest.mark.holds("project-google")
@pytest.mark.parametrize("kind", ["repository", "workspace"])
def test_a_store_that_is_not_named_gets_no_token_of_google(
    make: Make, tmp_path: Path, kind: str
) -> None:
    given = {"GOOGLE_BEARER_TOKEN": SECRET}
    with serving_script() as server:
        place = f"gs+http://127.0.0.1:{server.port}/lake/x"
        settings = f"repositories: {{hub: {{url: '{place}'}}}}\n"
        command = ["repo", "check", "hub"]
        if kind == "workspace":
            settings, command = f"targets: {{dev: {{workspace: '{place}'}}}}\n", ["status"]
        ours = make({"odfbuild.yaml": SETTINGS + settings})
        ours(*command, **given, **policy(tmp_path, "stores: ['*', 'gs+http://127.0.0.?*/*']\n"))
        assert server.seen
        assert not any(SECRET in each.text for each in server.seen)
        ours(*command, **given, **policy(tmp_path, f"stores: ['{place}/*', '{place}']\n"))
        assert server.seen[-1].headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize("place", ["gs+https://h.example/lake", "az+https://h.example/acme/lake"])
def test_a_project_with_a_repository_that_the_policy_names_is_planned(
    make: Make, tmp_path: Path, place: str
) -> None:
    ours = make({"odfbuild.yaml": SETTINGS + f"repositories: {{hub: {{url: '{place}/x'}}}}\n"})
    done = ours("plan", **policy(tmp_path, f"stores: ['{place}/*']\n"))
    assert done.code == 0, done.err
    assert "No changes" in done.out


@pytest.mark.holds("project-cluster")
@pytest.mark.parametrize(
    "name",
    [
        "spark.plugins",
        "spark.jars",
        "spark.extraListeners",
        "spark.driver.extraJavaOptions",
        "spark.executor.extraClassPath",
        "spark.executorEnv.LD_PRELOAD",
        "spark.kubernetes.container.image",
        "spark.pyspark.python",
        "spark.sql.ansi.enabled",
        "spark.sql.extensions",
        "spark.authenticate",
        "Spark.cores.max",
    ],
)
def test_no_project_gives_a_setting_that_runs_code_or_changes_queries(
    make: Make, name: str
) -> None:
    spark = f"{{master: yarn, settings: {{{name}: theirs}}}}"
    done = make({"odfbuild.yaml": SETTINGS + f"engine: {{spark: {spark}}}\n"})("plan")
    refused(done, "config")
    assert f"a project cannot set '{name}' of Spark" in done.out + done.err


@pytest.mark.holds("project-policy")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pythn: true\n", "unknown key 'pythn'"),
        ("python: 'yes'\n", "'python' must be a list"),
        ("paths: [data]\n", "not absolute"),
        ("env: REGION\n", "'env' must be a list"),
        ("network: 'true'\n", "must be true or false"),
        ("confine: maybe\n", "cannot be 'maybe'"),
        ("---\nx: 1\n", "not one YAML document"),
        ("env: [*a]\n", "error["),
    ],
)
def test_a_policy_that_is_wrong_is_no_policy(
    make: Make, tmp_path: Path, text: str, said: str
) -> None:
    done = make({"datasets/a.yaml": glob("data/*.csv")})("plan", **policy(tmp_path, text))
    assert done.code == 1
    assert said in done.out + done.err


@pytest.mark.holds("project-policy")
def test_a_policy_is_no_part_of_the_project(make: Make, tmp_path: Path) -> None:
    ours = make({**PYTHON, "p.yaml": "odfbuild_policy: 1\npython: true\n"})
    (tmp_path / "link.yaml").symlink_to(ours.folder / "p.yaml")
    for name in ("p.yaml", str(tmp_path / "link.yaml")):
        done = ours("plan", ODFBUILD_POLICY=name)
        assert done.code == 1
        assert "error[policy]" in done.err
    assert "error[policy]" in ours("plan", ODFBUILD_POLICY="nowhere.yaml").err
    assert not (ours.folder / "ran").exists()


@pytest.mark.holds("project-policy")
def test_what_was_planned_under_one_policy_is_not_the_answer_under_another(
    make: Make, tmp_path: Path
) -> None:
    (tmp_path / "shared").mkdir()
    ours = make({"datasets/a.yaml": glob("../shared/*.csv")})
    assert ours("plan").code == 0
    assert ours("plan").code == 0
    refused(ours("plan", **policy(tmp_path, "paths: []\n")), "path-not-permitted")


@pytest.mark.holds("project-granted")
@pytest.mark.parametrize("command", [("plan",), ("check",)], ids=" ".join)
def test_a_pull_request_does_not_grant_itself_anything(
    tmp_path: Path,
    home: Path,
    command: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository = Repository(tmp_path / "project")
    lay_out(repository.folder, {"odfbuild.yaml": SETTINGS, "datasets/b.yaml": glob("x/*.csv")})
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message", "base")
    base = repository.git("rev-parse", "HEAD").strip()
    lay_out(repository.folder, {
        **PYTHON,
        "odfbuild.yaml": SETTINGS + "macros: {python: true}\nenv: [REGION]\n",
        "datasets/c.yaml.j2": glob("data/{{ env.REGION }}/*.csv"),
    })  # fmt: skip
    ours = Within(repository.folder, capsys, monkeypatch)
    given = {"REGION": SECRET, **policy(tmp_path, "python: true\nenv: ['*']\n")}
    done = ours(*command, "--against", f"git:{base}", **given)
    assert done.code == 1
    assert SECRET not in done.out + done.err
    assert not (ours.folder / "ran").exists()
    (ours.folder / "datasets/a.yaml.j2").unlink()
    (ours.folder / "datasets/c.yaml.j2").unlink()
    done = ours(*command, "--against", f"git:{base}", **given)
    assert done.code == 0, done.out + done.err
    assert done.out.count("not-granted") == 2


@pytest.mark.holds("project-asks")
def test_a_plan_lists_what_lies_outside_of_the_project(make: Make, tmp_path: Path) -> None:
    ours = make({
        "odfbuild.yaml": SETTINGS + "env: [LANG]\nopenlineage: {url: 'https://ol.example', "
        "token_env: OL}\nengine: {spark: {master: 'spark://m.example:1', objects: 's3://files'}}\n",
        "datasets/a.yaml": source(
            "{kind: Url, url: 'https://u:${{ env.PW }}@h.example/x?k=${{ env.K }}'}",
            more="      prepare: [{kind: Pipe, command: [sh, -c, 'cat; id']}]\n",
        ),
        "datasets/b.yaml": source("{kind: Container, image: i.example/x, env: [{name: T}]}", "b"),
        "datasets/c.yaml": source("{kind: FilesGlob, path: '../data/*.csv'}", "c"),
    })  # fmt: skip
    plan = json.loads(ours.done("plan", "-o", "json"))
    asked = {(each["kind"], each["name"]) for each in plan["outside"]}
    assert asked == {
        ("env", "LANG"), ("env", "OL"), ("env", "PW"), ("env", "K"), ("env", "T"),
        ("host", "ol.example"), ("host", "h.example"), ("master", "spark://m.example:1"),
        ("store", "s3://files"), ("pipe", "sh -c cat; id"), ("container", "i.example/x"),
        ("path", "../data/*.csv"),
    }  # fmt: skip
    for form in ("text", "markdown"):
        said = ours.done("plan", "-o", form)
        assert "outside of the project" in said
        assert "sh -c cat; id" in said.replace("\\", "")
    assert "runs       the program sh -c cat; id" in ours.done("plan")


@pytest.mark.holds("project-asks")
def test_nothing_is_listed_of_a_project_that_asks_for_nothing(make: Make) -> None:
    ours = make({"datasets/a.yaml": glob("data/*.csv")})
    assert "outside" not in ours.done("plan")
    assert "outside" not in json.loads(ours.done("plan", "-o", "json"))


@pytest.mark.holds("project-policy")
def test_the_schema_of_a_policy_takes_what_the_reader_takes() -> None:
    from jsonschema import Draft202012Validator

    from odfbuild.project.config.permissions import parse_policy
    from tests.project.config.test_schema import documents

    schema = json.loads((REPOSITORY / "schemas" / "policy.schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    good = "odfbuild_policy: 1\npython: ['~/work']\nenv: [A]\nsource_env: []\npipe_env: ['B*']\n"
    good += "paths: [/x, ~/y]\nmasters: [yarn]\npipes: [jq]\ncontainers: ['*']\nnetwork: true\n"
    good += "literal_secrets: false\nconfine: required\n"
    for text in (good, "odfbuild_policy: 1\npython: true\n"):
        assert Draft202012Validator(schema).is_valid(documents(text)[0])
        parse_policy(text.encode(), "p.yaml")
    for line in ("env: A", "confine: x", "network: 1", "x: 1", "paths: [a]", "env: [A, A]"):
        text = f"odfbuild_policy: 1\n{line}\n"
        assert not Draft202012Validator(schema).is_valid(documents(text)[0]), line
        with pytest.raises(Exception, match=r".") as found:
            parse_policy(text.encode(), "p.yaml")
        assert type(found.value).__name__ == "ProjectErrors"


@pytest.mark.holds("project-imports")
def test_a_python_that_is_started_imports_no_file_of_the_folder_it_runs_in() -> None:
    started = [
        (path.name, [getattr(each, "value", None) for each in node.elts[1:2]])
        for path in sorted((REPOSITORY / "odfbuild").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.List | ast.Tuple)
        and node.elts
        and ast.unparse(node.elts[0]) == "sys.executable"
    ]
    assert len(started) >= 4
    assert [each for each in started if each[1] not in (["-P"], ["-I"])] == []
