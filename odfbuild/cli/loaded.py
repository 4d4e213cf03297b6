"""Load the definitions of an opened project, for commands that look at them."""

from odfbuild.app.loading import load

__all__ = ["load"]
