"""No command of sharing prints or keeps a token, be it one or not, and whoever repeats it."""

from pathlib import Path

import pytest

from odfbuild.odf.identity import DatasetId, sha3_256
from tests.repositories.tokens import is_free_of, keep
from tests.support.process.within import Within
from tests.support.servers.http import Asked, Page, serving

HASH = sha3_256(b"x")


@pytest.mark.holds("server-token")
@pytest.mark.parametrize("place", ["variable", "file"])
@pytest.mark.parametrize(
    "token", ["odfb-Zk3rQ9-xY7wVt2LmN8pB", "gar7fq2\nbage9xk4", "gär7fq2xbäge9xk4"]
)
def test_no_command_prints_or_keeps_a_token(
    project: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    token: str,
) -> None:
    run = Within(project, capsys, monkeypatch)
    index = (
        '{{"version": 1, "datasets": [{{"alias": "{0}", "id": "{1}", "kind": "root", "head": "{2}",'
        ' "sequenceNumber": 1, "records": 1, "size": 1, "time": "2024-01-01T00:00:00Z"}}]}}'
    )

    def answer(asked: Asked) -> Page:
        given = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if asked.path.endswith("index.json"):
            return Page(body=index.format(given, DatasetId(HASH.digest), HASH).encode())
        return Page(status=403, body=f"not with {given}".encode(), headers={"X": given})

    with serving() as server:
        monkeypatch.setattr(server, "answer", answer)
        keep(tmp_path / "home", monkeypatch, server.url, token, place)
        for url in (f"{server.url}/", f"odf+{server.url}/"):
            (project / "odfbuild.yaml").write_text(
                f"odfbuild: 1\nname: x\nrepositories:\n  srv: {{url: '{url}'}}\n"
            )
            for command in (
                "repo list",
                "repo check",
                "repo index",
                "search",
                "search -o json",
                "pull srv/acme/x",
                "clone srv/acme/x",
                "push src --to srv",
                "list",
            ):
                done = run(*command.split())
                said = done.out + done.err
                assert is_free_of(said, token), command
                assert "internal" not in said, said
    for path in project.rglob("*"):
        if path.is_file():
            assert is_free_of(path.read_bytes().decode("utf-8", "replace"), token), path
