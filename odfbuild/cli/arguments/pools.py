"""Settings of a run as a command gives them; the pools among them.

A dataset is in the pools that it has a tag of, and in `default` if there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.cli.terminal.console import hint
from odfbuild.errors import ProjectErrors, UsageRefusedError

if TYPE_CHECKING:
    from odfbuild.executors.runs.options import RunSettings
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.declared import Declared


Definitions = Callable[[], "Sequence[Declared]"]


def run_settings_of(
    project: app.Opened,
    given: Sequence[str],
    *,
    fail_fast: bool = False,
    slices: int | None = None,
    declared: Sequence[Declared] | None = None,
) -> RunSettings:
    """Return the settings of a run; `given` are pools as NAME=N, which go before the project's.

    Definitions are read only where there are pools.  Raises UsageRefusedError.
    """
    from odfbuild.executors.runs.options import RunSettings

    pools = {**project.config.pools, **dict(map(_pool, given))}
    members: Mapping[DatasetAlias, tuple[str, ...]] = {}
    if pools:
        known = _definitions(project) if declared is None else declared
        _refuse_unknown(project, given, known)
        members = _members(pools, known) | _repository_members(pools, known)
    return RunSettings(
        fail_fast=fail_fast, pools=pools, members=members, slices=slices, ending=_ending
    )


def _ending() -> None:
    hint("\nodfbuild: ends after the open slices; ^C again stops at once\n")


def _pool(text: str) -> tuple[str, int]:
    name, sign, number = text.partition("=")
    if not name or not sign or not number.isascii() or not number.isdigit() or int(number) < 1:
        raise UsageRefusedError(
            what=f"--pool {text}: not a pool",
            why="a pool has a name and a number of steps at a time",
            fix="write, for instance, --pool default=2",
        )
    return name, int(number)


def _definitions(project: app.Opened) -> Sequence[Declared]:
    """Return the definitions as they are; those of a saved plan may be broken by now."""
    try:
        return app.load(project, partly=True).declared
    except ProjectErrors:
        return ()


def _members(
    pools: Mapping[str, int], declared: Sequence[Declared]
) -> dict[DatasetAlias, tuple[str, ...]]:
    found = (
        (each.alias, tuple(tag for tag in each.traits.tags if tag in pools)) for each in declared
    )
    return {alias: tags for alias, tags in found if tags}


def _repository_members(
    pools: Mapping[str, int], declared: Sequence[Declared]
) -> dict[DatasetAlias, tuple[str, ...]]:
    """Return the pools of inputs that are datasets of repositories: that of their name."""
    from odfbuild.planner.plan.remote_inputs import repository_of

    found: dict[DatasetAlias, tuple[str, ...]] = {}
    for given in (given for each in declared for given in each.remote):
        repository = repository_of(given.ref)
        if repository in pools:
            found[given.alias] = (str(repository),)
    return found


def _refuse_unknown(
    project: app.Opened, given: Sequence[str], declared: Sequence[Declared]
) -> None:
    from odfbuild.executors.runs.options import DEFAULT_POOL
    from odfbuild.texts.suggest import did_you_mean

    known = {DEFAULT_POOL, *project.config.pools, *project.config.repositories}
    known.update(tag for each in declared for tag in each.traits.tags)
    for name, _ in map(_pool, given):
        if name not in known:
            raise UsageRefusedError(
                what=f"--pool {name}: there is no such pool",
                why="a pool is an entry of `pools:` in odfbuild.yaml, a tag of datasets, or a "
                "repository",
                fix=did_you_mean(name, known) or "name a tag, or `default` for all others",
            )
