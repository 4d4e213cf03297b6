"""Let a project meet bad input, and hold what it says and does against the case."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bad.case import SOURCE, Bad, definition
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects import Done
from tests.support.servers.ftp import Ftp, serving_ftp
from tests.support.servers.http import HURRIED, Page, Server, serving

__all__ = ["Meeting", "check_error", "check_said", "errors_of"]

_AT = re.compile(r"^(\S+?):\d+:\d+: error\[([\w-]+)\]: ", re.MULTILINE)
_STACK = re.compile(r"Traceback|^\s+at [\w.$]+\(|py4j|Exception:|\x1b|0x[0-9a-f]{8}", re.MULTILINE)


@dataclass
class Meeting:
    """A project of one source, and what feeds it."""

    run: Inside
    root: Path
    patch: pytest.MonkeyPatch
    stack: ExitStack
    _http: Server | None = None
    _ftp: Ftp | None = None

    @property
    def http(self) -> Server:
        if self._http is None:
            self._http = self.stack.enter_context(serving())
        return self._http

    @property
    def ftp(self) -> Ftp:
        if self._ftp is None:
            folder = self.root / "ftp"
            folder.mkdir()
            self._ftp = self.stack.enter_context(serving_ftp(folder))
        return self._ftp

    def meet(self, bad: Bad) -> Done:
        """Define the source, take in what is good, and then the bad input, which must be refused.

        Asserts that the chain is what it was, that no step is left half done, and that a download
        was kept where the message says.
        """
        self._surround(bad)
        self._feed(bad, bad.good, "1")
        lay_out(self.root, {**bad.files, SOURCE: self._filled(definition(bad, before=True))})
        first = self.run("apply", "--yes")
        assert first.code in ({0, 4} if bad.good is None else {0}), first.out + first.err
        before = heads(self.root)
        assert len(before) == 1
        self._feed(bad, bad.data, "2")
        lay_out(self.root, {**bad.late, SOURCE: self._filled(definition(bad))})
        done = self.run("apply", "--yes")
        assert done.code == 1, done.out + done.err
        assert heads(self.root) == before
        assert not list((self.root / ".odfbuild").glob("staging/*"))
        self._check_kept(bad, done)
        return done

    def _surround(self, bad: Bad) -> None:
        (self.root / "data").mkdir()
        self.patch.setattr("odfbuild.executors.process.interrupt.pause", lambda _: None)
        for name, value in {**HURRIED, **bad.env}.items():
            self.patch.setenv(name, value)
        for name, instead in bad.patches.items():
            self.patch.setattr(name, instead)

    def _feed(self, bad: Bad, data: bytes | str | None, name: str) -> None:
        """Put a file, or a page in its place; a page that is no file is the case's own."""
        content = data.encode() if isinstance(data, str) else data
        if "$HTTP" in bad.fetch and not (bad.was and name == "1"):
            page = bad.page if bad.page is not None and name == "2" else None
            missing = Page(status=404)
            self.http.put("/data", page or (missing if content is None else Page(body=content)))
        elif "$FTP" in bad.fetch:
            if content is not None:
                (self.ftp.folder / "data").write_bytes(content)
                os.utime(self.ftp.folder / "data", (int(name) * 1e9,) * 2)
        elif content is not None:
            (self.root / "data" / name).write_bytes(content)

    def _filled(self, text: str) -> str:
        if "$HTTP" in text:
            text = text.replace("$HTTPS", self.http.url.replace("http:", "https:"))
            text = text.replace("$HTTP", self.http.url)
        if "$FTP" in text:
            text = text.replace("$FTP", self.ftp.url("").rstrip("/"))
        if "$PORT" in text:
            text = text.replace("$PORT", f"127.0.0.1:{self.ftp.port}")
        return text

    def _check_kept(self, bad: Bad, done: Done) -> None:
        said = re.search(r"; stored for inspection: (.*)", done.err)
        kept = [Path(each) for each in said[1].split(" and ")] if said else []
        assert len(kept) == bad.keeps + bool(bad.complaint), done.err
        for path in kept:
            assert path.is_relative_to(self.root / ".odfbuild" / "cache")
            if path.name == "stderr.txt":
                assert bad.complaint in path.read_bytes()
                assert path.stat().st_size <= 1 << 17
            else:
                data = bad.data.encode() if isinstance(bad.data, str) else bad.data
                assert path.read_bytes() == data


def check_error(done: Done, bad: Bad) -> None:
    """Hold the one error that was said against the case."""
    (said,) = errors_of(done)
    check_said(said, bad)


def check_said(said: str, bad: Bad) -> None:
    """Hold one error against the case: its place, its words, its way out, and nothing else."""
    assert not _STACK.search(said), said
    found = _AT.match(said)
    assert found, said
    assert found[2] == bad.code, said
    assert bad.says in said
    what, _, rest = said.partition("\n  why: ")
    why, _, fix = rest.partition("\n  fix: ")
    assert why.strip(), said
    assert fix.strip(), said
    assert bad.fix in fix, said
    assert len(what.splitlines()[0]) < 400, said


def errors_of(done: Done) -> Iterator[str]:
    """Yield each error of a command, from its place to its way out."""
    starts = [found.start() for found in _AT.finditer(done.err)]
    for start, end in zip(starts, [*starts[1:], len(done.err)], strict=True):
        yield done.err[start:end]
