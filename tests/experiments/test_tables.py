"""Tables from an artificial ledger: validation selects, and missing runs are marked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.experiments.entries import entry

from fivestar.errors import DamagedLedger, SettingsError
from fivestar.evaluation.ranks import Ranks
from fivestar.evaluation.report import Evaluation
from fivestar.experiments.comparisons import compare_models
from fivestar.experiments.ledger import append, settings_of
from fivestar.experiments.reproduction import recipe, recipe_file
from fivestar.experiments.results import results_page
from fivestar.experiments.saved_ranks import save_ranks
from fivestar.experiments.searches import Search
from fivestar.experiments.tables import (
    NO_RUN,
    as_json,
    as_latex,
    as_markdown,
    fill_table,
    published_table,
    table_cell,
    table_names,
    write_table,
)
from fivestar.graph.triples import Triples
from fivestar.models.registry import MODELS
from fivestar.runs.identity import learned_settings, settings_hash

ROOT = Path(__file__).parents[2]
WINS = entry(reg=0.1, valid=0.45, test=0.40)
LOSES = entry(reg=0.5, valid=0.44, test=0.49)


def test_a_cell_is_the_best_on_validation_even_if_worse_on_test():
    cell = table_cell([LOSES, WINS], "wn18rr", "fivestar", 100)
    assert cell.entries == (WINS,)
    assert cell.test["mrr"] == 0.40
    assert cell.num_settings == 2
    assert cell.std is None


def test_validation_mrr_is_the_mean_over_seeds():
    steady = [entry(reg=0.2, seed=seed, valid=0.43, test=0.41 + seed / 50) for seed in (2, 0, 1)]
    lucky = [entry(reg=0.3, seed=0, valid=0.50), entry(reg=0.3, seed=1, valid=0.30)]
    cell = table_cell([*lucky, *steady], "wn18rr", "fivestar", 100)
    assert [e.seed for e in cell.entries] == [0, 1, 2]
    assert cell.test["mrr"] == pytest.approx(0.43)
    assert cell.std["mrr"] == pytest.approx(0.02)


def test_graphs_models_and_dimensions_are_separate():
    ledger = [WINS, entry(dim=500), entry(model="complex"), entry(data="fb15k-237")]
    assert table_cell(ledger, "wn18rr", "fivestar", 500).entries[0].dim == 500
    assert table_cell(ledger, "wn18rr", "complex", 500) is None
    assert table_cell(ledger, "wn18", "fivestar", 100) is None


def test_the_same_ledger_in_another_order_gives_the_same_table():
    tie = [entry(reg=reg, valid=0.4, test=reg) for reg in (0.1, 0.2, 0.3)]
    table = published_table("table-fb15k237-wn18rr")
    assert as_json(fill_table(table, tie)) == as_json(fill_table(table, tie[::-1]))


@pytest.mark.parametrize("name", table_names())
def test_an_empty_ledger_gives_a_table_that_says_so(name):
    table = fill_table(published_table(name), [])
    graphs = len(table.published.graphs)
    rows = len(table.ours)
    assert rows >= len(table.published.labels)
    assert as_markdown(table).count(NO_RUN) == rows * graphs
    assert as_latex(table).count(NO_RUN) == rows * graphs
    ours = [row for row in json.loads(as_json(table))["rows"] if row["by"] == "ours"]
    assert all(cell is None for row in ours for cell in row["cells"].values())


@pytest.mark.parametrize(
    ("name", "graph", "model", "dim", "metrics"),
    [
        ("table-fb15k237-wn18rr", "wn18rr", "fivestar", 500, [0.50, 0.45, 0.51, 0.59]),
        ("table-fb15k237-wn18rr", "fb15k-237", "fivestar", 100, [0.35, 0.26, 0.38, 0.53]),
        ("table-fb15k237-wn18rr", "fb15k-237", "transe", None, [0.29, None, None, 0.47]),
        ("table-nell", "nell-995-h25", "fivestar", 200, [0.39, 0.31, 0.43, 0.53]),
        ("table-nell", "nell-995-h50", "murp", None, [0.37, 0.28, 0.42, 0.54]),
        ("table-wn18-fb15k", "fb15k", "quate", None, [0.83, 0.80, 0.86, 0.90]),
    ],
)
def test_published_rows_are_as_printed(name, graph, model, dim, metrics):
    rows = [r for r in published_table(name).rows if (r.model, r.dim) == (model, dim)]
    assert list(rows[0].metrics[graph].values()) == metrics


@pytest.mark.parametrize("name", table_names())
def test_every_model_of_a_table_has_settings_on_every_graph(name):
    table = published_table(name)
    for graph in table.graphs:
        for model in table.labels:
            assert model in MODELS
            settings = recipe(graph, model, {"model": {"dim": 7}, "training": {"seed": 3}})
            assert (settings.model.name, settings.model.dim) == (model, 7)
            assert settings.training.seed == 3
            training = settings.training
            assert training.evaluate_every, "validation chooses the epoch"
            assert training.patience or training.epochs <= 50, "it stops by itself"


def test_the_nell_graphs_share_their_settings():
    files = {recipe_file(graph, "fivestar") for graph in published_table("table-nell").graphs}
    assert len(files) == 1
    assert recipe_file("wn18rr", "fivestar") not in files


def test_a_dimension_can_have_a_recipe_of_its_own():
    large, small = (recipe("wn18rr", "fivestar", {"model": {"dim": dim}}) for dim in (500, 100))
    assert (large.training.precision, small.training.precision) == ("bf16", "float32")
    assert recipe_file("wn18rr", "fivestar", 7) == recipe_file("wn18rr", "fivestar")
    assert recipe_file("wn18rr", "fivestar", 500) != recipe_file("wn18rr", "fivestar")


def test_runs_with_the_settings_of_a_search_on_one_graph_have_a_section(tmp_path):
    """Its settings are recognized on other graphs and dimensions, without the time limit."""

    def run(data, dim=100, reg=0.1, **training):
        made = entry(data, dim=dim, reg=reg)
        settings = settings_of(made)
        training = settings.training.model_copy(update=training)
        settings = settings.model_copy(update={"training": training})
        changed = {
            "settings": settings_hash(settings),
            "settings_values": learned_settings(settings),
        }
        return entry(data, dim=dim, reg=reg, **changed)

    searched = run("nell-995-h25", max_minutes=3.0)
    search = {
        "data": "nell-995-h25",
        "model": "fivestar",
        "dim": 100,
        "seed": 0,
        "seconds": 300,
        "seconds_used": 290,
        "settings_tried": 7,
        "settings": searched.settings,
        "valid_mrr": 0.4,
        "machine": "",
        "commit": "",
        "date": "",
    }
    place = tmp_path / "ledger.jsonl"
    (tmp_path / "searches.jsonl").write_text(json.dumps(search) + "\n")
    append(searched, place)
    assert "Searched on" not in results_page(place)
    better = entry("nell-995-h75", reg=0.3, valid=0.5, test=0.35)
    for line in (run("nell-995-h100", dim=200), run("nell-995-h75"), better):
        append(line, place)
    append(run("nell-995-h50", reg=0.2), place)
    page = results_page(place)
    assert page.count("## Searched on") == 1
    own, reused = ".300 / .450", ".300 / .450 → .350 / .525"
    start = "| 5★E | 100 | 7 settings in 5 min |"
    assert f"{start} no run yet | {reused} | no run yet → {own} | {own} |" in page
    assert f"{start.replace('100', '200')} {own} | no run yet | no run yet | no run yet |" in page


def test_a_misspelled_table_gets_a_suggestion():
    with pytest.raises(SettingsError, match="did you mean 'table-nell'"):
        published_table("table-nel")


def test_markdown_latex_and_json_say_the_same(tmp_path):
    seeds = [entry(seed=seed, valid=0.4, test=0.30 + seed / 100) for seed in range(3)]
    table = fill_table(published_table("table-fb15k237-wn18rr"), seeds, dims=[8])
    assert "| 5★E | 100 | ours | **.310 ± .010** |" in as_markdown(table)
    epochs = ", ".join(["20 of 30"] * 3)
    assert (
        f"| valid MRR .400, of 1 | seeds 0, 1, 2; epoch {epochs}; 1.5, 1.5, 1.5 min |"
        in as_markdown(table)
    )
    assert r"5$^\bigstar$E $d=100$ & ours" in as_latex(table)
    assert r".310\,$\pm$\,.010" in as_latex(table)
    assert "| ComplEx | 8 | ours | no run yet |" in as_markdown(table)
    paths = write_table(table, tmp_path / "new")
    assert [path.suffix for path in paths] == [".md", ".tex", ".json"]
    rows = json.loads(paths[2].read_text())["rows"]
    (ours,) = [r for r in rows if (r["model"], r["dim"], r["by"]) == ("fivestar", 100, "ours")]
    assert ours["cells"]["wn18rr"]["test"]["mrr"] == pytest.approx(0.31)
    assert len(ours["cells"]["wn18rr"]["runs"]) == 3
    rows_of_latex = [line for line in as_latex(table).splitlines() if line.endswith(r"\\")]
    for line in rows_of_latex[1:]:
        spans = line.count(r"\multicolumn{4}")
        assert line.count("&") == 9 - 3 * spans


def searched(line, seconds=2100.0, tried=12):
    """Return an artificial search that found the settings of a line."""
    return Search(
        data=line.data,
        model=line.model,
        dim=line.dim,
        seed=line.seed,
        seconds=seconds,
        seconds_used=seconds - 1,
        settings_tried=tried,
        settings=line.settings,
        valid_mrr=line.valid.mrr,
        machine="a machine",
        commit="abc",
        date="2026-01-01",
    )


def test_a_cell_says_how_its_settings_were_searched():
    line = entry()
    table = published_table("table-fb15k237-wn18rr")
    shown = as_markdown(fill_table(table, [line], searches=[searched(line)]))
    assert (
        "| valid MRR .400, of 1; 12 settings in 35 min | seed 0; epoch 20 of 30; 1.5 min |" in shown
    )
    other = searched(entry(reg=0.5))
    assert "35 min" not in as_markdown(fill_table(table, [line], searches=[other]))


def test_a_run_that_ended_while_it_was_improving_is_marked():
    def shown(**more):
        line = entry()
        values = {**line.settings_values, "training": {"max_minutes": 1.5}}
        changed = line.model_copy(update={"settings_values": values, "best_epoch": 30, **more})
        return as_markdown(fill_table(published_table("table-fb15k237-wn18rr"), [changed]))

    assert "**not converged** in 1.5 min" in shown()
    assert "not converged" not in shown(best_epoch=29)
    assert "not converged" not in shown(minutes=1.4)
    free = entry().settings_values
    assert "not converged" not in shown(settings_values=free)
    steep, flat = (((20, 1.0, mrr), (30, 1.5, 0.4)) for mrr in (0.38, 0.39))
    assert "not converged" in shown(settings_values=free, curve=steep)
    assert "not converged" not in shown(settings_values=free, curve=flat)


def test_equally_searched_settings_are_compared_before_better_ones(tmp_path):
    triples = Triples(*np.zeros((3, 10), int))
    ranks = np.arange(1, 21)
    star, rival = (saved(tmp_path, model, 0, ranks, triples) for model in ("fivestar", "complex"))
    better = saved(tmp_path, "fivestar", 0, ranks, triples, reg=0.7, valid=0.5)
    ledger = [star, rival, better]

    def compared(searches):
        (found,) = compare_models(ledger, tmp_path, "fivestar", "complex", searches=searches)
        return found.cells[0].entries, found.as_row()[4]

    assert compared([]) == ((better,), "not equal")
    assert compared([searched(star)]) == ((better,), "not equal")
    assert compared([searched(star), searched(rival, seconds=60)]) == ((better,), "not equal")
    cpu = searched(rival).model_copy(update={"clock": "cpu"})
    assert compared([searched(star), cpu]) == ((better,), "not equal")
    assert compared([searched(star), searched(rival)]) == ((star,), "35 min each")


def test_settings_of_equal_searches_on_another_graph_are_compared(tmp_path):
    triples = Triples(*np.zeros((3, 10), int))
    models, ranks = ("fivestar", "complex"), np.arange(1, 21)
    places = ("nell-995-h25", "nell-995-h75")
    ledger = [
        saved(tmp_path, model, 0, ranks, triples, data=data) for data in places for model in models
    ]
    better = saved(tmp_path, "fivestar", 0, ranks, triples, data=places[1], reg=0.7, valid=0.5)
    searches = [searched(line) for line in ledger[:2]]
    own, reused = compare_models([*ledger, better], tmp_path, *models, searches=searches)
    assert (own.data, own.as_row()[4]) == (places[0], "35 min each")
    assert (reused.data, reused.as_row()[4]) == (places[1], "35 min each, on nell-995-h25")
    assert reused.cells[0].entries == (ledger[2],), "not the best on validation"


def saved(folder, model, seed, ranks, triples, **more):
    """Append a line with artificial ranks."""
    made = Ranks(ranks, ranks, np.full(len(ranks), 1000), np.zeros(len(ranks), np.int8))
    half = np.arange(len(ranks)) < len(triples)
    line = entry(model=model, seed=seed, **more)
    sides = made.take(~half), made.take(half)
    found = Evaluation(triples, *sides, self_hidden=np.ones(len(triples), bool))
    name = save_ranks(found, line.key, folder)
    append(line.model_copy(update={"ranks": name}), folder / "ledger.jsonl")
    return line.model_copy(update={"ranks": name})


def test_models_are_compared_by_their_saved_ranks(tmp_path):
    rng = np.random.default_rng(0)
    triples = Triples(*rng.integers(0, 50, (3, 200)))
    hard = rng.integers(2, 60, 400)
    ledger = [saved(tmp_path, "complex", seed, hard, triples) for seed in range(3)]
    ledger += [
        saved(tmp_path, "fivestar", seed, np.maximum(1, hard - 1), triples) for seed in range(3)
    ]
    (found,) = compare_models(ledger, tmp_path, "fivestar", "complex")
    assert found.verdict == "fivestar is better"
    assert found.difference.p < 0.01
    assert found.as_row()[:2] == ["wn18rr", "100"]
    (back,) = compare_models(ledger, tmp_path, "complex", "fivestar", ["wn18rr"])
    assert back.verdict == "fivestar is better"
    assert compare_models(ledger, tmp_path, "complex", "fivestar", ["wn18"]) == []
    page = results_page(tmp_path / "ledger.jsonl")
    assert (
        "| wn18rr | 100 | fivestar .300 (3 runs) | complex .300 (3 runs) | not equal | +0." in page
    )
    assert "| 1.5, 1.5, 1.5 | a machine | abc | not saved |" in page
    assert "These cells are one run: none." in page


def test_the_page_shows_settings_and_curve(tmp_path):
    curve = [(5, 0.7, 0.31), (10, 1.5, 0.4)]
    append(entry(reg=0.3, curve=curve), tmp_path / "ledger.jsonl")
    page = results_page(tmp_path / "ledger.jsonl")
    assert "These cells are one run: wn18rr 5★E d=100." in page
    assert "epsilon 1e-06, reg-weight 0.3 | 1.5 | a machine | abc | 5: .310 10: .400 |" in page


def test_a_comparison_needs_the_same_triples_and_all_ranks(tmp_path):
    ranks = np.arange(1, 21)
    one, other = (Triples(*np.full((3, 10), value)) for value in (1, 2))
    first = saved(tmp_path, "fivestar", 0, ranks, one)
    second = saved(tmp_path, "complex", 0, ranks, other)
    with pytest.raises(DamagedLedger, match="different test triples"):
        compare_models([first, second], tmp_path, "fivestar", "complex")
    without = entry(model="complex", seed=1)
    (found,) = compare_models([first, second, without], tmp_path, "fivestar", "complex")
    assert found.difference is None
    assert found.verdict == "ranks not saved"


def test_settings_with_saved_ranks_are_preferred(tmp_path):
    ranks, triples = np.arange(1, 21), Triples(*np.full((3, 10), 1))
    ledger = [saved(tmp_path, model, 0, ranks, triples) for model in ("fivestar", "complex")]
    better = entry(model="complex", reg=0.3, valid=0.9)
    (found,) = compare_models([*ledger, better], tmp_path, "fivestar", "complex")
    assert found.cells[1].entries == (ledger[1],)
    assert found.difference.mrr == 0
    # The table shows the better settings, so the row says that these are others.
    assert found.in_table == (True, False)
    assert found.as_row()[2:4] == [
        "fivestar .300 (1 run)",
        "complex .300 (1 run, not of the table)",
    ]


def test_the_page_of_results_is_what_the_ledger_gives():
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert page == results_page(ROOT / "results" / "ledger.jsonl"), "make results"
