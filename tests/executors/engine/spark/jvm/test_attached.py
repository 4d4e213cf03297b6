"""An entrance to a resident engine knows at once that the other side has gone."""

import socket
from pathlib import Path

from odfbuild.executors.engine.spark.jvm.attach import Attached


def test_it_is_over_once_the_keeper_closed_the_connection() -> None:
    ours, theirs = socket.socketpair()
    log = Path("log")
    entrance = Attached(
        line=ours, port=1, secret="s", tag="t", log=log, last_log=log, python="python"
    )
    assert not entrance.is_over()
    theirs.send(b"x")  # what is said to us does not end it
    assert not entrance.is_over()
    assert ours.recv(1) == b"x"
    theirs.close()
    assert entrance.is_over()
    assert entrance.is_over()
    ours.close()
    assert entrance.is_over()
