"""Train variations of the regularizer and the loss of 5★E, and record their validation MRR.

    python experiments/defaults/regularization_arms.py wn18rr --epochs 20 --reg-weight 0.25
    python experiments/defaults/regularization_arms.py umls --seeds 5 --arms base dropout-0.3

Each finished training is one line of results/regularization.jsonl; recorded ones are skipped.
All arms get the CPU time of the base: an arm whose steps cost more gets fewer epochs. The
variations are prototypes in this file; what helped somewhere would move into the package.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from sweep import self_answer_rate
from torch import Tensor, nn

import fivestar
from fivestar.experiments.ledger import provenance
from fivestar.graph.known_answers import KnownAnswers, with_reciprocals
from fivestar.runs.identity import learned_settings
from fivestar.training.loop import Trainer
from fivestar.training.regularizers import Regularizer, make_regularizer
from fivestar.training.step import CandidateStep, Step

RESULTS = Path(__file__).parents[2] / "results" / "regularization.jsonl"
PLAN = "off-diagonal-lr 0.1"  # what distinguishes these lines from the earlier ones
_STEPS_PER_TURN, _TURNS = 10, 8
_FACTORS = ("batch_size", "lr", "reg_weight")
_NOISE = 1.15  # costs below this factor of the base cannot be distinguished from it


@dataclasses.dataclass(frozen=True)
class Arm:
    """One variation.

    Args:
        entities: factor of the regularization weight of heads and tails.
        transformed: factor of the regularization weight of transformed heads.
        exponent: p of the penalty |x|ᵖ.
        dropout: dropout rate of the transformed head.
        normalize: whether the transformed head is batch-normalized.
        frequency: whether triples are kept with probability 0.1 + 0.9 · tail frequency / maximum.
        mixture: number of softmaxes that are mixed; 1: an ordinary softmax.
        training: changed training settings; those in `_FACTORS` as factors of the base.
    """

    entities: float = 1.0
    transformed: float = 1.0
    exponent: float = 3.0
    dropout: float = 0.0
    normalize: bool = False
    frequency: bool = False
    mixture: int = 1
    training: dict[str, Any] = dataclasses.field(default_factory=dict)


ARMS = {
    "base": Arm(),
    "transformed-1.4": Arm(transformed=1.4),
    "transformed-2-reg-x0.67": Arm(transformed=2, training={"reg_weight": 0.67}),
    "transformed-3-reg-x0.5": Arm(transformed=3, training={"reg_weight": 0.5}),
    "transformed-0.5-reg-x1.4": Arm(transformed=0.5, training={"reg_weight": 1.4}),
    "exponent-2.25-reg-x0.25": Arm(exponent=2.25, training={"reg_weight": 0.25}),
    "exponent-2.25-reg-x0.5": Arm(exponent=2.25, training={"reg_weight": 0.5}),
    "exponent-2.5-reg-x0.5": Arm(exponent=2.5, training={"reg_weight": 0.5}),
    "dura-reg-x0.2-x3": Arm(exponent=2, transformed=3, training={"reg_weight": 0.2}),
    "dura-reg-x0.4": Arm(exponent=2, training={"reg_weight": 0.4}),
    "frequency": Arm(frequency=True),
    "dropout-0.1": Arm(dropout=0.1),
    "dropout-0.3": Arm(dropout=0.3),
    "dropout-0.3-reg-x0.5": Arm(dropout=0.3, training={"reg_weight": 0.5}),
    "dropout-0.5": Arm(dropout=0.5),
    "norm": Arm(normalize=True),
    "norm-reg-x0.3": Arm(normalize=True, training={"reg_weight": 0.3}),
    "relation-1": Arm(training={"relation_loss_weight": 1.0}),
    "relation-4": Arm(training={"relation_loss_weight": 4.0}),
    "small-steps-lr-x0.5": Arm(training={"batch_size": 0.2, "lr": 0.5}),
    "small-steps-lr-x0.25": Arm(training={"batch_size": 0.2, "lr": 0.25}),
    "average-3": Arm(training={"average": 3}),
    "average-6": Arm(training={"average": 6}),
    "mixture-2": Arm(mixture=2),
    "mixture-4": Arm(mixture=4),
}


@dataclasses.dataclass(frozen=True)
class WeightedRegularizer(Regularizer):
    """A regularizer with different weights for entities and transformed heads."""

    entities: float = 1.0
    transformed: float = 1.0

    def query_penalty(self, model: Any, head: Tensor, relation: Tensor, query: Tensor) -> Tensor:
        """Return the penalties (B,) of queries."""
        heads = self.penalty(model.head_squared_moduli(head)).sum(dim=1)
        transformed = self.penalty(model.squared_moduli(query)).sum(dim=1)
        return self.entities * heads + self.transformed * transformed

    def tail_penalty(self, model: Any, tail: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the penalty of all tails together."""
        return self.entities * super().tail_penalty(model, tail, weights)


class VariedTransform(nn.Module):
    """The transformation of a model followed by batch normalization and dropout."""

    def __init__(self, transform: Callable[..., Tensor], width: int, arm: Arm) -> None:
        super().__init__()
        self._transform = [transform]  # a list, so that no module is registered twice
        self.norm = nn.BatchNorm1d(width) if arm.normalize else nn.Identity()
        self.dropout = nn.Dropout(arm.dropout)

    def forward(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return the varied query (B, D)."""
        return self.dropout(self.norm(self._transform[0](head, relation)))


class Mixture(nn.Module):
    """Several queries per query, each with a weight: a mixture of softmaxes (Yang et al. 2018).

    p(t) = Σ πₖ softmax(qₖ·t), where qₖ = q + s·Vₖq and π = softmax(s·Gq). Adagrad's first step is
    as long as the learning rate, which the factor s keeps small beside the identity.
    """

    _SCALE = 0.01

    def __init__(self, components: int, width: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.maps = nn.Parameter(torch.randn(components, width, width, generator=generator))
        self.gate = nn.Parameter(torch.zeros(components, width))
        with torch.no_grad():
            self.maps /= width**0.5

    def forward(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries (K, B, D) and the logarithms of their weights (K, B)."""
        queries = query + self._SCALE * torch.einsum("bd,kde->kbe", query, self.maps)
        return queries, (self._SCALE * (self.gate @ query.T)).log_softmax(dim=0)


def log_mixture(scores: Tensor, log_weights: Tensor, log_counts: Tensor | None = None) -> Tensor:
    """Return the log probabilities (B, N) of a mixture of softmaxes.

    Args:
        scores: (K, B, N).
        log_weights: (K, B) of the components.
        log_counts: (N,) logarithm of the number of entities that each candidate stands for.
    """
    counted = scores if log_counts is None else scores + log_counts
    shift = log_weights - counted.logsumexp(dim=2)
    return (scores + shift[:, :, None]).logsumexp(dim=0)


class MixtureStep(CandidateStep):
    """A step whose loss is the cross-entropy of a mixture of softmaxes, by autograd."""

    def _score(
        self, query: Tensor, batch: Any, size: Any, candidates: Any, similarity: Any
    ) -> tuple[Tensor, Tensor]:
        query = query.clone().requires_grad_()
        table = candidates.table.clone().requires_grad_()
        sampled, rows = candidates.sampled.size, batch.answers
        log_counts = torch.zeros(len(table))
        if sampled:
            log_counts[:sampled] = math.log(candidates.sampled.weight)
            rows = sampled + torch.searchsorted(candidates.ids[sampled:], batch.answers)
        queries, log_weights = self.model.mixture(query)
        log_p = log_mixture(queries @ table.T, log_weights, log_counts)
        loss = -log_p[batch.rows, rows].sum() / size.triples
        penalty = self.regularizer.tail_penalty(self.model, table[rows])
        loss = loss + penalty * (self.reg_weight / size.triples)
        loss.backward()
        candidates.table_grad += table.grad
        if sampled:
            candidates.scatter()
        return loss.detach(), query.grad


class MixtureValidation:
    """Ranks the validation facts by the probabilities of a mixture, by brute force."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.known = KnownAnswers.of(with_reciprocals(graph.facts, len(graph.relations)))

    @torch.no_grad()
    def rank(self, model: Any) -> dict[str, float]:
        """Return filtered, realistic MRR and H@10 of heads and tails together."""
        ranks = []
        triples = with_reciprocals(self.graph.valid, len(self.graph.relations)).array
        table = model.candidates()
        for first in range(0, len(triples), 128):
            columns = triples[first : first + 128].T
            h, r, t = (torch.as_tensor(column, dtype=torch.int64) for column in columns)
            queries, log_weights = model.mixture(model.query(h, r))
            log_p = log_mixture(queries @ table.T, log_weights)
            target = log_p.gather(1, t[:, None])
            rows, ids = self.known.of_queries(h.numpy(), r.numpy())
            log_p[torch.as_tensor(rows), torch.as_tensor(ids.astype("int64"))] = -torch.inf
            above, tied = (log_p > target).sum(1), (log_p == target).sum(1)
            ranks.append(1 + above + tied / 2)
        rank = torch.cat(ranks)
        return {"mrr": float((1 / rank).mean()), "hits@10": float((rank <= 10).float().mean())}


class VariedTrainer(Trainer):
    """A trainer with the variations of an arm."""

    arm = Arm()

    def _set_up(self, facts: Any) -> None:
        super()._set_up(facts)
        if self.arm.dropout or self.arm.normalize:
            width = self.model.candidates().shape[1]
            self.model.varied = VariedTransform(self.model.transform, width, self.arm)
            self.model.transform = self.model.varied.forward
            self._optimize(self.model.varied)
        if self.arm.mixture > 1:
            width = self.model.candidates().shape[1]
            self.model.mixture = Mixture(self.arm.mixture, width)
            self._optimize(self.model.mixture)

    def _optimize(self, module: nn.Module) -> None:
        parameters = {"params": list(module.parameters())}
        self.optimizer.torch_optimizer.add_param_group(parameters)

    def _validate(self) -> dict[str, float]:
        if self.arm.mixture > 1 and not isinstance(self.validation, MixtureValidation):
            self.validation = MixtureValidation(self.graph)
        return super()._validate()

    def make_step(self) -> Step:
        """Return the step of the training, for timing it."""
        return self._make_step()

    def _make_step(self) -> Step:
        step = super()._make_step()
        if not isinstance(step, CandidateStep):
            raise TypeError("the arms vary a softmax")
        arm = self.arm
        if (arm.entities, arm.transformed, arm.exponent) != (1, 1, 3):
            made = make_regularizer("n3-transformed", arm.exponent)
            regularizer = WeightedRegularizer(
                made.penalty, "transformed", arm.entities, arm.transformed
            )
            step.regularizer = regularizer
            step.loss = dataclasses.replace(step.loss, regularizer=regularizer)
        if arm.mixture > 1:
            step.__class__ = MixtureStep
        if arm.frequency:
            counts = torch.bincount(
                torch.as_tensor(self.queries.answers.astype("int64")),
                minlength=len(self.graph.entities),
            )
            step.__class__ = FrequencyStep
            step.frequency = 0.1 + 0.9 * counts / counts.max()
        return step


class FrequencyStep(CandidateStep):
    """A step whose batch keeps each triple with the weight of its tail, in expectation.

    Triples are sampled by their weight, which weights the loss without another code path.
    """

    frequency: Tensor

    def gradients(self, batch: Any) -> Tensor:
        """Return the loss of the sampled triples of a batch."""
        kept = torch.rand(len(batch.answers)) < self.frequency[batch.answers]
        if not kept.any():
            kept[0] = True
        rows = batch.rows[kept]
        used, rows = torch.unique(rows, return_inverse=True)
        sampled = batch._replace(
            entities=batch.entities[used],
            relations=batch.relations[used],
            side_relations=batch.side_relations[used],
            counts=torch.bincount(rows, minlength=len(used)),
            rows=rows,
            answers=batch.answers[kept],
        )
        return super().gradients(sampled)


def settings_for(arm: Arm, given: argparse.Namespace, seed: int, epochs: int) -> dict[str, Any]:
    """Return the settings of an arm."""
    training = {"epochs": epochs, "seed": seed, "threads": 1, "patience": 0, "decay": "linear"}
    training |= {"lr": given.lr, "reg_weight": given.reg_weight, "batch_size": given.batch_size}
    training |= {"num_candidates": given.num_candidates, "precision": given.precision}
    # The base has the exponent that was the default when the first arms were recorded.
    training["reg_exponent"] = 3.0
    training["evaluate_every"] = max(epochs // 4, 1)
    for name, value in arm.training.items():
        training[name] = training[name] * value if name in _FACTORS else value
    training["batch_size"] = int(training["batch_size"])
    return {"model": {"dim": 100}, "training": training}


def relative_cost(graph: Any, arm: Arm, given: argparse.Namespace) -> float:
    """Return the CPU time per query of an arm, in units of the base's.

    Both are timed in turns, and the fastest turn of each counts: other processes make some slower.
    """
    timers = [_timed_turns(graph, each, given) for each in (ARMS["base"], arm)]
    turns = [[next(timer) for timer in timers] for _ in range(_TURNS)]
    base, own = (min(column) for column in zip(*turns, strict=True))
    return own / base


def _timed_turns(graph: Any, arm: Arm, given: argparse.Namespace) -> Iterator[float]:
    """Yield the CPU seconds per query of some steps, again and again."""
    trainer = _trainer(graph, arm, settings_for(arm, given, 0, 1))
    step, order = trainer.make_step(), torch.Generator().manual_seed(0)
    trainer.model.train()
    batches: Iterator[Any] = iter(())
    while True:
        seconds, queries = 0.0, 0
        for _ in range(_STEPS_PER_TURN):
            batch = next(batches, None)
            if batch is None:
                size = trainer.training.batch_size
                batches = trainer.queries.batches(size, order, trainer.device)
                batch = next(batches)
            began = time.process_time()
            step.gradients(batch)
            trainer.optimizer.step(0.0)
            seconds += time.process_time() - began
            queries += len(batch.entities)
        yield seconds / queries


def _trainer(graph: Any, arm: Arm, values: dict[str, Any]) -> VariedTrainer:
    kind = type("ArmTrainer", (VariedTrainer,), {"arm": arm})
    return kind(graph, fivestar.make_settings(values).for_graph(graph))


def run_arm(
    graph: Any, name: str, seed: int, cost: float, given: argparse.Namespace
) -> dict[str, Any]:
    """Train an arm and return its line."""
    arm = ARMS[name]
    epochs = max(1, round(given.epochs / cost))
    trainer = _trainer(graph, arm, settings_for(arm, given, seed, epochs))
    curve: list[list[float]] = []

    def watch(line: dict[str, Any]) -> None:
        if "valid_mrr" in line:
            curve.append([line["epoch"], round(line["seconds"] / 60, 3), line["valid_mrr"]])

    began = time.process_time()
    model = trainer.run(watch)
    return {
        "data": given.graph,
        "arm": name,
        "seed": seed,
        "plan": PLAN,
        **provenance(),
        "settings_values": learned_settings(trainer.settings),
        "prototype": dataclasses.asdict(arm),
        "cost_per_query": round(cost, 3),
        "valid_mrr": round(max(point[2] for point in curve), 4),
        "minutes": curve[-1][1],
        "cpu_minutes": round((time.process_time() - began) / 60, 3),
        "curve": curve,
        # The model's own scores are not the probabilities of a mixture.
        "self_answers": None
        if arm.mixture > 1
        else round(self_answer_rate(model, graph, "valid"), 4),
    }


def main() -> None:
    """Run the arms that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("graph")
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--lr", type=float, default=0.3)
    parser.add_argument("--reg-weight", type=float, default=0.03)
    parser.add_argument("--batch-size", type=int, default=500)
    parser.add_argument("--num-candidates", type=int, default=0)
    parser.add_argument("--precision", default="float32")
    given = parser.parse_args()
    torch.set_num_threads(1)
    graph = fivestar.read_graph(given.graph)
    lines = map(json.loads, RESULTS.read_text().splitlines())
    done = {(x["data"], x["arm"], x["seed"]) for x in lines if x.get("plan") == PLAN}
    for name in given.arms:
        missing = [s for s in range(given.seeds) if (given.graph, name, s) not in done]
        cost = relative_cost(graph, ARMS[name], given) if missing else 1.0
        for seed in missing:
            line = run_arm(graph, name, seed, cost if cost > _NOISE else 1.0, given)
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            print(
                name, seed, line["valid_mrr"], line["cpu_minutes"], f"cost {cost:.2f}", flush=True
            )


if __name__ == "__main__":
    main()
