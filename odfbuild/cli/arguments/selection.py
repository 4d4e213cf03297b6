"""Selectors of a command: the datasets that they mean; what is odd about them goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odfbuild import app
from odfbuild.app.selection import Selectors, selected, selected_existing

if TYPE_CHECKING:
    from odfbuild.errors import Diagnostic
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.plan import Plan
    from odfbuild.project.load import Project


def selected_datasets(
    project: app.Opened,
    declared: Sequence[Declared],
    selectors: Selectors,
    exclude: Selectors = (),
    *,
    plan: Callable[[], Plan] | None = None,
) -> frozenset[DatasetAlias]:
    """Return the declared datasets that selectors mean, as `app.selection.selected` does."""
    found = selected(project, declared, selectors, exclude, plan=plan)
    report_notes(found.notes)
    return found.datasets


def chosen_existing(
    project: app.Opened,
    selectors: Selectors,
    exclude: Selectors = (),
    load: Callable[[app.Opened], Project] | None = None,
) -> frozenset[DatasetAlias]:
    """Return the datasets of the workspace that selectors mean, as `selected_existing` does."""
    found = selected_existing(project, selectors, exclude, load)
    report_notes(found.notes)
    return found.datasets


def chosen_readable(
    project: app.Opened, selectors: Selectors, exclude: Selectors = ()
) -> tuple[frozenset[DatasetAlias], Project | None]:
    """Return what `chosen_existing` does, and the definitions that could be read, if any were."""
    from odfbuild.cli.unreadable import load_readable

    read: list[Project] = []

    def load(opened: app.Opened) -> Project:
        read.append(load_readable(opened))
        return read[-1]

    return chosen_existing(project, selectors, exclude, load), next(iter(read), None)


def report_notes(notes: Sequence[Diagnostic]) -> None:
    """Write to stderr what is odd about selectors."""
    if notes:
        from odfbuild.cli.render.diagnostics import render_diagnostics

        sys.stderr.write(render_diagnostics(notes) + "\n")
