"""Sources of strangers that lead out of the project, however that is spelled."""

import itertools
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from odfbuild.app.outside_use import local_path, uses_of_source
from odfbuild.executors.ingest.fetch.local import is_local
from odfbuild.executors.ingest.fetch.request import FetchError
from odfbuild.executors.ingest.fetch.source import fetch
from odfbuild.host.permissions import DEFAULTS, PathNotPermittedError, Permissions
from odfbuild.odf.events import (
    FetchStep,
    FetchStepFilesGlob,
    FetchStepUrl,
    MergeStrategyAppend,
    ReadStepCsv,
    SetPollingSource,
)
from odfbuild.odf.timestamp import Timestamp
from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.projects.texts import GOOD, root

NOW = Timestamp.from_millis(0)

URLS = (
    *("file:../o.csv", "file:${{ '/abs' }}", "file:%2e%2e/out.csv", "FILE:data/../../o.csv"),
    *("file://{root}/../out.csv", "file:///{root}/../out.csv", "file://localhost/etc/passwd"),
    *("file:out/o.csv", "file:data/link.csv", "file:data/%00", "file:${{ env.X }}", " file:../o"),
    *(
        "file://evil.example/x",
        "file:///",
        "file:/..",
        "file:%2E./o.csv",
        "file:/etc/*",
        "file:data/${{ 1 }}",
    ),
)
GLOBS = (
    *("../*.csv", "{root}/../out.csv", "{root}/../*.csv", "out/*.csv", "data/link.csv", "/*"),
    *("data/*/../../../*.csv", "*/../../o.csv", "{root}x/*.csv", "**/..", "data/../../*", ".."),
)
INSIDE: tuple[FetchStep, ...] = (
    *(FetchStepUrl(url=url) for url in ("file:data/a.csv", "file:data/../a", "file://{root}/a")),
    *(FetchStepFilesGlob(path=path) for path in ("*", "data/*.csv", "{root}/**", "d/../*", "a..b")),
    FetchStepFilesGlob(path="in/*.csv"),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    (folder / "out").symlink_to(tmp_path)
    (folder / "in").symlink_to("data")
    (folder / "data" / "link.csv").symlink_to(tmp_path / "o.csv")
    return folder


def asked(fetch: FetchStep, project: Path) -> list[tuple[str, str]]:
    if isinstance(fetch, FetchStepUrl):
        fetch = FetchStepUrl(url=fetch.url.replace("{root}", str(project)))
    elif isinstance(fetch, FetchStepFilesGlob):
        fetch = FetchStepFilesGlob(path=fetch.path.replace("{root}", str(project)))
    source = SetPollingSource(fetch=fetch, read=ReadStepCsv(), merge=MergeStrategyAppend())
    return [use for use in uses_of_source(source, project) if use[0] != "env"]


@pytest.mark.holds("project-asks", "chain-sources")
@pytest.mark.parametrize("url", URLS)
def test_a_url_that_leads_out_is_asked_for(project: Path, url: str) -> None:
    assert asked(FetchStepUrl(url=url), project)


@pytest.mark.holds("project-asks", "chain-sources")
@pytest.mark.parametrize("path", GLOBS)
def test_a_pattern_that_leads_out_is_asked_for(project: Path, path: str) -> None:
    assert asked(FetchStepFilesGlob(path=path), project)


@pytest.mark.holds("project-asks")
@pytest.mark.parametrize("fetch", INSIDE, ids=repr)
def test_what_is_in_the_project_is_not(project: Path, fetch: FetchStep) -> None:
    assert asked(fetch, project) == []


SPACES = ("", " ", "\t", "\n", "\r\n", "\u00a0", "\x0b", "\x01")
SCHEMES = ("file", "FILE", "File", "%66ile", "fi\tle", "file ", "f\nile")
PLACES = ("/", "//", "///", "////", "//localhost/", "/./", "/%2e/", "")
PATHS = ("etc/passwd", "%65tc/passwd", "etc/pas\tswd", "./etc/../etc/passwd", "../../etc/passwd")


@pytest.mark.holds("project-asks")
def test_however_a_url_of_a_file_is_spelled_it_is_judged_as_what_is_read(project: Path) -> None:
    draw = random.Random(0)
    spelled = list(itertools.product(SPACES, SCHEMES, PLACES, PATHS, SPACES))
    judged = Counter[str]()
    strict = Permissions(source_env=("*",))
    for parts in draw.sample(spelled, 1_500):
        space, scheme, place, path, end = parts
        url = f"{space}{scheme}:{place}{path}{end}"
        step = FetchStepUrl(url=url)
        try:
            fetch(step, None, now=NOW, project_dir=project, cache=project, env={},
                  permissions=strict)  # fmt: skip
        except PathNotPermittedError:
            judged["refused path"] += 1
            assert is_local(step), repr(url)
            assert asked(step, project), repr(url)
            inside = local_path(step, project)
            assert inside is not None
            assert not strict.allows_path(inside, project), repr(url)
            sensitive = os.path.realpath(inside).startswith("/etc/")
            assert DEFAULTS.allows_path(inside, project) != sensitive, repr(url)
        except FetchError:
            judged["no such url"] += 1
    assert judged["refused path"] > 100
    assert judged["no such url"] > 100


@pytest.mark.holds("project-asks")
def test_a_plan_names_the_links_that_lead_out_over_a_wildcard(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)  # there such a link is refused
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/secret.csv").write_text(GOOD)
    ours = lay_out(tmp_path / "ours", {"datasets/src.yaml": root(), "data/1.csv": GOOD})
    (ours / "data/2.csv").symlink_to(tmp_path / "theirs/secret.csv")
    (ours / "data/3.csv").symlink_to("1.csv")
    said = Within(ours, capfd, monkeypatch).done("plan")
    assert "path        data/2.csv -> /" in said  # the rest may be cut
    assert "3.csv ->" not in said
