"""Worker of a job: a process that carries out steps, and reads files of sources."""

import sys
from typing import Final

from odfbuild.executors.engine.contract.worker import main
from odfbuild.executors.ingest.elsewhere.run import FileIngestRun

COMMAND: Final = (sys.executable, "-P", "-m", "odfbuild.executors.ingest.elsewhere.worker")
"""How a worker is started; its argument is that of a worker of an engine server."""

if __name__ == "__main__":
    main(FileIngestRun)
