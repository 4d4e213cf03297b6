"""Repositories of strangers: `.git` and all in it may come with the project."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from odfbuild.project import git
from odfbuild.project.git import ForeignRepositoryError, GitError, GitTimeoutError
from odfbuild.project.git.repository import PackageGitError
from odfbuild.project.git.repository import Repository as Package
from odfbuild.project.git.revision import MissingGitObjectError, at_revision, git_state
from odfbuild.project.git.tree import TreeError
from tests.support.process.within import Within
from tests.support.projects.repositories import Repository

FILES: dict[str, str | None] = {
    "odfbuild.yaml": "odfbuild: 1\nname: theirs\n",
    "datasets/a.txt": "a\n",
    "a.sql": "select 1\n",
}
SECRET = "hunter2"


class Victim:
    """A repository, a program that leaves a mark when it is run, and another repository."""

    def __init__(self, folder: Path) -> None:
        self.theirs = Repository(folder / "theirs")
        self.root = self.theirs.folder
        self.own = self.root / ".git"
        self.other = Repository(folder / "private")
        self.secret = self.other.git("rev-parse", "HEAD")
        self.mark = folder / "ran"
        self.program = folder / "program"
        self.program.write_text(f"#!/bin/sh\necho run >> {self.mark}\nexit 0\n")
        self.program.chmod(0o755)

    def set(self, name: str, value: str) -> None:
        self.theirs.git("config", name, value)

    def disturb(self) -> None:
        """Give a file the time of the index and other content: git has to look into it."""
        (self.root / "a.sql").write_text("select 3\n")
        os.utime(self.root / "a.sql", (self.own / "index").stat()[7:9])

    def read(self) -> None:
        """Do all that is done with a repository; errors are allowed, running things is not."""
        for each in (self.state, self.revision):
            with suppress(GitError):
                each()

    def state(self) -> object:
        return git_state(self.root)

    def revision(self, name: str = "main") -> dict[str, str]:
        with at_revision(self.root, name) as found:
            return {
                str(each.relative_to(found.root)): each.read_text()
                for each in found.root.rglob("*")
                if each.is_file()
            }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repositories")
    theirs, private = Repository(folder / "theirs"), Repository(folder / "private")
    theirs.commit(FILES)
    theirs.commit({"a.sql": "select 2\n", ".gitattributes": "* filter=x diff=x merge=x\n"})
    private.commit({"odfbuild.yaml": f"name: {SECRET}\n", "s.sql": SECRET})
    return folder


@pytest.fixture
def victim(made: Path, tmp_path: Path) -> Victim:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return Victim(tmp_path)


def program_settings() -> list[str]:
    """Return the settings of the installed git whose names speak of programs, with a subsection."""
    listed = subprocess.run(
        ["git", "help", "--config"],  # noqa: S607
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    words = re.compile(
        "command|cmd|program|path$|tool|editor|pager|hook|helper|proxy|monitor|textconv|external"
        "|driver|clean|smudge|process|pack$|askpass|worktree$|vcs|url$|include|alias|signature"
        "|attributesfile|excludesfile|template|filter",
        re.IGNORECASE,
    )
    named = {re.sub(r"<[^>]*>|\*", "x", each) for each in listed if "." in each}
    return sorted(each for each in named if words.search(each))


@pytest.mark.holds("git-program")
@pytest.mark.parametrize("part", range(12))
def test_no_setting_of_a_repository_starts_a_program(victim: Victim, part: int) -> None:
    """Every setting of the installed git that could name one, by itself."""
    settings = program_settings()
    assert len(settings) > 60
    config = (victim.own / "config").read_text()
    for name in settings[part::12]:
        (victim.own / "config").write_text(config)
        victim.set(name, str(victim.program))
        victim.disturb()
        victim.read()
        assert not victim.mark.exists(), name


@pytest.mark.holds("git-program")
@pytest.mark.parametrize(
    "name",
    ["core.fsmonitor", "filter.x.clean", "filter.x.process"],
)
def test_git_itself_runs_what_the_settings_name(victim: Victim, name: str) -> None:
    """The attack is one: plain `git status` falls for it."""
    victim.set(name, str(victim.program))
    victim.disturb()
    subprocess.run(["git", "status"], cwd=victim.root, capture_output=True, check=False)  # noqa: S607
    assert victim.mark.exists()
    victim.mark.unlink()
    (victim.own / "index").touch()
    victim.disturb()
    assert victim.state() == (victim.theirs.git("rev-parse", "HEAD"), True)
    assert not victim.mark.exists()


@pytest.mark.holds("git-program")
@pytest.mark.parametrize("place", ["include.path", "includeIf.gitdir:**.path", "config.worktree"])
def test_settings_from_elsewhere_count_as_little(victim: Victim, place: str) -> None:
    run, more = victim.program, victim.own / "config.worktree"
    more.write_text(f'[core]\nfsmonitor={run}\n[filter "x"]\nclean={run}\nrequired=true\n')
    if place == "config.worktree":
        victim.set("extensions.worktreeConfig", "true")
    else:
        victim.set(place, str(more))
    victim.disturb()
    assert victim.theirs.git("config", "core.fsmonitor") == str(run)
    assert victim.state() == (victim.theirs.git("rev-parse", "HEAD"), True)
    assert victim.revision()["a.sql"] == "select 2\n"
    assert not victim.mark.exists()


@pytest.mark.holds("git-program")
def test_a_filter_whose_name_hides_it_is_refused(victim: Victim) -> None:
    victim.set("filter.a=b.clean", str(victim.program))
    (victim.root / ".gitattributes").write_text("* filter=a=b\n")
    victim.disturb()
    with pytest.raises(GitError, match="cannot be switched off"):
        victim.state()
    assert not victim.mark.exists()


@pytest.mark.holds("git-program")
def test_hooks_of_a_repository_do_not_run(victim: Victim) -> None:
    for name in (
        "post-index-change",
        "post-checkout",
        "fsmonitor-watchman",
        "reference-transaction",
    ):
        shutil.copy(victim.program, victim.own / "hooks" / name)
    victim.disturb()
    victim.read()
    assert not victim.mark.exists()


@pytest.mark.holds("git-program")
def test_a_submodule_starts_nothing_either(victim: Victim) -> None:
    victim.theirs.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
        str(victim.other.folder), "sub",
    )  # fmt: skip
    victim.theirs.commit_all()
    absorbed = victim.own / "modules" / "sub"
    with (absorbed / "config").open("a") as config:
        config.write(f'[core]\nfsmonitor={victim.program}\n[filter "x"]\nclean={victim.program}\n')
    (victim.root / "sub" / "s.sql").write_text("other")
    (victim.root / "sub" / ".gitattributes").write_text("* filter=x\n")
    victim.set("submodule.recurse", "true")
    victim.set("diff.ignoreSubmodules", "none")
    victim.set("submodule.sub.ignore", "none")
    victim.read()
    assert not victim.mark.exists()
    assert SECRET not in str(victim.revision())


@pytest.mark.holds("git-program")
def test_a_bare_repository_among_the_files_is_not_taken_for_the_projects(victim: Victim) -> None:
    """A pull request can hold no `.git`, but it can hold this."""
    sub = victim.root / "sub"
    shutil.copytree(victim.other.folder / ".git", sub)
    (sub / "config").write_text(
        f"[core]\nrepositoryformatversion=0\nworktree={sub}\nfsmonitor={victim.program}\n"
    )
    with pytest.raises(GitError):
        git_state(sub)
    with pytest.raises(GitError), at_revision(sub, "main"):
        pass
    assert not victim.mark.exists()


@pytest.mark.holds("git-environment")
def test_a_git_in_the_project_is_not_the_git(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(victim.program, victim.root / "git")
    monkeypatch.setenv("PATH", f".:{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(victim.root)
    assert victim.revision()["a.sql"] == "select 2\n"
    assert victim.state() is not None
    assert not victim.mark.exists()


@pytest.mark.holds("git-environment")
@pytest.mark.parametrize(
    "name",
    [
        "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH",
        "GIT_CONFIG_PARAMETERS", "GIT_TRACE", "GIT_SSH_COMMAND", "GIT_PAGER",
    ],
)  # fmt: skip
def test_variables_of_git_are_not_passed_on(
    victim: Victim, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plain = (victim.state(), victim.revision())
    monkeypatch.setenv(name, str(victim.other.folder / ".git"))
    assert (victim.state(), victim.revision()) == plain


@pytest.mark.holds("git-environment")
def test_secrets_of_the_environment_do_not_get_to_git(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = victim.root.parent / "seen"
    spy = victim.root.parent / "bin" / "git"
    spy.parent.mkdir()
    spy.write_text(f'#!/bin/sh\nenv >> {seen}\nexec {shutil.which("git")} "$@"\n')
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{spy.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("THEIR_TOKEN", SECRET)
    victim.read()
    assert "GIT_NO_LAZY_FETCH=1" in seen.read_text()
    assert SECRET not in seen.read_text()


def lose(victim: Victim, name: str) -> str:
    """Remove an object; return its hash."""
    id = victim.theirs.git("rev-parse", name)
    (victim.own / "objects" / id[:2] / id[2:]).unlink()
    return id


@pytest.mark.holds("git-network")
@pytest.mark.parametrize("lost", ["main:a.sql", "main^{tree}", "main:datasets", "main"])
@pytest.mark.parametrize("transport", ["none", "uploadpack", "ext", "vcs", "ssh"])
def test_what_is_missing_is_an_error_and_not_fetched(
    victim: Victim, lost: str, transport: str
) -> None:
    lose(victim, lost)
    if transport != "none":
        url = {"ext": f"ext::{victim.program}", "ssh": "ssh://x.invalid/y"}.get(transport)
        for name, value in {
            "core.repositoryformatversion": "1",
            "extensions.partialClone": "origin",
            "protocol.allow": "always",
            "protocol.ext.allow": "always",
            "protocol.file.allow": "always",
            "core.sshCommand": str(victim.program),
            "remote.origin.promisor": "true",
            "remote.origin.url": url or str(victim.other.folder),
            "remote.origin.uploadpack": str(victim.program),
            **({"remote.origin.vcs": "ext"} if transport == "vcs" else {}),
        }.items():
            victim.set(name, value)
    with pytest.raises(MissingGitObjectError, match="lacks the object") as caught:
        victim.revision()
    assert caught.value.code == "git-missing"
    assert ("partial clone" in caught.value.why) is (transport != "none")
    assert not victim.mark.exists()


@pytest.mark.holds("git-network")
def test_a_partial_clone_with_all_that_is_needed_can_be_read(victim: Victim) -> None:
    lose(victim, "main:datasets/a.txt")
    victim.set("remote.origin.promisor", "true")
    victim.set("remote.origin.url", f"ext::{victim.program}")
    assert set(victim.revision()) == {"odfbuild.yaml", "a.sql"}
    assert not victim.mark.exists()


@pytest.mark.holds("git-network")
def test_a_damaged_object_is_an_error_with_a_name(victim: Victim) -> None:
    id = lose(victim, "main:a.sql")
    (victim.own / "objects" / id[:2] / id[2:]).write_bytes(b"damaged")
    with pytest.raises(GitError):
        victim.revision()


@pytest.mark.holds("git-network")
def test_plan_says_what_is_missing(
    victim: Victim, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(victim, "main:a.sql")
    done = Within(victim.root, capsys, monkeypatch)("plan", "--against", "git:main")
    assert done.code == 1
    assert "error[git-missing]" in done.err


def other_folder(victim: Victim) -> None:
    shutil.rmtree(victim.own)
    victim.own.write_text(f"gitdir: {victim.other.folder / '.git'}\n")


def link(victim: Victim) -> None:
    shutil.rmtree(victim.own)
    victim.own.symlink_to(victim.other.folder / ".git")


def common_folder(victim: Victim) -> None:
    (victim.own / "commondir").write_text(str(victim.other.folder / ".git"))


def work_tree_of_another(victim: Victim) -> None:
    victim.other.git("worktree", "add", "--quiet", "--detach", str(victim.root.parent / "wt"))
    shutil.rmtree(victim.own)
    victim.own.write_text(f"gitdir: {victim.other.folder / '.git' / 'worktrees' / 'wt'}\n")


def invented_work_tree(victim: Victim) -> None:
    fake = victim.root / "fake" / "worktrees" / "x"
    fake.parent.mkdir(parents=True)
    shutil.copytree(victim.own, fake)
    shutil.rmtree(victim.own)
    victim.own.write_text(f"gitdir: {fake}\n")
    (fake / "gitdir").write_text(f"{victim.own}\n")
    (fake / "commondir").write_text(str(victim.other.folder / ".git"))


def files_elsewhere(victim: Victim) -> None:
    victim.set("core.worktree", str(victim.other.folder))


def files_everywhere(victim: Victim) -> None:
    victim.set("core.worktree", "/")


def alternates(victim: Victim) -> None:
    (victim.own / "objects" / "info" / "alternates").write_text(
        f"{victim.other.folder / '.git' / 'objects'}\n"
    )
    victim.theirs.git("update-ref", "refs/heads/main", victim.secret)


def alternates_of_everything(victim: Victim) -> None:
    (victim.own / "objects" / "info" / "alternates").write_text("/\n")


def linked_objects(victim: Victim) -> None:
    shutil.rmtree(victim.own / "objects")
    (victim.own / "objects").symlink_to(victim.other.folder / ".git" / "objects")
    (victim.own / "refs" / "heads" / "main").write_text(f"{victim.secret}\n")


def linked_parts_of_objects(victim: Victim) -> None:
    for each in (victim.other.folder / ".git" / "objects").iterdir():
        place = victim.own / "objects" / each.name
        if not place.exists():
            place.symlink_to(each)
    (victim.own / "refs" / "heads" / "main").write_text(f"{victim.secret}\n")


def linked_packs(victim: Victim) -> None:
    victim.other.git("repack", "-adq")
    _link_files(victim)


def linked_files_of_objects(victim: Victim) -> None:
    _link_files(victim)


def _link_files(victim: Victim) -> None:
    """Link each file of the objects of the other repository, in folders of the own one."""
    objects = victim.other.folder / ".git" / "objects"
    for each in (path for path in objects.rglob("*") if path.is_file()):
        place = victim.own / "objects" / each.relative_to(objects)
        if not place.exists():
            place.parent.mkdir(exist_ok=True)
            place.symlink_to(each)
    (victim.own / "refs" / "heads" / "main").write_text(f"{victim.secret}\n")


ELSEWHERE = (
    other_folder, link, common_folder, work_tree_of_another, invented_work_tree, files_elsewhere,
    files_everywhere, alternates, alternates_of_everything, linked_objects, linked_parts_of_objects,
    linked_packs, linked_files_of_objects,
)  # fmt: skip


@pytest.mark.holds("git-elsewhere")
@pytest.mark.parametrize("attack", ELSEWHERE, ids=lambda each: each.__name__)
def test_a_repository_that_leads_elsewhere_is_refused(
    victim: Victim, attack: Callable[[Victim], None]
) -> None:
    attack(victim)
    with pytest.raises(ForeignRepositoryError) as caught:
        victim.revision()
    assert caught.value.code == "git-elsewhere"
    assert SECRET not in str(caught.value)


@pytest.mark.holds("git-elsewhere")
def test_a_saved_plan_says_why_it_names_no_commit(
    victim: Victim, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other_folder(victim)
    done = Within(victim.root, capsys, monkeypatch)("plan", "--out", "plan.json")
    assert done.code == 0
    assert "warning[git-elsewhere]" in done.err
    assert victim.secret not in (victim.root / "plan.json").read_text()


@pytest.mark.holds("git-elsewhere")
def test_a_replaced_object_is_not_what_a_commit_says(victim: Victim) -> None:
    victim.theirs.git("replace", "main:a.sql", "main~1:a.sql")
    assert victim.revision()["a.sql"] == "select 2\n"


@pytest.mark.holds("git-elsewhere")
def test_work_trees_and_submodules_are_repositories_of_their_folder(victim: Victim) -> None:
    tree = victim.root.parent / "wt"
    victim.theirs.git("worktree", "add", "--quiet", "--detach", str(tree))
    super_ = Repository(victim.root.parent / "super")
    super_.commit({"a.txt": "a"})
    super_.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
        str(victim.root), "parts/theirs",
    )  # fmt: skip
    for root in (tree, super_.folder / "parts" / "theirs"):
        with at_revision(root, "HEAD") as found:
            assert (found.root / "a.sql").read_text() == "select 2\n"
        assert git_state(root) == (found.commit, False)


@pytest.mark.holds("git-owner")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_repository_of_another_user_is_read_only_if_the_users_settings_say_so(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = victim.root.parent / "settings"
    settings.write_text("")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    victim.set("safe.directory", "*")
    for each in (victim.root, victim.own):
        os.chown(each, 12345, 12345)
    with pytest.raises(GitError, match="dubious ownership"):
        victim.revision()
    settings.write_text(f"[safe]\ndirectory = {victim.root}\n")
    assert victim.revision()["a.sql"] == "select 2\n"


@pytest.mark.holds("git-bounds")
@pytest.mark.parametrize("name", ["HEAD", "config", "packed-refs", "index", "../.gitignore"])
def test_a_file_that_blocks_ends_with_an_error(
    victim: Victim, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(git, "TIMEOUT", 0.3)
    path = victim.own / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    if name in ("HEAD", "packed-refs", "config"):
        with pytest.raises(GitError):
            victim.revision()
    else:
        with pytest.raises(GitTimeoutError, match=r"did not end within 0\.3 s"):
            victim.state()


def bomb(repository: Repository, levels: int) -> str:
    """Return a commit of few objects whose tree has ten to the `levels` files."""
    id = repository.git("hash-object", "-w", "--stdin", given=b"x")
    kind = "100644 blob"
    for _ in range(levels):
        lines = "".join(f"{kind} {id}\tf{n}.sql\n" for n in range(10))
        id, kind = repository.git("mktree", given=lines.encode()), "040000 tree"
    commit = repository.git("commit-tree", "-m", "many", id)
    repository.git("update-ref", "refs/heads/main", commit)
    return commit


@pytest.mark.holds("git-bounds")
def test_a_tree_without_end_is_refused(victim: Victim) -> None:
    bomb(victim.theirs, 10)
    with pytest.raises(GitError, match="more than"):
        victim.revision()


@pytest.mark.holds("git-bounds")
def test_a_package_without_end_is_refused(victim: Victim, tmp_path: Path) -> None:
    commit = bomb(victim.theirs, 10)
    (tmp_path / "bare").mkdir()
    package = Package(tmp_path / "bare", str(victim.root))
    assert package.fetch("main") == commit
    with pytest.raises(TreeError, match="more than"):
        list(package.files(commit))


@pytest.mark.holds("git-program")
@pytest.mark.parametrize("name", ["uploadpack.packObjectsHook", "core.alternateRefsCommand"])
def test_the_repository_of_a_package_runs_nothing_while_it_is_fetched(
    victim: Victim, tmp_path: Path, name: str
) -> None:
    victim.set(name, str(victim.program))
    (tmp_path / "bare").mkdir()
    package = Package(tmp_path / "bare", str(victim.root))
    package.fetch("main")
    assert not victim.mark.exists()


@pytest.mark.holds("git-network")
def test_the_repository_of_a_package_fetches_nothing_itself(victim: Victim, tmp_path: Path) -> None:
    lose(victim, "main:a.sql")
    victim.set("remote.origin.promisor", "true")
    victim.set("remote.origin.url", str(victim.other.folder))
    victim.set("remote.origin.uploadpack", str(victim.program))
    (tmp_path / "bare").mkdir()
    package = Package(tmp_path / "bare", str(victim.root))
    with pytest.raises(PackageGitError):
        list(package.files(package.fetch("main")))
    assert not victim.mark.exists()


@pytest.mark.holds("git-bounds")
def test_a_tree_that_no_folder_can_hold_is_an_error_of_git(victim: Victim) -> None:
    """A file and a folder of one name, and a name that is too long."""
    git = victim.theirs.git
    blob = git("hash-object", "-w", "--stdin", given=b"x")
    inner = git("mktree", given=f"100644 blob {blob}\tx.sql\n".encode())
    for entries in (
        f"100644 blob {blob}\ta.sql\n040000 tree {inner}\ta.sql\n",
        f"100644 blob {blob}\t{'a' * 300}.sql\n",
    ):
        commit = git("commit-tree", "-m", "x", git("mktree", given=entries.encode()))
        with pytest.raises(GitError, match="cannot be written"):
            victim.revision(commit)
