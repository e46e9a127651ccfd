"""Processes that share the entity table compute what one process computes."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from unittest import mock

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graphs import people_graph
from tests.models.forms import FORMS
from tests.training.sharded import in_processes, several

import fivestar
from fivestar.errors import DamagedCheckpoint, Paused, SettingsError
from fivestar.evaluation.calibration import calibrate
from fivestar.evaluation.report import evaluate
from fivestar.evaluation.topk import AnswerFilter, answer_log_probs, top_k
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import both_sides
from fivestar.models.registry import MODELS
from fivestar.models.sharding import Shard
from fivestar.runs.run import load_run
from fivestar.runs.settings import make_settings
from fivestar.training import step
from fivestar.training.checkpoint import find_checkpoint
from fivestar.training.gathered_rows import grad_of
from fivestar.training.loop import Trainer
from fivestar.training.train import resume, train

# 3 steps per epoch and 17 epochs: 51 steps.
TRAINING = {"epochs": 17, "batch_size": 40, "evaluate_every": 4, "decay": "none", "threads": 1}
TRAINING |= {"lr": 0.05, "num_candidates": 0}
FEW_RELATIONS = {"batch_size": 10, "epochs": 3}
CHANGES = {
    "softmax": {},
    "without regularizer": {"regularizer": "none"},
    "n3": {"regularizer": "n3"},
    "n3, exponent 2.5": {"regularizer": "n3-transformed", "reg_exponent": 2.5},
    "f2": {"regularizer": "f2"},
    "dura": {"regularizer": "dura"},
    "bce": {"objective": "bce"},
    "label smoothing": {"label_smoothing": 0.2},
    "bce with label smoothing": {"objective": "bce", "label_smoothing": 0.1},
    "sampled candidates": {"num_candidates": 5},
    "partitions": {"num_candidates": 5, "partitions": 3},
    "negative sampling": {"objective": "negative-sampling", "num_negatives": 4},
    "self-adversarial": {"objective": "negative-sampling", "adversarial_temperature": 1.0},
    "margin": {"objective": "margin", "num_negatives": 3, "corruption": "bernoulli"},
    "without reciprocals": {"reciprocals": False, "regularizer": "n3"},
    "without reciprocals, sampled": {"reciprocals": False, "num_candidates": 5},
    "without reciprocals, negatives": {"reciprocals": False, "objective": "negative-sampling"},
    "relation loss": {"relation_loss_weight": 0.5},
    "adam": {"optimizer": "adam", "lr": 0.01},
    "sgd": {"optimizer": "sgd"},
    "row-adagrad": {"optimizer": "row-adagrad"},
    "riemannian-adagrad": {"optimizer": "riemannian-adagrad", "lr": 0.05},
    "clip": {"clip": 0.01},
    "average": {"average": 3},
    "early stopping": {"patience": 1, "evaluate_every": 1, "lr": 1.0},
    "parts": {"memory": "100MiB"},
    "triples": {"grouping": "triples"},
    # Fewer queries and triples than there are query groups.
    "one query per batch": {"batch_size": 1, "epochs": 1},
    "weighted": {},
    "weighted negatives": {"objective": "negative-sampling", "num_negatives": 4},
    # Of a relation table that counts as large, a step touches few rows.
    "touched relations": {**FEW_RELATIONS, "num_candidates": 5},
    "touched relations, all candidates": FEW_RELATIONS,
    "touched relations, negatives": {**FEW_RELATIONS, "objective": "negative-sampling"},
    "touched relations, without reciprocals": {**FEW_RELATIONS, "reciprocals": False},
}


def settings_of(name, query_groups=1):
    """Return the settings of a case."""
    model = {"name": "fivestar", "dim": 4}
    if name.startswith("model "):
        model = {"name": name.removeprefix("model "), "dim": 4}
    elif name == "riemannian-adagrad":
        model = {"name": "murp", "dim": 4}
    elif name.startswith("form "):
        kind, options = FORMS[name.removeprefix("form ")]
        model = {"name": kind, "dim": 4, **options}
    training = {**TRAINING, "query_groups": query_groups, **CHANGES.get(name, {})}
    return make_settings({"model": model, "training": training})


CASES = [*CHANGES, *(f"model {name}" for name in MODELS), "form rotate l2"]


def train_all(cases, query_groups=1):
    """Train every case; return its weights, losses and validation MRRs."""
    results = {}
    for case in cases:
        graph = people_graph()
        if case.startswith("weighted"):
            # None close to 0: Adagrad amplifies the rounding errors of tiny gradients.
            weights = np.random.default_rng(0).uniform(0.5, 2, len(graph.train))
            graph = replace(graph, train=graph.train.with_weights(weights))
        is_large = case.startswith("touched")
        if is_large:
            facts = [(f"e{i % 40}", f"r{i % 40}", f"e{5 * i % 47}") for i in range(90)]
            graph = fivestar.read_graph(facts)
        trainer = Trainer(graph, settings_of(case, query_groups))
        with mock.patch.object(step, "LARGE_TABLE", 0 if is_large else step.LARGE_TABLE):
            trainer.run()
        assert grad_of(trainer.model.relations).is_sparse == is_large
        history = trainer.progress.history
        results[case] = {
            "weights": whole_weights(trainer.model),
            "loss": torch.tensor([line["loss"] for line in history]),
            "mrr": torch.tensor([line["valid_mrr"] for line in history if "valid_mrr" in line]),
        }
    return results


def whole_weights(model):
    """Return all weights, with the entity rows of all processes."""
    weights = {name: table.clone() for name, table in model.state_dict().items()}
    if not model.shard.is_whole:
        parts = list(model.shard.parts(model.entities.detach()))
        weights["entities"] = torch.cat(parts) if parts else model.entities.detach()
    return weights


@cache
def alone(case):
    return train_all([case])[case]


# A bias before batch normalization has no gradient but rounding errors, which Adagrad amplifies.
NO_GRADIENT = {
    *("convolution.bias", "dense.bias"),
    *("feature_norm.running_mean", "query_norm.running_mean"),
}
# Where rounding errors grow beyond 1e-5 in 50 steps: with a learning rate of 1, close to the
# boundary of the ball, where a triple is within or beyond the margin, and where Adagrad amplifies
# those of small gradients. Measured: 1e-5 to 3e-5.
_GROWN = (
    "early stopping",
    "model murp",
    "riemannian-adagrad",
    "margin",
    "model conve",
    "model quate",
    "model simple",
)
TOLERANCES = dict.fromkeys(_GROWN, 5e-5)
# One case for each way that processes exchange something; all others are slow.
SOME_CASES = [
    *("softmax", "bce with label smoothing", "sampled candidates", "negative sampling"),
    *("without reciprocals", "without reciprocals, negatives", "relation loss", "clip"),
    *("average", "early stopping", "row-adagrad", "model tucker", "model conve"),
    "riemannian-adagrad",
    *("weighted", "weighted negatives", "partitions"),
    *("touched relations", "touched relations, without reciprocals"),
]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """What two processes have computed, and the folder of the runs that they have written."""
    folder = tmp_path_factory.mktemp("pair")
    tasks = {
        "learned": (train_all, (SOME_CASES,)),
        "answers": (all_answers, (ANSWERED,)),
        "bytes": (many_bytes, ([500, 5000],)),
        "bytes, all entities": (partial(many_bytes, num_candidates=0), ([500, 5000],)),
        "begun": (begin, (folder / "begun", 8)),
        "predicted": (predict_and_refuse, (folder,)),
        "resumed": (finish, (folder / "alone",)),
        "warm start": (warm_start, (folder / "source", folder / "warm")),
        "refused": (refuse_refit, (folder / "source",)),
    }
    begin(folder / "alone", 8)
    train(people_graph(), settings_of("softmax"), folder / "source")
    results = in_processes(2, several, folder / "group", list(tasks.values()))
    return folder, dict(zip(tasks, results, strict=True))


def test_two_processes_learn_what_one_learns(pair):
    check_learned(pair[1]["learned"])


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 4])
def test_processes_learn_what_one_process_learns(size, tmp_path):
    entities = len(people_graph().entities)
    assert all(entities % size for size in (2, 3, 4))
    check_learned(in_processes(size, train_all, tmp_path, CASES))


def check_learned(together):
    """Compare with one process."""
    for case, other in together.items():
        one = alone(case)
        assert one["loss"].shape == other["loss"].shape, case  # early stopping, too
        close(other["loss"], one["loss"], 1e-5, case)
        close(other["mrr"], one["mrr"], 1e-3, case)
        for name in set(one["weights"]) - NO_GRADIENT:
            tables = [found["weights"][name] for found in (other, one)]
            if name == "entities" and case in ("model mure", "model murp", "riemannian-adagrad"):
                # The bias of a head is the same for all tails: it has no gradient.
                tables = [table[:, :-1] for table in tables]
            close(*tables, TOLERANCES.get(case, 1e-5), f"{case}: {name}")


def close(one, other, tolerance, what):
    """Compare; the relative tolerance is for large values, such as variances that ConvE keeps."""
    torch.testing.assert_close(one, other, rtol=1e-5, atol=tolerance, msg=lambda m: f"{what}: {m}")


def answers_of(name):
    """Rank, predict and calibrate with an untrained model with large weights."""
    graph, settings = people_graph(), settings_of(name)
    trainer = Trainer(graph, settings)
    with torch.no_grad():
        trainer.model.entities.mul_(300)
    known = KnownAnswers.of(with_reciprocals(graph.facts, len(graph.relations)))
    queries, answers = both_sides(graph.train, len(graph.relations))
    ranked = evaluate(trainer.model, graph, graph.train, known, score_bytes=1 << 14)
    ranks = ranked.head_ranks + ranked.tail_ranks
    allows_self = np.zeros(len(graph.relations), bool)
    best = top_k(trainer.model, queries, 9, AnswerFilter(known, "new", None, allows_self))
    return {
        "realistic": torch.tensor(ranks.realistic),
        "candidates": torch.tensor(ranks.candidates),
        "self": torch.tensor(ranks.self_candidate),
        "ids": torch.tensor(best.ids),
        "scores": torch.tensor(best.scores),
        "log_probs": torch.tensor(best.log_probs),
        "answer_log_probs": torch.tensor(answer_log_probs(trainer.model, queries, answers)),
        "calibration": torch.tensor(calibrate(trainer.model, graph)(best.log_probs)),
    }


ANSWERED = ["softmax", "without reciprocals", "model murp", "model transe"]


def all_answers(names):
    return {name: answers_of(name) for name in names}


def test_processes_rank_and_predict_what_one_process_does(pair):
    for name, one in all_answers(ANSWERED).items():
        for what, values in one.items():
            other = pair[1]["answers"][name][what]
            torch.testing.assert_close(other, values, msg=f"{name}: {what}")


@pytest.mark.parametrize(("entities", "size"), [(5, 4), (1, 2), (6, 5)])
def test_a_process_without_rows_is_an_error(entities, size):
    with pytest.raises(SettingsError, match="use fewer processes"):
        Shard(entities, 0, size)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("entities", [7, 100, 101])
def test_shards_cover_the_table(entities, size):
    shards = [Shard(entities, rank, size) for rank in range(size)]
    covered = [row for shard in shards for row in range(shard.start, shard.stop)]
    assert covered == list(range(entities))
    assert all(len(shard) <= -(-entities // size) for shard in shards)


def begin(folder, epochs, query_groups=1):
    """Train until the end of an epoch, as if the process were stopped there."""

    def stop(line):
        if line["epoch"] == epochs:
            raise Paused("enough")

    with pytest.raises(Paused):
        train(people_graph(), settings_of("average", query_groups), folder, on_epoch=stop)
    return torch.zeros(0)


def finish(folder):
    """Resume to the end; return the weights of the saved run."""
    return whole_weights(resume(folder).model)


def check_complete(run):
    """Check that a resumed run is complete, ordinary, and what one process would have trained."""
    assert len(list(run.glob("checkpoint*"))) == 1
    assert not list(run.glob(".*.partial"))
    whole = train(people_graph(), settings_of("average")).model.state_dict()
    weights = load_run(run).model.state_dict()
    for name, table in whole.items():
        close(weights[name], table, 1e-5, name)


def test_a_checkpoint_of_two_processes_is_resumed_by_one(pair, tmp_path):
    run = shutil.copytree(pair[0] / "begun", tmp_path / "run")
    assert not (run / "checkpoint.safetensors").exists()
    finish(run)
    check_complete(run)


@pytest.mark.slow
def test_three_processes_resume_what_two_have_begun_and_learn_the_same(pair, tmp_path):
    run = shutil.copytree(pair[0] / "begun", tmp_path / "run")
    tasks = [(finish, (run,)), (train_all, (["sampled candidates"],))]
    check_learned(in_processes(3, several, tmp_path / "group", tasks)[1])
    check_complete(run)


@pytest.mark.slow
def test_four_processes_resume_what_two_have_begun(pair, tmp_path):
    run = shutil.copytree(pair[0] / "begun", tmp_path / "run")
    in_processes(4, finish, tmp_path / "group", run)
    check_complete(run)


def test_a_checkpoint_of_one_process_is_resumed_by_two(pair):
    check_complete(pair[0] / "alone")


def warm_start(source, folder):
    """Start from a run whose graph lacks an entity, and stop after two epochs."""
    rows = people_graph().named(people_graph().train).to_pylist()
    facts = [("p0", "knows", "somebody new"), *(tuple(row.values()) for row in reversed(rows))]

    def stop(line):
        if line["epoch"] == 2:
            raise Paused("enough")

    with pytest.raises(Paused):
        train(fivestar.read_graph(facts), settings_of("softmax"), folder, stop, source=source)
    return torch.zeros(0)


def test_two_processes_start_from_a_run_as_one_does(pair, tmp_path):
    folder = pair[0]
    warm_start(folder / "source", tmp_path / "warm")
    assert (folder / "warm" / "checkpoint-2-0").is_dir()
    together, one = (finish(path) for path in (folder / "warm", tmp_path / "warm"))
    for name, table in one.items():
        close(together[name], table, 1e-5, name)


def test_a_warm_start_with_refit_needs_one_process(pair):
    assert pair[1]["refused"]


def refuse_refit(source):
    """Return whether a warm start with refit is refused."""
    changes = {"training": settings_of("softmax").training.model_copy(update={"refit": True})}
    with pytest.raises(SettingsError, match="needs one process"):
        train(people_graph(), settings_of("softmax").model_copy(update=changes), source=source)
    return True


def test_the_newer_of_two_checkpoints_is_resumed(pair, tmp_path):
    run = shutil.copytree(pair[0] / "begun", tmp_path / "run")
    begin(tmp_path / "other", 3)
    shutil.copy(tmp_path / "other" / "checkpoint.safetensors", run)
    assert find_checkpoint(run / "checkpoint.safetensors") == run / "checkpoint-8-0"
    begin(tmp_path / "another", 9)
    shutil.copy(tmp_path / "another" / "checkpoint.safetensors", run)
    assert find_checkpoint(run / "checkpoint.safetensors") == run / "checkpoint.safetensors"


@pytest.mark.parametrize("damage", ["flip", "remove", "foreign", "index"])
def test_a_damaged_folder_is_refused(damage, pair, tmp_path):
    run = shutil.copytree(pair[0] / "begun", tmp_path / "run")
    folder = run / "checkpoint-8-0"
    file = sorted(folder.glob("*.safetensors"))[0]
    if damage == "flip":
        content = bytearray(file.read_bytes())
        content[-5] ^= 64
        file.write_bytes(content)
    elif damage == "remove":
        file.unlink()
    elif damage == "foreign":
        text = (folder / "checkpoint.json").read_text()
        (folder / "checkpoint.json").write_text(text.replace('"run": "', '"run": "x'))
    else:
        (folder / "checkpoint.json").write_text("{}")
    with pytest.raises(DamagedCheckpoint, match="cannot be resumed from"):
        resume(run)


def bytes_of_a_step(entities, **training):
    """Return the bytes that this process holds of the entities, and those it gives to exchanges.

    Held are the rows of the table, of its gradient and of its optimizer state.
    """
    facts = [(f"e{i}", "next", f"e{(i * 7 + 1) % entities}") for i in range(entities)]
    graph = fivestar.read_graph(facts)
    training = {"epochs": 1, "batch_size": 16, "num_candidates": 32, **training}
    trainer = Trainer(graph, make_settings({"model": {"dim": 8}, "training": training}))
    sent = []

    def counted(exchange):
        def count(tensor, *arguments, **named):
            parts = tensor if isinstance(tensor, list) else [tensor]  # a list to gather into
            sent.extend(part.nbytes for part in parts)
            return exchange(tensor, *arguments, **named)

        return count

    def stop(_):
        raise Paused("after one step")

    with ExitStack() as patches:
        for name in ("all_reduce", "broadcast", "all_gather", "send", "recv"):
            patches.enter_context(mock.patch.object(dist, name, counted(getattr(dist, name))))
        with pytest.raises(Paused):
            trainer.run(on_step=stop)
    table = trainer.model.entities
    grad, state = grad_of(table), trainer.optimizer.torch_optimizer.state[table].values()
    held = [table, *((grad.values(), grad.indices()) if grad.is_sparse else (grad,))]
    held += [each for each in state if each.ndim]
    return torch.tensor([sum(each.nbytes for each in held), sum(sent)])


def many_bytes(sizes, **training):
    return {str(size): bytes_of_a_step(size, **training) for size in sizes}


def test_memory_is_divided_and_traffic_does_not_depend_on_the_entities(pair):
    check_bytes(pair[1]["bytes"], pair[1]["bytes, all entities"], 2)


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 4])
def test_memory_and_traffic_of_more_processes(size, tmp_path):
    tasks = [(many_bytes, ([500, 5000],)), (partial(many_bytes, num_candidates=0), ([500, 5000],))]
    check_bytes(*in_processes(size, several, tmp_path, tasks), size)


def check_bytes(sampled, whole, size):
    """Check what each of several processes holds and sends, with few and with all candidates."""
    for candidates, shared in ((32, sampled), (0, whole)):
        alone = many_bytes([500, 5000], num_candidates=candidates)
        for entities, (held, sent) in alone.items():
            assert int(shared[entities][0]) <= 1.05 * int(held) / size
            assert int(sent) == 0
        # Answers are a few more or less, in batches of another order.
        sent = {entities: int(values[1]) for entities, values in shared.items()}
        assert sent["5000"] == pytest.approx(sent["500"], rel=0.1)
        assert sent["500"] > 0
    table = 5000 * 16 * 4  # two numbers per dimension
    assert int(whole["5000"][0]) >= 3 * table / size, "the table, its gradient, Adagrad's state"


def predict_and_refuse(folder):
    """Predict with the model of a process group; what needs the whole table is refused."""
    run = folder / "predicted"
    model = fivestar.train(people_graph(), settings_of("softmax"), run)
    best = model.predict_tails("p1", "lives_in", top=3)
    for ask in (
        lambda: model.similar("p1"),
        lambda: model.explain("p1", "lives_in", "c1"),
        lambda: model.export("numpy", folder / "vectors"),
        lambda: model.save(folder / "copy"),
    ):
        with pytest.raises(SettingsError, match=r"in one process|needs one process"):
            ask()
    found = model.complete(top=15, out=folder / "new.tsv")
    return {"best": torch.tensor([prediction.score for prediction in best]), **completed(found)}


def completed(completion):
    """Return the triples of a completion, and their probabilities."""
    new = completion.new
    return {
        "triples": torch.tensor(new.triples.array),
        "probabilities": torch.tensor(new.probabilities),
        "log_probs": torch.tensor(new.log_probs),
    }


def test_a_model_of_several_processes_predicts_and_refuses_the_rest(pair):
    folder, results = pair
    model = fivestar.load(folder / "predicted")
    alone = [prediction.score for prediction in model.predict_tails("p1", "lives_in", top=3)]
    assert results["predicted"]["best"].tolist() == pytest.approx(alone, rel=1e-5)


def test_several_processes_complete_the_graph_as_one_does(pair):
    folder, results = pair
    model = fivestar.load(folder / "predicted")
    for what, values in completed(model.complete(top=15)).items():
        torch.testing.assert_close(results["predicted"][what], values, msg=what)
    model.complete(top=15, out=folder / "alone.tsv")
    files = [(folder / name).read_text().splitlines() for name in ("new.tsv", "alone.tsv")]
    names = [[line.split("\t")[:3] for line in file] for file in files]
    assert names[0] == names[1]
    assert not list(folder.glob(".*.parts"))


@settings(max_examples=20)
@given(st.lists(st.integers(0, 5), min_size=2, max_size=4))
def test_rows_of_all_processes_are_gathered_in_order(counts):
    """With a stand-in for the exchange, since processes take long to start."""
    parts = [torch.arange(10 * n, 10 * n + count)[:, None] for n, count in enumerate(counts)]

    class Everyone(Shard):
        def concatenate(self, tensor, dim):
            if tensor.ndim == 1:
                return torch.tensor(counts)
            width = tensor.shape[1]
            padded = [torch.nn.functional.pad(part, (0, 0, 0, width - len(part))) for part in parts]
            return torch.stack(padded)

    for rank, part in enumerate(parts):
        found = Everyone(100, rank, len(counts)).gather(part)
        assert found.tolist() == torch.cat(parts).tolist()
