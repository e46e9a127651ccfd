"""Write docs/side-by-side.md from the programs and their measurements in results/.

python benchmarks/side_by_side/table.py
"""

from __future__ import annotations

from pathlib import Path

from fivestar.experiments.records import read_records
from fivestar.experiments.results import markdown_table

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/side-by-side.md"
NAMES = {"fivestar": "fivestar", "pykeen": "PyKEEN", "ampligraph": "AmpliGraph"}


def page() -> str:
    """Return the page: the last measurement of each library, and the programs."""
    last = {line["library"]: line for line in read_records(ROOT / "results/side_by_side.jsonl")}
    rows = [["library", "lines", "CPU seconds", "MRR"]]
    for library, name in NAMES.items():
        if library in last:
            found = last[library]
            numbers = str(found["lines"]), f"{found['cpu_seconds']:.0f}", f"{found['mrr']:.3f}"
            rows.append([f"{name} {found['version']}", *numbers])
    about = (HERE / "about.md").read_text(encoding="utf-8")
    lines = [about, markdown_table(rows)]
    notes: dict[str, list[str]] = {}
    for library, line in last.items():
        note = (
            f"{line['machine'].partition(',')[0]}, {line['threads']} thread, with other jobs "
            f"running, commit {line['commit']}, {line['date']}"
        )
        notes.setdefault(note, []).append(NAMES[library])
    measured = "; ".join(f"{', '.join(names)}: {note}" for note, names in notes.items())
    lines.append(f"\nFrom start to end of the process, imports included. {measured}.")
    for library, name in NAMES.items():
        if library in last:
            code = (HERE / f"with_{library}.py").read_text(encoding="utf-8")
            program = code.partition('"""\n\n')[2].rstrip()
            printed = "\n".join(last[library]["printed"])
            lines.append(
                f"\n## {name}\n\n<!-- docs: skip measured apart -->\n```python\n{program}\n```\n"
            )
            lines.append(f"<!-- docs: skip measured apart -->\n```text\n{printed}\n```")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
