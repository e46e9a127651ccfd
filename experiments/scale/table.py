"""Write docs/scale.md from about.md and the measurements in results/.

python experiments/scale/table.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import cost_model  # noqa: E402
import mapped_table  # noqa: E402
import name_search  # noqa: E402
import scale  # noqa: E402

from fivestar.experiments.pages import fill  # noqa: E402
from fivestar.experiments.records import read_records  # noqa: E402
from fivestar.experiments.results import markdown_table  # noqa: E402
from fivestar.experiments.tables import format_metric  # noqa: E402
from fivestar.runs.units import format_bytes  # noqa: E402

PAGE = ROOT / "docs" / "scale.md"
# Lines of output that are shown at most of each command.
_LINES = 24


def _read(name: str) -> list[dict[str, Any]]:
    return read_records(ROOT / "results" / f"{name}.jsonl")


def candidates() -> str:
    """Return the validation MRR of each number of candidates and graph."""
    lines = {(line["setting"], line["data"]): line for line in _read("candidates")}
    graphs = list(dict.fromkeys(graph for _, graph in lines))
    rows = [["candidates", *graphs, "CPU minutes"]]
    for count in ("512", "1024", "4096", "16384", "all"):
        found = [lines.get((f"candidates-{count}", graph)) for graph in graphs]
        if any(found):
            name = count if count == "all" else f"{int(count):,}"
            rows.append([name, *map(_mrr, found), " / ".join(map(_minutes, found))])
    return markdown_table(rows)


def partitions() -> str:
    """Return the validation MRR of each number of partitions."""
    lines = {line["setting"]: line for line in _read("candidates") if line["data"] == "wn18rr"}
    settings = {"1": "candidates-4096", "4": "partitions-4", "16": "partitions-16"}
    rows = [["partitions", "validation MRR", "CPU minutes"]]
    for count, setting in settings.items():
        line = lines.get(setting)
        rows.append([count, _mrr(line), _minutes(line)])
    return markdown_table(rows)


def optimizers() -> str:
    """Return the validation MRR of Adagrad and of row-wise Adagrad."""
    lines = {
        (line["setting"].partition("-seed")[0], line["data"], line["seed"]): line
        for line in _read("optimizers")
    }
    runs = list(dict.fromkeys((graph, seed) for _, graph, seed in lines))
    rows = [["optimizer", *(f"{graph}, seed {seed}" for graph, seed in runs), "CPU minutes"]]
    for optimizer in ("adagrad", "row-adagrad"):
        found = [lines.get((optimizer, *each)) for each in runs]
        rows.append([optimizer, *map(_mrr, found), " / ".join(map(_minutes, found))])
    return markdown_table(rows)


def short_training() -> str:
    """Return the validation MRR after a minute of training, the best settings first."""
    rows = [["d", "candidates", "queries per batch", "products", "regularization", "MRR"]]
    for line in sorted(_read("short_training"), key=lambda line: -line["valid_mrr"]):
        values = line["settings_values"]
        training = values["training"]
        rows.append(
            [
                str(values["model"].get("dim", 100)),
                f"{training.get('candidates', 4096):,}",
                f"{training.get('batch', 500):,}",
                training.get("precision", "float32"),
                str(training.get("reg_weight", "default")),
                format_metric(line["valid_mrr"]),
            ]
        )
    return markdown_table(rows)


def _mrr(line: dict[str, Any] | None) -> str:
    return "–" if line is None else format_metric(line["valid_mrr"])


def _minutes(line: dict[str, Any] | None) -> str:
    return "–" if line is None else f"{line['cpu_minutes']:.1f}"


def machine() -> str:
    """Return the constants of the machine."""
    found = cost_model.machine_of(_read("machine"))
    rows = [
        ["constant", "measured"],
        ["products of a tile, one thread", f"{found.flops / 1e9:.0f} GFLOP/s"],
        ["products of a tile, two threads", f"{found.flops_of_two / 1e9:.0f} GFLOP/s"],
        ["powers and sums of scores", f"{found.score_bytes / 1e9:.1f} GB/s"],
        ["rows gathered, squared, divided and added", f"{found.row_bytes / 1e9:.1f} GB/s"],
        ["all-reduce of two processes, sent by each", f"{found.wire_bytes / 1e9:.2f} GB/s"],
        ["all-reduce of one number", f"{1e6 * found.latency:.0f} µs"],
    ]
    return markdown_table(rows)


def walkthrough() -> str:
    """Return the commands, their output, and what each took."""
    lines = {line["name"]: line for line in _read("walkthrough")}
    return "\n\n".join(_command(line) for line in lines.values())


def _command(line: dict[str, Any]) -> str:
    output = line["output"].rstrip().splitlines()
    if len(output) > _LINES:
        half = _LINES // 2
        output = [*output[:half], "…", *output[-half:]]
    lines = ["<!-- docs: skip five million entities -->", "```console", f"$ {line['command']}"]
    lines += [each.rstrip() for each in output]
    if "answer" in line:
        lines += [f"$ curl -s localhost:8765{line['path']} -H 'Content-Type: application/json' \\"]
        lines += [f"    -d '{line['request']}'", line["answer"]]
    for asked in line.get("asked", ()):
        lines += [f"$ {asked['command']}", *map(str.rstrip, asked["output"].splitlines())]
    peak = format_bytes(line["peak_bytes"])
    about = f"{line['seconds']:,.1f} s ({line['cpu_seconds']:,.1f} s of CPU), {peak} at most"
    if line["returncode"] == -15 and "answer" not in line:
        about = f"Stopped by hand after {line['seconds']:,.0f} s without any output; {peak} at most"
    if "answer" in line:
        first, second = line["request_seconds"]
        about += f"; ready after {line['ready_seconds']:.1f} s, the first request took "
        about += f"{first:.2f} s, the second {second:.2f} s"
        others = [f"{asked['seconds']:.2f} s" for asked in line.get("asked", ())]
        about += f", the other commands {', '.join(others)}" if others else ""
    return "\n".join([*lines, "```", "", f"{about} ({line['commit']})."])


def page() -> str:
    """Return docs/scale.md."""
    sizes = scale.merged(_read("scale"))
    constants = cost_model.machine_of(_read("machine"))
    parts = {
        "SCALE": lambda: scale.table(sizes),
        "COMMITS": lambda: scale.commits(_read("scale")),
        "NAMES": lambda: name_search.table(_read("name_search")),
        "PROCESSES": lambda: scale.process_table(sizes),
        "MAPPED": lambda: mapped_table.table(_read("mapped_table")),
        "CANDIDATES": candidates,
        "PARTITIONS": partitions,
        "OPTIMIZERS": optimizers,
        "SHORT": short_training,
        "MACHINE": machine,
        "COMPARISON": lambda: cost_model.comparison(sizes, constants),
        "VERDICT": lambda: cost_model.verdict(sizes, constants),
        "PREDICTIONS": lambda: cost_model.predictions(constants),
        "WALKTHROUGH": walkthrough,
    }
    return fill((HERE / "about.md").read_text(encoding="utf-8"), parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
