"""The registry of commands: it agrees with the modules, and lists commands without loading them."""

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.cli import commands, loader
from odfbuild.cli.commands import REGISTRY, SECTIONS, RegisteredCommand, RegisteredGroup
from odfbuild.cli.main import main, summary

FOLDER = Path(commands.__file__).parent
SHARED = {
    "apply.maintenance",
    "apply.restoration",
    "plan.ignored",
    "share.report",
    "share.transfers",
}
"""Modules that commands share; they are no commands."""
LIBRARIES = ("pyarrow", "numpy", "pyspark", "py4j", "sqlglot", "jinja2", "networkx", "rich")


def registered() -> Iterator[RegisteredCommand]:
    for each in REGISTRY:
        yield from each.commands if isinstance(each, RegisteredGroup) else (each,)


@pytest.mark.parametrize("command", [*registered()], ids=lambda each: f"{each.module}:{each.name}")
def test_the_help_is_the_first_line_of_the_docstring(command: RegisteredCommand) -> None:
    text = inspect.getdoc(loader.function_of(command))
    assert text is not None
    assert text.splitlines()[0] == command.help


def test_every_module_is_registered_and_every_name_once() -> None:
    found = {
        path.relative_to(FOLDER).with_suffix("").as_posix().replace("/", ".")
        for path in FOLDER.rglob("*.py")
        if path.stem != "__init__"
    }
    assert {each.module for each in registered()} | SHARED == found
    names = [each.name for each in REGISTRY]
    assert len(names) == len(set(names))


def test_a_module_with_options_is_registered_as_often_as_it_has_commands() -> None:
    for module in {each.module for each in registered()}:
        tree = ast.parse((FOLDER / f"{module.replace('.', '/')}.py").read_text("utf-8"))
        options = [
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
            and not node.name.startswith("_")
            and any(_is_option(each.annotation) for each in node.args.args)
        ]
        own = [loader.function_of(each).__name__ for each in registered() if each.module == module]
        assert set(options) <= set(own), module


def _is_option(annotation: ast.expr | None) -> bool:
    return annotation is not None and "typer." in ast.unparse(annotation)


def loaded(*arguments: str) -> set[str]:
    """Return the modules that a command line loads, and assert that it succeeds."""
    code = (
        "import sys, json\nfrom odfbuild.cli.main import main\n"
        "try: main()\nexcept SystemExit as end: assert end.code == 0, end.code\n"
        "sys.stderr.write(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr))


def test_commands_are_listed_without_a_module_of_theirs() -> None:
    modules = {f"odfbuild.cli.commands.{each.module}" for each in registered()}
    assert modules.isdisjoint(loaded("--help"))
    assert modules & loaded("log", "--help") == {"odfbuild.cli.commands.read.log"}
    assert modules.isdisjoint(loaded("key", "--help"))


def test_each_command_is_listed_once_on_one_line_below_its_title(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["odfbuild", "--help"])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().out.splitlines()
    at = -1
    for title, of in SECTIONS.items():
        at = shown.index(f"{title}:", at + 1)
        for each in of:
            at += 1
            name, text = shown[at].split(maxsplit=1)
            assert (name, text) == (each.name, summary(each.help))
            assert each.help.startswith(text)


def test_the_options_of_all_commands_load_no_large_library() -> None:
    names = ", ".join(f"odfbuild.cli.commands.{each.module}" for each in registered())
    code = f"import sys, {names}\nprint(*(each for each in {LIBRARIES} if each in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
