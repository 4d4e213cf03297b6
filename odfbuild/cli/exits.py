"""Exit codes: stable, one meaning each."""

from odfbuild.errors import OdfBuildError

DONE = 0
ERROR = 1  # nothing was committed
CHANGES = 2  # something differs: for drift, and where the exit code is to tell
REFUSED = 3  # a check found what should not be as it is
PARTLY = 4  # some was committed, some failed or was skipped
STALE = 5  # a head moved, or files of the project were changed
LOCKED = 6
NOT_VERIFIED = 7
USAGE = 64

_BY_CODE = {
    "stale-plan": STALE,
    "head-moved": STALE,
    "project-changed": STALE,
    "data-check": NOT_VERIFIED,
    "busy": LOCKED,
    "locked": LOCKED,
    "not-verified": NOT_VERIFIED,
    "bad-signature": NOT_VERIFIED,
    "unsigned-head": NOT_VERIFIED,
    "untrusted-key": NOT_VERIFIED,
    "head-rolled-back": NOT_VERIFIED,
    "head-equivocated": NOT_VERIFIED,
    "history-rewritten": NOT_VERIFIED,
    "statement-expired": NOT_VERIFIED,
    "run-goes-on": LOCKED,
    "usage": USAGE,
}


def exit_code(error: OdfBuildError) -> int:
    """Return the exit code for an error that ended a command before anything was committed."""
    return _BY_CODE.get(error.code, ERROR)
