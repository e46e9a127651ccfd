"""Coarse worker threads: the work of one thread, its errors, and nothing left behind."""

from __future__ import annotations

import os
import threading
import time
from contextvars import ContextVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models.forms import FORMS, made
from tests.training.test_step import CPU, facts

import fivestar
from fivestar import threads
from fivestar.cancellation import cancel_when, check_cancelled
from fivestar.errors import Cancelled, NonFiniteScore
from fivestar.evaluation.ranking import rank_answers
from fivestar.evaluation.topk import AnswerFilter, answer_log_probs, top_k
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.graph.queries import both_sides
from fivestar.models import scoring
from fivestar.plugins import OBJECTIVES, REGULARIZERS
from fivestar.runs.settings import TrainingSettings, make_settings
from fivestar.training import objectives
from fivestar.training.loop import Trainer
from fivestar.training.optimizers import Optimizer
from fivestar.training.queries import GroupedQueries
from fivestar.training.step import CandidateStep, Loss

variable: ContextVar[str] = ContextVar("variable")


@pytest.fixture
def use_threads(monkeypatch):
    """Return a function that sets the number of threads; any work is worth them."""
    before = torch.get_num_threads()
    monkeypatch.setattr(threads, "_MIN_NUMBERS", 1)
    yield torch.set_num_threads
    torch.set_num_threads(before)


@given(st.integers(0, 50), st.integers(1, 60))
def test_slices_cover_everything_once_in_nearly_equal_parts(count, parts):
    slices = threads.split_evenly(count, parts)
    assert [row for each in slices for row in range(count)[each]] == list(range(count))
    sizes = [each.stop - each.start for each in slices]
    assert len(sizes) == min(count, parts)
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_parts_run_in_several_threads_with_one_torch_thread_each(use_threads):
    use_threads(3)
    barrier = threading.Barrier(3, timeout=30)

    def part(number):
        barrier.wait()  # fails unless three of them run at the same time
        return number, threading.get_ident(), torch.get_num_threads()

    found = threads.run_parts([lambda n=n: part(n) for n in range(3)], CPU)
    assert [number for number, _, _ in found] == [0, 1, 2]
    assert len({thread for _, thread, _ in found}) == 3
    assert {count for _, _, count in found} == {1}
    assert torch.get_num_threads() == 3
    new = []
    thread = threading.Thread(target=lambda: new.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert new == [3]


def test_one_worker_one_part_and_other_devices_use_the_calling_thread(use_threads):
    own = threading.get_ident()
    use_threads(1)
    assert threads.run_parts([threading.get_ident] * 2, CPU) == [own, own]
    use_threads(2)
    assert threads.run_parts([threading.get_ident], CPU) == [own]
    assert threads.run_parts([threading.get_ident] * 2, torch.device("meta")) == [own, own]


def test_within_coarse_threads_operators_use_one_thread_and_parts_several(use_threads):
    use_threads(3)
    with threads.coarse_threads():
        assert torch.get_num_threads() == 1
        assert threads.num_workers(CPU) == 3
        with threads.coarse_threads():
            assert threads.num_workers(CPU) == 3
        assert torch.get_num_threads() == 1
        # A worker has one thread, so parts of parts do not wait for workers.
        assert threads.run_parts([lambda: threads.num_workers(CPU)] * 2, CPU) == [1, 1]
    assert torch.get_num_threads() == 3
    with pytest.raises(KeyError), threads.coarse_threads():
        raise KeyError
    assert torch.get_num_threads() == 3


def test_parts_see_the_context_and_the_grad_mode_of_the_caller(use_threads):
    use_threads(2)
    variable.set("mine")
    parts = [lambda: (variable.get(), torch.is_grad_enabled())] * 2
    with torch.no_grad():
        assert threads.run_parts(parts, CPU) == [("mine", False)] * 2
    assert threads.run_parts(parts, CPU) == [("mine", True)] * 2
    with pytest.raises(Cancelled), cancel_when(lambda: True):
        threads.run_parts([check_cancelled] * 2, CPU)


def test_an_error_is_raised_after_all_parts_have_ended(use_threads):
    use_threads(2)
    ended = []

    def slow():
        time.sleep(0.1)
        ended.append(True)

    def fails():
        raise ValueError("first")

    def fails_as_well():
        raise KeyError("second")

    with pytest.raises(ValueError, match="first"):
        threads.run_parts([fails, slow, fails_as_well], CPU)
    running = len(ended)
    time.sleep(0.2)
    assert len(ended) == running  # nothing runs any more
    assert threads.run_parts([lambda: 1, lambda: 2], CPU) == [1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_workers_of_its_own(use_threads):
    use_threads(2)
    threads.run_parts([lambda: 1, lambda: 2], CPU)
    child = os.fork()
    if child == 0:
        os._exit(0 if threads.run_parts([lambda: 1, lambda: 2], CPU) == [1, 2] else 1)
    deadline = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert ended == (child, 0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("num_candidates", [0, 9])
def test_a_step_is_the_same_with_any_number_of_threads(
    form, objective, num_candidates, use_threads, monkeypatch
):
    monkeypatch.setattr(objectives, "TILE", 2)
    queries = GroupedQueries.of(facts(count=20, entities=30), 2)
    batch = queries.batch(np.arange(9), CPU)
    loss = Loss(REGULARIZERS["n3"], 0.1, 0.0, OBJECTIVES[objective], num_candidates)

    def gradients(count):
        use_threads(count)
        model = made(form, entities=30, relations=4)
        torch.manual_seed(0)
        value = CandidateStep(model, loss, max_rows=4).gradients(batch)
        return [value, *(table.grad.to_dense() for table in model.parameters())]

    one, three, again = gradients(1), gradients(3), gradients(3)
    for first, second in zip(three, again, strict=True):
        assert torch.equal(first, second)
    for first, second in zip(one, three, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", [1, 3])
def test_adagrad_is_that_of_torch_to_the_bit_with_any_number_of_threads(count, use_threads):
    use_threads(count)
    model, other = made("complex", entities=30), made("complex", entities=30)
    optimizer = Optimizer(model, TrainingSettings(optimizer="adagrad", lr=0.3))
    reference = torch.optim.Adagrad(other.parameters(), lr=0.3, fused=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        for table, theirs in zip(model.parameters(), other.parameters(), strict=True):
            table.grad = torch.randn(table.shape, generator=generator, dtype=table.dtype)
            theirs.grad = table.grad.clone()
        optimizer.step(0.0)
        reference.step()
    for table, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(table, theirs)
        state = optimizer.torch_optimizer.state[table]
        assert torch.equal(state["sum"], reference.state[theirs]["sum"])
        assert state["step"] == reference.state[theirs]["step"] == 3


def test_a_run_of_two_threads_is_the_same_to_the_bit_each_time(use_threads):
    graph = fivestar.read_graph([(f"e{n % 40}", f"r{n % 3}", f"e{7 * n % 41}") for n in range(300)])
    settings = {
        "model": {"dim": 4},
        "training": {"epochs": 2, "threads": 2, "batch_size": 20, "evaluate_every": 1},
    }

    def tables():
        return list(Trainer(graph, make_settings(settings)).run().state_dict().values())

    for first, second in zip(tables(), tables(), strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize("form", ["complex", "fivestar mobius hermitian inner", "murp", "transe"])
@pytest.mark.parametrize("relations", [2, 4])
def test_ranks_and_best_answers_do_not_depend_on_threads(form, relations, use_threads, monkeypatch):
    monkeypatch.setattr(scoring, "TILE", 4)
    monkeypatch.setattr("fivestar.evaluation.ranking.TILE", 4)
    monkeypatch.setattr(scoring, "BATCH_SIZE", 1)
    form = next(each for each in FORMS if each.startswith(form))
    model, triples = made(form, entities=50, relations=relations), facts(60, 50)
    known = KnownAnswers.of(with_reciprocals(triples, 2))
    queries, answers = both_sides(triples, 2)

    def found(count):
        use_threads(count)
        ranks = rank_answers(model, queries, answers, known)
        best = top_k(model, queries, 7, AnswerFilter(known, "new"))
        return ranks, best, answer_log_probs(model, queries, answers)

    (ranks, best, log_probs), (other_ranks, other_best, others) = found(1), found(3)
    for name in ("optimistic", "pessimistic", "candidates", "self_candidate"):
        assert np.array_equal(getattr(ranks, name), getattr(other_ranks, name))
    assert np.array_equal(best.ids, other_best.ids)
    np.testing.assert_allclose(best.scores, other_best.scores, rtol=1e-6)
    np.testing.assert_allclose(best.log_probs, other_best.log_probs, rtol=1e-5)
    np.testing.assert_allclose(log_probs, others, rtol=1e-5)


def test_of_equal_scores_those_of_earlier_tiles_come_first(use_threads, monkeypatch):
    monkeypatch.setattr(scoring, "TILE", 4)
    monkeypatch.setattr(scoring, "BATCH_SIZE", 1)
    model = made("complex", entities=50, relations=4)
    torch.nn.init.zeros_(model.entities)
    queries, _ = both_sides(facts(5, 50), 2)
    use_threads(3)
    best = top_k(model, queries, 20, AnswerFilter(KnownAnswers.of(facts(0, 50))))
    assert (best.ids // 4 == np.arange(20) // 4).all()


def test_a_nan_in_any_part_is_an_error(use_threads, monkeypatch):
    monkeypatch.setattr("fivestar.evaluation.ranking.TILE", 4)
    model, triples = made("complex", entities=50, relations=4), facts(20, 40)
    known = KnownAnswers.of(with_reciprocals(triples, 2))
    queries, answers = both_sides(triples, 2)
    use_threads(2)
    with torch.no_grad():
        model.entities[49] = torch.nan
    with pytest.raises(NonFiniteScore):
        rank_answers(model, queries, answers, known)
