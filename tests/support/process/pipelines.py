"""Run what the CI templates say, line by line, in a real repository: two branches and a remote.

Programs that would leave this machine are replaced on the PATH: pip, and curl, which records what
it is asked and answers as the server would.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.projects import REPOSITORY, Done, environment, odfbuild

__all__ = [
    "ME",
    "PIPELINE_TEXT",
    "REQUIREMENTS",
    "WORKFLOW_TEXT",
    "Call",
    "Job",
    "Repository",
    "gitlab_job",
    "run_github",
    "run_gitlab",
    "workflow",
]

_WORKFLOW = REPOSITORY / "project_template/ci-github/.github/workflows/odfbuild.yml"
WORKFLOW_TEXT = _WORKFLOW.read_text("utf-8")
_PIPELINE = REPOSITORY / "project_template/ci-gitlab/.gitlab-ci.yml"
PIPELINE_TEXT = _PIPELINE.read_text("utf-8")

_PYTHON = """\
#!/bin/sh
if [ "$1 $2 $3" = "-I -m pip" ]; then
  echo "$@" >> "$FAKES/pip.txt"
  for last; do :; done
  cat "$last" > "$FAKES/installed.txt"
else
  exec {python} "$@"
fi
"""
_ODFBUILD = """\
#!/bin/sh
exec {python} -P -m tests.support.process.inside "$@"
"""
_CURL = """\
#!{python}
import json, os, sys
folder, given = os.environ["FAKES"], sys.argv[1:]
data = next((b for a, b in zip(given, given[1:]) if a.startswith("--data")), None)
body = None if data is None else open(data.partition("@")[2], encoding="utf-8").read()
with open(folder + "/curl.txt", "a", encoding="utf-8") as calls:
    calls.write(json.dumps({{"arguments": given, "body": body}}) + "\\n")
if "--request" not in given:
    name = "me" if given[-1].endswith("/user") else "comments"
    sys.stdout.write(open(f"{{folder}}/{{name}}.json", encoding="utf-8").read())
"""


@dataclass(frozen=True, slots=True)
class Call:
    """One request that curl was asked for."""

    arguments: tuple[str, ...]
    body: str | None

    @property
    def method(self) -> str:
        if "--request" not in self.arguments:
            return "GET"
        return self.arguments[self.arguments.index("--request") + 1]

    @property
    def url(self) -> str:
        return next(each for each in self.arguments if each.startswith("https://"))


@dataclass(slots=True)
class Job:
    """How a job ended: each step that ran, by name, and what curl was asked.

    `fakes` holds what the job wrote outside of its checkout, `outputs` what it gives to others.
    """

    folder: Path
    fakes: Path
    steps: dict[str, Done] = field(default_factory=dict)
    calls: tuple[Call, ...] = ()
    used: list[str] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def code(self) -> int:
        """The code of the first step that failed, 0 when all went well."""
        return next((each.code for each in self.steps.values() if each.code), 0)


ME = 41  # who the token of GitLab belongs to
REQUIREMENTS = f"odfbuild==1 --hash=sha256:{64 * '0'}\n"


class Repository:
    """A project under version control, its remote, and a checkout as CI makes it."""

    def __init__(self, folder: Path, template: str) -> None:
        self.folder = folder
        self.work = folder / "work"
        assert odfbuild("init", str(self.work), "--template", template, cwd=folder).code == 0
        (self.work / "requirements.txt").write_text(REQUIREMENTS)
        git(folder, "init", "--quiet", "--bare", "--initial-branch=main", "remote.git")
        git(self.work, "init", "--quiet", "--initial-branch=main")
        git(self.work, "remote", "add", "origin", str(folder / "remote.git"))
        self.commit("begin")
        git(self.work, "push", "--quiet", "origin", "main")

    def commit(self, message: str) -> None:
        git(self.work, "add", "--all")
        git(self.work, "commit", "--quiet", "--allow-empty", "--message", message)

    def begin(self) -> None:
        """Go back to what the main branch has."""
        git(self.work, "checkout", "--quiet", "--force", "-B", "next", "main")
        git(self.work, "clean", "--quiet", "--force", "-d")

    def change(self, file: str, old: str, new: str) -> None:
        """Replace a part of a file on a branch."""
        path = self.work / file
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")

    def checkout(self, branch: str) -> Path:
        """Push a branch and return a fresh clone of it."""
        self.commit("change")
        git(self.work, "push", "--quiet", "--force", "origin", f"HEAD:refs/heads/{branch}")
        clone = self.folder / f"clone-{len(list(self.folder.glob('clone-*')))}"
        remote = str(self.folder / "remote.git")
        git(self.folder, "clone", "--quiet", "--branch", branch, remote, str(clone))
        return clone


def git(folder: Path, *arguments: str) -> None:
    names = {
        f"GIT_{who}_{what}": f"someone{at}"
        for who in ("AUTHOR", "COMMITTER")
        for what, at in (("NAME", ""), ("EMAIL", "@example.org"))
    }
    subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True,  # noqa: S607
        env={**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull},
    )  # fmt: skip


def workflow() -> dict[str, Any]:
    """Return the GitHub workflow; YAML 1.1 reads the key `on` as true."""
    found: dict[str, Any] = yaml.safe_load(WORKFLOW_TEXT)
    return found


def gitlab_job(name: str) -> dict[str, Any]:
    """Return a job of the GitLab pipeline with its defaults."""
    found = yaml.safe_load(PIPELINE_TEXT)
    return {**found["default"], **found[name]}


def run_github(
    name: str,
    checkout: Path,
    *,
    only: Collection[str] = (),
    fork: bool = False,
    comments: object = (),
    outputs: Mapping[str, str] | None = None,
) -> Job:
    """Run the steps of a job, or some of them; `comments` are those that the pull request has.

    `outputs` are those of the job `plan`, which the job needs that writes the comment.
    """
    fakes, given = _fakes(checkout, comments)
    job = Job(checkout, fakes)
    given |= {
        "GITHUB_API_URL": "https://api.example.org",
        "GITHUB_REPOSITORY": "someone/markets",
        "GITHUB_STEP_SUMMARY": str(fakes / "summary.md"),
        "GITHUB_OUTPUT": str(fakes / "output.txt"),
    }
    known = {
        "github.base_ref": "main",
        "github.token": "s3cret",
        "github.event.number": "7",
        "github.run_id": "99",
        **{f"needs.plan.outputs.{key}": value for key, value in (outputs or {}).items()},
    }
    found = workflow()["jobs"][name]
    if "needs" in found and not _is_due(found["if"], failed=False, fork=fork):
        return job
    for step in found["steps"]:
        if not _is_due(step.get("if"), failed=job.code != 0, fork=fork):
            continue
        if only and step.get("name") not in only:
            continue
        if "uses" in step:
            job.used.append(step["uses"].partition("@")[0])
            continue
        more = {key: _filled(value, known) for key, value in step.get("env", {}).items()}
        command = ["bash", "-e", "-c", step["run"]]
        job.steps[step["name"]] = _run(command, checkout, {**given, **more})
    job.calls = _calls(fakes)
    written = fakes / "output.txt"
    for line in written.read_text("utf-8").splitlines() if written.exists() else ():
        key, _, value = line.partition("=")
        job.outputs[key] = value
    return job


def run_gitlab(name: str, checkout: Path, *, comments: object = (), **more: str) -> Job:
    """Run a job as one shell runs it."""
    fakes, given = _fakes(checkout, comments)
    job = Job(checkout, fakes)
    given |= {
        "CI_PROJECT_DIR": str(checkout),
        "CI_JOB_ID": f"of-{checkout.name}",
        "CI_API_V4_URL": "https://git.example.org/api/v4",
        "CI_PROJECT_ID": "12",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        **more,
    }
    found = gitlab_job(name)
    lines = [*found["before_script"], *found["script"]]
    command = ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)]
    job.steps[name] = _run(command, checkout, given)
    job.calls = _calls(fakes)
    return job


def _is_due(condition: str | None, *, failed: bool, fork: bool) -> bool:
    """Tell whether a step runs; its conditions are few, and any other one is an error here."""
    if condition is None:
        return not failed
    bare = condition.removeprefix("${{").removesuffix("}}").strip()
    same = "github.event.pull_request.head.repo.full_name == github.repository"
    parts = [part.strip() for part in bare.split("&&")]
    assert set(parts) <= {"!cancelled()", same, "needs.plan.outputs.comment"}
    return not (fork and same in parts)


def _filled(value: str, known: Mapping[str, str]) -> str:
    if not value.startswith("${{"):
        return value
    return known[value.removeprefix("${{").removesuffix("}}").strip()]


def _fakes(checkout: Path, comments: object) -> tuple[Path, dict[str, str]]:
    """Return a folder of programs that come first on the PATH, and the environment for them."""
    fakes = Path(tempfile.mkdtemp(prefix=f"{checkout.name}-fakes-", dir=checkout.parent))
    python = shlex.quote(sys.executable)
    programs = {
        "python": _PYTHON.format(python=python),
        "curl": _CURL.format(python=sys.executable),
        "odfbuild": _ODFBUILD.format(python=python),
    }
    for name, text in programs.items():
        (fakes / name).write_text(text)
        (fakes / name).chmod(0o755)
    (fakes / "comments.json").write_text(json.dumps(comments))
    (fakes / "me.json").write_text(json.dumps({"id": ME}))
    given = {
        "FAKES": str(fakes),
        "PATH": f"{fakes}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "CI": "true",
    }
    return fakes, given


def _run(command: list[str], folder: Path, given: Mapping[str, str]) -> Done:
    done = subprocess.run(
        command, cwd=folder, env={**environment(), **given}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def _calls(fakes: Path) -> tuple[Call, ...]:
    file = fakes / "curl.txt"
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines]
    return tuple(Call(tuple(each["arguments"]), each["body"]) for each in found)
