"""What a user asked for in a way that cannot be done."""

from odfbuild.errors import OdfBuildError

__all__ = ["UsageRefusedError"]


class UsageRefusedError(OdfBuildError):
    """The command needs an answer that nobody is there to give, or its arguments do not fit."""

    code = "usage"
