"""A cheap fingerprint of the project's files, so that nothing is read when nothing changed.

Size, times and inode of every file stand for its content, as in git's index.  Git's trap is taken
care of: a file written within one tick of the clock of the file system may change once more and
keep its times, so of such young files the content itself is part of the fingerprint.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


PROJECT_FILE = "odfbuild.yaml"
