"""Places of a served workspace: a folder, or a store that is read through a cache."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from odfbuild.errors import OdfBuildError
from odfbuild.serve.access import AccessError
from odfbuild.serve.settings import ServerSettings
from odfbuild.state.remote.errors import RefusedByRepositoryError
from odfbuild.state.remote.view.outage import is_outage
from odfbuild.state.remote.view.workspace import WorkspaceView
from odfbuild.state.workspace import Workspace

T = TypeVar("T")
AWAY: Final = "The store of the workspace does not answer; try again later."
REFUSED: Final = "The store of the workspace refuses this server; the log of the server says why."


def check_outage(error: BaseException) -> None:
    """Raise AccessError (503) for an error of the store, which is of no dataset."""
    if is_outage(error):
        raise store_refusal(error) from error


def store_refusal(error: BaseException) -> AccessError:
    """Return what a client is answered to an error of the store: no address, and no credential."""
    is_refused = isinstance(error, RefusedByRepositoryError)
    code = error.code if isinstance(error, OdfBuildError) else None
    return AccessError(503, REFUSED if is_refused else AWAY, code)


class ServedPlace:
    """The workspace of a server, and the threads that read it.

    Those that may wait for a store are others than those of the machine's own files.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.view: WorkspaceView | None = None
        if settings.store is not None:
            self.view = WorkspaceView(
                settings.store, age=settings.limits.age, is_named=settings.is_named
            )
            self.view.check_layout()
        self.workspace: Workspace = self.view or Workspace(settings.workspace)
        self._limiter: CapacityLimiter | None = None

    @property
    def changed(self) -> Workspace:
        """The workspace for one push, which sees it as it is."""
        return Workspace(self._settings.workspace) if self.view is None else self.view.writing

    async def reading(self, work: Callable[..., T], *given: Any) -> T:
        """Return what a work gives that may wait for the store; it goes on if it is cancelled."""
        return await run_sync(work, *given, limiter=self._room(), abandon_on_cancel=True)

    async def opening(self, work: Callable[..., T], *given: Any) -> T:
        """Return what a work gives that has to be closed."""
        return await run_sync(work, *given, limiter=self._room())

    def _room(self) -> CapacityLimiter | None:
        """Return what bounds the threads that wait for the store; None without one."""
        if self.view is not None and self._limiter is None:
            self._limiter = CapacityLimiter(self._settings.limits.waits)
        return self._limiter
