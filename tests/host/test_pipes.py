"""A file can be waited for, whatever its number."""

import fcntl
import os
import resource
import socket

import pytest

from odfbuild.host.pipes import is_readable


def test_a_file_beyond_what_select_takes_is_waited_for() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 1100:
        pytest.skip("this machine allows no more than 1,024 open files")
    read, write = os.pipe()
    high = fcntl.fcntl(read, fcntl.F_DUPFD_CLOEXEC, 1050)
    os.close(read)
    try:
        assert not is_readable(high, 0)
        assert not is_readable(high, -1.0)
        os.write(write, b"x")
        assert is_readable(high, 60.0)
        assert os.read(high, 1) == b"x"
        os.close(write)
        assert is_readable(high, 60.0)  # it has ended
        assert os.read(high, 1) == b""
    finally:
        os.close(high)


def test_a_socket_is_waited_for() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert not is_readable(one, 0.01)
        other.send(b"x")
        assert is_readable(one, 60.0)
