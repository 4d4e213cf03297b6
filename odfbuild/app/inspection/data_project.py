"""A project that is read from Python: its datasets by name, and questions in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odfbuild.app.inspection import arguments
from odfbuild.errors import OdfBuildError
from odfbuild.project import opened
from odfbuild.project.opened import Opened
from odfbuild.sql.text.steps import DATAFUSION
from odfbuild.state.chain.heads import DEFAULT_LOCK_TIMEOUT

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from odfbuild.app.inspection.arguments import BlockOrMoment, Moment
    from odfbuild.app.inspection.built_dataset import BuiltDataset


MOST_LISTED: Final = 40


class DataProject(Opened):
    """An opened project with the data that was built of it."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the name of the project, its target and how many datasets it has."""
        named = self.config.name or self.root.name
        return f"<Project {named}, target {self.target}, {_counted(len(self.names()))}>"

    def _repr_html_(self) -> str:
        """Return the project as a notebook shows it: its datasets, and which one reads which."""
        from odfbuild.app.inspection.built_dataset import edges_of
        from odfbuild.app.inspection.notebook import ProjectPage

        names = self.names()
        return ProjectPage(
            name=self.config.name or self.root.name,
            facts=(f"target {self.target}", _counted(len(names))),
            datasets={name: self._facts(name) for name in names[:MOST_LISTED]},
            more=max(0, len(names) - MOST_LISTED),
            edges=edges_of(self, for_picture=True) if len(names) <= MOST_LISTED else {},
        ).html()

    def _facts(self, name: str) -> tuple[str, str, str, str]:
        """Return the kind, records, watermark and description of a dataset, or what is damaged."""
        try:
            found = self.dataset(name)
            mark = found.watermark
            until = "" if mark is None else f"{mark:%Y-%m-%d %H:%M:%S} UTC"
            return found.kind.lower(), f"{found.records:,}", until, found.description or ""
        except OdfBuildError as error:
            return "damaged", "", "", f"{error.code}: {error.what}"

    def names(self) -> tuple[str, ...]:
        """Return the names of the datasets of the workspace, sorted."""
        return tuple(sorted(map(str, self.workspace.names())))

    def dataset(self, name: str) -> BuiltDataset:
        """Return a dataset by its name.  Raises StateError when there is none."""
        from odfbuild.app.inspection.built_dataset import BuiltDataset

        return BuiltDataset.of(self, name)

    def query(
        self,
        sql: str,
        *,
        as_at: BlockOrMoment = None,
        as_of: Moment = None,
        key: Sequence[str] = (),
        current: bool = True,
        engine: str = DATAFUSION,
        limit: int | None = None,
    ) -> pa.Table:
        """Return the answer to one SELECT over datasets by name.

        Names with dots are in double quotes, or in backticks for `engine="spark"`, which starts
        Java.  `as_at`, `as_of`, `key` and `current` say which rows of every dataset are meant, as
        of `read`; `limit` is the greatest number of rows.  Raises ProjectErrors and
        InvalidQueryError for what is wrong with the text, EngineFailedError where the engine fails.
        """
        import pyarrow as pa

        from odfbuild.app.inspection.question import Question, answered
        from odfbuild.app.inspection.uuids import with_uuids_in_batches
        from odfbuild.planner.queries import copied_uuids

        question = Question(arguments.text("sql", sql), engine=arguments.text("engine", engine))
        asked = arguments.view_options(as_at=as_at, as_of=as_of, key=key, current=current)
        most = None if limit is None else arguments.count("limit", limit)
        views = question.views(self, asked)
        with answered(self, question, views, most) as frame:
            inputs = {name: (view.schema, view.uuids) for name, view in views.items()}
            uuids = copied_uuids(question.steps, inputs)
            schema, batches = with_uuids_in_batches(
                frame.schema, frame.batches(), uuids, as_text=False
            )
            return pa.Table.from_batches(batches, schema)


def _counted(datasets: int) -> str:
    return "1 dataset" if datasets == 1 else f"{datasets:,} datasets"


def open_project(
    directory: Path | str | None = None,
    *,
    target: str | None = None,
    variables: Sequence[str] = (),
    vars_files: Sequence[Path] = (),
    lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
) -> DataProject:
    """Find a project and open the workspace of one of its targets, by default its own.

    Without a directory it is looked for from the working directory upwards.  `variables` are
    values as K=V, `vars_files` files with more of them; `lock_timeout` is for how many seconds a
    dataset that another process changes is waited for.
    """
    if directory is not None and not isinstance(directory, Path):
        directory = Path(arguments.text("directory", directory))
    found = opened.open_project(
        directory,
        target=None if target is None else arguments.text("target", target),
        variables=variables,
        vars_files=vars_files,
        lock_timeout=lock_timeout,
    )
    return DataProject(**{each.name: getattr(found, each.name) for each in fields(found)})


def read(
    name: str,
    *,
    project: Opened | Path | str | None = None,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    as_at: BlockOrMoment = None,
    as_of: Moment = None,
    key: Sequence[str] = (),
    current: bool = True,
) -> pa.Table:
    """Return rows of a dataset of a project, in the order in which they came.

    By default these are the current rows; `current=False` gives the changelog with `offset`,
    `op` and `system_time`.  `as_at` is a block, or the time up to which blocks count; `as_of` the
    event time at which rows were in force, of each `key` one.  Of `columns`, and of what `where`
    (an expression of `pyarrow.compute.field`) leaves out, no more is read than it takes.  Raises
    StateError when there is no such dataset, and as `BuiltDataset.read` does.
    """
    from odfbuild.app.inspection.built_dataset import BuiltDataset

    found = project if isinstance(project, Opened) else open_project(project)
    return BuiltDataset.of(found, name).read(
        columns, where, as_at=as_at, as_of=as_of, key=key, current=current
    )
