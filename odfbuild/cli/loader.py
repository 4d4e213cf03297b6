"""Commands and groups of the registry; the module of a command is imported when it is called."""

import builtins
import inspect
import keyword
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from odfbuild.cli.arguments.command import ProjectCommand
from odfbuild.cli.arguments.context import ProjectArguments, command_options
from odfbuild.cli.commands import RegisteredCommand, RegisteredGroup


class LazyCommand(TyperCommand):
    """The name and the help of a command; what is called is the command in its module."""

    def __init__(self, registered: RegisteredCommand) -> None:
        super().__init__(registered.name, help=registered.help, rich_markup_mode=None)
        self.registered = registered

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return the context of the command in the module, which is imported for it."""
        command = _command(self.registered, function_of(self.registered))
        return command.make_context(info_name, args, parent, **extra)


class CommandGroup(TyperGroup):
    """A group of registered commands, one of which may be meant where none is named."""

    def __init__(self, group: RegisteredGroup) -> None:
        super().__init__(
            name=group.name,
            help=group.help,
            commands=commands_of(group.commands),
            no_args_is_help=group.no_args_is_help,
            rich_markup_mode=None,
        )
        self.default = group.default

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command before what names none."""
        if self.default and args and args[0] not in self.commands and args[0] != "--help":
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as typer asks
        """Write the help of each command, uncut."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.help) for name, each in self.commands.items()])


def commands_of(registered: Iterable[RegisteredCommand | RegisteredGroup]) -> dict[str, Any]:
    """Return commands and groups by name; no module of theirs is imported."""
    return {
        each.name: CommandGroup(each) if isinstance(each, RegisteredGroup) else LazyCommand(each)
        for each in registered
    }


def function_of(registered: RegisteredCommand) -> Callable[..., int]:
    """Import the module of a command, and return the function in it that is the command."""
    module = import_module(f"odfbuild.cli.commands.{registered.module}")
    name = registered.name.replace("-", "_")
    taken = keyword.iskeyword(name) or hasattr(builtins, name)
    function: Callable[..., int] = getattr(module, f"{name}_" if taken else name)
    return function


def _command(registered: RegisteredCommand, function: Callable[..., int]) -> TyperCommand:
    """Return the command that a function declares: its parameters are arguments and options."""
    signature = inspect.signature(function, eval_str=True)
    options = list(signature.parameters.values())
    takes_project = bool(options) and options[0].annotation is ProjectArguments

    def call(context: typer.Context, **values: Any) -> int:
        return function(command_options(context), **values)

    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    call.__signature__ = inspect.Signature([*options[1:], context])  # type: ignore[attr-defined]
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(
        registered.name,
        help=registered.help,
        cls=ProjectCommand if takes_project else TyperCommand,
        context_settings=dict(registered.settings),
    )(call if takes_project else function)
    command = typer.main.get_command(alone)
    assert isinstance(command, TyperCommand)  # noqa: S101 - it is of the class that is given
    return command
