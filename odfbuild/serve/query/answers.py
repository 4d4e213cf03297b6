"""Answers to questions, of any protocol: the datasets they may read, and the process that answers.

A question names datasets; each must be one that its caller may read, at its head or at the block
that the question names.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from anyio.to_thread import run_sync

from odfbuild.errors import OdfBuildError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.serve.access import AccessError, Caller
from odfbuild.serve.files.place import check_outage
from odfbuild.serve.query.files import QuestionFiles
from odfbuild.serve.query.question import MOST_DATASETS, PinnedDataset, QueryQuestion, RowView
from odfbuild.serve.query.worker import (
    COLUMNS,
    FLIGHT_DATA,
    MEMORY_LIMIT,
    SIZE_LIMIT,
    TIME_LIMIT,
)
from odfbuild.serve.query.workers import AnswerText, Worker, Workers
from odfbuild.serve.served import Served
from odfbuild.serve.tokens import TokenScope
from odfbuild.state.chain.dataset import holds
from odfbuild.texts.redaction import excerpt

_CLOSER: Final = "compare blocks with fewer rows between them, or request fewer rows"


class MissingBlockError(AccessError):
    """A dataset does not have a block, or not below its head."""


class Answers:
    """The answers of one server."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._workers = Workers(served.settings.limits)
        self._files = QuestionFiles(served.place)

    def check_reader(self, caller: Caller) -> None:
        """Raise AccessError (401, 403) for a caller who may not ask questions."""
        self._served.access.check_known(caller)
        is_reader = caller.token is None or TokenScope.READ in caller.token.scopes
        if not is_reader and not self._served.settings.anonymous_read:
            raise AccessError(403, "The token does not allow to read.")

    async def answer(
        self, question: QueryQuestion, caller: Caller, *, at_head: bool = True
    ) -> tuple[QueryQuestion, AnswerText]:
        """Return the question with the blocks that were read, and the rows of its answer as JSON.

        Unless datasets may be read `at_head`, the question must name a block of each.
        """
        is_hashed = "Proof" in question.include or not at_head
        async with self._worker() as worker:
            read, tables = await self._tables(worker, question, caller, at_head=at_head)
            form = {**self._form(question), "tables": tables, "is_hashed": is_hashed}
            async with self._files.ready(read.datasets):
                return read, await worker.answer(form)

    async def columns(self, question: QueryQuestion, caller: Caller) -> tuple[QueryQuestion, bytes]:
        """Return the question with the blocks that it reads, and the columns of its answer.

        These are `schema_bytes` of `serve.query.flight_data`.
        """
        async with self._worker() as worker:
            read, tables = await self._tables(worker, question, caller)
            form = {**self._form(question), "data_format": COLUMNS, "limit": 0}
            async with self._files.ready(read.datasets, has_rows=False):
                return read, (await worker.answer({**form, "tables": tables})).text

    async def messages(
        self, question: QueryQuestion, caller: Caller
    ) -> AsyncGenerator[bytes, None]:
        """Yield the rows of an answer as `flight_data`, each message as soon as it arrives."""
        rows = self._served.settings.limits.rows
        async with self._worker() as worker:
            read, tables = await self._tables(worker, question, caller)
            form = {**self._form(question), "data_format": FLIGHT_DATA, "tables": tables}
            async with self._files.ready(read.datasets):
                async for each in worker.messages({**form, "limit": rows + 1, "rows": rows}):
                    yield each

    async def last_rows(
        self, question: QueryQuestion, dataset: PinnedDataset, view: RowView
    ) -> AnswerText:
        """Return the last rows of a dataset, without a query."""
        form = {"rows": dataset.alias, "id": str(dataset.id), "block": str(dataset.block)}
        async with self._worker() as worker, self._files.ready([dataset]):
            return await worker.answer({**self._form(question), **form, **view.document()})

    async def changes(self, dataset: PinnedDataset, since: Multihash, limit: int) -> AnswerText:
        """Return how the rows of a dataset differ from those at the block `since`."""
        form = {"since": str(since), "id": str(dataset.id), "block": str(dataset.block)}
        most = {"limit": limit, "bytes": self._served.settings.limits.output}
        read = [dataset, replace(dataset, block=since)]  # either may be the later one
        try:
            async with self._worker() as worker, self._files.ready(read):
                return await worker.answer({**self._files.place_of(), **form, **most})
        except AccessError as error:
            if error.code in (TIME_LIMIT, MEMORY_LIMIT, SIZE_LIMIT):
                text = f"{error.text.rstrip('.')}: {_CLOSER}."
                raise AccessError(error.status, text, error.code) from None
            raise

    async def origins(self, dataset: PinnedDataset, offset: int, caller: Caller) -> AnswerText:
        """Return what a record was made of, as far as the caller may read that."""
        root = self._files.place_of()
        own = {"name": dataset.alias, "id": str(dataset.id), "block": str(dataset.block)}
        settings = self._served.settings
        asked = {
            **own,
            "offset": offset,
            "bytes": settings.limits.output,
            "datasets": MOST_DATASETS,
            "project": None if settings.project is None else str(settings.project),
            "file_bytes": settings.limits.file,
            "file_rows": settings.limits.file_rows,
        }

        async def answer(refused: str | None) -> AnswerText:
            async with self._worker() as worker, self._files.ready([dataset], has_rows=False):
                inputs = (await worker.say({**root, **asked, "refused": refused}))["inputs"]
                visible = await self._served.place.reading(self._visible, caller, inputs)
                read = [
                    PinnedDataset(name, DatasetId.parse(id), Multihash.parse(head))
                    for id, (name, head) in visible.items()
                    if head is not None
                ]
                async with self._files.ready([dataset, *read]):
                    return await worker.answer({**root, "visible": visible})

        try:
            return await answer(None)
        except AccessError as error:
            if error.status != 400:
                raise
            return await answer(f"its step cannot be run again here: {error.text.rstrip('.')}")

    def _visible(self, caller: Caller, ids: list[str]) -> dict[str, tuple[str, str | None]]:
        """Return the names of those datasets that a caller may read, by id, with their heads.

        A dataset whose head cannot be read has none.
        """
        found: dict[str, tuple[str, str | None]] = {}
        aliases = self._served.workspace.aliases()
        for id in map(DatasetId.parse, ids):
            alias = aliases.get(id)
            if alias is None or not self._served.is_served(alias):
                continue
            if not self._served.access.sees(caller, alias, id):
                continue
            try:
                head = self._served.workspace.dataset(id).head()
            except OdfBuildError as error:
                check_outage(error)
                head = None
            found[str(id)] = (str(alias), None if head is None else str(head))
        return found

    def is_current(self, question: QueryQuestion, caller: Caller) -> bool:
        """Return whether a question is pinned to the blocks that it would read now."""
        return all(each == self._at_head(each, caller) for each in question.datasets)

    def _at_head(self, pinned: PinnedDataset, caller: Caller) -> PinnedDataset:
        return self._pin(pinned.alias, None, caller)

    async def close(self) -> None:
        """End the processes that are ready for questions."""
        await self._workers.close()

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[Worker]:
        """Yield a process for one question; delete the files of one that was cut off."""
        async with self._workers.one() as worker:
            try:
                yield worker
            finally:
                await worker.end()
                if not worker.has_answered:
                    await run_sync(self._served.workspace.sweep_staging)

    async def _tables(
        self, worker: Worker, question: QueryQuestion, caller: Caller, *, at_head: bool = True
    ) -> tuple[QueryQuestion, dict[str, tuple[str, str]]]:
        """Return the question with the blocks of its datasets, and the tables for a process."""
        first = {"query": question.query, "is_repeatable": "Proof" in question.include}
        names = (await worker.say(first))["tables"]
        _check_names(question, names, at_head=at_head)
        read = await self._served.place.reading(self._read, question, caller, names)
        tables = {each.alias: (str(each.id), str(each.block)) for each in read}
        return replace(question, datasets=read), tables

    def _form(self, question: QueryQuestion) -> dict[str, Any]:
        """Return the members that every message to a process has."""
        return {
            **self._files.place_of(),
            "skip": question.skip,
            "limit": question.limit,
            "bytes": self._served.settings.limits.output,
            "data_format": question.data_format,
            "schema_format": (question.schema_format or "OdfJson")
            if "Schema" in question.include
            else None,
        }

    def _read(
        self, question: QueryQuestion, caller: Caller, names: list[str]
    ) -> tuple[PinnedDataset, ...]:
        """Return the datasets that a question names, with the blocks at which to read them."""
        pinned = {each.alias: each for each in question.datasets}
        return tuple(self._pin(name, pinned.get(name), caller) for name in names)

    def _pin(self, name: str, pinned: PinnedDataset | None, caller: Caller) -> PinnedDataset:
        found = self._named(caller, name) if pinned is None else self._with_id(pinned.id)
        if found is None or not self._served.access.sees(caller, *found):
            asked = name if pinned is None else str(pinned.id)
            raise AccessError(404, f"There is no dataset {excerpt(asked, 100)}.")
        id = found[1]
        dataset = self._served.workspace.dataset(id)
        try:
            head = dataset.head()
            block = head if pinned is None or pinned.block is None else pinned.block
            is_there = head is not None and block is not None and holds(dataset, block, head)
        except OdfBuildError as error:
            check_outage(error)
            raise AccessError(500, f"The dataset cannot be read: {error.code}.") from error
        if not is_there:
            raise MissingBlockError(404, f"{name} has no block {block}.")
        return PinnedDataset(name, id, block)

    def _named(self, caller: Caller, name: str) -> tuple[DatasetAlias, DatasetId] | None:
        try:
            alias = DatasetAlias.parse(name)
        except OdfBuildError:
            return None
        dataset = self._served.find(caller, alias) if self._served.is_served(alias) else None
        return None if dataset is None else (alias, dataset.id)

    def _with_id(self, id: DatasetId) -> tuple[DatasetAlias, DatasetId] | None:
        alias = self._served.workspace.aliases().get(id)
        return None if alias is None or not self._served.is_served(alias) else (alias, id)


def _check_names(question: QueryQuestion, names: list[str], *, at_head: bool) -> None:
    """Raise AccessError (400) if the datasets of a question are not those that its text reads."""
    if len(names) > MOST_DATASETS:
        raise AccessError(400, f"A question reads at most {MOST_DATASETS:,} datasets.")
    for each in question.datasets:
        if each.alias not in names:
            alias = excerpt(each.alias, 100)
            raise AccessError(400, f"datasets has {alias!r}, which the query does not read.")
    pinned = {each.alias for each in question.datasets if each.block is not None}
    if not at_head and (left := [each for each in names if each not in pinned]):
        name = excerpt(left[0], 100)
        raise AccessError(400, f"datasets of the input has no block of {name!r}.")
