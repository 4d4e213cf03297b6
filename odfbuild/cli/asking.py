"""The engine of a project for questions about definitions: started when it has to be asked."""

from odfbuild import app
from odfbuild.app.engines import spark_of
from odfbuild.executors.analysis import Analyser
from odfbuild.executors.asking import Asker
from odfbuild.executors.engine import engine_version
from odfbuild.state.answers import Answers

__all__ = ["ENGINE", "ask_engine"]

ENGINE = "spark"


def ask_engine(project: app.Opened) -> Asker:
    """Return what asks the project's engine and keeps its answers in the workspace's cache."""

    def start() -> Analyser:
        return spark_of(project)

    answers = project.workspace.root / "cache" / "answers.sqlite"
    return Asker(start, engine_version(ENGINE) or "", Answers(answers))
