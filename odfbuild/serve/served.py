"""State of a running server: workspace, access, uploads and transfers."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Lock

from odfbuild.errors import OdfBuildError, ProtocolError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias, is_name
from odfbuild.serve.access import Access, AccessError, Caller
from odfbuild.serve.files.place import ServedPlace, check_outage
from odfbuild.serve.files.uploads import Uploads
from odfbuild.serve.listing import DamagedDataset, ServerIndex
from odfbuild.serve.settings import ServerSettings
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import MissingHeadError, UnusableNameError, Workspace


class Served:
    """The open workspace of a server."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.place = ServedPlace(settings)
        self.workspace = self.place.workspace
        view = self.place.view
        self.access = Access(settings, None if view is None else view.visibility)
        self.uploads = Uploads(self.workspace, settings.limits)
        self.index = ServerIndex(self.workspace)
        self.ends = Event()
        self._states: dict[DatasetId, ChainState] = {}
        self._lock = Lock()
        self._asking = Lock()
        self._recent: tuple[Mapping[DatasetAlias, ChainState] | None, float] = None, 0.0
        self._transfers: dict[str, Counter[str]] = {
            verb: Counter() for verb in ("pull", "push", "answer")
        }

    def check_lasting(self) -> None:
        """Raise AccessError (503) if the server is stopping; called during long work."""
        if self.ends.is_set():
            raise AccessError(503, "The server is stopping.")

    def alias(self, account: str | None, name: str) -> DatasetAlias:
        """Return the name in a path.  Raises AccessError (404)."""
        if not is_name(name) or (account is not None and not is_name(account)):
            raise AccessError(404, "There is no such dataset.")
        return DatasetAlias(account, name)

    def find(
        self, caller: Caller, alias: DatasetAlias, workspace: Workspace | None = None
    ) -> Dataset | None:
        """Return the dataset of a name; None if there is none, whether or not it may be read.

        Raises AccessError (400, 500); of a damaged one only if the caller may read or change it.
        """
        workspace = workspace or self.workspace
        try:
            return workspace.open(alias)
        except ProtocolError:
            return None
        except UnusableNameError as error:
            raise AccessError(400, f"{error.what}: {error.why}.") from error
        except OdfBuildError as error:
            check_outage(error)
            id = workspace.names().get(alias)
            if self.access.sees(caller, alias, id) or self.access.changes(caller, alias):
                raise AccessError(500, f"The dataset cannot be read: {error.code}.") from error
            return None

    def states(self) -> Mapping[DatasetAlias, ChainState]:
        """Return the states of all datasets but damaged ones; only new heads are read.

        Of a workspace in a store they are those of a moment ago, the longer the more there are.
        """
        if self.place.view is None:
            return self._states_now()
        limits = self.settings.limits
        with self._asking:
            found, at = self._recent
            if found is None or time.monotonic() - at > max(limits.age, len(found) / limits.heads):
                found, at = self._states_now(), time.monotonic()
                self._recent = found, at
            return found

    def note_change(self) -> None:
        """Keep no states: they are read again for the next request, as a push was received."""
        self._recent = None, 0.0

    def _states_now(self) -> Mapping[DatasetAlias, ChainState]:
        names = self.workspace.names()
        heads = self.workspace.heads(names.values())
        with self._lock:
            known = self._states
            moved = {
                alias: id
                for alias, id in names.items()
                if id in heads and (id not in known or known[id].head != heads[id])
            }
            for id in moved.values():
                known.pop(id, None)
            known.update((each.dataset, each) for each in self.workspace.states(moved).values())
            for id in moved.values():
                if id not in known and (error := self.workspace.damage_of(id)) is not None:
                    check_outage(error)
            return {a: known[id] for a, id in names.items() if id in heads and id in known}

    def damage(
        self, states: Mapping[DatasetAlias, ChainState]
    ) -> Mapping[DatasetAlias, DamagedDataset]:
        """Return the datasets that cannot be read; `states` are of those that can be.

        Raises nothing: who may see them is another question.
        """
        workspace = self.workspace
        names = workspace.names()
        found = {
            alias: DamagedDataset(None, error.code)
            for alias, error in workspace.damaged_names().items()
        }
        for alias, id in names.items():
            if alias not in states and (code := self._problem(alias, id)) is not None:
                found[alias] = DamagedDataset(id, code)
        return found

    def _problem(self, alias: DatasetAlias, id: DatasetId) -> str | None:
        """Return the code of what is wrong with a dataset; None if it was made just now."""
        error = self.workspace.damage_of(id)
        if error is not None:
            check_outage(error)
            return error.code
        try:
            is_there = self.workspace.dataset(id).head() is not None
        except OdfBuildError as wrong:
            check_outage(wrong)
            return wrong.code
        return None if is_there else MissingHeadError(alias).code

    def is_served(self, alias: DatasetAlias) -> bool:
        """Return whether a dataset of that name is served: with an account, or without."""
        return (alias.account is not None) == self.settings.is_multi_tenant

    def shows(self, caller: Caller, alias: DatasetAlias, id: DatasetId) -> bool:
        """Return whether a dataset is served, and the caller may read it."""
        return self.is_served(alias) and self.access.sees(caller, alias, id)

    @contextmanager
    def transfer(self, verb: str, caller: str) -> Iterator[None]:
        """Count a pull, a push or an answer.  Raises AccessError (503) if there are too many.

        Each verb has a limit of its own, and a smaller one for each caller.
        """
        limits = self.settings.limits
        if self._transfers[verb].total() >= limits.transfers:
            raise AccessError(503, "Too many transfers are running; try again later.")
        if self._transfers[verb][caller] >= limits.of_one_caller:
            raise AccessError(503, "Too many of your transfers are running; try again later.")
        self._transfers[verb][caller] += 1
        try:
            yield
        finally:
            self._transfers[verb][caller] -= 1
            self._transfers[verb] += Counter()  # without those that have none
