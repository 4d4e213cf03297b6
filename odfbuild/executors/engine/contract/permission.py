"""Permission to use an engine elsewhere: its address, command or image, the store of its jobs."""

from typing import TYPE_CHECKING

from odfbuild.host.permissions import NotPermittedError

if TYPE_CHECKING:
    from odfbuild.project.opened import Opened


def check_permitted(project: "Opened", name: str) -> None:
    """Raise NotPermittedError of an engine that may not be used."""
    engine = project.config.engines[name]
    try:
        if engine.image is None:
            project.permissions.check_engine(name, engine.address)
        else:
            project.permissions.check_container(
                engine.image, "an engine sees the rows of the inputs, and makes those of datasets"
            )
        if engine.objects is not None:
            project.permissions.check_store(engine.objects, f"jobs of the engine {name} are in")
    except NotPermittedError as error:
        error.span = engine.span
        raise
