"""How a run goes about its steps, as the project and the command say: pools, the first failure.

A dataset is in the pools that it has a tag of, and in `default` if there is none.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.cli.loudness import hint
from odfbuild.cli.usage import UsageRefusedError
from odfbuild.errors import ProjectErrors
from odfbuild.odf.refs import DatasetAlias

if TYPE_CHECKING:
    from odfbuild.executors.manner import Manner
    from odfbuild.planner.declared import Declared

__all__ = ["manner_of"]

Definitions = Callable[[], "Sequence[Declared]"]


def manner_of(
    project: app.Opened,
    given: Sequence[str],
    *,
    fail_fast: bool = False,
    slices: int | None = None,
    declared: "Sequence[Declared] | None" = None,
) -> "Manner":
    """Return the manner of a run; `given` are pools as NAME=N, which go before the project's.

    Definitions are read only where there are pools.  Raises UsageRefusedError.
    """
    from odfbuild.executors.manner import Manner

    pools = {**project.config.pools, **dict(map(_pool, given))}
    members: Mapping[DatasetAlias, tuple[str, ...]] = {}
    if pools:
        known = _declared(project) if declared is None else declared
        _refuse_unknown(project, given, known)
        members = _members(pools, known)
    return Manner(fail_fast=fail_fast, pools=pools, members=members, slices=slices, ending=_ending)


def _ending() -> None:
    hint("\nodfbuild: ends after the open slices; ^C again stops now\n")


def _pool(text: str) -> tuple[str, int]:
    name, sign, number = text.partition("=")
    if not name or not sign or not number.isascii() or not number.isdigit() or int(number) < 1:
        raise UsageRefusedError(
            what=f"--pool {text}: not a pool",
            why="a pool has a name and says how many steps at a time may use it",
            fix="write, for instance, --pool default=2",
        )
    return name, int(number)


def _declared(project: app.Opened) -> "Sequence[Declared]":
    """Return the definitions as they are; those of a saved plan may be broken by now."""
    try:
        return app.load(project).declared
    except ProjectErrors:
        return ()


def _members(
    pools: Mapping[str, int], declared: "Sequence[Declared]"
) -> Mapping[DatasetAlias, tuple[str, ...]]:
    found = (
        (each.alias, tuple(tag for tag in each.traits.tags if tag in pools)) for each in declared
    )
    return {alias: tags for alias, tags in found if tags}


def _refuse_unknown(
    project: app.Opened, given: Sequence[str], declared: "Sequence[Declared]"
) -> None:
    from odfbuild.executors.manner import DEFAULT_POOL
    from odfbuild.planner.names import did_you_mean

    known = {DEFAULT_POOL, *project.config.pools}
    known.update(tag for each in declared for tag in each.traits.tags)
    for name, _ in map(_pool, given):
        if name not in known:
            raise UsageRefusedError(
                what=f"--pool {name}: there is no such pool",
                why="a pool stands in `pools:` of odfbuild.yaml, or is a tag of datasets",
                fix=did_you_mean(name, known) or "name a tag, or `default` for all others",
            )
