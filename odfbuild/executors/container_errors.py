"""What may be wrong with a container: how it ended, and what it said of its source."""

from typing import Final

from odfbuild.executors.container_runtime import ContainerError
from odfbuild.executors.process import last_words, signal_name

__all__ = [
    "at_a_standstill",
    "bad_batch_size",
    "bad_definition",
    "bad_state",
    "failed",
    "same_state",
    "too_late",
    "too_much",
    "unknown_variable",
]

_SIGNALS: Final = 128
_FIXES: Final = {
    125: "see what the runtime says above; `fetch` may ask for something that it refuses",
    126: "the entry point is no program that can be run: correct `command`, or the image",
    127: "there is no such program in the image: correct `command`, or the image",
    137: "it was killed, perhaps for want of memory",
}


def bad_batch_size(name: str, value: str) -> ContainerError:
    """Return the error of a batch size that is no number."""
    return ContainerError(
        what=f"invalid format of the parameter {name}: {value!r}",
        why="it says how many records a round should have, a whole number from 0 on",
        fix=f"correct `{name}` in `fetch.env`, or leave it out: it is 10000 then",
    )


def bad_definition(what: str) -> ContainerError:
    """Return the error of an image or a variable that a runtime would take for something else."""
    return ContainerError(
        what=what,
        why="a runtime reads `-x` as an option, and `*` as every variable that there is",
        fix="correct `fetch`; a chain from elsewhere may hold what no definition may say",
    )


def unknown_variable(name: str) -> ContainerError:
    """Return the error of a variable that the caller does not have."""
    return ContainerError(
        what=f"no value for the variable {name} of the container",
        why="in `fetch.env` it has no value, so it is taken from the environment of the command",
        fix=f"set {name} in the environment, or give it a `value`",
    )


def too_late(name: str, limit: float, variable: str, said: bytes) -> ContainerError:
    """Return the error of a container that took too long."""
    return ContainerError(
        what=f"{name} took more than {limit:g} seconds",
        why=last_words(said),
        fix=f"correct the image, or give it more time: {variable} is the limit in seconds",
        said=said,
    )


def too_much(name: str, most: int, variable: str, said: bytes) -> ContainerError:
    """Return the error of a container that printed without end."""
    return ContainerError(
        what=f"{name} prints more than {most >> 20} MiB",
        why="a round should have about as many records as ODF_BATCH_SIZE says",
        fix=f"let it stop there and say that there is more; {variable} is the limit in MiB",
        said=said,
    )


def failed(name: str, code: int, said: bytes) -> ContainerError:
    """Return the error of a container that ended with another exit code than 0."""
    killed = -code if code < 0 else code - _SIGNALS
    how = f"by the signal {signal_name(killed)}" if 0 < killed < 65 else f"with exit code {code}"
    return ContainerError(
        what=f"{name} ended {how}",
        why=last_words(said),
        fix=_FIXES.get(code, "correct `fetch`, or what the image does"),
        said=said,
    )


def bad_state(name: str, file: str, why: str) -> ContainerError:
    """Return the error of a state that cannot be taken."""
    return ContainerError(
        what=f"{name} wrote no state that can be kept to {file}",
        why=why,
        fix="correct what the image writes there",
    )


def same_state(name: str, kind: str) -> ContainerError:
    """Return the error of a container that prints data and says that nothing is new."""
    return ContainerError(
        what=f"{name} prints data and gives the state that it was given",
        why=f"the same {kind.rpartition('/')[2]} means that nothing is new, data that something is",
        fix="let it print nothing when nothing is new, and write another state when something is",
    )


def at_a_standstill(name: str, *, printed: bool) -> ContainerError:
    """Return the error of a container that says there is more, and does not come to it."""
    return ContainerError(
        what=f"{name} says that there is more, and does not go on",
        why=f"its state stays, and it prints {'the same again' if printed else 'nothing'}",
        fix="let it write a new state with every round, or not say that there is more",
    )
