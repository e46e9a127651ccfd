"""Extension points: named objects that are built in, registered by a call, or found in packages.

A package declares what it adds in its pyproject.toml, and every command then knows it::

    [project.entry-points."fivestar.models"]
    pairre = "my_package:PairRE"

Built-in objects are named in the same way, as "module:attribute", so listing names loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from fivestar.errors import RegistrationError, SettingsError
from fivestar.spelling import closest_names, did_you_mean

T = TypeVar("T")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


class Registry(Mapping[str, T], Generic[T]):
    """Objects of one kind by name; each is loaded when it is first used.

    Args:
        kind: What the objects are, for messages.
        group: The entry-point group in which packages declare theirs.
        built_in: Our own, as "module:attribute".
        check: Called with the name and the object; raises `RegistrationError` if it is unusable.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        built_in: Mapping[str, str],
        check: Callable[[str, Any], None],
    ) -> None:
        self.kind = kind
        self.group = group
        self._built_in = dict(built_in)
        self._check = check
        self._registered: dict[str, T] = {}
        self._loaded: dict[str, T] = {}

    def register(self, name: str, value: T) -> T:
        """Add an object under a name.

        Raises:
            RegistrationError: The name is taken or malformed, or the object is unusable.
        """
        if not _NAME.fullmatch(name):
            raise RegistrationError(
                f"{name!r} cannot be the name of a {self.kind}: use lower-case letters, digits, "
                "- and _"
            )
        old = self._registered.get(name)
        if old is not None and not _is_redefinition(old, value):
            raise RegistrationError(
                f"the name {name!r} is taken by {_described(old)}; choose another name"
            )
        if name in self._built_in:
            raise RegistrationError(
                f"the name {name!r} is taken by a built-in {self.kind}; choose another name"
            )
        if name in self._entry_points:
            raise RegistrationError(
                f"the name {name!r} is taken by {_packages(self._entry_points[name])}; choose "
                "another name"
            )
        self._check(name, value)
        self._registered[name] = value
        return value

    def __getitem__(self, name: str) -> T:
        """Return the object of this name.

        Raises:
            SettingsError: There is no such name; the message suggests the nearest ones.
            RegistrationError: A package declares it, but cannot be used.
        """
        if name in self._registered:
            return self._registered[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._built_in or name in self._registered or name in self._entry_points

    def __iter__(self) -> Iterator[str]:
        """Yield all names: built-in ones first, then those of packages and of calls."""
        return iter(dict.fromkeys([*self._built_in, *self._entry_points, *self._registered]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def usable(self) -> tuple[dict[str, T], dict[str, str]]:
        """Return all objects that can be loaded, and the problem of each package that cannot be."""
        usable, problems = {}, {}
        for name in self:
            try:
                usable[name] = self[name]
            except RegistrationError as error:
                problems[name] = str(error)
        for name, points in self._entry_points.items():
            if name in self._built_in:
                problems[name] = (
                    f"the {self.kind} {name!r} of {_packages(points)} is ignored: the name is "
                    f"taken by a built-in {self.kind}"
                )
        return usable, problems

    def package(self, name: str) -> str | None:
        """Return the distribution that an object comes from, or None if it is from none."""
        if name in self._built_in or name not in self._entry_points:
            return None
        return _packages(self._entry_points[name])

    @cached_property
    def _entry_points(self) -> dict[str, list[EntryPoint]]:
        by_name: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            others = by_name.setdefault(point.name, [])
            if point not in others:  # a package on two paths is found twice
                others.append(point)
        return by_name

    def _load(self, name: str) -> T:
        if name in self._built_in:
            module, _, attribute = self._built_in[name].partition(":")
            built_in: T = getattr(import_module(module), attribute)
            return built_in
        if name not in self._entry_points:
            known = f"; known: {', '.join(sorted(self))}."
            hint = did_you_mean(closest_names(name, self)) or known
            raise SettingsError(
                f"no {self.kind} {name!r}{hint} One of another package is known once that package "
                "is installed."
            )
        points = self._entry_points[name]
        package = _packages(points)
        if len(points) > 1:
            raise RegistrationError(
                f"the {self.kind} {name!r} is declared by {package}; uninstall all but one"
            )
        try:
            value = points[0].load()
            self._check(name, value)
        except RegistrationError as error:
            raise RegistrationError(f"{error} (from {package})") from error
        except (Exception, SystemExit) as error:
            raise RegistrationError(
                f"the {self.kind} {name!r} of {package} cannot be loaded "
                f"({type(error).__name__}: {error}); repair or uninstall that package"
            ) from error
        loaded: T = value
        return loaded


def _is_redefinition(old: object, new: object) -> bool:
    """Whether a class or function was defined again, as by a notebook cell that runs twice."""
    names = [(getattr(x, "__module__", None), getattr(x, "__qualname__", None)) for x in (old, new)]
    return names[0] == names[1] and names[0] != (None, None)


def _described(value: object) -> str:
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return f"{getattr(value, '__module__', type(value).__module__)}.{name}"


def _packages(points: list[EntryPoint]) -> str:
    """Return the distributions that declare these entry points."""
    named = [f"{p.dist.name} {p.dist.version}" if p.dist else p.value for p in points]
    return f"the package{'s' * (len(named) > 1)} {' and '.join(sorted(named))}"


def _instance_of(base: str, public: str) -> Callable[[str, Any], None]:
    """Return a check that objects are instances of a class, which is given as "module:name"."""

    def check(name: str, value: Any) -> None:
        module, _, attribute = base.partition(":")
        if not isinstance(value, getattr(import_module(module), attribute)):
            raise RegistrationError(f"{name!r} is not an instance of {public}: {value!r}")

    return check


# Objectives over candidates that all queries share, not those over sampled negatives.
OBJECTIVES: Registry[Any] = Registry(
    "objective",
    "fivestar.objectives",
    {
        "softmax": "fivestar.training.objectives:SOFTMAX",
        "bce": "fivestar.training.objectives:BCE",
    },
    _instance_of("fivestar.training.objectives:Objective", "fivestar.Objective"),
)
REGULARIZERS: Registry[Any] = Registry(
    "regularizer",
    "fivestar.regularizers",
    {
        "n3": "fivestar.training.regularizers:N3",
        "n3-transformed": "fivestar.training.regularizers:N3_TRANSFORMED",
        "f2": "fivestar.training.regularizers:F2",
        "dura": "fivestar.training.regularizers:DURA",
        "none": "fivestar.training.regularizers:NONE",
    },
    _instance_of("fivestar.training.regularizers:Regularizer", "fivestar.Regularizer"),
)


def _is_tracker(name: str, value: Any) -> None:
    base = import_module("fivestar.training.trackers.base").Tracker
    if not (isinstance(value, type) and issubclass(value, base)):
        raise RegistrationError(f"{name!r} is not a subclass of fivestar.Tracker: {value!r}")


TRACKERS: Registry[Any] = Registry(
    "tracker",
    "fivestar.trackers",
    {
        "csv": "fivestar.training.trackers.csv_file:CsvTracker",
        "tensorboard": "fivestar.training.trackers.tensorboard:TensorBoardTracker",
        "mlflow": "fivestar.training.trackers.mlflow:MlflowTracker",
        "wandb": "fivestar.training.trackers.wandb:WandbTracker",
    },
    _is_tracker,
)
