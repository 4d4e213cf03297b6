"""Start of a program without files and network: `python -I -S <this file> ASKED PROGRAM ARGV`.

Run as a script, so it imports nothing but the standard library.  ASKED is JSON: folders to `read`,
to `write`, and `hidden` ones, which may hold the former.  What the kernel lacks is left out.
"""

import ctypes
import json
import os
import signal
import sys

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # numbers of the system calls, on every architecture
_NO_NEW_PRIVS, _DROP, _DIE_WITH_PARENT = 38, 24, 1
_OF_FILES = 4  # capabilities below this are about files
_NEW_USER, _NEW_NET, _NEW_PROCESSES = 0x10000000, 0x40000000, 0x20000000
_DEVICES = ("null", "zero", "full", "random", "urandom")
_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
_RIGHTS = (13, 14, 15, 15, 16)  # how many rights over files there are, by the version of landlock
_BIND_AND_CONNECT, _SCOPES = 3, 3
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ | 1 << 14 | 1 << 15  # those that a file can have


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scopes", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def landlock_abi() -> int:
    """Return the version of landlock that the kernel has, 0 for none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def has_network_namespaces() -> bool:
    """Tell whether a process may have a network of its own."""
    if sys.platform != "linux":
        return False
    child = os.fork()
    if child == 0:
        os._exit(0 if _cut_off() else 1)
    return os.waitpid(child, 0)[1] == 0


def _cut_off() -> bool:
    """Leave the network, as the same user."""
    user, group = os.getuid(), os.getgid()
    libc = _libc()
    if user == 0 and libc.unshare(_NEW_NET) == 0:
        return True
    if libc.unshare(_NEW_USER | _NEW_NET) != 0:
        return False
    try:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
                file.write(text)
    except OSError:
        return False
    return True


def _confine(asked: dict[str, list[str]], abi: int) -> None:
    """Give up all files but those asked for, and the rest that is not hidden to read."""
    libc = _libc()
    rights = (1 << _RIGHTS[min(abi, len(_RIGHTS)) - 1]) - 1
    wanted = _Ruleset(rights, _BIND_AND_CONNECT if abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
    size = ctypes.sizeof(wanted) if abi >= 6 else 16 if abi >= 4 else 8
    rules = libc.syscall(_CREATE, ctypes.byref(wanted), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if rules < 0:
        raise OSError(ctypes.get_errno(), "landlock")

    def allow(path: str, allowed: int) -> None:
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        if not os.path.isdir(path):  # noqa: PTH112
            allowed &= _FILE_RIGHTS
        rule = _Beneath(allowed & rights, opened)
        libc.syscall(_ADD, rules, 1, ctypes.byref(rule), ctypes.c_uint32(0))
        os.close(opened)

    def open_up(path: str, hidden: list[str]) -> None:
        """Allow to read a folder without what is hidden in it."""
        inside = [
            each for each in hidden if each == path or each.startswith(f"{path.rstrip('/')}/")
        ]
        if not inside:
            allow(path, _EXECUTE | _READ | _LIST)
        elif path not in inside:
            try:
                names = os.listdir(path)  # noqa: PTH208
            except OSError:
                names = []
            for name in names:
                below = f"{path.rstrip('/')}/{name}"
                if not os.path.islink(below):  # noqa: PTH114
                    open_up(below, hidden)

    open_up("/", [*asked["hidden"], "/dev"])
    for path in asked["read"]:  # it may be in a hidden folder, and have others in it
        real = os.path.realpath(path)
        open_up(real, [each for each in asked["hidden"] if each.startswith(f"{real.rstrip('/')}/")])
    for name in _DEVICES:  # not the disks, the log of the kernel, and memory that others share
        allow(f"/dev/{name}", _READ | _WRITE | 1 << 15)
    for path in asked["write"]:
        allow(path, rights)
    if libc.syscall(_RESTRICT, rules, ctypes.c_uint32(0)) != 0:
        raise OSError(ctypes.get_errno(), "landlock")


def _with_its_children(libc: ctypes.CDLL) -> None:
    """Go on as a child in the new namespace of processes, whose first process ends all others.

    The parent ends as the child does, by the same code or signal; it never returns.
    """
    receiving, sending = os.pipe()
    first = os.fork()
    if first:
        os.close(sending)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        code = int(os.read(receiving, 16) or -signal.SIGKILL)
        os.waitpid(first, 0)
        if code < 0:
            if -code not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code if code >= 0 else 128 - code)
    libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    os.close(receiving)
    program = os.fork()
    if program == 0:
        os.close(sending)
        return
    while True:
        ended, status = os.wait()
        if ended == program:
            os.write(sending, str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)


def _main() -> None:
    asked, program, *argv = sys.argv[1:]
    libc = _libc()
    _cut_off()
    has_processes = libc.unshare(_NEW_PROCESSES) == 0
    for capability in range(_OF_FILES, 64):  # of root: what looks into other processes, most of all
        libc.prctl(_DROP, capability, 0, 0, 0)
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    if has_processes:
        _with_its_children(libc)
    abi = landlock_abi()
    if abi:
        _confine(json.loads(asked), abi)
    try:
        os.execv(program, argv)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"it cannot be run while confined: {error.strerror}\n")
        raise SystemExit(127) from None


if __name__ == "__main__":
    _main()
