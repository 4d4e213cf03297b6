"""The page about sharing says what is so: its commands are run, by two projects and a folder."""

import os
import re
import sys
from pathlib import Path

from tests.pages.test_readme import commands, pattern
from tests.support.process.inside import lay_out
from tests.support.projects import REPOSITORY, shell

PAGE = (REPOSITORY / "docs" / "sharing.md").read_text("utf-8")


def test_the_page_about_sharing_is_so(tmp_path: Path) -> None:
    definition = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert definition is not None
    rates = {
        "odfbuild.yaml": "odfbuild: 1\nname: rates\n",
        "datasets/rates.yaml": definition[1],
        "data/1.csv": "t,k,v\n2024-01-01,eur,1\n2024-01-02,eur,2\n",
    }
    lay_out(tmp_path / "rates", dict(rates))
    lay_out(tmp_path / "reports", {"odfbuild.yaml": "odfbuild: 1\nname: reports\n"})
    (tmp_path / "srv").mkdir()
    program = tmp_path / "bin" / "odfbuild"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.support.process.inside "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    place = tmp_path
    for step in commands(PAGE):
        command = step.command.replace("/srv/odf", str(tmp_path / "srv"))
        if command.startswith("cd "):
            place = (place / command.removeprefix("cd ")).resolve()
            continue
        done = shell(command, place, PATH=path, PYTHONPATH=str(REPOSITORY))
        assert done.code == 0, f"{command}: {done.err}"
        if step.output:
            assert pattern(step.output).fullmatch(done.out), f"{command}: {done.out}"
