"""The catalogue as one file of HTML that needs nothing else: no network, no server, no other file.

The frame and a plan are markup that Jinja escapes; all else is in the page as JSON that no text
in it can end, or compressed, and the script makes elements of it and never markup.  The policy of
the page allows its own script and style by their hashes, and nothing else.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odfbuild.app.inspection.catalogue import Catalogue
from odfbuild.cli.page.catalogue.data import columns_of, details_of, index_of, packed
from odfbuild.cli.page.catalogue.plan import plan_view
from odfbuild.cli.page.catalogue.run import run_view
from odfbuild.cli.page.markup import ascii_text, digest_of, safe_json, shown_lines
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Plan
from odfbuild.state.runs import RunSummary
from odfbuild.texts.page import joined_scripts, page_file
from odfbuild.texts.redaction import redacted

if TYPE_CHECKING:
    from odfbuild.app.inspection.trial import RowsTried

_PAGES = "odfbuild.cli.page"
_PACKAGE = f"{_PAGES}.catalogue"
_SCRIPTS = (
    "data", "elements", "list", "impact", "dataset", "selector", "layout", "drawing", "view",
    "graph", "start",
)  # fmt: skip


def catalogue_document(
    catalogue: Catalogue,
    *,
    plan: Plan | None = None,
    moved: Sequence[DatasetAlias] = (),
    tried: "Sequence[RowsTried]" = (),
    run: tuple[RunSummary, Sequence[Mapping[str, Any]]] | None = None,
) -> str:
    """Return the page; it is ASCII, and equal for equal catalogues, plans and runs.

    `moved` are the datasets that moved since the plan was made, `tried` rows of its changed
    queries; a run has its events.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(_file),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: _shown(value) if type(value) is str else value,
    )
    style = page_file("base.css") + _file("catalogue.css")
    script = joined_scripts(
        (page_file("elements.js"), *map(_script, _SCRIPTS), page_file("frame.js"))
    )
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src {digest_of(script)}; style-src {digest_of(style)}"
    )
    index = index_of(catalogue, has_plan=plan is not None, has_run=run is not None)
    return ascii_text(
        environment.get_template("page.html.j2").render(
            project=catalogue.project,
            applied=catalogue.is_applied,
            count=len(catalogue.entries),
            plan=None if plan is None else plan_view(plan, moved, tried),
            run=None if run is None else run_view(*run),
            policy=Markup(policy),  # noqa: S704 - our own hashes
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own files
            index=Markup(safe_json(index)),  # noqa: S704
            columns=Markup(packed(columns_of(catalogue))),  # noqa: S704 - base64
            details=[Markup(packed(each)) for each in details_of(catalogue)],  # noqa: S704
        )
    )


def _shown(text: str) -> str:
    return shown_lines(redacted(text))


def _file(name: str) -> str:
    return page_file(name, _PACKAGE)


def _script(name: str) -> str:
    """Return a script; how the graph moves is what the pages of lineage have."""
    if name == "layout":
        return page_file("layout.js")
    return page_file("view.js", _PAGES) if name == "view" else _file(f"scripts/{name}.js")
