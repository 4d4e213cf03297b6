"""What every test shares: an empty home, quiet settings, golden files and hypothesis's effort."""

import gc
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from operator import not_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import sample

if TYPE_CHECKING:
    from tests.support.process.chromium import Browser
    from tests.support.servers.object_store import ObjectServer

_COMMON = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "default", max_examples=15, deadline=None, derandomize=True, suppress_health_check=_COMMON
)
settings.register_profile("long", max_examples=2_000, deadline=None, suppress_health_check=_COMMON)
settings.load_profile("default")

_TESTS = itertools.count()


_LIMITS = {"slow": 4 * 3_600, "spark": 900}
_FILES = 300  # open at once: beyond, the garbage is collected
_MORE_FILES = 100  # than the last collection left: before, there is no other one
_LONG = tuple(
    f"tests/{each}"
    for each in (
        "bad/", "faults/", "program/test_plan_laws", "pages/test_ci_templates",
        "hostile/test_looked_at",
        "app/", "executors/verify/test_forged_chains", "executors/runs/",
        "executors/transform/test_query_changes", "cli/commands/apply/", "hostile/test_server",
        "cli/terminal/test_events", "cli/damage/", "executors/engine/contract/", "serve/",
        "state/remote/", "repositories/test_transfer",
    )
)  # fmt: skip


def pytest_configure() -> None:
    """Take ^C as from a terminal, also where who started the tests ignores it, as cron does."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) is signal.SIG_IGN:
            signal.signal(each, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files again")
    parser.addoption(
        "--sample",
        choices=("some", "each"),
        help="of tests that take long run a sample; see support/sample.py",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that need a JVM, then others that take long: no process is left waiting.

    With several processes this needs --no-loadscope-reorder.  A test that names no limit of its
    own has that of its kind, which is far from what it takes: it is to end a test that hangs.
    """
    if chosen := config.getoption("sample"):
        names = [item.nodeid for item in items]
        stays = sample.sampled(
            names, sample.listed(), each=chosen == "each", commit=sample.commit_number()
        )
        config.hook.pytest_deselected(items=[*itertools.compress(items, map(not_, stays))])
        items[:] = itertools.compress(items, stays)
    for item in items:
        for kind, seconds in _LIMITS.items():
            if item.get_closest_marker(kind) and not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(seconds))
    items.sort(
        key=lambda item: (
            not _needs_java(item),
            not item.nodeid.startswith(_LONG),
        )
    )


def pytest_collection_finish() -> None:
    """Leave what is there by now, the tests above all, out of every later collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each file to one process, and those that need a JVM to some of them."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.support.scheduling import FileScheduling

    return FileScheduling(config, log)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with a golden file, byte for byte; --update-golden writes it instead."""

    def check(expected: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            expected.write_text(text, "utf-8")
        assert text == expected.read_text("utf-8")

    return check


@pytest.fixture(autouse=True)
def _few_open_files() -> Iterator[None]:
    """Have what commands leave open in this process closed before there is much of it.

    A command that ends with its process leaves its index to the collection of garbage.
    """
    yield
    if _count_open_files() > max(_FILES, _LEFT_OPEN[0] + _MORE_FILES):
        gc.collect()
        _LEFT_OPEN[0] = _count_open_files()


_LEFT_OPEN = [0]  # files that the last collection of garbage left open


def _count_open_files() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


@pytest.fixture(autouse=True)
def _own_secrets() -> Iterator[None]:
    """Let no test hide the credentials of another: a process knows them until it ends."""
    yield
    known = sys.modules.get("odfbuild.texts.known_secrets")
    if known is not None:
        known.KNOWN_SECRETS.secrets, known.KNOWN_SECRETS.blanked = frozenset(), None


@pytest.fixture(scope="session", autouse=True)
def _own_home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Let no test read or write the home folder of who runs it."""
    with tempfile.TemporaryDirectory(prefix="odfbuild-home-") as home:
        before = dict(os.environ)
        os.environ.update(
            HOME=home,
            XDG_CACHE_HOME=str(Path(home) / ".cache"),
            XDG_CONFIG_HOME=str(Path(home) / ".config"),
            ODFBUILD_CLASS_ARCHIVE="use",
        )
        gone = ("CI", "ODFBUILD_POLICY", "RUST_BACKTRACE")  # the last would take seconds
        for name in (*gone, "COLUMNS", "LINES"):  # by pytest-xdist
            os.environ.pop(name, None)
        _trust_test_projects(Path(home))
        items = request.session.items
        with ExitStack() as stack:
            if "PYTEST_XDIST_WORKER" in os.environ and any(map(_needs_java, items)):
                shared = tmp_path_factory.getbasetemp().parent
                stack.enter_context(_shared_classes(Path(home), shared))
            yield
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def _java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], None]]:
    """Yield what starts the one JVM of this process, which all its engines join.

    It takes seconds to start, and minutes until it has compiled what it does most.  There is a
    secret in its environment: what strangers send must not find it.
    """
    from odfbuild.executors.engine.spark.engine import SparkEngine
    from tests.hostile import CANARY, CANARY_NAME

    with SparkEngine(tmp_path_factory.mktemp("java"), cores=2) as engine:

        def start() -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(CANARY_NAME, CANARY)
                engine._sessions.start()

        yield start


@pytest.fixture(scope="session")
def running_store() -> "Iterator[ObjectServer]":
    """Run a real object store while there are tests that need one."""
    from tests.support.servers.object_store import serving_objects

    with serving_objects() as server:
        yield server


@pytest.fixture(scope="session")
def simulated_store() -> "Iterator[ObjectServer]":
    """Run another one, which differs from it."""
    from tests.support.servers.object_store import serving_simulated_objects

    with serving_simulated_objects() as server:
        yield server


@pytest.fixture(scope="session")
def azure_store() -> "Iterator[ObjectServer]":
    """Run a store of another kind."""
    from tests.support.servers.azure import PROGRAM, serving_azure

    if not PROGRAM.exists():
        pytest.skip("Azurite is not installed on this machine: make azurite")
    with serving_azure() as server:
        yield server


@pytest.fixture(scope="session")
def google_store() -> "Iterator[ObjectServer]":
    """Run a store that swaps by generations."""
    from tests.support.servers.google import serving_google

    with serving_google() as server:
        yield server


@pytest.fixture
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> "ObjectServer":
    """Return a running object store, with its credentials in the environment.

    A test may name another one: `simulated_store`, `azure_store`, `google_store`; the variable
    ODFBUILD_TEST_STORE names one for all others.
    """
    usual = os.environ.get("ODFBUILD_TEST_STORE", "running_store")
    found: ObjectServer = request.getfixturevalue(getattr(request, "param", usual))
    for name, value in found.credentials.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture(autouse=True)
def _running_java(request: pytest.FixtureRequest) -> None:
    """Have the JVM of this process run while there are tests that need one."""
    if _needs_java(request.node):
        request.getfixturevalue("_java")()


def _needs_java(item: pytest.Item) -> bool:
    return item.get_closest_marker("spark") is not None


@contextmanager
def _shared_classes(home: Path, shared: Path) -> Iterator[None]:
    """Let all processes of a run start Java from one class archive.

    The first one makes it, which takes a minute of a processor; each start of Spark then takes four
    seconds of a processor less.  Nothing waits for it: until it is there, starts are as they were.
    """
    classes, link = shared / "classes", home / ".cache" / "odfbuild" / "classes"
    classes.mkdir(mode=0o700, exist_ok=True)
    link.parent.mkdir(mode=0o700, parents=True)
    link.symlink_to(classes)
    command = [sys.executable, "-P", "-m", "odfbuild.executors.engine.spark.training"]
    environment = {**os.environ, "ODFBUILD_CLASS_ARCHIVE": "off"}
    nothing = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=nothing, stdout=nothing, stderr=nothing, env=environment
    ) as making:
        yield
        making.terminate()


def _trust_test_projects(home: Path) -> None:
    """Say what a user says who wrote the projects: tests of the policy have one of their own."""
    settings = home / ".config" / "odfbuild"
    settings.mkdir(parents=True)
    policy = 'odfbuild_policy: 1\npython: true\nenv: ["*"]\nmasters: ["*"]\nstores: ["*"]\n'
    policy += "literal_secrets: true\n"
    (settings / "policy.yaml").write_text(policy, "ascii")


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let no test remember the heads that another one saw: copies of one dataset part there."""
    before = os.environ.get("XDG_STATE_HOME")
    base = tmp_path_factory.getbasetemp()
    os.environ["XDG_STATE_HOME"] = str(base / f"state-{next(_TESTS)}")
    yield
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before


@pytest.fixture(scope="session")
def _running_browser(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Browser]":
    from tests.support.process.chromium import browsing

    folder = tmp_path_factory.mktemp("chromium")
    with browsing(folder) as found:
        yield found
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def browser(_running_browser: "Browser") -> "Iterator[Browser]":
    """A browser for all tests of a process; the pages of each are closed after it."""
    yield _running_browser
    _running_browser.close_pages()
