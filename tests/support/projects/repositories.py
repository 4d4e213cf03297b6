"""Git repositories for tests: made by git itself, without anybody's settings."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Repository", "made_by_hand"]

_ENV = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2030-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2030-01-01T00:00:00Z",
}


class Repository:
    """A repository in a folder, with one branch `main`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def commit(self, files: Mapping[str, str | None], tag: str | None = None) -> str:
        """Write files, delete those that are None, commit all; return the commit's hash."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text, "utf-8")
        return self.commit_all(tag)

    def commit_all(self, tag: str | None = None) -> str:
        """Commit what is there."""
        self.git("add", "--all", ".")
        self.git("commit", "--quiet", "--allow-empty", "--message", "more")
        if tag is not None:
            self.git("tag", "--force", "--annotate", "--message", tag, tag)
        return self.git("rev-parse", "HEAD")

    def git(self, *arguments: str, given: bytes = b"") -> str:
        """Run git in the repository and return what it printed."""
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607
            cwd=self.folder,
            env={**os.environ, **_ENV},
            input=given,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode().strip()


def made_by_hand(repository: Repository, entries: Mapping[bytes, tuple[str, bytes]]) -> str:
    """Return a commit whose tree holds these names, which git itself would not write.

    `entries` are mode and content by name; a name may hold what it likes, slashes as well.
    """
    lines = []
    for name, (mode, content) in sorted(entries.items()):
        blob = repository.git("hash-object", "-w", "--stdin", given=content)
        lines.append(mode.encode() + b" " + name + b"\0" + bytes.fromhex(blob))
    tree = repository.git(
        "hash-object", "-t", "tree", "-w", "--stdin", "--literally", given=b"".join(lines)
    )
    commit = repository.git("commit-tree", "-m", "by hand", tree)
    repository.git("update-ref", "refs/heads/main", commit)
    return commit
