"""A project with two datasets that are served, one behind the other, with hostile texts."""

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["BIG", "HIGH", "HOSTILE", "READINGS", "build", "files_of_a_day"]

READINGS, HIGH = "team.readings", "team.high"
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
BIG = 9007199254740993  # the first whole number that JavaScript rounds
_SETTINGS = (
    'odfbuild: 1\ntargets: {{dev: {{workspace: "{workspace}"}}}}\nengine: {{ingest: arrow}}\n'
)
_ROOT = f"""
kind: DatasetSnapshot
version: 1
content:
  name: {READINGS}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: data/*.csv}}
      read: {{kind: Csv, header: true, schema: [t TIMESTAMP, k STRING, v BIGINT]}}
      merge: {{kind: Append}}
    - {{kind: SetVocab, eventTimeColumn: t}}
    - {{kind: SetInfo, description: '{HOSTILE}', keywords: [water]}}
"""
_DERIVATIVE = f"""
kind: DatasetSnapshot
version: 1
content:
  name: {HIGH}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{{datasetRef: {READINGS}, alias: r}}]
      transform: {{kind: Sql, engine: datafusion, query: "select t, k, v from r where v > 5"}}
    - {{kind: SetVocab, eventTimeColumn: t}}
"""


def files_of_a_day(project: Path, day: int, rows: int = 60) -> None:
    """Write the file of a day: in its first row a hostile text, in its second a big number."""
    lines = [f"2031-01-0{day}T00:00:{at % 60:02d}Z,k{at},{at}" for at in range(rows)]
    lines[0] = f'2031-01-0{day}T00:00:00Z,"{HOSTILE.replace(chr(34), chr(34) * 2)}",0'
    lines[1] = f"2031-01-0{day}T00:00:01Z,big,{BIG}"
    (project / "data").mkdir(parents=True, exist_ok=True)
    text = "\n".join(("t,k,v", *lines, ""))
    (project / "data" / f"{day}.csv").write_text(text, "utf-8")


def build(project: Path, *words: str, workspace: str = "workspace") -> int:
    """Apply the project, or what of it the words choose; return the exit code."""
    (project / "datasets").mkdir(parents=True, exist_ok=True)
    (project / "odfbuild.yaml").write_text(_SETTINGS.format(workspace=workspace))
    (project / "datasets" / "readings.yaml").write_text(_ROOT, "utf-8")
    (project / "datasets" / "high.yaml").write_text(_DERIVATIVE, "utf-8")
    program = "from odfbuild.cli.main import program; program()"
    return subprocess.run(
        [sys.executable, "-c", program, "apply", "--yes", *words],
        cwd=project, check=False, capture_output=True, env={**os.environ, "CI": "true"},
    ).returncode  # fmt: skip
