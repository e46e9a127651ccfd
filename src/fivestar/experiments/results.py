"""The page of results, made of the ledger and nothing else: the same ledger gives the same page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fivestar.experiments.comparison import HEADS, comparisons
from fivestar.experiments.ledger import Entry, read_ledger
from fivestar.experiments.table_formats import as_markdown, shown
from fivestar.experiments.tables import FilledTable, filled, published_table, table_names

_ABOUT = """\
# Results

Made by `make results` from [ledger.jsonl](../results/ledger.jsonl) and nothing else; do not edit.

- **Ours** is the settings that won on validation, whatever the test says: the best validation MRR,
  the mean of its seeds. "of 3" is how many settings were ranked on test for that cell. With several
  seeds a figure is their mean ± standard deviation.
- **No second look.** Test is ranked once for each settings and seed, and every such ranking that
  `fivestar reproduce` makes is a line of the ledger.
- Filtered ranks, heads and tails together; a tie counts as the mean of the best and the worst rank.
- **Published** is as printed. Ties are counted otherwise there (5★E: as lost), and most dimensions
  are larger than ours: read d before the figures.
- More graphs and all models in equal short time: [models.md](models.md). What the settings of each
  line are: `settings_values` in the ledger. To repeat a table or go on with it:
  `fivestar reproduce table-nell --minutes 60` ([commands](commands.md))."""


def results_page(path: Path) -> str:
    """The page of a ledger."""
    ledger = read_ledger(path)
    parts = [_ABOUT]
    tables = [filled(published_table(name), ledger) for name in table_names()]
    for table in tables:
        parts.append(f"## {table.published.title}\n\n`fivestar reproduce {table.published.name}`")
        parts.append(as_markdown(table).rstrip())
    parts.append(_compared(tables, ledger, path.parent))
    parts.append(_ways(tables))
    parts.append(_looks(tables, ledger))
    return "\n\n".join(parts) + "\n"


def _compared(tables: Sequence[FilledTable], ledger: Sequence[Entry], folder: Path) -> str:
    graphs = [graph for table in tables for graph in table.published.graphs]
    others = sorted({model for table in tables for model in table.published.labels} - {"fivestar"})
    rows = [
        each.as_row()
        for other in others
        for each in comparisons(ledger, folder, "fivestar", other, graphs)
        if each.difference is not None
    ]
    text = """\
## Is 5★E better?

Test MRR against each other model at the same dimension, both with the settings that won on
validation (of those whose ranks were kept). The interval and the p-value are a bootstrap in pairs:
test triples are drawn, the same for both models, and runs of each. It knows nothing of how long
the settings of each were searched for; 5★E was tried more often ([recipes.md](recipes.md)). For any
two: `fivestar reproduce compare fivestar complex`."""
    if not rows:
        return f"{text}\n\nNo run yet of two models whose ranks were kept."
    return f"{text}\n\n{markdown_table([list(HEADS), *rows])}"


def _ways(tables: Sequence[FilledTable]) -> str:
    rows = [
        [graph, row.label, str(row.dim), *_way(cell.entries)]
        for table in tables
        for row in table.ours
        for graph, cell in row.cells.items()
        if cell is not None
    ]
    text = """\
## Settings, time and curves

Of every cell above: what differs from the defaults of `fivestar train`, the minutes of each run,
where it was trained, and the validation MRR of its first run by epoch (the best is chosen)."""
    heads = ["graph", "model", "d", "settings", "minutes", "machine", "commit", "curve"]
    return f"{text}\n\n{markdown_table([heads, *rows])}"


def _way(entries: Sequence[Entry]) -> list[str]:
    first = entries[0]
    settings = ", ".join(
        f"{name.replace('_', '-')} {value}"
        for section in first.settings_values.values()
        for name, value in section.items()
        if name not in {"name", "dim"}
    )
    minutes = ", ".join(f"{entry.minutes:.1f}" for entry in entries)
    curve = " ".join(f"{epoch}: {shown(mrr)}" for epoch, _, mrr in first.curve or ())
    commits = ", ".join(dict.fromkeys(entry.commit for entry in entries))
    return [settings or "defaults", minutes, first.machine, commits, curve or "not kept"]


def _looks(tables: Sequence[FilledTable], ledger: Sequence[Entry]) -> str:
    graphs = [graph for table in tables for graph in table.published.graphs]
    lines = Counter(entry.data for entry in ledger)
    hours = {g: sum(e.minutes for e in ledger if e.data == g) / 60 for g in graphs}
    rows = [
        [graph, str(lines[graph]), f"{hours[graph]:.1f}"] if lines[graph] else [graph, "0", ""]
        for graph in graphs
    ]
    heads = ["graph", "rankings of test", "hours of training"]
    return f"## How often test was looked at\n\n{markdown_table([heads, *rows])}"


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its header."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [escaped[0], ["---"] * len(rows[0]), *escaped[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
