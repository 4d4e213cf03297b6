"""Files that commands write beside what they print: --report FMT=FILE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from odfbuild.cli.files import write_output
from odfbuild.cli.usage import UsageRefusedError
from odfbuild.project.checkout_links import refuse_links

__all__ = ["Reports", "parse_reports"]


@dataclass(frozen=True, slots=True)
class Reports:
    """The files that were asked for, each with its format."""

    files: tuple[tuple[str, Path], ...] = ()

    def wants(self, format: str) -> bool:
        """Say whether a file of this format was asked for."""
        return any(each == format for each, _ in self.files)

    def of(self, format: str) -> tuple[Path, ...]:
        """Return the files of a format."""
        return tuple(path for each, path in self.files if each == format)

    def write(self, format: str, text: str) -> None:
        """Write the files of a format."""
        for path in self.of(format):
            write_output(path, text)


def parse_reports(texts: Sequence[str], formats: Mapping[str, str]) -> Reports:
    """Read texts of the form FMT=FILE; `formats` says what each holds.

    Raises UsageRefusedError, also for a file in a folder that is not there.
    """
    return Reports(tuple(_parse(text, formats) for text in texts))


def _parse(text: str, formats: Mapping[str, str]) -> tuple[str, Path]:
    format, _, name = text.partition("=")
    if format not in formats or name in ("", "-"):
        known = ", ".join(f"{each} ({what})" for each, what in formats.items())
        raise UsageRefusedError(
            what=f"--report {text}: not a format and a file",
            why=f"it has the form FMT=FILE; the formats are {known}",
            fix=f"write, for instance, --report {next(iter(formats))}=FILE",
        )
    path = Path(name)
    refuse_links(path)  # before anything is done that the file would be about
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise UsageRefusedError(
            what=f"--report {text}: that file cannot be written",
            why="it is a folder" if path.is_dir() else f"there is no folder {path.parent}",
            fix="name a file in a folder that is there",
        )
    return format, path
