"""Print the settings of a run in the ledger as TOML, to train it again.

python experiments/ledger_settings.py models/umls/fivestar > settings.toml
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fivestar.experiments.ledger import read_ledger, settings_of

LEDGER = Path(__file__).parents[1] / "results" / "ledger.jsonl"


def settings_file(experiment: str) -> str:
    """Return the settings file of the first line of an experiment."""
    entries = [e for e in read_ledger(LEDGER) if e.experiment == experiment]
    if not entries:
        sys.exit(f"{LEDGER} has no experiment {experiment!r}")
    # All values are listed, so the current defaults change nothing.
    return f"# {experiment} of the ledger.\n{settings_of(entries[0]).as_toml()}"


def main() -> None:
    """Print the settings of one experiment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", help="as in the ledger: models/umls/fivestar")
    print(settings_file(parser.parse_args().experiment), end="")


if __name__ == "__main__":
    main()
