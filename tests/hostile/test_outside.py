"""Sources of strangers that lead out of the project, however that is spelled."""

from pathlib import Path

import pytest

from odfbuild.app.outside import uses_of_source
from odfbuild.odf.events import (
    FetchStep,
    FetchStepFilesGlob,
    FetchStepUrl,
    MergeStrategyAppend,
    ReadStepCsv,
    SetPollingSource,
)

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
