"""A real Chromium without a window, driven through its DevTools protocol over a pair of pipes."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odfbuild.host.pipes import is_readable

__all__ = ["CONTRAST", "Browser", "Page", "browsing", "why_no_chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_OPTIONS = (
    *("--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *(
        "--disable-sync",
        "--disable-extensions",
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
    ),
    *("--disable-breakpad", "--window-size=1280,800", "--font-render-hinting=none"),
)
_START = """
import os, sys
reads, writes = (os.dup(int(each)) for each in sys.argv[1:3])
while min(reads, writes) < 5:
    reads, writes = os.dup(reads), os.dup(writes)
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_PATIENCE = 60
_TEXTS = "[...document.querySelectorAll('h1, p, td, th, a, label, .badge, dt, dd')]"
CONTRAST = (
    f"{_TEXTS}.filter(e => e.innerText && e.offsetParent).map(e => {{"
    " const channel = (v) => v <= 10 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;"
    " const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number);"
    "   return .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b); };"
    " let at = e, ground;"
    " do { ground = getComputedStyle(at).backgroundColor; at = at.parentElement; }"
    " while (at && /rgba\\(.*, 0\\)/.test(ground));"
    " const [a, b] = [light(getComputedStyle(e).color), light(ground)].sort((x, y) => y - x);"
    " return (a + .05) / (b + .05); }).reduce((x, y) => Math.min(x, y), 21)"
)
"""The least contrast of all texts of a page with what is behind them (WCAG 2.2, 1.4.3)."""
_KEYS = {"Enter": "\r", "Escape": "", "ArrowLeft": "", "ArrowRight": "", "ArrowUp": ""}
_KEYS |= {"ArrowDown": "", "Tab": "", " ": " "}
_CODES = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39}
_CODES |= {"ArrowDown": 40, "Tab": 9}


def why_no_chromium() -> str | None:
    """Return why it cannot be run here, None if it can."""
    return None if _program() is not None else "there is no Chromium on this machine"


def _program() -> str | None:
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


@contextmanager
def browsing(folder: Path) -> Iterator["Browser"]:
    """Run a browser for the length of a block; the folder is its profile."""
    command, write = os.pipe()
    read, answer = os.pipe()
    root = ["--no-sandbox"] if os.getuid() == 0 else []
    program = [
        _program() or "chromium",
        *_OPTIONS,
        *root,
        f"--user-data-dir={folder}",
        "about:blank",
    ]
    start = [sys.executable, "-c", _START, str(command), str(answer), *program]
    environment = {**os.environ, "HOME": str(folder)}
    with (
        open(folder / "said", "wb") as said,  # noqa: PTH123
        subprocess.Popen(
            start, pass_fds=(command, answer), env=environment, stdout=said, stderr=said
        ) as process,
    ):
        os.close(command)
        os.close(answer)
        browser = Browser(write, read)
        try:
            yield browser
            browser.send("Browser.close")
            process.wait(_PATIENCE)
        finally:
            process.kill()
            os.close(write)
            os.close(read)


@dataclass
class Browser:
    """A running browser: what it is told, and what it says by itself."""

    write: int
    read: int
    events: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0
    targets: list[str] = field(default_factory=list)
    _rest: bytes = b""

    def send(
        self, method: str, session: str | None = None, /, **parameters: Any
    ) -> Mapping[str, Any]:
        """Send one command and wait for its answer."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        pending = json.dumps(message).encode() + b"\0"
        while pending:
            pending = pending[os.write(self.write, pending) :]
        while True:
            said = self._next()
            if said.get("id") == self.number:
                assert "error" not in said, f"{method}: {said['error']}"
                return dict(said["result"])
            self.events.append(said)

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            assert is_readable(self.read, until - time.monotonic()), "the browser does not answer"
            more = os.read(self.read, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def open(self, url: str, *, dark: bool = False, size: tuple[int, int] = (1280, 800)) -> "Page":
        """Open a page in a tab of its own, and wait until it is loaded."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.targets.append(target)
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.send("Emulation.setEmulatedMedia", features=[scheme])
        page.send(
            "Emulation.setDeviceMetricsOverride",
            width=size[0], height=size[1], deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        page.send("Page.navigate", url=url)
        page.wait("document.readyState === 'complete'")
        return page

    def close_pages(self) -> None:
        """Close all tabs that were opened, and forget what was said about them."""
        for target in self.targets:
            self.send("Target.closeTarget", targetId=target)
        self.targets.clear()
        self.events.clear()


@dataclass
class Page:
    """A tab with a page."""

    browser: Browser
    session: str

    def send(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        return self.browser.send(method, self.session, **parameters)

    def told(self, method: str) -> list[dict[str, Any]]:
        """Return what the browser said by itself of one kind about this page."""
        self.evaluate("0")
        return [
            dict(each["params"])
            for each in self.browser.events
            if each.get("sessionId") == self.session and each["method"] == method
        ]

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for, its own among them."""
        return [str(each["request"]["url"]) for each in self.told("Network.requestWillBeSent")]

    def complaints(self) -> list[str]:
        """Return what went wrong in the page: exceptions, and what the browser refused."""
        thrown = [str(each["exceptionDetails"]) for each in self.told("Runtime.exceptionThrown")]
        return thrown + [str(each["entry"]["text"]) for each in self.told("Log.entryAdded")]

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + _PATIENCE
        while not self.evaluate(expression):
            assert time.monotonic() < until, f"never so: {expression}"
            time.sleep(0.01)

    def middle(self, selector: str) -> tuple[float, float]:
        """Return the middle of an element on the screen."""
        x, y = self.evaluate(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        return float(x), float(y)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        held = {"button": "left", "clickCount": 1} if kind != "mouseWheel" else {}
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **{**held, **more})

    def click(self, selector: str) -> None:
        """Click on the middle of an element."""
        x, y = self.middle(selector)
        self.mouse("mousePressed", x, y, buttons=1)
        self.mouse("mouseReleased", x, y)

    def drag(self, start: tuple[float, float], by: tuple[float, float]) -> None:
        """Press at a point, move in steps, let go."""
        x, y = start
        self.mouse("mousePressed", x, y, buttons=1)
        for step in range(1, 6):
            self.mouse("mouseMoved", x + by[0] * step / 5, y + by[1] * step / 5, buttons=1)
        self.mouse("mouseReleased", x + by[0], y + by[1])

    def wheel(self, at: tuple[float, float], down: float) -> None:
        self.mouse("mouseWheel", *at, deltaX=0, deltaY=down)

    def press(self, *keys: str, shift: bool = False) -> None:
        """Press keys one after the other."""
        for key in keys:
            text = _KEYS.get(key, key)
            code = _CODES.get(key, ord(key[0].upper()))
            common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
            kind = "keyDown" if text else "rawKeyDown"
            self.send("Input.dispatchKeyEvent", type=kind, text=text, **common)
            self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def screenshot(self, path: Path) -> Path:
        """Keep what is seen as a picture."""
        picture = self.send("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(picture))
        return path
