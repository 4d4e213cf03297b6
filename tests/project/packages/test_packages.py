"""Packages, from real repositories: pinned, fetched, tampered with, hostile."""

import os
import shutil
from pathlib import Path

import pytest

from odfbuild.errors import ProjectError, ProjectErrors
from odfbuild.project.config.project_file import Config, load_config
from odfbuild.project.git import repository as package_git
from odfbuild.project.git.repository import PackageGitError, address
from odfbuild.project.git.tree import TreeError, tree_hash
from odfbuild.project.lock import Lock
from odfbuild.project.lock.state import LockDifference
from odfbuild.project.packages import install, installed, package_differences, pin
from tests.support.projects.repositories import Repository, made_by_hand

FILES = {"macros/money.j2": "{{ cents / 100 }}", "datasets/a.yaml": "a", ".hidden": "no"}


class Place:
    """A project beside the repository of a package."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        (self.root / "datasets").mkdir(parents=True)
        self.common = Repository(folder / "common")
        self.first = self.common.commit(FILES, tag="v1")

    def config(self, *packages: str) -> Config:
        listed = "".join(f"- {each}\n" for each in packages)
        (self.root / "odfbuild.yaml").write_text(f"odfbuild: 1\npackages:\n{listed}")
        return load_config(self.root)

    def locked(self, config: Config, lock: Lock | None = None) -> Lock:
        return Lock(packages=pin(self.root, config, lock))

    def names(self) -> set[str]:
        folder = self.root / "packages"
        return {each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def problems(error: ProjectErrors) -> list[str]:
    return [f"{each.code}: {each.fix}" for each in error.found]


@pytest.mark.parametrize("rev", ["v1", "main", "HASH", "SHORT"])
def test_a_package_is_pinned_to_the_commit_of_its_revision(place: Place, rev: str) -> None:
    rev = {"HASH": place.first, "SHORT": place.first[:10]}.get(rev, rev)
    config = place.config(f"{{git: ../common, rev: '{rev}'}}")
    lock = place.locked(config)
    pinned = lock.packages["common"]
    assert (pinned.git, pinned.rev, pinned.commit) == ("../common", rev, place.first)
    assert pinned.tree == tree_hash(place.common.folder)
    assert place.names() == {".gitignore", "common/macros/money.j2", "common/datasets/a.yaml"}
    folder = place.root / "packages" / "common"
    assert installed(place.root, config, lock) == {"common": folder}


def test_the_pin_stays_when_the_branch_moves_on(place: Place) -> None:
    config = place.config("{git: ../common, rev: main}")
    lock = place.locked(config)
    place.common.commit({"more.txt": "more"})
    assert place.locked(config, lock) == lock
    shutil.rmtree(place.root / "packages")
    done = install(place.root, config, lock)
    assert [(each.name, each.done) for each in done] == [("common", True)]
    assert "common/more.txt" not in place.names()
    assert not any(each.done for each in install(place.root, config, lock))


def test_an_update_takes_the_revision_as_it_is_now(place: Place) -> None:
    config = place.config("{git: ../common, rev: main}", "{git: ../common, rev: main, name: b}")
    lock = place.locked(config)
    second = place.common.commit({"more.txt": "more", "macros/money.j2": None})
    pins = pin(place.root, config, lock, repinned=lambda name: name == "b")
    assert (pins["common"].commit, pins["b"].commit) == (place.first, second)
    assert "b/more.txt" in place.names()
    assert "b/macros/money.j2" not in place.names()


def test_another_declared_revision_is_pinned_anew(place: Place) -> None:
    lock = place.locked(place.config("{git: ../common, rev: v1}"))
    second = place.common.commit({"more.txt": "more"}, tag="v2")
    config = place.config("{git: ../common, rev: v2}")
    with pytest.raises(ProjectErrors) as caught:
        installed(place.root, config, lock)
    assert problems(caught.value) == ["package-not-pinned: odfbuild deps update common"]
    assert place.locked(config, lock).packages["common"].commit == second


def test_every_problem_names_the_command_that_helps(place: Place) -> None:
    config = place.config(
        "{git: ../common, rev: v1}", "{git: ../common, rev: v1, name: b}", "{path: ../gone}"
    )
    lock = place.locked(place.config("{git: ../common, rev: v1}"))
    shutil.rmtree(place.root / "packages" / "common")
    with pytest.raises(ProjectErrors) as caught:
        installed(place.root, config, lock)
    assert problems(caught.value) == [
        "package-missing: odfbuild deps install",
        "package-not-pinned: odfbuild deps update b",
        "package-missing: correct `path`, which is relative to odfbuild.yaml",
    ]
    assert all(each.span is not None for each in caught.value.found)


@pytest.mark.holds("package-pinned")
@pytest.mark.parametrize(
    "tamper", ["change", "add", "remove", "link out", "be a link", "link above"]
)
def test_a_package_that_was_tampered_with_is_refused_and_put_back(
    place: Place, tamper: str
) -> None:
    config = place.config("{git: ../common, rev: v1}")
    lock = place.locked(config)
    folder = place.root / "packages" / "common"
    match tamper:
        case "change":
            (folder / "macros" / "money.j2").write_text("{{ cents }}")
        case "add":
            (folder / "datasets" / "b.yaml").write_text("b")
        case "remove":
            (folder / "datasets" / "a.yaml").unlink()
        case "link out":
            (folder / "out").symlink_to("/etc")
        case "be a link":
            shutil.rmtree(folder)
            folder.symlink_to(place.common.folder)
        case _:
            (place.root / "packages").rename(place.root / "elsewhere")
            (place.root / "packages").symlink_to("elsewhere")
    with pytest.raises(ProjectErrors) as caught:
        installed(place.root, config, lock)
    assert problems(caught.value) == [
        "package-changed: odfbuild deps install restores it; make changes at its origin"
    ]
    if tamper != "link above":
        install(place.root, config, lock)
        assert installed(place.root, config, lock) == {"common": folder}
        assert (place.common.folder / "macros" / "money.j2").exists()


@pytest.mark.holds("package-pinned")
def test_a_repository_that_gives_other_files_for_a_commit_is_refused(place: Place) -> None:
    config = place.config("{git: ../common, rev: v1}")
    lock = place.locked(config)
    shutil.rmtree(place.root / "packages")
    pinned = lock.packages["common"]
    other = Lock(packages={"common": type(pinned)(
        tree=f"f1620{'0' * 64}", git=pinned.git, rev=pinned.rev, commit=pinned.commit
    )})  # fmt: skip
    with pytest.raises(ProjectErrors, match="returned other files than were pinned"):
        install(place.root, config, other)
    assert not (place.root / "packages" / "common").exists()


def test_a_commit_that_is_gone_is_told(place: Place) -> None:
    config = place.config("{git: ../common, rev: v1}")
    lock = place.locked(config)
    shutil.rmtree(place.root / "packages")
    shutil.rmtree(place.common.folder)
    Repository(place.common.folder).commit({"a": "b"})
    with pytest.raises(ProjectErrors, match=f"no revision '{place.first}'"):
        install(place.root, config, lock)


def test_a_package_in_a_folder_is_used_where_it_is_and_its_changes_show(place: Place) -> None:
    config = place.config("{path: ../common}")
    lock = place.locked(config)
    assert installed(place.root, config, lock) == {"common": place.root / "../common"}
    assert package_differences(place.root, config, lock) == ()
    (place.common.folder / "macros" / "money.j2").write_text("other")
    assert installed(place.root, config, lock)
    before, now = lock.packages["common"].tree, tree_hash(place.common.folder)
    assert package_differences(place.root, config, lock) == (
        LockDifference("package", "common", before, now),
    )
    assert not (place.root / "packages").exists()


def test_a_package_in_a_folder_may_not_lead_out_of_it(place: Place) -> None:
    config = place.config("{path: ../common}")
    (place.common.folder / "out").symlink_to("/etc/passwd")
    with pytest.raises(ProjectErrors, match="the link 'out' leads out of the package"):
        installed(place.root, config, None)


def test_packages_that_come_go_and_change_show_in_the_lock(place: Place) -> None:
    config = place.config("{git: ../common, rev: v1}", "{path: ../common, name: here}")
    lock = place.locked(config)
    config = place.config("{git: ../common, rev: v2}", "{path: ../common, name: new}")
    assert package_differences(place.root, config, lock) == (
        LockDifference("package", "common", "../common v1", "../common v2"),
        LockDifference("extra package", "here"),
        LockDifference("missing package", "new"),
    )


def test_a_folder_that_holds_something_else_is_left_alone(place: Place) -> None:
    mine = place.root / "packages" / "common"
    mine.mkdir(parents=True)
    (mine / "work.txt").write_text("a week's work")
    config = place.config("{git: ../common, rev: v1}")
    with pytest.raises(ProjectErrors, match="holds something else"):
        place.locked(config)
    assert (mine / "work.txt").exists()


def test_another_revision_of_a_project_gets_copies_where_they_fit(
    place: Place, tmp_path: Path
) -> None:
    config = place.config("{git: ../common, rev: main}")
    lock = place.locked(config)
    other = tmp_path / "far" / "away"
    other.mkdir(parents=True)
    shutil.rmtree(place.common.folder)
    install(other, config, lock, like=place.root)
    assert installed(other, config, lock) == {"common": other / "packages" / "common"}


def test_another_revision_of_a_project_fetches_what_does_not_fit(
    place: Place, tmp_path: Path
) -> None:
    before = place.locked(place.config("{git: ../common, rev: main}"))
    place.common.commit({"more.txt": "more"})
    config = place.config("{git: ../common, rev: main}")
    pin(place.root, config, before, repinned=lambda _: True)
    other = tmp_path / "far" / "away"
    other.mkdir(parents=True)
    install(other, config, before, like=place.root)
    assert not (installed(other, config, before)["common"] / "more.txt").exists()


# --- what git says no to ----------------------------------------------------------------------


@pytest.mark.parametrize("rev", ["v9", "nobody/branch", "0" * 40, "v1..main", "v1^{tree}", "v1:a"])
def test_an_unknown_revision_is_told_in_words(place: Place, rev: str) -> None:
    config = place.config(f"{{git: ../common, rev: '{rev}'}}")
    with pytest.raises(ProjectErrors) as caught:
        place.locked(config)
    assert f"no revision '{rev}' in" in caught.value.what
    assert "git ls-remote" in caught.value.fix


def test_a_repository_that_is_not_there_is_told_in_words(place: Place) -> None:
    config = place.config("{git: ../nowhere, rev: v1}")
    with pytest.raises(ProjectErrors, match=r"git cannot fetch from .*nowhere") as caught:
        place.locked(config)
    assert caught.value.found[0].span is not None


def test_all_packages_that_fail_are_told_at_once(place: Place) -> None:
    config = place.config("{git: ../nowhere, rev: v1}", "{git: ../common, rev: v9}")
    with pytest.raises(ProjectErrors) as caught:
        place.locked(config)
    assert len(caught.value.found) == 2


def test_without_git_it_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    config = place.config("{git: ../common, rev: v1}")
    monkeypatch.setenv("PATH", str(place.root))
    with pytest.raises(ProjectErrors, match="git is not installed"):
        place.locked(config)


def test_a_repository_that_does_not_answer_is_given_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = place.root / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nsleep 60 &\nwait\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(package_git, "TIMEOUT", 0.2)
    with pytest.raises(ProjectErrors, match="did not end within"):
        place.locked(place.config("{git: ../common, rev: v1}"))
    assert sorted(each.name for each in (place.root / "packages").iterdir()) == [".gitignore"]


@pytest.mark.holds("package-protocols")
@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c 'touch /tmp/x'",
        "http://example.org/a.git",
        "git://example.org/a.git",
        "ftp://example.org/a",
        "EXT::x",
        "fd::17",
        "a\nb",
    ],
)
def test_protocols_that_run_programs_or_can_be_listened_to_are_refused(
    tmp_path: Path, url: str
) -> None:
    with pytest.raises(PackageGitError):
        address(url, tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a.git",
        "ssh://git@example.org/a",
        "git@example.org:a/b.git",
        "file:///a",
    ],
)
def test_other_addresses_go_to_git_as_they_are(tmp_path: Path, url: str) -> None:
    assert address(url, tmp_path) == url


def test_a_path_is_relative_to_the_project(tmp_path: Path) -> None:
    assert address("../a", tmp_path / "b") == str(tmp_path / "a")


@pytest.mark.holds("package-protocols")
def test_a_protocol_that_git_is_told_to_use_instead_is_refused_too(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = place.root / "trace"
    settings = place.root / "gitconfig"
    settings.write_text(f'[url "ext::touch {trace} "]\n\tinsteadOf = https://example.org/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    with pytest.raises(ProjectErrors, match="transport 'ext' not allowed"):
        place.locked(place.config("{git: 'https://example.org/a.git', rev: v1}"))
    assert not trace.exists()


def test_the_repository_that_a_hook_runs_in_does_not_matter(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(place.root / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(place.root / "index"))
    lock = place.locked(place.config("{git: ../common, rev: v1}"))
    assert lock.packages["common"].commit == place.first


# --- hostile repositories -----------------------------------------------------------------------


@pytest.mark.holds("package-contents")
@pytest.mark.parametrize(
    "entries",
    [
        {b"..": ("100644", b"x")},
        {b"../evil": ("100644", b"x")},
        {b"a\\b": ("100644", b"x")},
        {b"a\nb": ("100644", b"x")},
        {b"a\xff": ("100644", b"x")},
        {b"out": ("120000", b"/etc/passwd")},
        {b"out": ("120000", b"../../..")},
        {b"a": ("100644", b"x"), b"A": ("100644", b"y")},
        {b"a": ("120000", b"b"), b"a/x": ("100644", b"y"), b"b": ("100644", b"z")},
    ],
)
def test_hostile_names_and_links_are_refused_and_nothing_is_written(
    place: Place, entries: dict[bytes, tuple[str, bytes]]
) -> None:
    made_by_hand(place.common, entries)
    config = place.config("{git: ../common, rev: main}")
    with pytest.raises(ProjectErrors) as caught:
        place.locked(config)
    assert {each.code for each in caught.value.found} == {TreeError.code}
    assert sorted(each.name for each in (place.root / "packages").iterdir()) == [".gitignore"]
    assert not (place.root / "evil").exists()


def test_links_within_a_package_and_files_to_run_are_taken_as_they_are(place: Place) -> None:
    (place.common.folder / "same.j2").symlink_to("macros/money.j2")
    (place.common.folder / "macros" / "money.j2").chmod(0o755)
    place.common.commit_all()
    config = place.config("{git: ../common, rev: main}")
    lock = place.locked(config)
    folder = installed(place.root, config, lock)["common"]
    assert (folder / "same.j2").readlink() == Path("macros/money.j2")
    assert lock.packages["common"].tree == tree_hash(place.common.folder)


@pytest.mark.holds("package-contents")
def test_nothing_of_a_repository_runs_or_changes_what_is_taken(
    place: Place, tmp_path: Path
) -> None:
    """Hooks, filters, end-of-line rules and submodules are all in vain."""
    trace = tmp_path / "trace"
    hook = place.common.folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {trace}\n")
    hook.chmod(0o755)
    place.common.git("config", "filter.evil.smudge", f"touch {trace}")
    text = "line\nid $Id$\n"
    place.common.commit({
        "a.txt": text,
        ".gitattributes": "*.txt filter=evil eol=crlf ident export-ignore\n",
        ".gitmodules": '[submodule "x"]\n\tpath = x\n\turl = ../evil\n',
    })  # fmt: skip
    place.common.git("update-index", "--add", "--cacheinfo", f"160000,{place.first},x")
    place.common.git("commit", "--quiet", "--message", "submodule")
    config = place.config("{git: ../common, rev: main}")
    folder = installed(place.root, config, place.locked(config))["common"]
    assert (folder / "a.txt").read_bytes() == text.encode()
    assert not (folder / "x").exists()
    assert not trace.exists()


@pytest.mark.holds("package-contents")
def test_too_many_files_are_refused_before_they_are_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_git, "MAX_FILES", 1)
    with pytest.raises(ProjectErrors, match="more than 1 files"):
        place.locked(place.config("{git: ../common, rev: v1}"))


@pytest.mark.holds("package-contents")
def test_packages_cannot_be_named_so_that_they_lead_elsewhere(place: Place) -> None:
    for name in ("../x", ".git", "a/b", ""):
        with pytest.raises(ProjectError):
            place.config(f"{{git: ../common, rev: v1, name: '{name}'}}")
