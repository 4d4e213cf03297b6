"""Power cuts: the file system goes away in an apply, with all that it had not written.

A loop device with ext4, xfs or btrfs on an image in a folder; at the N-th call that changes
something the library of faults shuts the file system down (EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN:
what is not in its journal is gone) and kills the run.  Then it is mounted again, which recovers it
as after a power cut, and the law is checked.  btrfs of most kernels cannot be shut down: its image
lies on an ext4 that is.  Some cuts fall right after the end of an apply: what it did has to last.

Nothing but a mount that this module made is ever shut down: the mount table has to say so.
"""

import argparse
import ctypes
import fcntl
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.preload import CHANGES, Action, Fault
from tests.faults.server import Outcome
from tests.faults.trial import Ground, Moment, Tally, ground

__all__ = ["SYSTEMS", "cuts", "main", "why_not"]

SYSTEMS = ("ext4", "xfs", "btrfs")
_MIB = {"ext4": 96, "xfs": 320, "btrfs": 160}
_SHUTDOWN = 0x8004587D
_FLAGS = (0, 1, 2)  # all written, only the journal written, nothing written
_OPTIONS = {"ext4": "loop,noauto_da_alloc", "xfs": "loop", "btrfs": "loop"}
_MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-F"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}


@cache
def why_not(system: str) -> str | None:
    """Say why there can be no power cuts of a file system on this machine; None if there can."""
    if os.geteuid() != 0:
        return "needs root"
    for program in (_MAKE[system][0], "mount", "umount", "losetup"):
        if shutil.which(program) is None:
            return f"needs {program}"
    try:
        with TemporaryDirectory(prefix="odfbuild-power-") as folder, _Device(system, Path(folder)):
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no loop device or no {system} here: {error}"


def _do(*command: str | Path) -> None:
    subprocess.run([str(each) for each in command], check=True, capture_output=True, timeout=60)


class _Device:
    """A mounted file system on an image; where it cannot be shut down, the one below it is."""

    def __init__(self, system: str, folder: Path) -> None:
        self.mount = folder / "mount"
        self.system = system
        self._below = folder / "below"
        self._image = (self._below if self._is_stacked else folder) / "image"
        self._lower = folder / "lower"

    @property
    def _is_stacked(self) -> bool:
        return self.system == "btrfs"

    @property
    def to_cut(self) -> Path:
        """Return the mount that is shut down."""
        return self._below if self._is_stacked else self.mount

    def __enter__(self) -> "_Device":
        self.mount.mkdir()
        if self._is_stacked:
            self._below.mkdir()
            _make("ext4", self._lower, _MIB["btrfs"] + 64)
            _do("mount", "-o", _OPTIONS["ext4"], self._lower, self._below)
        try:
            _make(self.system, self._image, _MIB[self.system])
            self._mount()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self.mount, self._below):
            if os.path.ismount(each):
                subprocess.run((shutil.which("umount") or "", str(each)), check=False)

    def _mount(self) -> None:
        _do("mount", "-o", _OPTIONS[self.system], self._image, self.mount)

    def sync(self) -> None:
        """Have all that was written so far on disk."""
        for mount in dict.fromkeys((self.mount, self.to_cut)):
            opened = os.open(mount, os.O_RDONLY)
            failed = ctypes.CDLL(None, use_errno=True).syncfs(opened)
            os.close(opened)
            if failed:
                raise OSError(ctypes.get_errno(), "syncfs")

    def check(self) -> None:
        """Refuse to go on unless what is to be cut is a loop device that was mounted here."""
        for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
            before, _, after = line.partition(" - ")
            if before.split()[4] == str(self.to_cut):
                assert after.split()[1].startswith("/dev/loop")
                return
        raise AssertionError(f"{self.to_cut} is no mount")

    def cut(self, flags: int) -> None:
        """Take the file system away."""
        self.check()
        opened = os.open(self.to_cut, os.O_RDONLY)
        try:
            fcntl.ioctl(opened, _SHUTDOWN, struct.pack("I", flags))
        finally:
            os.close(opened)

    def recover(self) -> None:
        """Mount what was cut off again, as the next start of a machine does."""
        _do("umount", self.mount)
        if self._is_stacked:
            _do("umount", self._below)
            _do("mount", "-o", _OPTIONS["ext4"], self._lower, self._below)
        self._mount()


def _make(system: str, image: Path, mib: int) -> None:
    with image.open("wb") as file:
        file.truncate(mib << 20)
    _do(*_MAKE[system], image)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Which apply is cut off, after which call (None: at once when it ended), and how."""

    moment: Moment
    at: int | None
    flags: int

    def __str__(self) -> str:
        when = "its end" if self.at is None else f"call {self.at}"
        return f"{self.moment.name} apply, power cut at {when}, flags {self.flags}"


def cuts(site: Ground, system: str, tally: Tally, rounds: int, chance: random.Random) -> None:
    """Cut the power of a file system so many times."""
    title = f"power cuts of {system}"
    tally.wanted[title] = rounds
    with (
        TemporaryDirectory(prefix="odfbuild-power-") as folder,
        _Device(system, Path(folder).resolve()) as device,
    ):
        there = site.at(device.mount / "project")
        calls = {each.name: there.calls(each, CHANGES) for each in site.moments}
        for number in range(rounds):
            moment = site.moments[number % 2]
            at = None if chance.random() < 0.1 else 1 + chance.randrange(calls[moment.name])
            cut = _Cut(moment, at, chance.choice(_FLAGS))
            outcome = _cut_off(there, device, cut)
            device.recover()
            tally.add(title)
            with tally.trial(f"{system}, {cut} ({outcome.hit})"):
                moment.law.check_chains(there.project, done=outcome.code == 0)
                there.settle(moment)


def _cut_off(site: Ground, device: _Device, cut: _Cut) -> Outcome:
    project = site.lay(cut.moment)
    device.sync()
    if cut.at is not None:
        device.check()
        mount, flags = device.to_cut, cut.flags
        outcome = site.go_on(project, Fault(action=Action.CUT, at=cut.at, mount=mount, flags=flags))
        assert outcome.hits >= 0, f"no shutdown: {os.strerror(-outcome.hits)}"
        if outcome.hits:
            return outcome
    else:
        outcome = site.go_on(project, Fault())
    device.cut(cut.flags)
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Cut the power of each file system, say how often, and return 1 if anything did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.power", description=__doc__)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=", ".join(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=500, help="cuts, shared by the file systems")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    chance = random.Random(given.seed)
    tally = Tally()
    wanted = given.systems or SYSTEMS
    usable = [each for each in wanted if why_not(each) is None]
    with ground() as site:
        for each in usable:
            cuts(site, each, tally, -(-given.rounds // len(usable)), chance)
    print(f"power\n{tally}")
    for each in wanted:
        if (why := why_not(each)) is not None:
            print(f"  {each}: left out, {why}")
    return bool(tally.problems)


if __name__ == "__main__":
    raise SystemExit(main())
