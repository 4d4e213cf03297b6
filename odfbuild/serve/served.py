"""State of a running server: workspace, access, uploads and transfers."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Lock

from odfbuild.errors import OdfBuildError, ProtocolError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias, is_name
from odfbuild.serve.access import Access, AccessError, Caller
from odfbuild.serve.listing import DamagedDataset, ServerIndex
from odfbuild.serve.settings import ServerSettings
from odfbuild.serve.uploads import Uploads
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import MissingHeadError, UnusableNameError, Workspace


class Served:
    """The open workspace of a server."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.workspace = Workspace(settings.workspace)
        self.access = Access(settings)
        self.uploads = Uploads(self.workspace, settings.limits)
        self.index = ServerIndex(self.workspace)
        self.ends = Event()
        self._states: dict[DatasetId, ChainState] = {}
        self._lock = Lock()
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

    def find(self, caller: Caller, alias: DatasetAlias) -> Dataset | None:
        """Return the dataset of a name; None if there is none, whether or not it may be read.

        Raises AccessError (400, 500); of a damaged one only if the caller may read or change it.
        """
        try:
            return self.workspace.open(alias)
        except ProtocolError:
            return None
        except UnusableNameError as error:
            raise AccessError(400, f"{error.what}: {error.why}.") from error
        except OdfBuildError as error:
            id = self.workspace.names().get(alias)
            if self.access.sees(caller, alias, id) or self.access.changes(caller, alias):
                raise AccessError(500, f"The dataset cannot be read: {error.code}.") from error
            return None

    def states(self) -> Mapping[DatasetAlias, ChainState]:
        """Return the states of all datasets but damaged ones; only new heads are read."""
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
            return error.code
        try:
            is_there = self.workspace.dataset(id).head() is not None
        except OdfBuildError as wrong:
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
