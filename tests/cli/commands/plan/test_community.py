"""A folder of published manifests: all is planned that can be, and each error has a way forward."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sql.published import MANIFESTS
from tests.support.process.inside import lay_out
from tests.support.process.within import Within

pytestmark = pytest.mark.skipif(
    not MANIFESTS, reason="the published manifests are not in ../shared"
)

WRONG_BY_ITSELF = {
    "org.geonames.altnames",  # a query without the event time
    "org.geonames.cities.by-name",
}
OTHER_ENGINE = re.compile(r'"engine": "(?!spark|datafusion)')


def definitions(folder: Path) -> Iterator[tuple[Path, str, Any]]:
    for path in sorted(folder.rglob("*.yaml")):
        for each in yaml.safe_load_all(path.read_text()):
            if each is not None:
                yield path, each["content"]["name"], each["content"]


def inputs(content: Any) -> set[str]:
    return {i["datasetRef"] for e in content["metadata"] for i in e.get("inputs", ())}


@pytest.mark.parametrize(("form", "number"), [("manifests", 32), ("manifests-ddl", 14)])
def test_all_is_planned_that_can_be(
    form: str,
    number: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = lay_out(tmp_path / "p", {"odfbuild.yaml": "odfbuild: 1\nname: community\n"})
    folder = project / "datasets"
    top = next(parent for parent in MANIFESTS[0].parents if parent.name.startswith("manifests"))
    shutil.copytree(top.parent / form, folder, dirs_exist_ok=True)
    run = Within(project, capsys, monkeypatch)
    done = run("plan", "-o", "json")
    assert (done.code, done.err) == (int(form == "manifests"), "")
    plan = json.loads(done.out)

    declared = list(definitions(folder))
    names = [name for _, name, _ in declared]
    wrong = {
        name
        for _, name, content in declared
        if OTHER_ENGINE.search(json.dumps(content))
        or re.search(r"EthereumLogs|\bST_|eth_try_decode", json.dumps(content))
        or names.count(name) > 1
        or name in WRONG_BY_ITSELF
    }
    while True:  # what is not there, and what reads what is left out
        more = {n for _, n, c in declared if inputs(c) & wrong or inputs(c) - set(names)}
        if more <= wrong:
            break
        wrong |= more
    planned = {each["name"] for each in plan["datasets"]}
    assert planned == set(names) - wrong
    assert len(planned) == number

    if not wrong:
        assert plan["gate"]["passed"] is True
        return
    errors = [note for note in plan["notes"] if note["level"] == "error"]
    places = {each["source"]["file"] for each in errors}
    for path, name, _ in declared:
        assert (path.relative_to(project).as_posix() in places) == (name in wrong), name
    for each in errors:
        assert each["source"]["line"] > 1, each
        assert each["why"], each
        assert each["fix"], each
    assert plan["gate"]["passed"] is False

    text = run("plan").out
    assert text.endswith(f"{len(errors)} errors, {len(wrong)} datasets left out.\n")
