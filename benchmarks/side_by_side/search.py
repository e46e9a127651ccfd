"""Choose the settings of PyKEEN and AmpliGraph for the side-by-side page, on validation only.

    python benchmarks/side_by_side/search.py pykeen
    python benchmarks/side_by_side/search.py ampligraph --python /path/to/venv/bin/python

Every setting is a line of results/side_by_side_search.jsonl; recorded ones are skipped. The best
becomes the program beside this one, which measure.py evaluates on test.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from fivestar.experiments.records import append_record, read_records

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results" / "side_by_side_search.jsonl"


def main() -> None:
    """Run the search of one library and record its trials."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", choices=["pykeen", "ampligraph"])
    parser.add_argument("--python", default=sys.executable)
    given = parser.parse_args()
    folder = Path(os.environ["FIVESTAR_DATA"]) / "umls"
    program = HERE / f"search_{given.library}.py"
    tried = sum(line["library"] == given.library for line in read_records(RESULTS))
    command = [given.python, str(program), str(folder.absolute()), str(tried)]
    # Libraries print to the same output: only lines of JSON are trials. AmpliGraph writes its log
    # into the current folder.
    with (
        tempfile.TemporaryDirectory() as temporary,
        subprocess.Popen(command, cwd=temporary, stdout=subprocess.PIPE, text=True) as process,
    ):
        for line in process.stdout or ():
            if line.startswith("{"):
                append_record(
                    RESULTS, {"library": given.library, "graph": "umls", **json.loads(line)}
                )
                print(line.strip(), flush=True)
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()
