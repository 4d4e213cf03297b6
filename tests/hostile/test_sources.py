"""Sources of strangers: the files that they match, and what is in them."""

import os
import re
import time
from pathlib import Path

import pytest

from odfbuild.executors.ingest.fetch import ftp, globs, http
from odfbuild.executors.ingest.fetch.container import run_container
from odfbuild.executors.ingest.fetch.globs import GlobLimitError, matches
from odfbuild.executors.ingest.fetch.local import news, pending, pending_bytes
from odfbuild.executors.ingest.fetch.request import Request, UnreachableError
from odfbuild.executors.process.containers import ContainerError
from odfbuild.host import pace
from odfbuild.host.permissions import (
    DEFAULTS,
    STRICT,
    UNLIMITED,
    PathNotPermittedError,
    Permissions,
)
from odfbuild.odf.events import EnvVar, FetchStepContainer, FetchStepFilesGlob
from tests.support.process.runtimes import Played, play
from tests.support.servers.babbling import HEADS, babbling

SECRET = "hunter2-is-not-for-you"


def circle(folder: Path) -> None:
    for name in ("a", "b", "c"):
        (folder / name).symlink_to(".")


def circle_of_two(folder: Path) -> None:
    for one, other in (("x", "y"), ("y", "x")):
        (folder / one).mkdir()
        for number in range(4):
            (folder / one / f"to{number}").symlink_to(f"../{other}")


def doubling(folder: Path) -> None:
    """Sixty folders, each with two links to the next: 2 to the 60 paths."""
    for number in range(60):
        (folder / f"d{number}").mkdir()
        for name in ("a", "b"):
            (folder / f"d{number}" / name).symlink_to(f"../d{number + 1}")


def upwards(folder: Path) -> None:
    (folder / "up").symlink_to("/")


@pytest.mark.holds("source-glob")
@pytest.mark.parametrize("links", [circle, circle_of_two, doubling, upwards])
@pytest.mark.parametrize("pattern", ["**", "**/*.csv", "*/**/*/**/*"])
def test_a_look_at_a_pattern_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: object, pattern: str
) -> None:
    assert callable(links)
    links(tmp_path)
    monkeypatch.setattr(globs, "ENTRIES", 1_000)
    try:
        assert len(list(matches(pattern, str(tmp_path)))) <= 1_000
    except GlobLimitError as error:
        assert error.code == "glob-limit"
    step = FetchStepFilesGlob(path=pattern)
    assert len(pending(step, None, tmp_path)) <= 1_000


@pytest.mark.holds("source-glob")
@pytest.mark.parametrize("pattern", ["/**", "/**/*.csv", "/*/*/*/**/passwd", "../**"])
def test_a_walk_through_the_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    for number in range(200):
        (tmp_path / f"f{number}").touch()
    monkeypatch.setattr(globs, "ENTRIES", 100)
    with pytest.raises(GlobLimitError, match="more than 100 files"):
        news(FetchStepFilesGlob(path=pattern), None, tmp_path)


@pytest.mark.holds("source-glob")
def test_a_search_that_takes_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    monkeypatch.setattr(globs, "SECONDS", -1)
    with pytest.raises(GlobLimitError, match="takes more than -1 s"):
        list(matches("**", str(tmp_path)))


@pytest.mark.holds("source-glob")
def test_links_that_lead_back_give_no_file_twice(tmp_path: Path) -> None:
    (tmp_path / "x.csv").touch()
    circle(tmp_path)
    assert list(matches("**/*.csv", str(tmp_path))) == [f"{tmp_path}/x.csv"]


@pytest.mark.holds("project-no-file")
def test_what_is_no_file_matches_no_pattern(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    (tmp_path / "b.csv").symlink_to("/dev/zero")
    (tmp_path / "c.csv").mkdir()
    for pattern in ("*.csv", "**/*.csv", "?.csv"):
        assert news(FetchStepFilesGlob(path=pattern), None, tmp_path) is None


STRANGE = {
    "up after a wildcard": "d/*/../../../../etc/{}",
    "a folder that is a link": "d/*/{}",
    "a literal folder that is a link": "[d]/etc/{}",
    "a link behind two stars": "d/**/etc/{}",
    "a link as a file": "links/{}",
    "a link as a file of any folder": "lin*/{}",
}


@pytest.mark.holds("source-links", "source-paths")
@pytest.mark.parametrize("pattern", STRANGE.values(), ids=STRANGE)
def test_a_refusal_says_nothing_of_what_there_is(tmp_path: Path, pattern: str) -> None:
    """Of a file that is there and one that is not: the same error, at a plan and at a fetch."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "etc").symlink_to("/etc")
    (tmp_path / "links").mkdir()
    for name in ("passw[d]", "no-such-fil[e]"):
        plain = name.replace("[", "").replace("]", "")
        (tmp_path / "links" / plain).symlink_to(f"/etc/{plain}")
        step = FetchStepFilesGlob(path=pattern.format(name))
        for permissions in (STRICT, DEFAULTS):

            def reach(path: str, by: Permissions = permissions) -> None:
                by.check_path(path, tmp_path)

            with pytest.raises(PathNotPermittedError):
                pending(step, None, tmp_path, None, reach)
            assert pending_bytes(step, None, tmp_path, reach) == 0


@pytest.mark.holds("source-never-data")
@pytest.mark.parametrize("permissions", [STRICT, DEFAULTS, UNLIMITED], ids=["ci", "own", "all"])
@pytest.mark.parametrize(
    "path",
    [
        *(".odfbuild/keys/*", ".odfbuild/keys/k.pem", ".git/*", ".git/config", "sub/.git/**"),
        *("a/*", "w/keys/*", "link/../.git/*", "k*/*", "[w]/keys/*", ".gi[t]/*"),
    ],
)
def test_keys_and_repositories_are_never_data(
    tmp_path: Path, permissions: Permissions, path: str
) -> None:
    for place in (".odfbuild/keys/k.pem", ".git/config", "sub/.git/config", "w/keys/k.pem"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    for name in ("w/datasets", "w/names", "a", "link"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "x.csv").symlink_to("../.git/config")
    (tmp_path / "kk").symlink_to(".odfbuild/keys")
    with pytest.raises(PathNotPermittedError, match="of git, or among the keys"):
        pending(
            FetchStepFilesGlob(path=path), None, tmp_path, None,
            lambda each: permissions.check_path(each, tmp_path),
        )  # fmt: skip


# Containers


@pytest.mark.holds("source-container")
@pytest.mark.parametrize("name", ["*", "SEC*", "A=B", "", "-e", "A\nB", "A B"])
def test_no_name_of_a_variable_hands_over_others(name: str, tmp_path: Path) -> None:
    podman = play(tmp_path / "podman")
    given = {"ODFBUILD_CONTAINER_RUNTIME": str(podman.program), "SECRET": SECRET}
    step = FetchStepContainer(image=Played.IMAGE, env=(EnvVar(name, "x"),), args=("print(1)",))
    with pytest.raises(ContainerError, match="is not a name of a variable"):
        run_container(step, None, project_dir=tmp_path, cache=tmp_path / "cache", env=given)
    assert not (podman.folder / "asked.ndjson").exists()


@pytest.mark.holds("source-container")
@pytest.mark.parametrize("image", ["--help", "-v/:/host", "${{ '--all' }}", " --x", ""])
def test_no_image_is_an_option(image: str, tmp_path: Path) -> None:
    podman = play(tmp_path / "podman")
    given = {"ODFBUILD_CONTAINER_RUNTIME": str(podman.program)}
    with pytest.raises(ContainerError, match="is not an image"):
        run_container(
            FetchStepContainer(image=image),
            None,
            project_dir=tmp_path,
            cache=tmp_path / "cache",
            env=given,
        )
    assert not (podman.folder / "asked.ndjson").exists()


# Servers that do not end

LINES = b"220-and\r\n" + b"so on\r\n" * 9999


@pytest.mark.holds("server-bounds")
@pytest.mark.parametrize(("first", "block"), HEADS.values(), ids=HEADS)
def test_an_answer_of_http_without_end_is_an_error(
    first: bytes, block: bytes, tmp_path: Path
) -> None:
    with babbling([first], block) as port:
        request = Request(url=f"http://127.0.0.1:{port}/a.csv", name="h", timeout=0.2)
        with pytest.raises(UnreachableError) as caught:
            http.download(request, tmp_path / "cache", pause=lambda _: None)
    assert re.search("too long|did not begin in 1 seconds|no piece .* in 1 sec", caught.value.why)


BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"
SLOW = {name: (first, block[:6], 1.0) for name, (first, block) in HEADS.items()}
SLOW |= {
    "a body": (BODY, b"x", 60.0),
    "what is said of a refusal": (BODY.replace(b"200 OK", b"403 No"), b"x", 60.0),
}


@pytest.mark.holds("server-bounds")
@pytest.mark.parametrize(("first", "block", "seconds"), SLOW.values(), ids=SLOW)
@pytest.mark.parametrize("is_whole", [False, True], ids=["its beginning", "all of it"])
def test_an_answer_of_http_that_drips_is_given_up(
    first: bytes, block: bytes, seconds: float, is_whole: bool, tmp_path: Path
) -> None:
    """No part of it is late; an hour of a body passes for a second here."""
    began, clock = time.monotonic(), time.monotonic

    def fast() -> float:
        return began + (clock() - began) * (600 if seconds > 1 else 1)

    with babbling([first], block, 0.05) as port, pytest.MonkeyPatch.context() as patch:
        if seconds > 1:
            patch.setattr(pace.paced, "__defaults__", (fast, None))
        late = 10 if seconds > 1 else 0.2  # the head has to come, or not to come as a whole
        request = Request(url=f"http://127.0.0.1:{port}/a.csv", name="h", timeout=late)
        with pytest.raises(UnreachableError) as caught:
            if is_whole:
                http.download(request, tmp_path / "cache", pause=lambda _: None)
            else:
                http.beginning(request, 1 << 20)
    said = "arrived in .* seconds|the server answered: x*$" if seconds > 1 else " in 1 seconds"
    assert re.search(said, caught.value.why)
    assert clock() - began < 30


@pytest.mark.holds("server-bounds")
@pytest.mark.parametrize("first", [[], [b"220 come in\r\n"]], ids=["the greeting", "a command"])
def test_an_answer_of_ftp_without_end_is_an_error(first: list[bytes], tmp_path: Path) -> None:
    with babbling(first, LINES) as port:
        request = Request(url=f"ftp://127.0.0.1:{port}/a.csv", name="h", timeout=60)
        with pytest.raises(UnreachableError, match="cannot be fetched") as caught:
            ftp.download(request, tmp_path / "cache", pause=lambda _: None)
    assert "answer has more than" in caught.value.why
