"""Projects whose engines take jobs by programs that only say that they ran."""

import json
import sys
from collections.abc import Mapping

from tests.support.process.inside import lay_out
from tests.support.process.within import Within

NEWS = {"data/2.csv": "t,k,v\n2024-01-03,c,3\n"}
TAGGED = {"out": "big"}


class Placed:
    """A project whose engines take jobs by programs that leave a mark and fail."""

    def __init__(self, cli: Within) -> None:
        self.cli, self.folder = cli, cli.folder
        lay_out(self.folder, NEWS)
        self.marks = self.folder.with_name("marks")
        self.marks.mkdir()
        script = self.folder.with_name("program.py")
        script.write_text(
            "import sys, pathlib\n"
            "pathlib.Path(__file__).with_name('marks').joinpath(sys.argv[2]).touch()\n"
            "sys.exit(9)\n"
        )
        self.script = str(script)
        self.allow("*")

    def allow(self, *programs: str) -> None:
        """Let the policy name these programs."""
        allowed = json.dumps([f"command:{each}" for each in programs])
        policy = self.folder.with_name("policy.yaml")
        policy.write_text(f"odfbuild_policy: 1\nengines: {allowed}\n")

    def entry(self, mark: str, steps: str, more: str = "") -> str:
        """Return the entry of an engine whose program leaves a mark."""
        command = json.dumps([sys.executable, self.script, "{request}", mark])
        return f"{{command: {command}, engine: spark{more}, steps: {steps}}}"

    def settings(self, engines: Mapping[str, str], tags: Mapping[str, str] = TAGGED) -> None:
        """Write odfbuild.yaml with these engines, and tags of datasets."""
        lines = [f"  {name}: {entry}" for name, entry in engines.items()]
        given = ", ".join(f"{name}: {{tags: [{tag}]}}" for name, tag in tags.items())
        text = [
            *("odfbuild: 1", f"defaults: {{{given}}}", "targets: {dev: {}, prod: {}}"),
            *("default_target: dev", *(["engines:", *lines] if lines else [])),
        ]
        lay_out(self.folder, {"odfbuild.yaml": "\n".join(text) + "\n"})

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        done = self.cli(*arguments, ODFBUILD_POLICY=str(self.folder.with_name("policy.yaml")))
        return done.code, done.out, done.err

    def plan(self, *chosen: str) -> str:
        """Save a plan; return what was printed."""
        code, out, err = self("plan", "--out", "plan.json", *chosen)
        assert code == 0, err
        return out + err

    def places(self) -> dict[str, tuple[list[str], list[str], int | None]]:
        """Return the places in the saved plan."""
        saved = json.loads((self.folder / "plan.json").read_text())
        return {
            each["engine"]: (each["datasets"], each["large"], each["least"])
            for each in saved.get("places", ())
        }

    def ran(self) -> set[str]:
        """Return the marks of the programs that ran."""
        return {each.name for each in self.marks.iterdir()}
