"""The CI templates: safe as they are written, and run as they are written."""

import json
import re
from typing import Any

import pytest

from tests.support.process.inside import without_jvm
from tests.support.process.pipelines import (
    ME,
    PIPELINE_TEXT,
    REQUIREMENTS,
    WORKFLOW_TEXT,
    Job,
    Repository,
    run_github,
    run_gitlab,
    workflow,
)
from tests.support.projects import REPOSITORY

ACTIONS = {
    "actions/cache/restore",
    "actions/cache/save",
    "actions/checkout",
    "actions/setup-python",
    "actions/upload-artifact",
    "github/codeql-action/upload-sarif",
}
ORDERS = "datasets/orders.yaml"
CUSTOMERS = """\
kind: DatasetSnapshot
version: 1
content:
  name: shop.customers
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: data/customers/*.csv}
      read: {kind: Csv, header: true, schema: [name STRING, since TIMESTAMP]}
      merge: {kind: Ledger, primaryKey: [name]}
    - kind: SetVocab
      eventTimeColumn: since
"""
MARKER = "<!-- odfbuild-plan -->"


def additive(repository: Repository) -> None:
    (repository.work / "datasets/customers.yaml").write_text(CUSTOMERS)
    done = without_jvm("lock", cwd=repository.work)
    assert done.code == 0, done.err


def breaking(repository: Repository) -> None:
    repository.change(ORDERS, "          - customer STRING\n", "")


def posted(job: Job) -> list[tuple[str, str]]:
    return [(call.method, call.url) for call in job.calls]


def steps() -> list[dict[str, Any]]:
    return [step for job in workflow()["jobs"].values() for step in job["steps"]]


def test_nothing_from_outside_gets_into_a_script() -> None:
    assert not [step for step in steps() if "${{" in step.get("run", "")]
    assert "pull_request_target" not in json.dumps(workflow(), default=str)


@pytest.mark.holds("project-actions")
def test_only_actions_of_github_itself_are_used_each_at_a_commit() -> None:
    used = [step["uses"] for step in steps() if "uses" in step]
    assert {each.partition("@")[0] for each in used} == ACTIONS
    assert all(re.fullmatch(r"[0-9a-f]{40}", each.partition("@")[2]) for each in used)
    written = re.findall(r"uses: (\S+) # v[0-9]+\.[0-9]+\.[0-9]+$", WORKFLOW_TEXT, re.MULTILINE)
    assert written == used, "the version of each commit beside it"
    assert all(not each["with"]["persist-credentials"] for each in steps()
               if each.get("uses", "").startswith("actions/checkout"))  # fmt: skip


@pytest.mark.holds("project-token")
def test_the_token_may_do_as_little_as_is_needed() -> None:
    found = workflow()
    assert found["permissions"] == {"contents": "read"}
    assert "permissions" not in found["jobs"]["apply"]
    assert found["jobs"]["plan"]["permissions"] == {"contents": "read", "security-events": "write"}
    assert found["jobs"]["comment"]["permissions"] == {"pull-requests": "write"}
    (only,) = found["jobs"]["comment"]["steps"]
    assert "run" in only, "no checkout beside a token that writes"
    assert found["jobs"]["apply"]["environment"] == "production"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Repository]:
    folder = tmp_path_factory.mktemp("repositories")
    found = {}
    for template in ("ci-github", "ci-gitlab"):
        (folder / template).mkdir()
        found[template] = Repository(folder / template, template)
    return found


@pytest.fixture
def github(made: dict[str, Repository]) -> Repository:
    made["ci-github"].begin()
    return made["ci-github"]


@pytest.fixture
def gitlab(made: dict[str, Repository]) -> Repository:
    made["ci-gitlab"].begin()
    return made["ci-gitlab"]


COMMENTS = "https://api.example.org/repos/someone/markets/issues/7/comments"


def commented(plan: Job, comments: object = ()) -> Job:
    """Run the job that writes the comment after that which plans: in a folder without the change.

    There are files in it that Python would import instead of its own.
    """
    folder = plan.fakes / "empty"
    folder.mkdir(exist_ok=True)
    (folder / "json.py").write_text("raise SystemExit(9)")
    job = run_github("comment", folder, comments=comments, outputs=plan.outputs)
    assert job.code == 0, job.steps
    return job


@pytest.mark.holds("project-comment")
def test_an_additive_change_passes_and_is_told_in_one_comment(github: Repository) -> None:
    additive(github)
    checkout = github.checkout("change")
    plan = run_github("plan", checkout)
    assert plan.code == 0, plan.steps
    assert plan.calls == ()
    assert "github/codeql-action/upload-sarif" in plan.used
    job = commented(plan)
    assert posted(job) == [("GET", f"{COMMENTS}?per_page=100"), ("POST", COMMENTS)]
    body = json.loads(job.calls[-1].body or "")["body"]
    assert body.startswith(MARKER)
    assert "shop.customers" in body
    assert "Authorization: Bearer s3cret" in job.calls[-1].arguments
    assert "s3cret" not in body
    ours, stranger = {"login": "github-actions[bot]"}, {"login": "github-actions"}
    others: list[dict[str, object]] = [
        {"id": 1, "body": f"{MARKER}\nmine, says a stranger", "user": stranger},
        {"id": 2, "body": f"{MARKER}\nof one whose account is gone", "user": None},
        {"id": 3, "body": f"I saw {MARKER}", "user": ours},
    ]
    assert posted(commented(plan, others))[-1] == ("POST", COMMENTS)
    others.append({"id": 4, "body": f"{MARKER}\nold", "user": ours})
    again = commented(plan, others)
    assert posted(again)[-1] == ("PATCH", COMMENTS.replace("7/comments", "comments/4"))


def test_a_pull_request_from_a_fork_gets_a_plan_but_no_comment(github: Repository) -> None:
    github.change(ORDERS, "one row each", "each in a row")
    job = run_github("plan", github.checkout("change"), fork=True)
    assert job.code == 0, job.steps
    assert run_github("comment", job.fakes, fork=True, outputs=job.outputs).steps == {}
    assert "github/codeql-action/upload-sarif" not in job.used
    assert (job.folder / "plan.md").exists()


def test_a_breaking_change_ends_with_three_and_is_told_all_the_same(github: Repository) -> None:
    breaking(github)
    job = run_github("plan", github.checkout("change"))
    assert job.steps["Check"].code == 3
    assert "odfbuild lock" in job.steps["Check"].out + job.steps["Check"].err
    assert job.steps["Plan"].code == 3
    body = json.loads(commented(job).calls[-1].body or "")["body"]
    assert "ODF201" in body
    sarif = json.loads((job.folder / "plan.sarif").read_text("utf-8"))
    assert any(each["ruleId"] == "ODF201" for each in sarif["runs"][0]["results"])
    assert "ODF201" in (job.fakes / "summary.md").read_text("utf-8")


def test_what_is_accepted_passes_until_its_day(github: Repository) -> None:
    breaking(github)
    done = without_jvm("accept", "ODF201", "shop.orders", "--column", "customer", cwd=github.work)
    assert done.code == 0, done.err
    accepted = run_github("plan", github.checkout("change"), only=["Plan"])
    assert accepted.code == 0, accepted.steps
    text = (github.work / "odfbuild.yaml").read_text("utf-8")
    (github.work / "odfbuild.yaml").write_text(re.sub(r"until: \S+", "until: 2024-01-31", text))
    expired = run_github("plan", github.checkout("change"), only=["Plan"])
    assert expired.code == 3


def test_what_is_merged_is_applied_unless_the_gate_refuses(github: Repository) -> None:
    checkout = github.checkout("merged")
    job = run_github("apply", checkout)
    assert job.code == 0, job.steps
    assert list(job.steps) == ["Install", "Policy", "Plan", "Apply"]
    assert "6 rows" in job.steps["Apply"].out
    assert without_jvm("plan", cwd=checkout).out.startswith("No changes.")
    file = checkout / ORDERS
    file.write_text(file.read_text("utf-8").replace("          - customer STRING\n", ""))
    refused = run_github("apply", checkout)
    assert list(refused.steps) == ["Install", "Policy", "Plan"]
    assert refused.code == 3


NOTES = "https://git.example.org/api/v4/projects/12/merge_requests/7/notes"


@pytest.mark.holds("project-comment")
def test_gitlab_tells_an_additive_change_in_one_note(gitlab: Repository) -> None:
    additive(gitlab)
    checkout = gitlab.checkout("change")
    job = run_gitlab("plan", checkout, ODFBUILD_TOKEN="s3cret")
    assert job.code == 0, job.steps
    assert posted(job) == [
        ("GET", NOTES.partition("/projects")[0] + "/user"),
        ("GET", f"{NOTES}?per_page=100&sort=asc"),
        ("POST", NOTES),
    ]
    assert (job.calls[-1].body or "").startswith(MARKER)
    assert "<testsuite" in (job.folder / "plan.xml").read_text("utf-8")
    notes = [
        {"id": 4, "body": f"{MARKER}\nmine, says a stranger", "author": {"id": ME + 1}},
        {"id": 5, "body": f"{MARKER}\nold", "author": {"id": ME}},
    ]
    again = run_gitlab("plan", checkout, comments=notes, ODFBUILD_TOKEN="s3cret")
    assert posted(again)[-1] == ("PUT", f"{NOTES}/5")


def beside(repository: Repository) -> None:
    """Change what is installed, and lay files where Python would look for its own."""
    repository.change("requirements.txt", "odfbuild==1", "evil==6")
    for name in ("pip", "json"):
        (repository.work / f"{name}.py").write_text("raise SystemExit('the change was run')\n")


@pytest.mark.holds("project-install")
def test_a_change_chooses_nothing_of_what_is_installed_to_plan_it(
    github: Repository, gitlab: Repository
) -> None:
    beside(github)
    job = run_github("plan", github.checkout("change"), only=["Install", "Policy", "Plan", "Text"])
    assert job.code == 0, job.steps
    assert (job.fakes / "installed.txt").read_text() == REQUIREMENTS
    assert set(job.outputs) == {"comment"}
    beside(gitlab)
    other = run_gitlab("plan", gitlab.checkout("change"), ODFBUILD_TOKEN="s3cret")
    assert other.code == 0, other.steps
    assert (other.fakes / "installed.txt").read_text() == REQUIREMENTS
    assert posted(other)[-1] == ("POST", NOTES)


@pytest.mark.holds("project-install")
@pytest.mark.parametrize("text", [WORKFLOW_TEXT, PIPELINE_TEXT])
def test_packages_are_installed_by_their_hashes_and_python_imports_its_own_files(text: str) -> None:
    calls = re.findall(r"^ *(?:- |run: )?(python3? .*)$", text, re.MULTILINE)
    calls += re.findall(r"\$\((python3? .*)\)", text)
    assert len(calls) >= 3
    assert all(re.match(r"python3? -I ", each) for each in calls)
    installs = [each for each in calls if " pip install " in each]
    assert len(installs) == 2
    assert all("--require-hashes --requirement " in each for each in installs)


def test_gitlab_refuses_a_breaking_change_and_needs_no_token_for_it(gitlab: Repository) -> None:
    breaking(gitlab)
    job = run_gitlab("plan", gitlab.checkout("change"), ODFBUILD_TOKEN="")
    assert job.code == 3
    assert job.calls == ()
    assert "ODF201" in (job.folder / "plan.md").read_text("utf-8")


def test_gitlab_applies_the_plan_that_was_saved(gitlab: Repository) -> None:
    job = run_gitlab("apply", gitlab.checkout("merged"))
    assert job.code == 0, job.steps
    assert without_jvm("plan", cwd=job.folder).out.startswith("No changes.")


def test_the_page_about_ci_names_what_there_is() -> None:
    page = (REPOSITORY / "docs" / "ci.md").read_text("utf-8")
    for name in ("ci-github", "ci-gitlab", "odfbuild-fmt", "odfbuild-check", "ODFBUILD_TOKEN"):
        assert name in page
