"""Measure the same task in fivestar, PyKEEN and AmpliGraph: lines, seconds, MRR.

    python benchmarks/side_by_side/measure.py --record
    python benchmarks/side_by_side/measure.py --record --ampligraph /path/to/venv/bin/python

Each program beside this one loads UMLS ($FIVESTAR_DATA/umls), trains a ComplEx with d = 100, prints
the filtered MRR on test and three answers to a query. Settings are the defaults (fivestar) or those
that search.py has found on validation (100 epochs). AmpliGraph needs NumPy 1 and Python 3.9 to
3.11, so an environment of its own. Programs run one after the other, in their own processes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fivestar.experiments.records import append_record

HERE = Path(__file__).parent
OUT = HERE.parents[1] / "results" / "side_by_side.jsonl"


def measure(program: Path, python: str) -> dict[str, Any]:
    """Run a program; return its lines of code, wall and CPU seconds, MRR and output."""
    folder = Path(os.environ["FIVESTAR_DATA"]) / "umls"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    # AmpliGraph writes its log into the current folder.
    with tempfile.TemporaryDirectory() as temporary:
        result = subprocess.run(
            [python, str(program), str(folder.absolute())],
            cwd=temporary,
            capture_output=True,
            text=True,
            check=False,
        )
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode:
        sys.exit(f"{program.name}\n{result.stderr[-3000:]}")
    text = program.read_text(encoding="utf-8")
    # Without empty lines and the docstring.
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith('"""')]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = re.search(r"^MRR ([\d.]+)", result.stdout, re.MULTILINE)
    return {
        "library": program.stem.removeprefix("with_"),
        "version": _version(python, program.stem.removeprefix("with_")),
        "lines": len(lines),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "mrr": round(float(found[1]), 4) if found else None,
        "printed": result.stdout.splitlines()[-4:],
    }


def _version(python: str, library: str) -> str:
    name = {"fivestar": "fivestar-kge"}.get(library, library)
    code = f"from importlib.metadata import version; print(version({name!r}))"
    return subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def main() -> None:
    """Measure, print, and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ampligraph", help="Python of an environment with AmpliGraph")
    parser.add_argument("--only", help="measure this library alone")
    parser.add_argument("--record", action="store_true", help=f"append to {OUT.name}")
    arguments = parser.parse_args()
    programs = {"with_fivestar.py": sys.executable, "with_pykeen.py": sys.executable}
    if arguments.ampligraph:
        programs["with_ampligraph.py"] = arguments.ampligraph
    for name, python in programs.items():
        if arguments.only not in (None, name.removeprefix("with_").removesuffix(".py")):
            continue
        found = measure(HERE / name, python) | {
            "graph": "umls",
            "load": round(os.getloadavg()[0], 1),
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
        }
        print(json.dumps(found, ensure_ascii=False, indent=1), flush=True)
        if arguments.record:
            append_record(OUT, found)


if __name__ == "__main__":
    main()
