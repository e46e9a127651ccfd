"""Models from outside: registered by a call, or declared by a package."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Annotated, Literal

import pytest
from pydantic import Field
from tests.graphs import people_graph

import fivestar
from fivestar import plugins
from fivestar.errors import RegistrationError, SettingsError
from fivestar.models.options import options_of
from fivestar.models.registry import MODELS, register_model
from fivestar.plugins import OBJECTIVES, REGULARIZERS, Registry

SIZES = (4, 2, 3)


class Scaling(fivestar.Model):
    """s = Σ r hᵢ tᵢ."""

    def __init__(
        self,
        num_entities,
        num_relations,
        dim,
        *,
        sign: Annotated[Literal["plus", "minus"], Field(description="Sign of r.")] = "plus",
        power: Annotated[int | None, Field(ge=1)] = None,
    ):
        super().__init__(num_entities, num_relations, dim, 1, fivestar.InnerProduct())

    def transform(self, head, relation):
        return head * relation


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    monkeypatch.setattr(MODELS, "_registered", {})


def declared(monkeypatch, *points):
    """Let packages declare (name, value, distribution)."""
    found = []
    for name, value, package in points:
        point = EntryPoint(name, value, "fivestar.models")
        vars(point)["dist"] = SimpleNamespace(name=package, version="1.2")
        found.append(point)
    monkeypatch.setattr(plugins, "entry_points", lambda group: found)
    built_in = {"distmult": "fivestar.models.bilinear:DistMult"}
    return Registry("model", "fivestar.models", built_in, MODELS._check)


def test_a_registered_model_is_known_by_its_name():
    assert register_model("scaling", Scaling) is Scaling
    settings = fivestar.make_settings({"model": {"name": "scaling", "sign": "minus"}})
    assert settings.model.options == {"sign": "minus", "power": None}
    assert 'sign = "minus"' in settings.as_toml()
    assert "scaling" in MODELS


def test_as_a_decorator():
    assert register_model("scaling")(Scaling) is MODELS["scaling"]


def test_a_class_that_is_defined_again_replaces_the_one_before():
    register_model("scaling", Scaling)
    again = type("Scaling", (Scaling,), {"__module__": Scaling.__module__})
    assert register_model("scaling", again) is MODELS["scaling"]


def test_options_come_from_the_signature():
    options = options_of(Scaling)
    assert options["sign"] == (Literal["plus", "minus"], "plus", ("plus", "minus"), "Sign of r.")
    assert (options["power"].type, options["power"].default) == (int, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sign": "both"}, "options of Scaling: sign: Input should be 'plus' or 'minus'.*'both'"),
        ({"power": 0}, "power: .*greater than or equal to 1"),
        ({"sing": "plus"}, "Scaling has no option 'sing'; did you mean 'sign'"),
    ],
)
def test_wrong_options_say_what_is_wrong(given, message):
    with pytest.raises(SettingsError, match=message):
        Scaling.resolve_options(given)


def no_model():
    pass


class Abstract(fivestar.Model):
    pass


class NoDim(Scaling):
    def __init__(self, num_entities, num_relations):
        super().__init__(num_entities, num_relations, 3)


class NoType(Scaling):
    def __init__(self, num_entities, num_relations, dim, *, scale=1.0):
        super().__init__(num_entities, num_relations, dim)


class NoDefault(Scaling):
    def __init__(self, num_entities, num_relations, dim, *, scale: float):
        super().__init__(num_entities, num_relations, dim)


class Reserved(Scaling):
    def __init__(self, num_entities, num_relations, dim, *, name: str = "x"):
        super().__init__(num_entities, num_relations, dim)


class Unwritable(Scaling):
    def __init__(self, num_entities, num_relations, dim, *, values: dict[str, int] = {}):  # noqa: B006
        super().__init__(num_entities, num_relations, dim)


@pytest.mark.parametrize(
    ("name", "model", "message"),
    [
        ("complex", Scaling, "'complex' is taken by a built-in model; choose another name"),
        ("No Name", Scaling, "'No Name' cannot be the name of a model"),
        ("other", no_model, "'other' is not a subclass of fivestar.Model"),
        ("other", Abstract, "must define transform"),
        ("other", NoDim, "takes num_entities, num_relations; it must take"),
        ("other", NoType, "option 'scale' of NoType needs a type annotation"),
        ("other", NoDefault, "option 'scale' of NoDefault needs a default"),
        ("other", Reserved, "option 'name' of Reserved needs another name"),
        ("other", Unwritable, "option 'values' .* a settings file cannot hold"),
    ],
)
def test_bad_registrations_say_what_to_change(name, model, message):
    with pytest.raises(RegistrationError, match=message):
        register_model(name, model)


def test_a_name_is_registered_once():
    register_model("scaling", Scaling)
    with pytest.raises(RegistrationError, match=r"'scaling' is taken by .*Scaling"):
        register_model("scaling", type("Other", (Scaling,), {}))


def test_a_package_declares_a_model(monkeypatch):
    models = declared(monkeypatch, ("theirs", "fivestar.models.bilinear:ComplEx", "their-package"))
    assert list(models) == ["distmult", "theirs"]
    assert models["theirs"].__name__ == "ComplEx"
    assert models.package("theirs") == "the package their-package 1.2"
    with pytest.raises(RegistrationError, match=r"taken by the package their-package 1\.2"):
        models.register("theirs", Scaling)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:Model", "ModuleNotFoundError.*repair or uninstall that package"),
        ("fivestar.errors:Nothing", "AttributeError"),
        ("fivestar.errors:FivestarError", "not a subclass .*from the package broken 1.2"),
    ],
)
def test_a_broken_package_is_named_and_breaks_nothing_else(monkeypatch, value, message):
    models = declared(monkeypatch, ("theirs", value, "broken"))
    assert models["distmult"].__name__ == "DistMult"
    with pytest.raises(RegistrationError, match=message) as caught:
        _ = models["theirs"]
    assert "broken 1.2" in str(caught.value)
    usable, problems = models.usable()
    assert (list(usable), list(problems)) == (["distmult"], ["theirs"])


def test_a_model_of_a_package_that_is_not_installed(monkeypatch):
    models = declared(monkeypatch)
    with pytest.raises(SettingsError, match=r"'pairre'; known: distmult\. One of another package"):
        _ = models["pairre"]


def test_two_packages_with_one_name_are_both_named(monkeypatch):
    value = "fivestar.models.bilinear:{}"
    models = declared(
        monkeypatch,
        ("theirs", value.format("CP"), "one"),
        ("theirs", value.format("RESCAL"), "two"),
    )
    with pytest.raises(RegistrationError, match=r"one 1\.2 and two 1\.2; uninstall all but"):
        _ = models["theirs"]


def test_a_package_cannot_replace_a_built_in_model(monkeypatch):
    models = declared(monkeypatch, ("distmult", "fivestar.models.bilinear:CP", "theirs"))
    assert models["distmult"].__name__ == "DistMult"
    _, problems = models.usable()
    assert "is ignored: the name is taken" in problems["distmult"]


def test_every_built_in_model_passes_the_check():
    for name in MODELS:
        MODELS._check(name, MODELS[name])
        assert MODELS[name](*SIZES, **MODELS[name].resolve_options({}))
        assert all(option.description for option in options_of(MODELS[name]).values())


def test_a_registered_regularizer_is_a_setting(monkeypatch):
    monkeypatch.setattr(REGULARIZERS, "_registered", {})
    n4 = fivestar.Regularizer(lambda squared: squared.square(), "transformed")
    with pytest.raises(SettingsError, match=r"training\.regularizer: .*Input should be n3, "):
        fivestar.make_settings({"training": {"regularizer": "n4"}})
    assert fivestar.register_regularizer("n4", n4) is REGULARIZERS["n4"]
    settings = fivestar.make_settings(
        {"model": {"name": "distmult"}, "training": {"regularizer": "n4", "epochs": 1}}
    )
    trained = fivestar.train(people_graph(), settings)
    assert trained.settings.training.regularizer == "n4"
    with pytest.raises(RegistrationError, match="'n5' is not an instance of"):
        fivestar.register_regularizer("n5", lambda squared: squared)


def test_a_registered_objective_is_a_setting(monkeypatch):
    monkeypatch.setattr(OBJECTIVES, "_registered", {})
    with pytest.raises(SettingsError, match=r"training\.objective: .*Input should be softmax, bce"):
        fivestar.make_settings({"training": {"objective": "focal"}})
    fivestar.register_objective("focal", OBJECTIVES["bce"])
    values = {"model": {"name": "distmult"}, "training": {"objective": "focal", "epochs": 2}}
    losses = [
        fivestar.train(people_graph(), {**values, "training": {**values["training"], **more}})
        for more in ({}, {"objective": "bce"})
    ]
    assert losses[0].history[-1]["loss"] == losses[1].history[-1]["loss"]
    with pytest.raises(SettingsError, match="num_negatives has no effect with the objective focal"):
        fivestar.make_settings({"training": {"objective": "focal", "num_negatives": 7}})
    with pytest.raises(RegistrationError, match="'other' is not an instance of"):
        fivestar.register_objective("other")(lambda scores: scores)
