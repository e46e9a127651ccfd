from __future__ import annotations

import dataclasses
import json
from functools import partial

import numpy as np
import pytest
import torch
from tests.graphs import people_graph

import fivestar
from fivestar.errors import (
    DamagedCheckpoint,
    DamagedRun,
    Diverged,
    FivestarError,
    OutputError,
    Paused,
    SettingsError,
    SourceNotFound,
)
from fivestar.evaluation.report import evaluate
from fivestar.models.registry import MODELS
from fivestar.runs.settings import make_settings
from fivestar.training import clock, loop
from fivestar.training.loop import Trainer
from fivestar.training.queries import GroupedQueries
from fivestar.training.resources import part_sizes

SMALL = {
    "model": {"dim": 6},
    "training": {"epochs": 4, "batch_size": 40, "evaluate_every": 2, "decay": "none", "threads": 1},
}


def small(**training):
    return {**SMALL, "training": {**SMALL["training"], **training}}


@pytest.fixture(scope="module")
def graph():
    return people_graph()


def tables(run):
    return {name: tensor.clone() for name, tensor in run.model.state_dict().items()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_training_learns_and_the_same_seed_gives_the_same_bits(graph):
    first = fivestar.train(graph, small(epochs=20))
    assert first.history[-1]["loss"] < first.history[0]["loss"] - 1
    assert same(tables(first), tables(fivestar.train(graph, small(epochs=20))))
    assert not same(tables(first), tables(fivestar.train(graph, small(epochs=20, seed=1))))


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 20},
        {"optimizer": "adam", "lr": 0.01},
        {"optimizer": "sgd"},
        {"optimizer": "row-adagrad"},
        {"lr": 0.01},
        {"regularizer": "n3"},
        {"regularizer": "f2"},
        {"regularizer": "dura"},
        {"regularizer": "none"},
        {"reg_weight": 0.5},
        {"objective": "bce"},
        {"objective": "negative-sampling"},
        {"objective": "margin"},
        {"label_smoothing": 0.2},
        {"warmup": 2},
        {"decay": "linear"},
        {"clip": 1e-3},
        {"num_candidates": 3},
        {"average": 2},
        {"relation_loss_weight": 1.0},
    ],
    ids=str,
)
def test_every_setting_of_training_changes_the_result(graph, change):
    plain = fivestar.train(graph, small())
    assert not same(tables(plain), tables(fivestar.train(graph, small(**change))))


@pytest.mark.parametrize(
    "change",
    [
        {"denominator": "phase"},
        {"denominator": "none"},
        {"pairing": "bilinear"},
        {"score": "distance"},
        {"init": "small"},
        {"epsilon": 1e-2},
        {"off_diagonal_lr": 1.0},
    ],
    ids=str,
)
def test_every_setting_of_the_model_changes_the_result(graph, change):
    plain = fivestar.train(graph, SMALL)
    other = fivestar.train(graph, {**SMALL, "model": {"dim": 6, **change}})
    assert not same(tables(plain), tables(other))


@pytest.mark.parametrize("optimizer", ["adagrad", "row-adagrad", "adam", "sgd"])
@pytest.mark.parametrize("candidates", [0, 3])
def test_off_diagonal_lr_scales_only_off_diagonal_entries(graph, optimizer, candidates):
    def after_one_step(rate):
        model = {"dim": 6, "off_diagonal_lr": rate}
        training = {
            "optimizer": optimizer,
            "num_candidates": candidates,
            "epochs": 1,
            "batch_size": 10_000,
        }
        values = {"model": model, "training": {**small()["training"], **training}}
        trainer = Trainer(graph, make_settings(values))
        before = trainer.model.relations.detach().clone()
        trainer.run()
        return (trainer.model.relations.detach() - before).chunk(4, dim=1)

    full, slow, fixed = (after_one_step(rate) for rate in (1.0, 0.25, 0.0))
    for entry, (whole, quarter, none) in enumerate(zip(full, slow, fixed, strict=True)):
        assert whole.abs().max() > 0
        share = 0.25 if entry in (1, 2) else 1.0
        torch.testing.assert_close(quarter, share * whole, rtol=1e-4, atol=1e-7)
        torch.testing.assert_close(none, whole if share == 1 else 0 * whole)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "transe", "norm": "l2"},
        {"name": "protate", "norm": "l2"},
        {"name": "rotate", "norm": "l2"},
        {"name": "tucker", "relation_dim": 3},
        *(
            {"name": name, f"{what}_dropout": 0.05}
            for name in ("tucker", "conve")
            for what in ("input", "feature", "hidden")
        ),
    ],
    ids=str,
)
def test_every_option_of_other_models_changes_the_result(graph, change):
    plain = fivestar.train(graph, {**SMALL, "model": {"dim": 6, "name": change["name"]}})
    other = fivestar.train(graph, {**SMALL, "model": {"dim": 6, **change}})
    here, there = tables(plain), tables(other)
    shapes_differ = here["relations"].shape != there["relations"].shape
    assert shapes_differ or not same(here, there)


@pytest.mark.parametrize("objective", ["softmax", "bce", "negative-sampling", "margin"])
@pytest.mark.parametrize("name", MODELS)
def test_every_model_trains_resumes_and_loads(graph, tmp_path, name, objective):
    settings = {
        "model": {"name": name, "dim": 6},
        "training": {"objective": objective, "epochs": 8, "batch_size": 20, "evaluate_every": 4}
        | {"optimizer": "adam", "lr": 0.02, "reg_weight": 0.001},
    }
    whole = fivestar.train(graph, settings)
    assert whole.history[-1]["loss"] < whole.history[0]["loss"]

    def kill(line):
        if line["epoch"] == 3:
            raise Killed

    with pytest.raises(Killed):
        fivestar.train(graph, settings, tmp_path / "run", on_epoch=kill)
    assert same(tables(whole), tables(fivestar.resume(tmp_path / "run")))
    loaded = fivestar.load(tmp_path / "run")
    assert same(tables(whole), tables(loaded))
    assert evaluate(loaded.model, graph, graph.valid).metrics() == loaded.metrics["valid"]


@pytest.mark.parametrize(
    "change",
    [
        {"num_negatives": 5},
        {"negatives_from": "unknown"},
        {"corruption": "bernoulli"},
        {"margin": 1.0},
        {"adversarial_temperature": 1.0},
    ],
    ids=str,
)
def test_every_setting_of_sampling_changes_the_result(graph, change):
    sampled = {"objective": "negative-sampling", "num_negatives": 20}
    plain = fivestar.train(graph, small(**sampled))
    assert not same(tables(plain), tables(fivestar.train(graph, small(**sampled | change))))


@pytest.mark.parametrize(
    ("optimizer", "lr"), [("riemannian-sgd", 2.0), ("riemannian-adagrad", 0.3)]
)
def test_riemannian_steps_learn_and_stay_on_the_ball(graph, optimizer, lr):
    settings = small(optimizer=optimizer, lr=lr, epochs=40, regularizer="none")
    murp = {**settings, "method": "published", "model": {"name": "murp", "dim": 6}}
    run = fivestar.train(graph, murp)
    assert run.history[-1]["loss"] < run.history[0]["loss"] / 2
    for points in run.model.manifold_parameters(run.model.entities, run.model.relations):
        assert points.norm(dim=1).max() < 1
    assert "needs parameters on a Poincaré ball" in _refusal(graph, settings)


@pytest.mark.parametrize("objective", ["softmax", "negative-sampling"])
@pytest.mark.parametrize("name", MODELS)
def test_every_model_trains_without_reciprocals_or_is_refused(graph, tmp_path, name, objective):
    training = {"objective": objective, "epochs": 6, "batch_size": 20, "reciprocals": False}
    training |= {"optimizer": "adam", "lr": 0.02, "reg_weight": 0.001, "evaluate_every": 3}
    settings = {"model": {"name": name, "dim": 6}, "training": training}
    if name in {"tucker", "conve"}:
        assert "train it with reciprocals" in _refusal(graph, settings)
        return
    run = fivestar.train(graph, settings, tmp_path / "run")
    assert len(run.model.relations) == len(graph.relations)
    assert run.history[-1]["loss"] < run.history[0]["loss"]
    assert run.metrics["valid"]["heads_by"] == "exhaustive scoring"
    answers = run.predict_heads("lives_in", "c1", top=3)
    assert len(answers) == 3
    found = evaluate(fivestar.load(tmp_path / "run").model, graph, graph.valid)
    assert found.metrics() == run.metrics["valid"]


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"num_negatives": 9}, "negatives has no effect with the objective softmax"),
        ({"negatives_from": "unknown"}, "belongs to negative-sampling and margin"),
        ({"margin": 1.0}, "margin has no effect"),
        (
            {"objective": "margin", "adversarial_temperature": 1.0},
            "it belongs to negative-sampling",
        ),
        ({"objective": "margin", "label_smoothing": 0.1}, "it belongs to softmax and bce"),
        ({"corruption": "bernoulli"}, "corruption has no effect"),
        ({"objective": "margin", "precision": "tf32"}, "precision has no effect"),
        ({"objective": "margin", "num_candidates": 9}, "candidates has no effect"),
        (
            {"num_candidates": 9, "reciprocals": False, "label_smoothing": 0.1},
            "num_candidates with label_smoothing needs reciprocals",
        ),
        ({"objective": "bce", "relation_loss_weight": 1.0}, "relation_loss_weight has no effect"),
        (
            {"relation_loss_weight": 1.0, "reciprocals": False},
            "relation_loss_weight needs reciprocals",
        ),
        ({"num_relation_candidates": 2}, "without a relation_loss_weight"),
    ],
)
def test_a_setting_without_effect_is_refused(graph, training, message):
    assert message in _refusal(graph, small(**training))


def test_a_model_option_without_effect_is_refused(graph):
    for model, message in (
        ({"norm": "l1"}, "use score distance"),
        ({"denominator": "phase", "epsilon": 0.1}, "only denominator mobius"),
    ):
        assert message in _refusal(graph, {"model": {"dim": 6, **model}})


def test_a_graph_without_training_triples_is_refused(graph):
    empty = dataclasses.replace(graph, train=graph.train.take(np.zeros(len(graph.train), bool)))
    assert "no training triples" in _refusal(empty, SMALL)


def test_bce_is_refused_triple_by_triple(graph):
    assert "use grouping queries" in _refusal(graph, small(objective="bce", grouping="triples"))


def test_batch_normalization_needs_whole_batches(graph):
    settings = {"model": {"name": "tucker", "dim": 6}, "training": {"batch_size": 90}}
    settings["training"]["memory"] = "98400KiB"
    assert "cannot be split to fit the memory" in _refusal(graph, settings)
    settings["training"] = {"relation_loss_weight": 1.0, "objective": "softmax"}
    assert "train it with relation_loss_weight 0" in _refusal(graph, settings)


def test_one_batch_gives_the_same_result_grouped_or_not(graph):
    grouped, single = (
        fivestar.train(graph, small(batch_size=10_000, epochs=3, grouping=grouping))
        for grouping in ("queries", "triples")
    )
    for name, table in tables(grouped).items():
        torch.testing.assert_close(table, tables(single)[name], rtol=1e-3, atol=2e-4)


class Killed(BaseException):
    """As good as kill -9: nothing catches it."""


def test_the_result_is_the_mean_of_the_last_epochs(graph, tmp_path):
    """Here without a validation, so of all that were averaged the last is the result."""
    settings = small(epochs=3, evaluate_every=0, average=3, snapshot_epochs=(1, 2, 3))
    run = fivestar.train(graph, settings, tmp_path / "run")
    snapshots = [tables(fivestar.load(tmp_path / "run", epoch=epoch)) for epoch in (1, 2, 3)]
    for name, table in tables(run).items():
        mean = torch.stack([snapshot[name] for snapshot in snapshots]).mean(dim=0)
        torch.testing.assert_close(table, mean)


def test_sampling_relations_changes_the_relation_loss(graph):
    every = fivestar.train(graph, small(relation_loss_weight=1.0))
    some = fivestar.train(graph, small(relation_loss_weight=1.0, num_relation_candidates=1))
    assert not same(tables(every), tables(some))


def test_validation_uses_the_averaged_weights_and_training_does_not(graph):
    averaged = fivestar.train(graph, small(evaluate_every=1, average=4))
    plain = fivestar.train(graph, small(evaluate_every=1))
    losses, mrrs = (
        [[line[key] for line in run.history] for run in (averaged, plain)]
        for key in ("loss", "valid_mrr")
    )
    assert losses[0] == losses[1]
    assert mrrs[0][0] == mrrs[1][0]
    assert mrrs[0][1:] != mrrs[1][1:]
    assert averaged.metrics["valid"]["mrr"] == max(mrrs[0])


@pytest.mark.parametrize("epoch", [1, 2, 3])
@pytest.mark.parametrize(
    "optimizer", ["adagrad", "row-adagrad", "adam", "sgd", "riemannian-adagrad"]
)
def test_a_stopped_run_resumes_to_the_same_bits(graph, tmp_path, epoch, optimizer):
    settings = small(optimizer=optimizer, lr=0.02)
    if optimizer == "riemannian-adagrad":
        settings["model"] = {"name": "murp", "dim": 6}
    whole = fivestar.train(graph, settings, tmp_path / "whole")

    def kill(line):
        if line["epoch"] == epoch:
            raise Killed

    with pytest.raises(Killed):
        fivestar.train(graph, settings, tmp_path / "killed", on_epoch=kill)
    with pytest.raises(
        DamagedRun, match=r"training has not ended: resume it with fivestar\.resume"
    ):
        fivestar.load(tmp_path / "killed")
    resumed = fivestar.resume(tmp_path / "killed")
    assert same(tables(whole), tables(resumed))
    assert [line["loss"] for line in whole.history] == [line["loss"] for line in resumed.history]


def test_a_run_killed_within_an_epoch_resumes_to_the_same_bits(graph, tmp_path):
    settings = small(
        batch_size=10,
        checkpoint_minutes=1e-9,
        warmup=1.5,
        decay="linear",
        num_candidates=5,
        average=3,
        relation_loss_weight=0.5,
        num_relation_candidates=2,
    )
    whole = fivestar.train(graph, settings)
    begin = partial(fivestar.train, graph, settings, tmp_path / "run")
    for steps in (3, 1, 20, 7, 2):
        killer = iter(range(steps))

        def kill(_, killer=killer):
            if next(killer, None) is None:
                raise Killed

        with pytest.raises(Killed):
            begin(on_step=kill)
        begin = partial(fivestar.resume, tmp_path / "run")
    resumed = begin()
    assert same(tables(whole), tables(resumed))
    assert [line["loss"] for line in whole.history] == [line["loss"] for line in resumed.history]


def test_a_checkpoint_that_takes_long_to_write_waits_until_it_is_a_tenth_of_the_time(
    graph, tmp_path, monkeypatch
):
    """With a clock on which a step takes 10 s, an epoch 20 s, and a checkpoint `writing` s."""
    time, written, writing = [0.0], [], 0.9
    save, take_step = loop.save_checkpoint, Trainer._take_step

    def slow_save(*arguments):
        written.append((arguments[-1].epoch, arguments[-1].step))
        time[0] += writing
        save(*arguments)

    def slow_step(*arguments):
        time[0] += 10
        take_step(*arguments)

    monkeypatch.setattr(clock, "_read", lambda: time[0])
    monkeypatch.setattr(loop, "save_checkpoint", slow_save)
    monkeypatch.setattr(Trainer, "_take_step", slow_step)
    queries = GroupedQueries.of(graph.train, len(graph.relations))
    settings = small(epochs=12, batch_size=-(-len(queries) // 2), checkpoint_minutes=1.1)
    settings["training"]["evaluate_every"] = 0
    train = partial(fivestar.train, graph, settings)
    whole = train(tmp_path / "short")
    assert written == [(epoch, 0) for epoch in range(1, 13)]
    # 5 s is a tenth of the time after 50 s, so at the end of the third epoch.
    written.clear()
    writing = 5
    train(tmp_path / "long")
    assert written == [(1, 0), (4, 0), (7, 0), (10, 0), (12, 0)]
    # 30 s: only by time, within an epoch, and when training is paused.
    written.clear()
    writing = 30

    def pause(line):
        if line["epoch"] == 6:
            raise Paused("enough")

    with pytest.raises(Paused):
        train(tmp_path / "longer", on_epoch=pause)
    assert written == [(1, 0), (4, 1), (6, 0)]
    with pytest.raises(Killed):
        fivestar.resume(tmp_path / "longer", on_step=kill_in_epoch(11))
    resumed = fivestar.resume(tmp_path / "longer")
    assert same(tables(whole), tables(resumed))
    assert [line["loss"] for line in whole.history] == [line["loss"] for line in resumed.history]


def kill_in_epoch(epoch):
    def kill(epochs):
        if epochs > epoch:
            raise Killed

    return kill


def test_the_history_can_be_read_while_training(graph, tmp_path):
    seen = []

    def read(line):
        lines = (tmp_path / "run" / "history.jsonl").read_text().splitlines()
        seen.append(len(lines))
        assert json.loads(lines[-1]) == line

    fivestar.train(graph, small(epochs=3), tmp_path / "run", on_epoch=read)
    assert seen == [1, 2, 3]


def test_on_step_is_called_after_each_step(graph):
    reported = []
    fivestar.train(graph, small(epochs=2), on_step=reported.append)
    assert reported == sorted(reported)
    assert reported[-1] == 2
    assert len(reported) > 4


def test_snapshots_are_the_tables_of_their_epochs(graph, tmp_path):
    settings = small(snapshot_epochs="0,2", evaluate_every=0)
    fivestar.train(graph, settings, tmp_path / "run")
    after_two = fivestar.train(graph, small(epochs=2, evaluate_every=0))
    assert same(tables(fivestar.load(tmp_path / "run", epoch=2)), tables(after_two))
    untrained = fivestar.load(tmp_path / "run", epoch=0)
    assert untrained.model.entities.abs().max() < 0.01
    with pytest.raises(SourceNotFound, match="no snapshot of epoch 1; it has 0, 2"):
        fivestar.load(tmp_path / "run", epoch=1)
    (tmp_path / "run" / "snapshots" / "epoch-2.safetensors").unlink()
    with pytest.raises(DamagedRun, match="is missing"):
        fivestar.load(tmp_path / "run")
    with pytest.raises(SettingsError, match="needs a folder"):
        fivestar.train(graph, settings)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"reciprocals": False},
        {"num_candidates": 9, "average": 2},
        {"objective": "negative-sampling"},
        {"objective": "negative-sampling", "reciprocals": False},
    ],
)
def test_a_memory_limit_changes_the_parts_but_not_the_result(graph, more):
    plain = fivestar.train(graph, small(batch_size=100, **more))
    needed = _refusal(graph, small(batch_size=100, memory="1KiB", **more))
    assert "needs at least 9" in needed
    tight = f"{int(float(needed.split()[-2]) * 1024) + 110}KiB"
    settings = small(batch_size=100, memory=tight, **more)
    sizes = part_sizes(plain.model, 2 * len(graph.facts), make_settings(settings).training)
    assert sizes.rows < 100 or "objective" in more
    assert sizes.pairs < 100
    bound = fivestar.train(graph, settings)
    for name, table in tables(plain).items():
        torch.testing.assert_close(table, tables(bound)[name], rtol=1e-3, atol=1e-4)


def _refusal(graph, settings):
    with pytest.raises(SettingsError) as refused:
        fivestar.train(graph, settings)
    return str(refused.value)


def test_a_precision_that_the_device_lacks_is_refused(graph, monkeypatch):
    monkeypatch.setattr("fivestar.training.resources._has_bf16", lambda _: False)
    assert "no bfloat16 products; use precision float32" in _refusal(graph, small(precision="bf16"))
    if not torch.cuda.is_available():
        assert "no TF32" in _refusal(graph, small(precision="tf32"))


@pytest.mark.parametrize(
    ("has_bf16", "score", "expected"),
    [(True, "inner", "bf16"), (True, "distance", "float32"), (False, "inner", "float32")],
)
def test_auto_is_the_fastest_precision_of_device_and_score(
    graph, tmp_path, monkeypatch, has_bf16, score, expected
):
    monkeypatch.setattr("fivestar.training.resources._has_bf16", lambda _: has_bf16)
    model = {"dim": 6, "score": score}
    auto = fivestar.train(graph, {**small(precision="auto"), "model": model}, tmp_path / "run")
    named = fivestar.train(graph, {**small(precision=expected), "model": model})
    assert same(tables(auto), tables(named))
    # Saved as what it is on this device, so that it is resumed in the same way.
    assert fivestar.load(tmp_path / "run").settings.training.precision == expected


def test_bfloat16_products_train_almost_as_well(graph, monkeypatch):
    monkeypatch.setattr("fivestar.training.resources._has_bf16", lambda _: True)
    plain, rounded = (
        fivestar.train(graph, small(epochs=20, precision=precision))
        for precision in ("float32", "bf16")
    )
    assert not same(tables(plain), tables(rounded))
    assert rounded.history[-1]["loss"] == pytest.approx(plain.history[-1]["loss"], rel=0.05)
    distance = {**small(precision="bf16"), "model": {"dim": 6, "score": "distance"}}
    assert "too few digits" in _refusal(graph, distance)


def test_a_loaded_run_is_the_one_that_was_saved(graph, tmp_path):
    run = fivestar.train(graph, SMALL, tmp_path / "run")
    loaded = fivestar.load(tmp_path / "run")
    assert same(tables(run), tables(loaded))
    assert loaded.graph == graph
    assert loaded.settings == run.settings
    assert loaded.metrics == json.loads(json.dumps(run.metrics))
    assert evaluate(loaded.model, graph, graph.valid).metrics() == loaded.metrics["valid"]
    text = (tmp_path / "run" / "README.md").read_text()
    assert text.startswith("---\nlibrary_name: fivestar-kge")
    assert "| valid | " in text
    rate = loaded.metrics["valid"]["self_answer_rate"]
    assert f"Self-answer rate on valid: {rate:.1%} " in text


@pytest.mark.parametrize(
    "name",
    ["model.safetensors", "settings.toml", "metrics.json", "README.md", "graph/train.parquet"],
)
def test_a_changed_or_missing_file_is_refused(graph, tmp_path, name):
    fivestar.train(graph, small(epochs=1), tmp_path / "run")
    path = tmp_path / "run" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedRun, match="has changed since"):
        fivestar.load(tmp_path / "run")
    path.unlink()
    with pytest.raises(DamagedRun, match="is missing"):
        fivestar.load(tmp_path / "run")


def test_foreign_folders_and_manifests_are_refused(graph, tmp_path):
    with pytest.raises(FivestarError, match="no folder"):
        fivestar.load(tmp_path / "nothing")
    with pytest.raises(FivestarError, match="not the folder of a run"):
        fivestar.resume(tmp_path)
    fivestar.train(graph, small(epochs=1), tmp_path / "run")
    manifest = tmp_path / "run" / "manifest.json"
    good = json.loads(manifest.read_text())
    for bad in ({**good, "version": 9}, {**good, "format": "x"}, {"files": 3}, []):
        manifest.write_text(json.dumps(bad))
        with pytest.raises(DamagedRun):
            fivestar.load(tmp_path / "run")
    manifest.write_text(json.dumps({**good, "files": {"../../etc/passwd": "0"}}))
    with pytest.raises(DamagedRun, match="outside of the folder"):
        fivestar.load(tmp_path / "run")


def test_a_damaged_checkpoint_is_refused(graph, tmp_path):
    def pause(_):
        raise Paused("enough")

    with pytest.raises(Paused):
        fivestar.train(graph, small(epochs=2), tmp_path / "run", on_epoch=pause)
    path = tmp_path / "run" / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(DamagedCheckpoint, match="cannot be resumed from"):
        fivestar.resume(tmp_path / "run")


def test_a_full_disk_stops_with_the_last_checkpoint_intact(graph, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    real, count = fivestar.files.os.fsync, 0

    def fill_up(line):
        nonlocal count
        count = line["epoch"]

    def fsync(number):
        if count >= 2:
            raise OSError(28, "No space left on device")
        real(number)

    monkeypatch.setattr("fivestar.files.os.fsync", fsync)
    with pytest.raises(OutputError, match="No space left on device; what was written before"):
        fivestar.train(graph, SMALL, folder, on_epoch=fill_up)
    monkeypatch.undo()
    resumed = fivestar.resume(folder)
    assert same(tables(resumed), tables(fivestar.train(graph, SMALL)))


def test_an_existing_folder_is_never_touched(graph, tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(OutputError, match="exists already"):
        fivestar.train(graph, SMALL, tmp_path / "run")


def test_a_diverging_run_stops_with_advice(graph, tmp_path):
    with pytest.raises(Diverged, match=r"epoch \d+, step \d+ .*smaller lr"):
        fivestar.train(
            graph,
            {
                "model": {"name": "complex", "dim": 6},
                "training": {"optimizer": "sgd", "lr": 1e30, "reg_weight": 1.0, "epochs": 9},
            },
            tmp_path / "run",
        )


def test_early_stopping_keeps_the_best_weights(graph):
    run = fivestar.train(graph, small(epochs=60, evaluate_every=1, patience=3, lr=0.5))
    best = max(run.history, key=lambda line: line["valid_mrr"])
    assert run.metrics["best_epoch"] == best["epoch"]
    assert run.metrics["valid"]["mrr"] == best["valid_mrr"]
    assert len(run.history) == best["epoch"] + 3


def test_a_time_limit_ends_training(graph):
    run = fivestar.train(graph, small(epochs=1000, max_minutes=1e-6))
    assert len(run.history) == 1


@pytest.mark.filterwarnings("ignore:no fact of graph can be held out")
def test_a_graph_without_validation_trains_to_the_last_epoch():
    run = fivestar.train(fivestar.read_graph([("a", "r", "b"), ("b", "r", "c")]), small())
    assert "valid" not in run.metrics
    assert len(run.history) == 4


def test_cuda_is_refused_where_there_is_none(graph):
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(SettingsError, match="torch sees none"):
        fivestar.train(graph, small(device="cuda"))


def test_metrics_by_group_add_up(graph):
    run = fivestar.train(graph, SMALL)
    found = evaluate(run.model, graph, graph.test)
    whole = found.metrics()
    for by in ("relation", "side", "category", "seen"):
        parts = [part for part in found.by_group(graph, by).values() if part]
        assert sum(part["count"] for part in parts) == 2 * len(graph.test)
        mean = sum(part["count"] * part["mrr"] for part in parts) / whole["count"]
        assert mean == pytest.approx(whole["mrr"])
