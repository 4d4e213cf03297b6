"""A transfer that its user ends: at once, in order, and with nothing visible."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects import environment

_SLOW = threading.Event()


class SlowFiles(SimpleHTTPRequestHandler):
    """Gives slices byte by byte, for minutes; `_SLOW` is set once it has begun with one."""

    def log_message(self, *_: object) -> None: ...

    def copyfile(self, source: IO[bytes], outputfile: Any) -> None:  # type: ignore[override]
        while piece := source.read(1 if "/data/" in self.path else 1 << 16):
            outputfile.write(piece)
            outputfile.flush()
            if "/data/" in self.path:
                _SLOW.set()
                time.sleep(0.5)


@contextmanager
def slowly_serving(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SlowFiles, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_clone_that_is_ended_leaves_nothing_visible_and_goes_on_later(
    market: Path,
    hub: Path,
    tmp_path: Path,
    sent: signal.Signals,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Inside(market, capsys, monkeypatch, FakeEngine())
    assert first("repo add", "hub", hub.as_uri()).code == 0
    assert first("push", "src").code == 0
    project = lay_out(tmp_path / "second", {"odfbuild.yaml": "odfbuild: 1\nname: second\n"})
    second = Inside(project, capsys, monkeypatch, FakeEngine())
    _SLOW.clear()
    with slowly_serving(hub) as url:
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "odfbuild"), "clone", f"{url}src/"],
            cwd=project,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert _SLOW.wait(60)
        process.send_signal(sent)
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + sent, said
    assert "Traceback" not in said
    assert "internal" not in said
    assert heads(project) == {}
    assert second("clone", f"{hub.as_uri()}/src/").code == 0
    assert len(heads(project)) == 1
    assert heads(project).items() <= heads(market).items()
