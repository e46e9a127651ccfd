"""5★E inside PyKEEN: same scores, same metrics, known by name, trained by its loops."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.forms import FORMS, made

import fivestar
from fivestar.errors import ConversionImpossible, MissingExtra, SettingsError

pytestmark = [pytest.mark.pykeen, pytest.mark.filterwarnings("ignore")]

FIVESTAR = [form for form in FORMS if form.startswith("fivestar")]
THEIRS = {
    "mrr": "inverse_harmonic_mean_rank",
    "hits@1": "hits_at_1",
    "hits@10": "hits_at_10",
    "mr": "arithmetic_mean_rank",
    "amri": "adjusted_arithmetic_mean_rank_index",
}


@pytest.fixture(scope="module")
def bridge():
    pytest.importorskip("pykeen")
    return __import__("fivestar.integrations.pykeen", fromlist=["pykeen"])


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, n, 400) for n in (30, 3, 30)]
    triples = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in zip(*columns, strict=True)]
    return fivestar.split_graph(fivestar.read_graph(triples), valid=0.1, test=0.2)


def trained(graph, model="fivestar", **options):
    settings = {"dim": 4, "epochs": 3, "lr": 0.1, "progress": False}
    return fivestar.train(graph, model=model, **(settings | options))


def complex_rows(rows, parts=1):
    return [torch.complex(*part.chunk(2, dim=-1)) for part in rows.chunk(parts, dim=-1)]


@pytest.mark.parametrize("form", FIVESTAR)
def test_scores_of_the_interaction_equal_ours(bridge, form):
    model = made(form, entities=9, relations=3)
    _, options = FORMS[form]
    interaction = bridge.FiveStarEInteraction(**options)
    (entities,), relations = complex_rows(model.entities), complex_rows(model.relations, 4)
    h, r, t = torch.arange(9), torch.arange(9) % 3, torch.arange(9).flip(0)
    with torch.no_grad():
        rows = [entry[r] for entry in relations]
        scores = interaction.score_hrt(entities[h], rows, entities[t])
        every = interaction.score_t(entities[h], rows, entities)
        heads = interaction.score_h(entities, rows, entities[t])
        expected = model.score(h, r, t)
    torch.testing.assert_close(scores[:, 0], expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(every, model.score_tails(h, r).detach(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(heads.gather(1, h[:, None])[:, 0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"denominator": "moebius"}, "denominator"),
        ({"norm": "l1"}, "score distance"),
        ({"denominator": "none", "epsilon": 0.1}, "only denominator mobius"),
    ],
)
def test_wrong_options_are_refused(bridge, options, error):
    with pytest.raises(SettingsError, match=error):
        bridge.FiveStarEInteraction(**options)


def test_pykeen_knows_the_names(bridge):
    models, modules = map(pytest.importorskip, ("pykeen.models", "pykeen.nn.modules"))
    assert models.model_resolver.lookup("FiveStarE") is bridge.FiveStarE
    assert modules.interaction_resolver.lookup("fivestare") is bridge.FiveStarEInteraction


@pytest.mark.parametrize("loop", ["lcwa", "slcwa"])
def test_the_pipeline_trains_it_and_it_returns_with_the_same_scores(bridge, graph, loop):
    pipeline = pytest.importorskip("pykeen.pipeline").pipeline
    options = {"embedding_dim": 4, "denominator": "phase", "pairing": "bilinear"}
    result = pipeline(
        dataset=bridge.dataset(graph, create_inverse_triples=loop == "lcwa"),
        model="FiveStarE",
        model_kwargs={**options, "regularizer": "powersum", "regularizer_kwargs": {"p": 3.0}},
        training_loop=loop,
        training_kwargs={"num_epochs": 3, "batch_size": 64, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False},
        optimizer_kwargs={"lr": 0.1},
        random_seed=0,
        device="cpu",
    )
    assert result.losses[-1] < result.losses[0]
    imported = fivestar.from_pykeen(result.model, result.training)
    assert imported.settings.model.options["denominator"] == "phase"
    assert len(imported.model.relations) == result.training.num_relations
    columns = [torch.as_tensor(c.astype("int64")) for c in graph.test.array.T]
    theirs = result.model.predict_hrt(torch.stack(columns, dim=1))
    torch.testing.assert_close(theirs[:, 0], imported.model.score(*columns))


def test_its_search_uses_the_default_space(bridge, graph):
    hpo_pipeline = pytest.importorskip("pykeen.hpo").hpo_pipeline
    result = hpo_pipeline(
        dataset=bridge.dataset(graph),
        model="FiveStarE",
        training_kwargs={"num_epochs": 1, "batch_size": 256},
        n_trials=1,
        sampler="random",
        device="cpu",
        gc_after_trial=False,
    )
    (trial,) = result.study.trials
    assert {f"model.{name}" for name in bridge.FiveStarE.hpo_default} <= set(trial.params)
    assert trial.value > 0


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("fivestar", {}),
        ("fivestar", {"reciprocals": False, "score": "distance", "denominator": "none"}),
        ("complex", {"reciprocals": False}),
        ("tucker", {}),
    ],
)
def test_evaluators_of_pykeen_give_our_metrics(bridge, graph, model, options):
    evaluator = pytest.importorskip("pykeen.evaluation").RankBasedEvaluator
    run = trained(graph, model, **options)
    ours = run.evaluate("test")
    known = [bridge.triples_factory(graph, split).mapped_triples for split in ("train", "valid")]
    test = bridge.triples_factory(graph, "test").mapped_triples
    versions = [bridge.from_run(run)]
    if model == "fivestar":
        versions.append(bridge.FiveStarE.from_run(run))
    for version in versions:
        results = evaluator().evaluate(
            version, test, additional_filter_triples=known, batch_size=64, use_tqdm=False
        )
        for mine, name in THEIRS.items():
            expected = results.get_metric(f"both.realistic.{name}")
            assert ours[mine] == pytest.approx(expected, abs=1e-6), mine


def test_some_candidates_have_the_scores_of_all(bridge, graph):
    for reciprocals in (True, False):
        model = bridge.from_run(trained(graph, reciprocals=reciprocals))
        assert not list(model.get_grad_params())
        batch = graph.test.array[:5].astype("int64")
        hrt, some = torch.as_tensor(batch), torch.tensor([4, 0, 7])
        for target in ("head", "tail"):
            every = model.predict(hrt, target)
            close = {"rtol": 1e-5, "atol": 1e-6}
            torch.testing.assert_close(
                model.predict(hrt, target, ids=some), every[:, some], **close
            )
            rows = some.expand(5, 3)
            torch.testing.assert_close(
                model.predict(hrt, target, ids=rows), every[:, some], **close
            )
        every = model.score_r(hrt[:, [0, 2]])
        assert every.shape == (5, model.num_relations)
        with pytest.raises(RuntimeError, match="continue the training"):
            model.reset_parameters_()


def test_predictions_of_pykeen_are_our_answers(bridge, graph):
    predict = pytest.importorskip("pykeen.predict").predict_target
    run = trained(graph)
    factory = bridge.triples_factory(graph, create_inverse_triples=True)
    answers = predict(bridge.from_run(run), head="e3", relation="r1", triples_factory=factory)
    ours = {answer.id: answer.score for answer in run.predict_tails("e3", "r1", top=30)}
    theirs = dict(zip(answers.df["tail_label"], answers.df["score"], strict=True))
    assert ours == {name: pytest.approx(theirs[name], abs=1e-6) for name in ours}
    assert len(theirs) == 30


def test_weights_are_shared_and_stay_trainable_in_fivestar(bridge, graph):
    run = trained(graph)
    model = bridge.from_run(run)
    assert model.model.entities.data_ptr() == run.model.entities.data_ptr()
    assert run.model.entities.requires_grad
    assert not model.model.entities.requires_grad


def test_pykeen_continues_the_training_of_a_5star(bridge, graph):
    run = trained(graph)
    model = bridge.FiveStarE.from_run(run)
    back = fivestar.from_pykeen(model, bridge.triples_factory(graph))
    torch.testing.assert_close(back.model.relations, run.model.relations)
    torch.testing.assert_close(back.model.entities, run.model.entities)
    converted = trained(graph, "complex").to_fivestar()
    columns = [torch.as_tensor(c.astype("int64")) for c in graph.test.array.T]
    same = bridge.FiveStarE.from_run(converted).predict_hrt(torch.stack(columns, dim=1))
    torch.testing.assert_close(same[:, 0], converted.model.score(*columns))
    with pytest.raises(ConversionImpossible, match=r"pykeen\.from_run"):
        bridge.FiveStarE.from_run(trained(graph, "distmult"))


def test_off_diagonal_lr_slows_b_and_c_under_adagrad(bridge, graph):
    factory = bridge.triples_factory(graph)
    batch = factory.mapped_triples[:50]
    moved = {}
    for rate in (1.0, 0.1, 0.0):
        model = bridge.FiveStarE(
            triples_factory=factory, embedding_dim=4, off_diagonal_lr=rate, random_seed=0
        )
        (entities,) = model.entity_representations[0].parameters()
        entities.data *= 1000  # gradients far above the epsilon of Adagrad
        before = [entry().detach().clone() for entry in model.relation_representations]
        # The same values of b and c, whatever the rate is.
        assert before[1].abs().mean() == pytest.approx(1e-3, rel=0.5)
        optimizer = torch.optim.Adagrad(model.get_grad_params(), lr=0.01)
        model.score_hrt(batch).sum().backward()
        optimizer.step()
        changes = zip(model.relation_representations, before, strict=True)
        moved[rate] = [(entry() - old).abs().mean().item() for entry, old in changes]
    a, b, c, _ = zip(*moved.values(), strict=True)
    assert a[0] == pytest.approx(a[1]) == pytest.approx(a[2])
    for entry in (b, c):
        assert entry[1] == pytest.approx(0.1 * entry[0], rel=1e-3)
        assert entry[2] == 0


def test_initializations_are_those_of_fivestar(bridge, graph):
    def entries(**options):
        model = bridge.FiveStarE(
            triples_factory=bridge.triples_factory(graph),
            embedding_dim=50,
            random_seed=0,
            **options,
        )
        return [entry().detach() for entry in model.relation_representations]

    a, b, c, d = entries()
    torch.testing.assert_close(a.abs(), torch.ones_like(a.real))
    assert a.real.min() < -0.9
    assert d.eq(1).all()
    for small in (b, c):
        assert small.real.std() == pytest.approx(1e-3, rel=0.3)
    a, _, _, d = entries(init="identity")
    assert all(torch.allclose(x.real, torch.ones_like(x.real), atol=0.01) for x in (a, d))
    a, _, _, d = entries(denominator="phase")
    assert max(a.abs().max(), d.abs().max()) < 0.01


def test_ids_of_datasets_are_ours(bridge, graph):
    data = bridge.dataset(graph, create_inverse_triples=True)
    parts = (data.training, data.validation, data.testing)
    for split, part in zip(("train", "valid", "test"), parts, strict=True):
        assert (part.mapped_triples.numpy() == graph.split(split).array).all()
        assert [part.entity_id_to_label[i] for i in range(part.num_entities)] == list(
            graph.entities
        )
    assert data.training.num_relations == 2 * len(graph.relations)
    with pytest.raises(SettingsError, match="split_graph"):
        bridge.dataset(fivestar.read_graph([("a", "r", "b")]))
    again = fivestar.read_graph(dict(zip(("train", "valid", "test"), parts, strict=True)))
    for split in ("train", "valid", "test"):
        assert again.named(again.split(split)).equals(graph.named(graph.split(split)))


@pytest.mark.slow
def test_generic_cases_of_pykeen_pass():
    """Needs the network: PyKEEN's cases are in its source distribution only (1.5 minutes)."""
    script = Path(__file__).parents[2] / "scripts" / "pykeen_cases.py"
    command = [sys.executable, str(script)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]


def test_without_pykeen_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pykeen", None)
    monkeypatch.delitem(sys.modules, "fivestar.integrations.pykeen", raising=False)
    with pytest.raises(MissingExtra, match=r"fivestar-kge\[pykeen\]"):
        importlib.import_module("fivestar.integrations.pykeen")
