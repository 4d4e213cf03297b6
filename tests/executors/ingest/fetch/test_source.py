"""Fetching: what is news, what is said when there is none, and what is never said."""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild import __version__
from odfbuild.errors import EngineError
from odfbuild.executors.ingest.fetch import http
from odfbuild.executors.ingest.fetch.download import opened_part
from odfbuild.executors.ingest.fetch.local import (
    EventTimeError,
    Listings,
    UnsupportedSourceError,
    from_name,
    is_local,
    pending,
)
from odfbuild.executors.ingest.fetch.request import (
    FetchError,
    NotFoundError,
    Request,
    SourceAnswer,
    UnreachableError,
)
from odfbuild.executors.ingest.fetch.source import Fetched, UpToDate, _of_url, fetch
from odfbuild.executors.ingest.fetch.substitute import TemplateError
from odfbuild.executors.process.limits import BadLimitError
from odfbuild.odf.events import (
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    EventTimeSourceFromSystemTime,
    FetchStep,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    MqttTopicSubscription,
    RequestHeader,
    SourceOrdering,
    SourceState,
)
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan.reasons import SourceHasNews
from tests.support.cases import load
from tests.support.servers.http import HURRIED, ONCE, Page, Server, serving

NOW = Timestamp.parse("2024-05-06T07:08:09Z")
MODIFIED = Timestamp.parse("2024-01-02T03:04:05Z")
VECTORS = {case["id"]: case for case in load("ingest-fetch")["cases"]}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odfbuild.executors.process.interrupt.pause", lambda seconds: None)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def fetched(
    step: FetchStep,
    folder: Path,
    state: SourceState | None = None,
    env: Mapping[str, str] | None = None,
) -> Fetched | UpToDate:
    return fetch(step, state, now=NOW, project_dir=folder, cache=folder / "cache", env=env or {})


def news(
    step: FetchStep,
    folder: Path,
    state: SourceState | None = None,
    env: Mapping[str, str] | None = None,
) -> Fetched:
    found = fetched(step, folder, state, env)
    assert isinstance(found, Fetched)
    return found


def write(path: Path, text: str = "a,b\n", at: Timestamp = MODIFIED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(at.nanos, at.nanos))
    return path


def etag(value: str) -> SourceState:
    return SourceState(source_name="default", kind="odf/etag", value=value)


def last_modified(value: str) -> SourceState:
    return SourceState(source_name="default", kind="odf/last-modified", value=value)


def said(error: EngineError) -> str:
    return f"{error.what}\n{error.why}\n{error.fix}"


class TestFileUrl:
    def test_fetch_vector_file_url(self, tmp_path: Path) -> None:
        path = tmp_path / "data.csv"
        step = FetchStepUrl(url=path.as_uri())
        state: SourceState | None = None
        first: SourceState | None = None
        for number, case in enumerate(VECTORS["file-url"]["steps"]):
            if case["given"] == "file written":
                write(path)
            if case["given"].startswith("mtime set"):
                os.utime(path, (0, 0))
                state = first
            if case["expect"].get("error") == "not found":
                with pytest.raises(NotFoundError):
                    fetched(step, tmp_path)
            elif case["expect"]["result"] == "up to date":
                assert fetched(step, tmp_path, state) == UpToDate()
            else:
                found = news(step, tmp_path, state)
                state = found.state
                first = first or state
                assert state is not None
                assert state.kind == case["expect"].get("stateKind", "odf/last-modified")
                assert found.path == path
                assert not found.has_more
                assert not found.temporary
            assert number < 4

    @pytest.mark.parametrize("url", ["file:data/x.csv", "file:./data/x.csv", "FILE:data/x.csv"])
    def test_a_relative_url_starts_in_the_project_folder(self, tmp_path: Path, url: str) -> None:
        path = write(tmp_path / "data" / "x.csv")
        found = news(FetchStepUrl(url=url), tmp_path)
        assert found.path.resolve() == path.resolve()

    def test_escaped_characters_of_a_url_are_decoded(self, tmp_path: Path) -> None:
        write(tmp_path / "my data.csv")
        found = news(FetchStepUrl(url="file:my%20data.csv"), tmp_path)
        assert found.path.name == "my data.csv"
        assert found.name == "my data.csv"

    def test_state_and_event_time_are_the_modification_time_in_milliseconds(
        self, tmp_path: Path
    ) -> None:
        write(tmp_path / "x.csv", at=Timestamp.parse("2024-01-02T03:04:05.678999999Z"))
        found = news(FetchStepUrl(url="file:x.csv"), tmp_path)
        assert found.state == last_modified("2024-01-02T03:04:05.678Z")
        assert found.event_time == Timestamp.parse("2024-01-02T03:04:05.678Z")

    def test_event_time_may_be_the_clock(self, tmp_path: Path) -> None:
        write(tmp_path / "x.csv")
        step = FetchStepUrl(url="file:x.csv", event_time=EventTimeSourceFromSystemTime())
        assert news(step, tmp_path).event_time == NOW

    @pytest.mark.parametrize("more", ["", "?v=2024-09-09", "#2024-09-09"])
    def test_event_time_from_the_path_of_a_url_as_declared(self, more: str, tmp_path: Path) -> None:
        write(tmp_path / "2024-03-04.csv")
        by_path = EventTimeSourceFromPath(pattern=r"(\d+-\d+-\d+)\.csv$")
        step = FetchStepUrl(url="file:2024-03-04.csv", event_time=by_path)
        assert news(step, tmp_path).event_time == Timestamp.parse("2024-03-04T00:00:00Z")
        declared = replace(step, url=f"https://h/2024-03-04.csv{more}")
        assert _of_url(declared, None, NOW) == Timestamp.parse("2024-03-04T00:00:00Z")

    @pytest.mark.parametrize("state", [etag("x"), last_modified("yesterday")])
    def test_a_state_of_another_kind_or_form_counts_as_none(
        self, tmp_path: Path, state: SourceState
    ) -> None:
        write(tmp_path / "x.csv")
        assert isinstance(fetched(FetchStepUrl(url="file:x.csv"), tmp_path, state), Fetched)

    def test_a_missing_file_is_named_with_a_way_out(self, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError) as caught:
            fetched(FetchStepUrl(url="file:none.csv"), tmp_path)
        assert caught.value.what == f"no file {tmp_path / 'none.csv'}"
        assert "relative to the project folder" in caught.value.fix

    def test_a_folder_is_not_a_file(self, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError, match="is not a file") as caught:
            fetched(FetchStepUrl(url="file:."), tmp_path)
        assert "FilesGlob" in caught.value.fix

    def test_a_url_of_another_host_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UnsupportedSourceError, match="host 'nas'"):
            fetched(FetchStepUrl(url="file://nas/x.csv"), tmp_path)


class TestFilesGlob:
    def test_one_file_a_round_in_the_byte_order_of_names(self, tmp_path: Path) -> None:
        names = ["B.csv", "a.csv", "a10.csv", "a9.csv", "é.csv"]
        for name in names:
            write(tmp_path / "in" / name)
        step = FetchStepFilesGlob(path="in/*.csv")
        state, order = None, []
        while isinstance(found := fetched(step, tmp_path, state), Fetched):
            order.append(found.path.name)
            assert found.has_more == (len(order) < len(names))
            assert found.state == etag(found.path.name)
            assert found.name == f"in/{found.path.name}"
            state = found.state
        assert order == sorted(names, key=os.fsencode)

    def test_a_file_with_a_lower_name_is_never_seen(self, tmp_path: Path) -> None:
        write(tmp_path / "a.csv")
        step = FetchStepFilesGlob(path="*.csv")
        assert fetched(step, tmp_path, etag("b.csv")) == UpToDate()

    def test_no_match_is_an_error_only_if_nothing_was_ever_read(self, tmp_path: Path) -> None:
        step = FetchStepFilesGlob(path="in/*.csv")
        with pytest.raises(NotFoundError) as caught:
            fetched(step, tmp_path)
        assert caught.value.what == "no file matches in/*.csv"
        assert fetched(step, tmp_path, etag("a.csv")) == UpToDate()

    def test_hidden_files_and_folders_are_passed_over(self, tmp_path: Path) -> None:
        write(tmp_path / ".a.csv")
        (tmp_path / "b.csv").mkdir()
        write(tmp_path / "c.csv")
        found = news(FetchStepFilesGlob(path="*.csv"), tmp_path)
        assert (found.path.name, found.has_more) == ("c.csv", False)
        assert news(FetchStepFilesGlob(path=".a*"), tmp_path).path.name == ".a.csv"

    @pytest.mark.parametrize(
        "pattern",
        ["in/a-?.csv", "in/a-[12].csv", "in/*-*.csv", "in/a-1.csv", "*/a-1*", "**/a-*", "**/*"],
    )
    def test_patterns_follow_the_rules_of_python(self, tmp_path: Path, pattern: str) -> None:
        write(tmp_path / "in" / "a-1.csv")
        for base in ("", f"{tmp_path}/"):
            assert news(FetchStepFilesGlob(path=base + pattern), tmp_path).path.name == "a-1.csv"

    def test_two_stars_alone_reach_every_depth(self, tmp_path: Path) -> None:
        write(tmp_path / "in" / "deep" / "deeper" / "x")
        assert news(FetchStepFilesGlob(path="in/**"), tmp_path).path.name == "x"

    @given(
        names=st.sets(st.text("ab*?[]-.1", min_size=1, max_size=5), min_size=1, max_size=8),
        pattern=st.text("ab*?[]-.1", min_size=1, max_size=5),
    )
    def test_the_quick_match_agrees_with_the_glob_module(
        self, tmp_path_factory: pytest.TempPathFactory, names: set[str], pattern: str
    ) -> None:
        import glob

        folder = tmp_path_factory.mktemp("glob")
        for name in names - {".", ".."}:
            (folder / name).touch()
        expected = sorted(f for f in glob.glob(pattern, root_dir=folder) if (folder / f).is_file())  # noqa: PTH207
        if pattern in {".", "..", "**"}:
            return
        found = pending(FetchStepFilesGlob(path=pattern), None, folder)
        assert list(found) == (expected or [f"./{pattern}"])

    def test_two_new_files_of_one_name_are_refused(self, tmp_path: Path) -> None:
        write(tmp_path / "x" / "a.csv")
        write(tmp_path / "y" / "a.csv")
        with pytest.raises(FetchError, match=r"two new files have the name a\.csv"):
            fetched(FetchStepFilesGlob(path="*/a.csv"), tmp_path)
        step = FetchStepFilesGlob(path="*/*.csv")
        assert fetched(step, tmp_path, etag("a.csv")) == UpToDate()

    def test_a_name_that_is_not_utf8_is_refused_before_it_is_stored(self, tmp_path: Path) -> None:
        try:
            Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv")).touch()
        except OSError:
            pytest.skip("this file system has UTF-8 names only")
        with pytest.raises(FetchError, match="is not UTF-8"):
            fetched(FetchStepFilesGlob(path="*.csv"), tmp_path)

    def test_a_file_that_vanished_since_the_listing_is_called_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(tmp_path / "a.csv")
        listed = [str(path)]
        path.unlink()
        monkeypatch.setattr("odfbuild.executors.ingest.fetch.source.news", lambda *_, **__: listed)
        with pytest.raises(NotFoundError, match="vanished") as caught:
            fetched(FetchStepFilesGlob(path="*.csv"), tmp_path)
        assert caught.value.why == "it was there when the folder was listed"

    def test_event_time_comes_from_the_name_or_the_clock_or_nowhere(self, tmp_path: Path) -> None:
        write(tmp_path / "rates-2024-03-04.csv")
        step = FetchStepFilesGlob(path="*.csv")
        assert news(step, tmp_path).event_time is None
        by_clock = replace_event_time(step, EventTimeSourceFromSystemTime())
        assert news(by_clock, tmp_path).event_time == NOW
        by_path = replace_event_time(step, EventTimeSourceFromPath(pattern=r"(\d+-\d+-\d+)"))
        assert news(by_path, tmp_path).event_time == Timestamp.parse("2024-03-04T00:00:00Z")
        with pytest.raises(UnsupportedSourceError, match="FromMetadata"):
            fetched(replace_event_time(step, EventTimeSourceFromMetadata()), tmp_path)


class TestOrderByEventTime:
    BY_TIME = FetchStepFilesGlob(
        path="in/*.csv",
        event_time=EventTimeSourceFromPath(pattern=r"(\d+-\d+-\d+)", timestamp_format="d-M-yyyy"),
        order=SourceOrdering.BY_EVENT_TIME,
    )

    def files(self, folder: Path, *names: str) -> None:
        for name in names:
            write(folder / "in" / name)

    def test_files_come_in_the_order_of_their_times_then_names(self, tmp_path: Path) -> None:
        order = ["z-31-12-2023.csv", "a-1-2-2024.csv", "b-1-2-2024.csv", "a-10-2-2024.csv"]
        self.files(tmp_path, *sorted(order))
        assert pending(self.BY_TIME, None, tmp_path) == tuple(order)
        state, seen, more = None, [], True
        while more:
            found = news(self.BY_TIME, tmp_path, state)
            seen.append(found.path.name)
            assert found.state == etag(found.path.name)
            state, more = found.state, found.has_more
        assert seen == order
        assert found.event_time == Timestamp.parse("2024-02-10T00:00:00Z")
        assert fetched(self.BY_TIME, tmp_path, state) == UpToDate()
        assert pending(self.BY_TIME, state, tmp_path) == ()

    def test_a_later_file_is_news_whatever_its_name(self, tmp_path: Path) -> None:
        self.files(tmp_path, "z-1-1-2024.csv")
        state = news(self.BY_TIME, tmp_path).state
        self.files(tmp_path, "a-2-1-2024.csv")
        assert pending(self.BY_TIME, state, tmp_path) == ("a-2-1-2024.csv",)
        assert news(self.BY_TIME, tmp_path, state).path.name == "a-2-1-2024.csv"

    def test_an_earlier_file_that_comes_late_is_passed_over(self, tmp_path: Path) -> None:
        self.files(tmp_path, "b-2-1-2024.csv", "z-1-1-2024.csv", "a-2-1-2024.csv")
        state = etag("b-2-1-2024.csv")
        assert pending(self.BY_TIME, state, tmp_path) == ()
        assert fetched(self.BY_TIME, tmp_path, state) == UpToDate()

    def test_a_name_without_a_time_is_told_by_the_fetch(self, tmp_path: Path) -> None:
        self.files(tmp_path, "a-1-1-2024.csv", "readme.csv")
        assert pending(self.BY_TIME, None, tmp_path) == ("in/*.csv",)
        with pytest.raises(EventTimeError, match=r"readme\.csv does not match"):
            fetched(self.BY_TIME, tmp_path)

    def test_a_pattern_must_fit_the_file_that_was_read_last(self, tmp_path: Path) -> None:
        self.files(tmp_path, "a-1-1-2024.csv")
        with pytest.raises(EventTimeError) as caught:
            fetched(self.BY_TIME, tmp_path, etag("2024_01_01.csv"))
        assert caught.value.why.startswith("2024_01_01.csv is the file that was read last")

    def test_two_new_files_of_one_name_are_refused(self, tmp_path: Path) -> None:
        write(tmp_path / "in" / "a" / "1-1-2024.csv")
        write(tmp_path / "in" / "b" / "1-1-2024.csv")
        with pytest.raises(FetchError, match="two new files have the name"):
            fetched(replace_path(self.BY_TIME, "in/*/*.csv"), tmp_path)

    def test_without_times_in_the_names_it_is_refused(self, tmp_path: Path) -> None:
        step = FetchStepFilesGlob(path="*", order=SourceOrdering.BY_EVENT_TIME)
        with pytest.raises(UnsupportedSourceError) as caught:
            fetched(step, tmp_path)
        assert "order ByName" in caught.value.fix


def replace_path(step: FetchStepFilesGlob, path: str) -> FetchStepFilesGlob:
    return FetchStepFilesGlob(path=path, event_time=step.event_time, order=step.order)


def replace_event_time(step: FetchStepFilesGlob, source: Any) -> FetchStepFilesGlob:
    return FetchStepFilesGlob(path=step.path, event_time=source)


class TestEventTimeFromName:
    @pytest.mark.parametrize(
        ("name", "pattern", "form", "time"),
        [
            ("x-2024-03-04.csv", r"x-(.*)\.csv", None, "2024-03-04T00:00:00Z"),
            ("20240304.csv", r"^(\d{8})", "%Y%m%d", "2024-03-04T00:00:00Z"),
            ("20240304.csv", r"^(\d{8})", "yyyyMMdd", "2024-03-04T00:00:00Z"),
            ("4.3.24", "(.*)", "d.M.yy", "2024-03-04T00:00:00Z"),
            ("2024-03-04T05.06.07", "(.*)", "yyyy-MM-dd'T'HH.mm.ss", "2024-03-04T05:06:07Z"),
            (
                "2024-03-04 05:06:07.089",
                "(.*)",
                "yyyy-MM-dd HH:mm:ss.SSS",
                "2024-03-04T05:06:07.089Z",
            ),
            ("2024-03-04 05+0200", "(.*)", "%Y-%m-%d %H%z", "2024-03-04T03:00:00Z"),
            ("2024-03-04 05+02:00", "(.*)", "yyyy-MM-dd HHXXX", "2024-03-04T03:00:00Z"),
            ("Mar 4 2024", "(.*)", "MMM d yyyy", "2024-03-04T00:00:00Z"),
            ("day 064 of 2024", "(.*)", "'day' DDD 'of' yyyy", "2024-03-04T00:00:00Z"),
            ("x-2024-03-04.csv", r"x-(?<day>.*)\.csv", "%F", "2024-03-04T00:00:00Z"),
            ("1709528767.csv", r"^(\d+)", "%s", "2024-03-04T05:06:07Z"),
            ("2024-03-04 05 GMT", "(.*)", "yyyy-MM-dd HH z", "2024-03-04T05:00:00Z"),
            ("2024-03-04 05 UTC", "(.*)", "%F %H %Z", "2024-03-04T05:00:00Z"),
        ],
    )
    def test_strftime_and_java_patterns(
        self, name: str, pattern: str, form: str | None, time: str
    ) -> None:
        assert from_name(name, pattern, form) == Timestamp.parse(time)

    @pytest.mark.parametrize(
        ("name", "pattern", "form", "message"),
        [
            ("a.csv", "(", None, "`eventTime.pattern` ( is not a regular expression"),
            (
                "a.csv",
                r"(\d+)",
                None,
                r"the file name a.csv does not match `eventTime.pattern` (\d+)",
            ),
            ("1.csv", r"\d", None, r"`eventTime.pattern` \d has no group 1 in 1.csv"),
            ("1.csv", r"\d(x)?", None, r"`eventTime.pattern` \d(x)? has no group 1 in 1.csv"),
            (
                "1.csv",
                r"(\d)",
                None,
                "'1' in the file name 1.csv is not a time of the form %Y-%m-%d",
            ),
            (
                "2023-02-29",
                "(.*)",
                None,
                "'2023-02-29' in the file name 2023-02-29 is not a time of the form %Y-%m-%d",
            ),
            ("1.csv", r"(\d)", "%Q", "the time format %Q has the part '%Q', which is not known"),
            (
                "x EST",
                "(.*)",
                "'x' z",
                "'x EST' in the file name x EST is not a time of the form 'x' z",
            ),
            (
                "9999999999999999",
                "(.*)",
                "%s",
                "'9999999999999999' in the file name 9999999999999999 is not a time of the form %s",
            ),
            (
                "1.csv",
                r"(\d)",
                "yyyy-ww",
                "the time format yyyy-ww has the part 'ww', which is not known",
            ),
        ],
    )
    def test_what_goes_wrong_is_said(
        self, name: str, pattern: str, form: str | None, message: str
    ) -> None:
        with pytest.raises(EventTimeError) as caught:
            from_name(name, pattern, form)
        assert caught.value.what == message


class TestPending:
    def test_a_glob_tells_the_names_that_are_to_come(self, tmp_path: Path) -> None:
        for name in ("a.csv", "b.csv", "c.csv"):
            write(tmp_path / name)
        step = FetchStepFilesGlob(path="*.csv")
        assert pending(step, None, tmp_path) == ("a.csv", "b.csv", "c.csv")
        assert pending(step, etag("a.csv"), tmp_path) == ("b.csv", "c.csv")
        assert pending(step, etag("c.csv"), tmp_path) == ()

    @pytest.mark.parametrize("path", ["x.csv", "*.csv", "in/x.csv", "in/*.csv"])
    def test_a_glob_without_a_file_is_told_from_a_file(self, path: str, tmp_path: Path) -> None:
        assert SourceHasNews(pending(FetchStepFilesGlob(path=path), None, tmp_path)).is_absent
        write(tmp_path / path.replace("*", "*x"))
        found = SourceHasNews(pending(FetchStepFilesGlob(path=path), None, tmp_path))
        assert not found.is_absent

    @pytest.mark.parametrize("url", ["file:x.csv", "file:in/x.csv"])
    def test_a_url_without_a_file_is_told_from_a_file(self, url: str, tmp_path: Path) -> None:
        assert SourceHasNews(pending(FetchStepUrl(url=url), None, tmp_path)).is_absent
        write(tmp_path / url.removeprefix("file:"))
        assert not SourceHasNews(pending(FetchStepUrl(url=url), None, tmp_path)).is_absent

    def test_a_file_url_is_news_when_its_time_is_another(self, tmp_path: Path) -> None:
        write(tmp_path / "x.csv")
        step = FetchStepUrl(url="file:x.csv")
        state = news(step, tmp_path).state
        assert pending(step, None, tmp_path) == ("x.csv",)
        assert pending(step, state, tmp_path) == ()
        write(tmp_path / "x.csv", at=Timestamp(0))
        assert pending(step, state, tmp_path) == ("x.csv",)

    def test_what_is_missing_is_left_to_the_fetch_to_report(self, tmp_path: Path) -> None:
        assert pending(FetchStepUrl(url="file:x.csv"), None, tmp_path) == ("file:x.csv",)
        assert pending(FetchStepFilesGlob(path="*.csv"), None, tmp_path) == ("./*.csv",)

    def test_a_url_with_a_template_is_left_to_the_fetch(self, tmp_path: Path) -> None:
        step = FetchStepUrl(url="file:${{ env.NAME }}.csv")
        assert pending(step, None, tmp_path) == ("file:${{ env.NAME }}.csv",)

    def test_a_shared_listing_reads_a_folder_once(self, tmp_path: Path) -> None:
        write(tmp_path / "a.csv")
        listings = Listings()
        step = FetchStepFilesGlob(path="*.csv")
        assert pending(step, None, tmp_path, listings) == ("a.csv",)
        write(tmp_path / "b.csv")
        assert pending(step, None, tmp_path, listings) == ("a.csv",)

    def test_a_remote_source_cannot_be_looked_at(self, tmp_path: Path) -> None:
        step = FetchStepUrl(url="https://example.org/x.csv")
        assert not is_local(step)
        with pytest.raises(UnsupportedSourceError):
            pending(step, None, tmp_path)

    def test_the_look_imports_nothing_heavy(self) -> None:
        import subprocess
        import sys

        code = "import odfbuild.executors.ingest.fetch.source, sys; print(*sys.modules)"
        shown = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
        assert not {"httpx", "pyarrow", "ssl", "asyncio"} & set(shown)


class TestHttp:
    def test_fetch_vector_http_etag(self, server: Server, tmp_path: Path) -> None:
        step = FetchStepUrl(url=server.put_file("/etag", b"one\n", changed=1e9))
        state: SourceState | None = None
        for case in VECTORS["http-etag"]["steps"]:
            if "touched" in case["given"]:
                server.put_file("/etag", b"two\n", changed=2e9)
            if case["given"] == "404":
                server.put("/etag", Page(status=404))
                with pytest.raises(NotFoundError):
                    fetched(step, tmp_path, state)
            elif case["expect"]["result"] == "up to date":
                assert fetched(step, tmp_path, state) == UpToDate()
                assert server.asked[-1].headers["if-none-match"] == state.value  # type: ignore[union-attr]
            else:
                found = news(step, tmp_path, state)
                assert found.state is not None
                assert found.state.kind == "odf/etag"
                assert not found.has_more
                assert found.temporary
                state = found.state
        assert news(
            FetchStepUrl(url=server.put_file("/etag2", b"two\n", changed=2e9)), tmp_path
        ).path.read_bytes() == b"two\n"  # fmt: skip

    def test_fetch_vector_http_errors(self, server: Server, tmp_path: Path) -> None:
        assert [s["expect"]["error"] for s in VECTORS["http-errors"]["steps"]] == [
            "unreachable"
        ] * 2
        with pytest.raises(UnreachableError) as caught:
            fetched(FetchStepUrl(url="http://127.0.0.1:1/x"), tmp_path)
        assert "refused" in caught.value.why
        url = server.put("/500", Page(status=500, body=b"<h1>oops</h1>\n"))
        before = len(server.asked)
        with pytest.raises(UnreachableError) as caught:
            fetched(FetchStepUrl(url=url), tmp_path)
        assert caught.value.status == 500
        assert caught.value.what == f"{url} cannot be fetched: status 500 Internal Server Error"
        assert caught.value.why == "the server answered: <h1>oops</h1>"
        assert len(server.asked) == before + 4  # the reference does not try again

    def test_last_modified_is_the_state_where_there_is_no_etag(
        self, server: Server, tmp_path: Path
    ) -> None:
        step = FetchStepUrl(url=server.put_file("/lm", b"x", changed=1e9, etag=False))
        found = news(step, tmp_path)
        assert found.state == last_modified("2001-09-09T01:46:40Z")
        assert found.event_time == Timestamp.parse("2001-09-09T01:46:40Z")
        assert fetched(step, tmp_path, found.state) == UpToDate()
        sent = server.asked[-1].headers["if-modified-since"]
        assert sent == "Sun, 09 Sep 2001 01:46:40 GMT"

    def test_last_modified_is_the_event_time_also_beside_an_etag(
        self, server: Server, tmp_path: Path
    ) -> None:
        step = FetchStepUrl(url=server.put_file("/both", b"x", changed=1e9))
        assert news(step, tmp_path).event_time == Timestamp.parse("2001-09-09T01:46:40Z")
        by_clock = FetchStepUrl(url=step.url, event_time=EventTimeSourceFromSystemTime())
        assert news(by_clock, tmp_path).event_time == NOW

    def test_without_both_headers_there_is_no_state_and_no_time(
        self, server: Server, tmp_path: Path
    ) -> None:
        found = news(FetchStepUrl(url=server.put("/bare", Page(body=b"x"))), tmp_path)
        assert (found.state, found.event_time) == (None, None)

    @pytest.mark.parametrize("text", ["yesterday", "", "0", "Sun, 99 Sep 2001 01:46:40 GMT"])
    def test_a_last_modified_that_is_no_date_counts_as_absent(
        self, server: Server, tmp_path: Path, text: str
    ) -> None:
        url = server.put("/odd", Page(body=b"x", headers={"Last-Modified": text}))
        assert news(FetchStepUrl(url=url), tmp_path).state is None

    @pytest.mark.parametrize(
        "state",
        [last_modified("soon"), SourceState(source_name="default", kind="x", value="y")],
    )
    def test_a_state_that_cannot_be_read_is_not_sent(
        self, server: Server, tmp_path: Path, state: SourceState
    ) -> None:
        step = FetchStepUrl(url=server.put_file("/st", b"x", changed=1e9))
        assert isinstance(fetched(step, tmp_path, state), Fetched)
        assert not {"if-none-match", "if-modified-since"} & set(server.asked[-1].headers)

    def test_the_same_etag_with_a_200_is_no_news(self, server: Server, tmp_path: Path) -> None:
        page = Page(status=200, body=b"x", headers={"ETag": 'W/"1"', "Vary": "*"})
        url = server.put("/same", page, page)
        assert fetched(FetchStepUrl(url=url), tmp_path, etag('W/"1"')) == UpToDate()

    def test_headers_and_url_are_filled_from_the_environment(
        self, server: Server, tmp_path: Path
    ) -> None:
        server.put("/t", Page(body=b"x"))
        step = FetchStepUrl(
            url=server.url + "/t?key=${{ env.KEY }}",
            headers=(RequestHeader(name="X-Token", value="Bearer ${{ env.TOKEN }}"),),
        )
        found = news(step, tmp_path, env={"KEY": "k1", "TOKEN": "t2"})
        assert server.asked[-1].path == "/t?key=k1"
        assert server.asked[-1].headers["x-token"] == "Bearer t2"
        assert found.name == server.url + "/t?key=${{ env.KEY }}"
        with pytest.raises(TemplateError):
            fetched(step, tmp_path)

    def test_the_request_says_who_asks_and_wants_plain_bytes(
        self, server: Server, tmp_path: Path
    ) -> None:
        news(FetchStepUrl(url=server.put("/ua", Page(body=b"x"))), tmp_path)
        headers = server.asked[-1].headers
        assert headers["user-agent"] == f"odfbuild/{__version__}"
        assert headers["accept-encoding"] == "identity"
        own = (RequestHeader(name="user-agent", value="curl/8"),)
        news(FetchStepUrl(url=server.url + "/ua", headers=own), tmp_path)
        assert server.asked[-1].headers["user-agent"] == "curl/8"

    def test_a_body_is_stored_as_it_was_sent(self, server: Server, tmp_path: Path) -> None:
        page = Page(body=b"\x1f\x8bnot gzip", headers={"Content-Encoding": "gzip"})
        found = news(FetchStepUrl(url=server.put("/raw", page)), tmp_path)
        assert found.path.read_bytes() == b"\x1f\x8bnot gzip"

    @pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
    def test_a_passing_failure_is_tried_again(
        self, server: Server, tmp_path: Path, status: int
    ) -> None:
        url = server.put("/busy", Page(status=status), Page(status=status), Page(body=b"x"))
        assert news(FetchStepUrl(url=url), tmp_path).path.read_bytes() == b"x"

    def test_after_three_more_tries_the_failure_stands(
        self, server: Server, tmp_path: Path
    ) -> None:
        waits: list[float] = []
        busy = Page(status=503, headers={"Retry-After": "7"})
        url = server.put("/down", busy, Page(status=503), Page(status=503), busy)
        before = len(server.asked)
        request = Request(url=url, name="it")
        with pytest.raises(UnreachableError, match="status 503"):
            http.download(request, tmp_path, pause=waits.append)
        assert len(server.asked) == before + 4
        assert waits == [7.0, 1.0, 2.0]

    def test_a_server_that_hangs_up_is_unreachable(self, server: Server, tmp_path: Path) -> None:
        url = server.put("/drop", Page(drop=True))
        with pytest.raises(UnreachableError) as caught:
            fetched(FetchStepUrl(url=url), tmp_path)
        assert "disconnected" in caught.value.why

    def test_a_body_that_breaks_off_leaves_no_file(self, server: Server, tmp_path: Path) -> None:
        url = server.put("/cut", Page(body=b"x" * 1000, announced=5000))
        with pytest.raises(UnreachableError) as caught:
            fetched(FetchStepUrl(url=url), tmp_path)
        assert caught.value.why.startswith("the body broke off")
        assert not list((tmp_path / "cache").iterdir())

    def test_a_server_that_stops_sending_is_given_up(
        self, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in ONCE.items():
            monkeypatch.setattr(name, value)
        url = server.put("/slow", Page(body=b"x", stall=True))
        with pytest.raises(UnreachableError) as caught:
            fetched(FetchStepUrl(url=url), tmp_path, env=HURRIED)
        assert caught.value.why == "the server stopped sending"

    @pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "1e9"])
    def test_a_timeout_that_is_none_is_refused(self, tmp_path: Path, text: str) -> None:
        step = FetchStepUrl(url="http://127.0.0.1:1/")
        with pytest.raises(BadLimitError, match=f"ODFBUILD_HTTP_TIMEOUT is '{text}'"):
            fetched(step, tmp_path, env={"ODFBUILD_HTTP_TIMEOUT": text})

    @pytest.mark.parametrize("status", [401, 403])
    def test_a_refused_login_points_at_the_headers(
        self, server: Server, tmp_path: Path, status: int
    ) -> None:
        url = server.put("/login", Page(status=status))
        with pytest.raises(UnreachableError) as caught:
            fetched(FetchStepUrl(url=url), tmp_path)
        assert caught.value.fix == "check the header values and variables of the source"
        assert caught.value.why == "the server gives no reason"

    def test_204_is_not_taken_for_an_empty_file(self, server: Server, tmp_path: Path) -> None:
        with pytest.raises(UnreachableError, match="status 204"):
            fetched(FetchStepUrl(url=server.put("/none", Page(status=204))), tmp_path)

    def test_410_is_not_found_too(self, server: Server, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError) as caught:
            fetched(FetchStepUrl(url=server.put("/gone", Page(status=410))), tmp_path)
        assert caught.value.why == "the server answered 410 Gone"

    def test_a_long_answer_is_shortened_and_made_printable(
        self, server: Server, tmp_path: Path
    ) -> None:
        page = Page(status=500, body=b"\x1b[31mred\n\n" + b"x" * 5000)
        with pytest.raises(UnreachableError) as caught:
            fetched(FetchStepUrl(url=server.put("/long", page)), tmp_path)
        assert caught.value.why.startswith("the server answered: [31mred xxx")
        assert len(caught.value.why) < 250
        assert caught.value.why.isprintable()

    @pytest.mark.parametrize("url", ["http://", "http:///x", "http://[::1", "http://a b/"])
    def test_a_url_that_is_none_is_unreachable(self, tmp_path: Path, url: str) -> None:
        with pytest.raises(UnreachableError):
            fetched(FetchStepUrl(url=url), tmp_path)


ROWS = b"".join(b"%d,row\n" % i for i in range(60_000))
LONG_AGO = "Sun, 09 Sep 2001 01:46:40 GMT"


class TestResuming:
    """A download that breaks off goes on, but never with the bytes of another version."""

    @pytest.mark.parametrize(
        "version",
        [{"ETag": '"1"'}, {"Last-Modified": LONG_AGO}, {"ETag": '"1"', "Last-Modified": LONG_AGO}],
        ids=["etag", "last-modified", "both"],
    )
    def test_it_goes_on_where_it_broke_off(
        self, server: Server, tmp_path: Path, version: Mapping[str, str]
    ) -> None:
        cut = Page(body=ROWS, headers=version, ranges=True, cut=100_000)
        url = server.put("/rows", cut, cut, replace(cut, cut=None))
        before = len(server.asked)
        assert news(FetchStepUrl(url=url), tmp_path).path.read_bytes() == ROWS
        first, *more = (each.headers for each in server.asked[before:])
        assert "range" not in first
        assert [each["if-range"] for each in more] == [next(iter(version.values()))] * 2
        starts = [int(each["range"].removeprefix("bytes=").rstrip("-")) for each in more]
        assert 0 < starts[0] <= 100_000 < starts[1] <= 200_000

    @pytest.mark.parametrize(
        "version",
        [
            {},
            {"ETag": 'W/"1"'},
            {"Last-Modified": "soon"},
            {"ETag": '"1"', "Accept-Ranges": "none"},
        ],
        ids=["none", "weak", "no time", "no ranges"],
    )
    def test_what_has_no_sure_name_starts_again(
        self, server: Server, tmp_path: Path, version: Mapping[str, str]
    ) -> None:
        cut = Page(body=ROWS, headers=version, ranges=True, cut=100_000)
        url = server.put("/rows", cut, replace(cut, cut=None))
        assert news(FetchStepUrl(url=url), tmp_path).path.read_bytes() == ROWS
        assert "range" not in server.asked[-1].headers

    def test_a_time_of_change_a_moment_ago_is_no_sure_name(self) -> None:
        sent = {"date": "Sun, 09 Sep 2001 01:47:00 GMT", "last-modified": LONG_AGO}
        assert http.version_of(sent) is None
        assert http.version_of({**sent, "date": "Sun, 09 Sep 2001 01:47:40 GMT"}) == LONG_AGO
        assert http.version_of({"last-modified": LONG_AGO}) is None

    def test_another_version_is_taken_from_its_start(self, server: Server, tmp_path: Path) -> None:
        cut = Page(body=ROWS, headers={"ETag": '"1"'}, ranges=True, cut=100_000)
        other = Page(body=ROWS.swapcase(), headers={"ETag": '"2"'}, ranges=True)
        url = server.put("/rows", cut, other)
        found = news(FetchStepUrl(url=url), tmp_path)
        assert found.path.read_bytes() == ROWS.swapcase()
        assert found.state == etag('"2"')

    def test_a_server_that_knows_no_ranges_sends_all(self, server: Server, tmp_path: Path) -> None:
        cut = Page(body=ROWS, headers={"ETag": '"1"'}, cut=100_000)
        url = server.put("/rows", cut, replace(cut, cut=None))
        assert news(FetchStepUrl(url=url), tmp_path).path.read_bytes() == ROWS

    @pytest.mark.parametrize(
        "wrong",
        [
            {"Content-Range": "bytes 7-479999/480000"},
            {"Content-Range": "rows 1-2/3"},
            {},
            {"Content-Range": "bytes 100000-1/1", "ETag": '"2"'},
        ],
        ids=["elsewhere", "units", "silent", "other"],
    )
    def test_a_server_that_answers_with_something_else_is_asked_for_all(
        self, server: Server, tmp_path: Path, wrong: Mapping[str, str]
    ) -> None:
        cut = Page(body=ROWS, headers={"ETag": '"1"'}, ranges=True, cut=100_000)
        odd = Page(status=206, body=b"rubbish", headers={"ETag": '"1"', **wrong})
        url = server.put("/rows", cut, odd, replace(cut, cut=None))
        assert news(FetchStepUrl(url=url), tmp_path).path.read_bytes() == ROWS

    def test_a_later_fetch_goes_on_too(self, server: Server, tmp_path: Path) -> None:
        cut = Page(body=ROWS, headers={"ETag": '"1"'}, ranges=True, cut=100_000)
        url = server.put("/rows", cut, *[Page(status=503)] * 4, replace(cut, cut=None))
        with pytest.raises(UnreachableError):
            fetched(FetchStepUrl(url=url), tmp_path)
        assert news(FetchStepUrl(url=url), tmp_path).path.read_bytes() == ROWS
        assert "range" in server.asked[-1].headers

    def test_a_beginning_of_another_request_is_not_used(
        self, server: Server, tmp_path: Path
    ) -> None:
        cut = Page(body=ROWS, headers={"ETag": '"1"'}, ranges=True, cut=100_000)
        url = server.put("/rows", cut, *[Page(status=503)] * 4, replace(cut, cut=None))
        with pytest.raises(UnreachableError):
            fetched(FetchStepUrl(url=url), tmp_path)
        headers = (RequestHeader(name="X-Tenant", value="other"),)
        found = news(FetchStepUrl(url=url, headers=headers), tmp_path)
        assert found.path.read_bytes() == ROWS
        assert "range" not in server.asked[-1].headers

    @pytest.mark.parametrize("at", [0, 50_000, 99_999])
    def test_a_beginning_that_was_damaged_is_not_gone_on_with(
        self, server: Server, tmp_path: Path, at: int
    ) -> None:
        cut = Page(body=ROWS, headers={"ETag": '"1"'}, ranges=True, cut=100_000)
        url = server.put("/rows.csv", cut, *[Page(status=503)] * 4, replace(cut, cut=None))
        with pytest.raises(UnreachableError):
            fetched(FetchStepUrl(url=url), tmp_path)
        part = tmp_path / "cache" / "fetched-rows.csv.part"
        data = bytearray(part.read_bytes())
        data[at] ^= 1
        part.write_bytes(data)
        assert news(FetchStepUrl(url=url), tmp_path).path.read_bytes() == ROWS
        assert "range" not in server.asked[-1].headers

    def test_a_beginning_of_which_more_came_than_is_noted_goes_on_from_there(
        self, server: Server, tmp_path: Path
    ) -> None:
        cut = Page(body=ROWS, headers={"ETag": '"1"'}, ranges=True, cut=100_000)
        url = server.put("/rows.csv", cut, *[Page(status=503)] * 4, replace(cut, cut=None))
        with pytest.raises(UnreachableError):
            fetched(FetchStepUrl(url=url), tmp_path)
        with (tmp_path / "cache" / "fetched-rows.csv.part").open("ab") as part:
            part.write(b"the process was killed before it noted these")
        assert news(FetchStepUrl(url=url), tmp_path).path.read_bytes() == ROWS
        assert server.asked[-1].headers["range"] == "bytes=100000-"

    def test_a_broken_note_is_no_harm(self, server: Server, tmp_path: Path) -> None:
        url = server.put("/rows.csv", Page(body=ROWS, headers={"ETag": '"1"'}, ranges=True))
        for note in ("", "[]", "{}", '{"source": 1, "version": 2}', "\udcff"):
            (tmp_path / "cache").mkdir(exist_ok=True)
            (tmp_path / "cache" / "fetched-rows.csv.part").write_bytes(b"rubbish")
            path = tmp_path / "cache" / "fetched-rows.csv.part.json"
            path.write_bytes(note.encode("utf-8", "surrogateescape"))
            (tmp_path / "cache" / "version.json").write_text(note, "utf-8", "replace")
            assert news(FetchStepUrl(url=url), tmp_path).path.read_bytes() == ROWS

    def test_two_fetches_at_once_do_not_meet(self, server: Server, tmp_path: Path) -> None:
        request = Request(url=server.put("/rows", Page(body=ROWS)), name="rows")
        with opened_part(request, tmp_path) as other:
            other.write(b"half")
            answer = http.download(request, tmp_path)
            assert isinstance(answer, SourceAnswer)
            assert answer.path.read_bytes() == ROWS
            assert other.finish().read_bytes() == b"half"

    def test_a_server_that_always_breaks_off_is_given_up(
        self, server: Server, tmp_path: Path
    ) -> None:
        page = Page(body=ROWS, headers={"ETag": '"1"'}, ranges=True, cut=1000)
        before = len(server.asked)
        with pytest.raises(UnreachableError):
            fetched(FetchStepUrl(url=server.put("/rows", page)), tmp_path)
        assert len(server.asked) == before + 21


class TestPatience:
    @pytest.mark.parametrize(
        ("headers", "waits"),
        [
            ({"Retry-After": "7"}, [7.0]),
            ({"Retry-After": "0"}, [0.5]),
            ({"Retry-After": "soon"}, [0.5]),
            ({"Retry-After": "\u0663"}, [0.5]),
            ({"Retry-After": "Sun, 09 Sep 2001 01:46:40 GMT"}, [0.5]),
        ],
    )
    def test_it_waits_as_long_as_it_is_asked_to(
        self, server: Server, tmp_path: Path, headers: Mapping[str, str], waits: list[float]
    ) -> None:
        if not headers["Retry-After"].isascii():
            headers = {"Retry-After": headers["Retry-After"].encode().decode("latin-1")}
        waited: list[float] = []
        url = server.put("/busy", Page(status=429, headers=headers), Page(body=b"x"))
        http.download(Request(url=url, name="it"), tmp_path, pause=waited.append)
        assert waited == waits

    def test_a_server_that_names_a_time_is_asked_then(self, server: Server, tmp_path: Path) -> None:
        waited: list[float] = []
        at = formatdate(time.time() + 30, usegmt=True)
        busy = Page(status=503, headers={"Retry-After": at})
        url = server.put("/busy", busy, Page(body=b"x"))
        http.download(Request(url=url, name="it"), tmp_path, pause=waited.append)
        assert 20 < waited[0] <= 30

    def test_a_server_that_asks_for_an_hour_is_left_alone(
        self, server: Server, tmp_path: Path
    ) -> None:
        busy = Page(status=503, headers={"Retry-After": "3600"})
        before = len(server.asked)
        with pytest.raises(UnreachableError) as caught:
            fetched(FetchStepUrl(url=server.put("/busy", busy)), tmp_path)
        assert "asks to wait 3600 seconds" in caught.value.fix
        assert len(server.asked) == before + 1

    def test_a_connection_that_is_reset_is_tried_again(
        self, server: Server, tmp_path: Path
    ) -> None:
        url = server.put("/reset", Page(body=b"x" * 99, cut=0), Page(drop=True), Page(body=b"x"))
        assert news(FetchStepUrl(url=url), tmp_path).path.read_bytes() == b"x"


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_a_redirect_is_followed(self, server: Server, tmp_path: Path, status: int) -> None:
        server.put("/new", Page(body=b"moved"))
        url = server.put("/old", Page(status=status, headers={"Location": "/new"}))
        assert news(FetchStepUrl(url=url), tmp_path).path.read_bytes() == b"moved"

    def test_ten_are_followed_and_eleven_are_not(self, server: Server, tmp_path: Path) -> None:
        server.put("/hop0", Page(body=b"here"))
        for number in range(1, 12):
            location = {"Location": f"/hop{number - 1}"}
            server.put(f"/hop{number}", Page(status=302, headers=location))
        assert isinstance(fetched(FetchStepUrl(url=server.url + "/hop10"), tmp_path), Fetched)
        with pytest.raises(UnreachableError) as caught:
            fetched(FetchStepUrl(url=server.url + "/hop11"), tmp_path)
        assert caught.value.why == "it redirects more than 10 times"

    def test_headers_stay_with_the_host_that_they_are_for(
        self, server: Server, tmp_path: Path
    ) -> None:
        headers = (RequestHeader(name="X-Api-Key", value="s3cret"),)
        with serving() as other:
            target = other.put("/data", Page(body=b"x"))
            url = server.put("/away", Page(status=302, headers={"Location": target}))
            news(FetchStepUrl(url=url, headers=headers), tmp_path)
            assert server.asked[-1].headers["x-api-key"] == "s3cret"
            assert "x-api-key" not in other.asked[-1].headers
        server.put("/here", Page(body=b"x"))
        url = server.put("/near", Page(status=302, headers={"Location": "/here"}))
        news(FetchStepUrl(url=url, headers=headers), tmp_path)
        assert server.asked[-1].headers["x-api-key"] == "s3cret"

    def test_user_and_password_stay_there_too(self, server: Server, tmp_path: Path) -> None:
        with serving() as other:
            target = other.put("/data", Page(body=b"x"))
            url = server.put("/auth", Page(status=302, headers={"Location": target}))
            news(FetchStepUrl(url=url.replace("//", "//me:pw@")), tmp_path)
            assert server.asked[-1].headers["authorization"].startswith("Basic ")
            assert "authorization" not in other.asked[-1].headers

    def test_a_redirect_to_a_file_is_not_followed(self, server: Server, tmp_path: Path) -> None:
        location = {"Location": "file:///etc/passwd"}
        url = server.put("/evil", Page(status=302, headers=location))
        with pytest.raises(UnreachableError) as caught:
            fetched(FetchStepUrl(url=url), tmp_path)
        assert caught.value.why == "it redirects to a URL that is not http or https"


class TestSecrets:
    KEY = "hunter2&x"

    def step(self, url: str) -> FetchStepUrl:
        header = RequestHeader(name="X-Key", value="Bearer ${{ env.KEY }}")
        return FetchStepUrl(url=url + "?key=${{ env.KEY }}", headers=(header,))

    def test_a_server_that_repeats_a_secret_does_not_put_it_in_the_message(
        self, server: Server, tmp_path: Path
    ) -> None:
        body = b"bad key hunter2&x, that is hunter2%26x, in Bearer hunter2&x"
        url = server.put("/echo", Page(status=400, body=body)).replace("//", "//user:passw0rd@")
        with pytest.raises(UnreachableError) as caught:
            fetched(self.step(url), tmp_path, env={"KEY": self.KEY})
        assert "hunter2" not in said(caught.value)
        assert "passw0rd" not in said(caught.value)
        assert "user" not in caught.value.what
        assert caught.value.why == "the server answered: bad key ***, that is ***, in ***"

    @pytest.mark.parametrize("key", ["hunter2\nX: y", "hunter2\r\n", "hunter2\0", "hünter2"])
    def test_a_header_value_that_http_cannot_carry_is_not_shown(
        self, server: Server, tmp_path: Path, key: str
    ) -> None:
        header = RequestHeader(name="X-Key", value="${{ env.KEY }}")
        step = FetchStepUrl(url=server.put("/hdr", Page(status=500)), headers=(header,))
        with pytest.raises(UnreachableError) as caught:
            fetched(step, tmp_path, env={"KEY": key})
        assert "nter2" not in said(caught.value)

    def test_the_log_has_no_request_urls(
        self, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        server.put("/log", Page(body=b"x"))
        news(self.step(server.url + "/log"), tmp_path, env={"KEY": self.KEY})
        assert "hunter2" not in caplog.text


class TestWhatIsNotFetched:
    @pytest.mark.parametrize("url", ["sftp://example.org/x", "s3://bucket/x", "data.csv", "C:\\x"])
    def test_other_schemes_are_refused_by_name(self, tmp_path: Path, url: str) -> None:
        with pytest.raises(UnsupportedSourceError) as caught:
            fetched(FetchStepUrl(url=url), tmp_path)
        assert url in caught.value.what
        assert caught.value.why == "this version knows the schemes file, http, https, ftp, ftps"

    def test_a_scheme_from_a_variable_is_not_printed(self, tmp_path: Path) -> None:
        with pytest.raises(UnsupportedSourceError) as caught:
            fetched(FetchStepUrl(url="${{ env.U }}"), tmp_path, env={"U": "s3://secret"})
        assert "secret" not in said(caught.value)

    def test_kinds_of_newer_versions_are_refused_by_name(self, tmp_path: Path) -> None:
        topics = (MqttTopicSubscription(path="x"),)
        with pytest.raises(UnsupportedSourceError) as caught:
            fetched(FetchStepMqtt(host="h", port=1, topics=topics), tmp_path)
        assert caught.value.what == "sources of kind Mqtt cannot be fetched"
