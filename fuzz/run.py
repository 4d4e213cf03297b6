"""Feed the targets of tests/fuzz with inputs by the hundred thousand.

Run as `python -m fuzz.run [TARGET ...] [--runs N]`, which is `make fuzz`.  With atheris installed
(`pip install atheris` into an environment of your own; it is no dependency of the project) inputs
are chosen by the code that they reach; without it they are changed at random.  What breaks a target
is kept in fuzz/found/, a file each, and fails the run, also when it ended the process: the rest is
then done in another one.  `--keep` adds to the corpus what reached new code, as short as it can be
had.
"""

# ruff: noqa: PLC0415 - what is watched is imported where the watching begins

import argparse
import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from pathlib import Path

from fuzz.corpus import load, save
from fuzz.mutate import mutations

__all__ = ["main"]

FOUND = Path(__file__).parent / "found"
SHARES = {
    "block": 15,
    "content": 25,
    "manifest": 12,
    "reference": 13,
    "identity": 5,
    "arrow_schema": 12,
    "ddl": 8,
    "state": 10,
    "project": 1,
    "template": 1,
    "selector": 5,
    "plan": 5,
    "text": 3,
    "packed": 3,
    "parquet": 2,
    "shapefile": 1,
}
_KEPT_BYTES = 16_000
_ATTEMPTS = 10  # as many ends of the process one target may bring about
# a template may take a million turns, and runs once more to place what is wrong with it
_SLOW = {"project": 10.0, "template": 10.0, "packed": 5.0, "shapefile": 5.0}


def main() -> None:
    """Run each target in a process of its own and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("targets", nargs="*", choices=[*SHARES, []], metavar="TARGET")
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs in total")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="renew the corpus")
    parser.add_argument("--plain", action="store_true", help="do not use atheris")
    parser.add_argument("--here", metavar="FOLDER", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.here is not None:
        _run_here(chosen.targets[0], chosen.runs, chosen.seed, chosen.plain, Path(chosen.here))
        return
    before = _found()
    for target in chosen.targets or SHARES:
        runs = chosen.runs * SHARES[target] // sum(SHARES[t] for t in chosen.targets or SHARES)
        _run_apart(target, runs, chosen)
    new = _found() - before
    print(f"{len(new)} findings" + "".join(f"\n  {path}" for path in sorted(new)))
    sys.exit(1 if new else 0)


def _found() -> set[Path]:
    return set(FOUND.glob("*")) if FOUND.is_dir() else set()


def _run_apart(target: str, runs: int, chosen: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs"
        inputs.mkdir()
        for data in load(target):
            (inputs / hashlib.sha1(data).hexdigest()).write_bytes(data)  # noqa: S324 - a name
        started = time.perf_counter()
        done = _run_until_it_ends(target, runs, chosen, inputs)
        took = time.perf_counter() - started
        reached = [line for line in done.stderr.splitlines() if line.startswith(("#", "Done"))]
        print(f"{target}: {reached[-1] if reached else ''} in {took:.0f} s", flush=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr[-4000:])
        if chosen.keep:
            save(target, _grown(load(target), [path.read_bytes() for path in inputs.iterdir()]))


def _run_until_it_ends(
    target: str, runs: int, chosen: argparse.Namespace, inputs: Path
) -> subprocess.CompletedProcess[str]:
    """Run a target; keep the input that ended the process, and go on with other ones."""
    last = inputs.parent / "last"
    for attempt in range(_ATTEMPTS):
        command = [sys.executable, "-m", "fuzz.run", target, f"--runs={runs}", f"--here={inputs}"]
        command += [f"--seed={chosen.seed + 1000 * attempt}"] + ["--plain"] * chosen.plain
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode >= 0 or not last.exists():
            break
        _keep(target, last.read_bytes(), RuntimeError(f"ended by the signal {-done.returncode}"))
        last.unlink()
    return done


def _grown(kept: Sequence[bytes], found: Iterable[bytes]) -> list[bytes]:
    """Return what is kept and as many of the shortest that were found as there is room for."""
    grown, left = list(kept), _KEPT_BYTES - sum(map(len, kept))
    for each in sorted(set(found) - set(kept), key=len):
        left -= len(each)
        if left >= 0:
            grown.append(each)
    return grown


def _run_here(target: str, runs: int, seed: int, plain: bool, inputs: Path) -> None:
    if not plain and importlib.util.find_spec("atheris") is not None:
        _run_guided(target, runs, seed, inputs)
    else:
        _run_plain(target, runs, seed, inputs)


def _run_guided(target: str, runs: int, seed: int, inputs: Path) -> None:
    import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

    with atheris.instrument_imports(include=["odfbuild"]):
        held = _held(target, inputs.parent / "last")
    arguments = [
        sys.argv[0],
        f"-runs={runs}",
        f"-seed={seed}",
        "-max_len=4096",
        "-len_control=0",
        "-timeout=60",
        "-rss_limit_mb=2048",
        str(inputs),
    ]
    atheris.Setup(arguments, held)
    atheris.Fuzz()


def _run_plain(target: str, runs: int, seed: int, inputs: Path) -> None:
    held = _held(target, inputs.parent / "last")
    corpus = [path.read_bytes() for path in sorted(inputs.iterdir())]
    count = 0
    for data in islice(chain(corpus, mutations(corpus, seed)), runs):
        held(data)
        count += 1
    print(f"Done {count} runs", file=sys.stderr)


def _held(target: str, last: Path) -> Callable[[bytes], None]:
    """Return a target that is held to its limits and keeps what breaks it, once for each place.

    `last` is the file for an input that may end the process.
    """
    from fuzz.limits import SECONDS, limited
    from tests.fuzz.targets import DEADLY, TARGETS

    run = limited(TARGETS[target], _SLOW.get(target, SECONDS))
    seen: set[str] = set()

    def held(data: bytes) -> None:
        if target in DEADLY:
            last.write_bytes(data)
        try:
            run(data)
        except Exception as error:
            place = "".join(traceback.format_tb(error.__traceback__)[-1:]) + type(error).__name__
            if place not in seen:
                seen.add(place)
                _keep(target, data, error)

    return held


def _keep(target: str, data: bytes, error: Exception) -> None:
    FOUND.mkdir(exist_ok=True)
    name = f"{target}-{hashlib.sha1(data).hexdigest()[:12]}"  # noqa: S324 - a name
    (FOUND / name).write_bytes(data)
    text = "".join(traceback.format_exception(error, limit=-6))
    (FOUND / f"{name}.txt").write_text(text, "utf-8", errors="backslashreplace")


if __name__ == "__main__":
    main()
