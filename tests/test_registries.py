"""The registries: the next scheme, transport, engine or command is one module and one entry."""

import ast
import re
import shutil
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, get_args

import pytest

from odfbuild.cli.commands import RegisteredCommand
from odfbuild.cli.loader import commands_of
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.executors.engine.registry import engine_of
from odfbuild.executors.ingest.fetch.request import Request, SourceAnswer
from odfbuild.executors.ingest.fetch.source import Fetched, fetch
from odfbuild.odf.events import FetchStepUrl, MergeStrategy
from odfbuild.odf.merge_strategies import TRAITS
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.select.url_schemes import URL_SCHEMES, SourceKind, UrlScheme, kind_of_url
from odfbuild.project.config.engines import ENGINES, RegisteredEngine
from odfbuild.project.config.repositories import (
    SCHEMES,
    RepositoryScheme,
    RepositorySettings,
    is_writable,
    url_problem,
)
from odfbuild.project.opened import open_project
from odfbuild.repositories.remotes import open_dataset, open_repository
from tests.support.projects import EXAMPLES
from tests.test_layers import MODULES, PACKAGE, name_of, nodes_of

NOW = Timestamp.parse("2026-01-01T00:00:00Z")
LISTS = {
    "planner/select/url_schemes.py": set(URL_SCHEMES),
    "project/config/repositories.py": set(SCHEMES),
    "project/config/engines.py": set(ENGINES),
}
NAMING_STRATEGIES = {
    "executors/engine/datafusion/merging/statements.py",
    "executors/engine/spark/ingest/merge.py",
    "executors/engine/spark/training.py",  # a sample of what is run
    "odf/events.py",
    "odf/merge_strategies.py",
    "project/upgrade/words.py",  # fields of older specifications
}

QUOTED = re.compile(r"""["']([^"'\s]+)["']""")


def module(patch: pytest.MonkeyPatch, name: str, **functions: Any) -> None:
    """Put a module in place, as a new file would be."""
    made = ModuleType(f"odfbuild.{name}")
    vars(made).update(functions)
    patch.setitem(sys.modules, made.__name__, made)


@pytest.mark.parametrize("scheme", [each for each in URL_SCHEMES.values() if each.module])
def test_every_scheme_of_sources_has_a_module_that_downloads(scheme: UrlScheme) -> None:
    assert callable(import_module(f"odfbuild.executors.ingest.fetch.{scheme.module}").download)


def test_every_transport_is_of_a_scheme_and_opens_repositories_and_datasets() -> None:
    folder = PACKAGE / "repositories" / "transports"
    files = {each.stem for each in folder.glob("*.py")} - {"__init__", "simple"}
    assert {each.transport for each in SCHEMES.values()} == files
    for name in files:
        found = import_module(f"odfbuild.repositories.transports.{name}")
        assert callable(found.open_repository)
        assert callable(found.open_dataset)


def test_every_engine_has_a_module_that_opens_it() -> None:
    for name, engine in ENGINES.items():
        found = import_module(f"odfbuild.executors.engine.{engine.module}")
        assert callable(found.open_engine)
        assert str(engine_version(name)).endswith(f"+odfbuild.{engine.revision}")


def test_every_merge_strategy_has_its_traits() -> None:
    assert set(TRAITS) == set(get_args(MergeStrategy))


def test_merge_strategies_are_told_apart_by_traits_and_by_one_function_of_each_engine() -> None:
    names = {kind.__name__ for kind in TRAITS}
    found = {
        name_of(module)
        for module in MODULES
        for node in nodes_of(module)
        if isinstance(node, ast.Name) and node.id in names
    }
    assert found == NAMING_STRATEGIES


def test_a_scheme_is_listed_in_one_module_only() -> None:
    for module in MODULES:
        quoted = QUOTED.findall(module.read_text("utf-8"))
        if name_of(module) in LISTS or all(len(each & {*quoted}) < 3 for each in LISTS.values()):
            continue
        for listed in filter(None, map(_elements, nodes_of(module))):
            texts = {each.value for each in listed if isinstance(each, ast.Constant)}
            for home, names in LISTS.items():
                assert len(texts & names) < 3, f"{name_of(module)} lists what {home} has"


def _elements(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.Tuple() | ast.List() | ast.Set():
            return list(node.elts)
        case ast.Dict():
            return [each for each in node.keys if each is not None]
        case ast.MatchOr(patterns=patterns):
            return [each.value for each in patterns if isinstance(each, ast.MatchValue)]
    return []


def test_a_new_scheme_of_sources_is_one_entry_and_one_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(request: Request, cache: Path) -> SourceAnswer:
        path = cache / "answer"
        path.write_text(request.url)
        return SourceAnswer(path=path, etag="1", last_modified=None)

    monkeypatch.setitem(_of(URL_SCHEMES), "echo", UrlScheme(SourceKind.URL, "echo"))
    module(monkeypatch, "executors.ingest.fetch.echo", download=download)
    step = FetchStepUrl(url="echo://a/b")
    found = fetch(step, None, now=NOW, project_dir=tmp_path, cache=tmp_path, env={})
    assert isinstance(found, Fetched)
    assert found.path.read_text() == "echo://a/b"
    assert kind_of_url(step.url) is SourceKind.URL


def test_a_new_transport_is_one_entry_and_one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "echo://host/"
    assert url_problem(url) is not None
    monkeypatch.setitem(_of(SCHEMES), "echo", RepositoryScheme("echo", is_writable=True))
    module(
        monkeypatch,
        "repositories.transports.echo",
        open_repository=lambda settings: settings.url,
        open_dataset=lambda url, settings: (url, settings.name),
    )
    settings = RepositorySettings(name="far", url=url)
    assert url_problem(url) is None
    assert is_writable(url)
    found: tuple[Any, Any] = open_repository(settings), open_dataset(f"{url}a/", settings)
    assert found == (url, (f"{url}a/", "far"))


def test_a_new_engine_is_one_entry_and_one_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    engine = SimpleNamespace(
        transform=lambda work: f"echo of {work.name}",
        cancel=lambda: ended.append("cancel"),
        close=lambda: ended.append("close"),
    )
    monkeypatch.setitem(_of(ENGINES), "echo", RegisteredEngine("echo", "pytest", 1))
    module(monkeypatch, "executors.engine.echo", open_engine=lambda _: engine)
    project = shutil.copytree(EXAMPLES / "water-levels", tmp_path / "project")
    with engine_of(open_project(project)) as found:
        query = SimpleNamespace(transform=SimpleNamespace(engine="echo"))
        work: Any = SimpleNamespace(query=query, name="rows")
        made: Any = found.transform(work)
        assert made == "echo of rows"
        found.cancel()
    assert ended == ["cancel", "close"]
    with engine_of(open_project(project)) as found:
        found.cancel()
        assert found.transform(work) == made  # the engine is opened here, and begins nothing
    assert ended == ["cancel", "close"] * 2
    assert engine_version("echo") == f"{pytest.__version__}+odfbuild.1"


def test_a_new_command_is_one_entry_and_one_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def echo(text: str, loud: bool = False) -> int:
        """Print a text."""
        print(text.upper() if loud else text)
        return 3

    module(monkeypatch, "cli.commands.read.echo", echo=echo)
    command = commands_of([RegisteredCommand("echo", "read.echo", "Print a text.")])["echo"]
    assert command.help == "Print a text."
    context = command.make_context("echo", ["--loud", "hello"])
    assert context.command.invoke(context) == 3
    assert capsys.readouterr().out == "HELLO\n"


def _of(registry: Mapping[str, Any]) -> dict[str, Any]:
    assert isinstance(registry, dict)
    return registry
