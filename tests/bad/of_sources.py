"""Sources that do not give their data: commands, servers, folders, names of files."""

import gzip
import os
from pathlib import Path
from typing import Any

from tests.bad.case import CSV, GOOD, Bad, pipe, url
from tests.support.servers.http import ONCE, Page

__all__ = ["COMMANDS", "DOWNLOADS", "FILES", "FTP", "HTTP", "TIMES"]

HTML = "<!DOCTYPE html><html><body>Log in</body></html>"


def command(*words: str, says: str, fix: str, code: str = "pipe", **more: Any) -> Bad:
    """Return a good file that goes through a command which fails."""
    return Bad(code=code, prepare=pipe(*words), data=GOOD, says=says, fix=fix, **more)


COMMANDS = {
    "a program that is not there": command(
        "no-such-program", "-x", says="there is no program 'no-such-program'", fix="install"
    ),
    "a program with its arguments in one text": command(
        "sed s/a/b/", says="there is no program", fix="[sed, s/a/b/]"
    ),
    "a program that may not be run": command(
        "./tool", says="permission denied", fix="correct `command`", files={"tool": "echo\n"}
    ),
    "a command that fails": command(
        "sh", "-c", "echo no such key >&2; exit 3", says="exit code 3", fix="correct `command`",
        complaint=b"no such key\n",
    ),
    "a command that fails without a word": command(
        "sh", "-c", "exit 3", says="it printed nothing on standard error", fix="correct `command`"
    ),
    "a command that is killed": command(
        "sh", "-c", "kill -9 $$", says="by the signal SIGKILL", fix="correct `command`"
    ),
    "a command that never ends": command(
        "sleep", "60", says="took more than 0.2 seconds", fix="ODFBUILD_PIPE_TIMEOUT",
        env={"ODFBUILD_PIPE_TIMEOUT": "0.2"},
    ),
    "a command that shouts": command(
        "sh", "-c", "yes complaint | head -c 9000000 >&2; exit 1",
        says="it printed: complaint | complaint", fix="correct `command`",
        complaint=b"complaint\n" * 100,
    ),
    "a command that prints without end": command(
        "yes", says="this looks like a decompression bomb", fix="unpack it yourself",
        code="damaged-archive", patches={"odfbuild.executors.ingest.prepare._RATIO_FROM": 1 << 20},
    ),
    "a command that prints no data": command(
        "echo", HTML, says="data/2 is an HTML page", fix="fetch.url", code="invalid-source"
    ),
    "a time limit that is none": command(
        "cat", says="ODFBUILD_PIPE_TIMEOUT is 'soon'", fix="ODFBUILD_PIPE_TIMEOUT=600",
        code="limit", env={"ODFBUILD_PIPE_TIMEOUT": "soon"},
    ),
}  # fmt: skip


def page(
    says: str, fix: str = "", code: str = "source-unreachable", *, more: str = "", **how: Any
) -> Bad:
    """Return an answer in which there is no data."""
    fetch = url("$HTTP/data", more)
    found, patches = Page(**how), ONCE if how.get("stall") else {}
    return Bad(code=code, fetch=fetch, good=GOOD, page=found, says=says, fix=fix, patches=patches)


def elsewhere(
    where: str, says: str, fix: str = "", code: str = "source-unreachable", **more: Any
) -> Bad:
    """Return a URL from which nothing can come, whatever is asked."""
    return Bad(code=code, fetch=url(where), says=says, fix=fix, **more)


ABSENT = "source-not-found"
HTTP = {
    "a page that is not there": page("404 Not Found", "fetch.url", ABSENT, status=404),
    "a page that is gone": page("410 Gone", "fetch.url", ABSENT, status=410),
    "a page that wants a password": page("status 401", "header values", status=401),
    "a page that is forbidden": page("status 403", "header values", status=403),
    "a server that is broken": page(
        "the server answered: out of order", "try again later", status=500, body=b"out of order"
    ),
    "a server that is busy": page(
        "status 503", "the server asks to wait 7200 seconds", status=503,
        headers={"Retry-After": "7200"},
    ),
    "a server that says nothing": page("cannot be fetched", "check the URL", drop=True),
    "a server that stops in the middle": page(
        "the server stopped sending", "check the URL", body=GOOD.encode(), stall=True
    ),
    "a connection that is reset": page("cannot be fetched", body=GOOD.encode() * 99, cut=99),
    "a body that is shorter than announced": page("broke off", body=GOOD.encode(), announced=99),
    "a page that leads to itself": page(
        "it redirects more than 10 times", status=302, headers={"Location": "/data"}
    ),
    "a page that leads to a file": page(
        "a URL that is not http or https", status=302, headers={"Location": "file:///etc/passwd"}
    ),
    "a page that leads to nonsense": page(
        "cannot be fetched", status=302, headers={"Location": "http://[half"}
    ),
    "a server that is not there": elsewhere("http://127.0.0.1:9/data", "refused", "the network"),
    "a server without TLS": elsewhere("$HTTPS/data", "SSL", "check the URL"),
    "a host that nobody knows": elsewhere("http://host.invalid/data", "cannot be fetched"),
    "a url that is none": elsewhere("http://[half/data", "cannot be fetched", "check the URL"),
    "a port that is none": elsewhere("http://127.0.0.1:99999/data", "cannot be fetched"),
    "a scheme that nobody fetches": elsewhere(
        "gopher://127.0.0.1/data", "the scheme 'gopher'", "", "unsupported-source",
        was=CSV, good=GOOD,
    ),
    "a variable that is not set": elsewhere(
        "$HTTP/${{ env.NOT_SET_ANYWHERE }}", "no value for the template 'env.NOT_SET_ANYWHERE'",
        "set NOT_SET_ANYWHERE", "template",
    ),
    "a template that is none": elsewhere(
        "$HTTP/${{ secret }}", "invalid pattern 'secret'", "env.secret", "template"
    ),
    "a header that is none": Bad(
        code="source-unreachable", says="a header name or value of the source is not valid", fix="",
        fetch=url("$HTTP/data", ", headers: [{name: 'a b', value: x}]"), data=GOOD,
    ),
}  # fmt: skip


def ftp(says: str, fix: str = "", where: str = "$FTP/data", **more: Any) -> Bad:
    code = more.pop("code", "source-unreachable")
    return Bad(code=code, fetch=url(where), says=says, fix=fix, **more)


FTP = {
    "an FTP file that is not there": ftp("550", "fetch.url", "$FTP/nothing.csv", code=ABSENT),
    "an FTP server that does not know us": ftp(
        "530", "", "ftp://stranger:wrong@$PORT/data", code="source-unreachable"
    ),
    "an FTP server that is not there": ftp("refused", "the network", "ftp://127.0.0.1:9/data"),
    "an FTP url without a file": ftp("", "", "$FTP/"),
    "an FTP file that is no data": ftp(
        "is an HTML page", "fetch.url", data=HTML, good=GOOD, code="invalid-source", keeps=True
    ),
}


_ACCESS = os.access


def _vanishing(path: Any, mode: int, **how: Any) -> bool:
    """Remove what is to be read, as if somebody had done so just now."""
    if Path(path).name == "2" and mode == os.R_OK:
        Path(path).unlink()
        return False
    return _ACCESS(path, mode, **how)


def _locked(path: Any, mode: int, **how: Any) -> bool:
    return not (Path(path).name == "2" and mode == os.R_OK) and _ACCESS(path, mode, **how)


def files(says: str, fix: str, code: str = ABSENT, **more: Any) -> Bad:
    return Bad(code=code, says=says, fix=fix, **more)


FILES = {
    "a file that vanishes": files(
        "data/2 vanished", "run the command again", good=GOOD, data=GOOD,
        patches={"odfbuild.executors.ingest.fetch.source.os.access": _vanishing},
    ),
    "a file that may not be read": files(
        "data/2 may not be read", "allow reading", good=GOOD, data=GOOD,
        patches={"odfbuild.executors.ingest.fetch.source.os.access": _locked},
    ),
    "two files of one name": files(
        "two new files have the name 1", "different names", "fetch",
        fetch="{kind: FilesGlob, path: 'data/**/1'}",
        late={"data/a/1": GOOD, "data/b/1": GOOD},
    ),
    "a url of a folder": files("is not a file", "FilesGlob", fetch=url("file:data/")),
    "a url of a file of another machine": files(
        "names the host 'elsewhere'", "file:path/in/the/project", "unsupported-source",
        fetch=url("file://elsewhere/data/1"),
    ),
}  # fmt: skip


def timed(says: str, fix: str, *, pattern: str) -> Bad:
    event_time = f"{{kind: FromPath, pattern: '{pattern}'}}"
    fetch = f"{{kind: FilesGlob, path: 'data/*', eventTime: {event_time}}}"
    return Bad(code="event-time", says=says, fix=fix, data=GOOD, fetch=fetch)


TIMES = {
    "a file name without a time": timed(
        "the file name 2 does not match", "rename the file", pattern=r"(\d{4}-\d\d-\d\d)"
    ),
    "a file name with a day that there is not": timed(
        "'2' in the file name 2 is not a time", "rename the file", pattern=r"(\d+)"
    ),
    "a time that is in no group": timed("has no group 1 in 2", "parentheses", pattern=r"(x)?\d+"),
    "a time format that nobody knows": Bad(
        code="event-time-pattern",
        says="the part 'Q'",
        fix="yyyy-MM-dd",
        was=CSV,
        good=GOOD,
        fetch="{kind: FilesGlob, path: 'data/*', eventTime: "
        "{kind: FromPath, pattern: '(x)', timestampFormat: Q}}",
    ),
}


def download(code: str, says: str, **more: Any) -> Bad:
    """Return a page that came, and is no good: it must be kept to be looked at."""
    more.setdefault("data", HTML)
    return Bad(
        code=code, says=says, fix="stored for inspection: ", good=more.pop("good", GOOD),
        fetch=url("$HTTP/data"), keeps=True, **more,
    )  # fmt: skip


DOWNLOADS = {
    "a download that is a page": download("invalid-source", "/data is an HTML page"),
    "a download with a bad row": download("invalid-source", "/data:2: column v", data="k,v\na,x\n"),
    "a download that is not packed": download(
        "damaged-archive", "/data is not a complete gzip file",
        prepare="{kind: Decompress, format: Gzip}", good=gzip.compress(GOOD.encode()),
    ),
    "a download that a command refuses": download(
        "pipe", "exit code 4 on", good=None, data=GOOD,
        prepare=pipe("sh", "-c", "exit 4"),
    ),
}  # fmt: skip
