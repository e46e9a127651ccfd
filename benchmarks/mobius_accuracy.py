"""Measure the worst errors of the Möbius library in double precision, against 50 digits (mpmath).

Errors are relative to the conditioning of the problem: the change of the exact result when the
input is rounded to double precision. An error of 1 is one such unit. Fixed points and images are
compared on the sphere, where ∞ is a regular point.

    python benchmarks/mobius_accuracy.py --cases 1500 --record

With --record, each family is one line of results/mobius_accuracy.jsonl, for docs/geometry.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import mpmath
import numpy as np
import torch

from fivestar.experiments.records import append_record
from fivestar.geometry.fixed_points import fixed_points, multiplier, power
from fivestar.geometry.mobius import apply, chordal_distance, distance

RESULTS = Path(__file__).parents[1] / "results" / "mobius_accuracy.jsonl"
EPSILON = 2.0**-52
FAMILIES = (
    "plain",
    "det ≈ 0",
    "c ≈ 0",
    "near parabolic",
    "near identity",
    "point ≈ pole",
    "point ∞",
)


def random_map(family: str, rng: np.random.Generator) -> tuple[list[complex], complex]:
    """Return the four entries of a random map, and a point."""
    a, b, c, d, z = (complex(*rng.normal(size=2)) for _ in range(5))
    tiny = 10.0 ** rng.uniform(-15, -3)
    match family:
        case "det ≈ 0":
            b = (a * d) / c * (1 + tiny)
        case "c ≈ 0":
            c *= tiny
        case "near parabolic":
            # tr² − 4 det = (a − d)² + 4bc, nearly 0.
            c = -((a - d) ** 2) / (4 * b) * (1 + tiny)
        case "near identity":
            a, b, c, d = 1 + tiny * a, tiny * b, tiny * c, 1 + tiny * d
        case "point ≈ pole":
            z = -d / c * (1 + tiny)
        case "point ∞":
            z = complex("inf")
    return [a, b, c, d], z


def truths(entries: list[complex], z: complex, s: float) -> dict[str, object]:
    """Return the image, the fixed points, the multiplier and a power of the map with 50 digits."""
    a, b, c, d = (mpmath.mpc(x) for x in entries)
    image = a / c if z == complex("inf") else (a * z + b) / (c * z + d)
    root = mpmath.sqrt((a - d) ** 2 + 4 * b * c)
    values = [(a + d + sign * root) / 2 for sign in (1, -1)]
    values.sort(key=abs, reverse=True)
    large, small = values
    fixed = [(value - d) / c for value in values]
    # M^s by its eigenvalues, up to a factor.
    base = [(large - d) / c, (small - d) / c]
    there = mpmath.matrix([[base[0], base[1]], [1, 1]])
    turn = mpmath.matrix([[mpmath.power(large / small, s), 0], [0, 1]])
    return {
        "image": image,
        "fixed points": fixed,
        "multiplier": large / small,
        "power": there * turn * there**-1,
    }


def errors(entries: list[complex], z: complex, s: float) -> dict[str, float]:
    """Return the errors of double precision."""
    m = _wide(entries).reshape(2, 2)
    point = _wide(z)
    truth = truths(entries, z, s)
    wanted = _wide([complex(x) for x in truth["fixed points"]])
    scaled = truth["power"] / mpmath.norm(truth["power"])
    raised = _wide([complex(x) for x in scaled]).reshape(2, 2)
    k = truth["multiplier"]
    return {
        "image": float(chordal_distance(apply(m, point), _wide(complex(truth["image"])))),
        "fixed points": float(chordal_distance(torch.stack(fixed_points(m)), wanted).max()),
        "multiplier": float(abs(complex(multiplier(m)) - complex(k)) / abs(complex(k))),
        "power": float(distance(power(m, s), raised)),
    }


def allowed(entries: list[complex], z: complex, s: float) -> dict[str, float]:
    """Return the change of the exact result when the input is off by half an ulp."""
    rng = np.random.default_rng(0)
    truth = truths(entries, z, s)
    found = dict.fromkeys(truth, 0.0)
    for _ in range(4):
        off = [x * (1 + EPSILON * mpmath.mpc(*rng.normal(size=2))) for x in entries]
        there = z if z == complex("inf") else z * (1 + EPSILON * mpmath.mpc(*rng.normal(size=2)))
        other = truths(off, there, s)
        moved = {
            "image": _chord(truth["image"], other["image"]),
            "fixed points": max(map(_chord, truth["fixed points"], other["fixed points"])),
            "multiplier": float(
                abs(truth["multiplier"] - other["multiplier"]) / abs(truth["multiplier"])
            ),
            "power": _apart(truth["power"], other["power"]),
        }
        found = {name: max(found[name], moved[name]) for name in found}
    return {name: value + EPSILON for name, value in found.items()}


def _wide(numbers: object) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.complex128)


def _chord(z: mpmath.mpc, w: mpmath.mpc) -> float:
    return float(2 * abs(z - w) / mpmath.sqrt((1 + abs(z) ** 2) * (1 + abs(w) ** 2)))


def _apart(one: mpmath.matrix, other: mpmath.matrix) -> float:
    one, other = one / mpmath.norm(one), other / mpmath.norm(other)
    common = sum(mpmath.conj(x) * y for x, y in zip(one, other, strict=True))
    return float(mpmath.norm(other - common / abs(common) * one))


def main() -> None:
    """Measure each family of maps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="of each family")
    parser.add_argument("--record", action="store_true", help=f"add to results/{RESULTS.name}")
    given = parser.parse_args()
    mpmath.mp.dps = 50
    rng = np.random.default_rng(0)
    for family in FAMILIES:
        worst: dict[str, list[float]] = {}
        for _ in range(given.cases):
            entries, z = random_map(family, rng)
            s = float(rng.uniform(-2, 2))
            error, unit = errors(entries, z, s), allowed(entries, z, s)
            for name, value in error.items():
                seen = worst.setdefault(name, [0.0, 0.0])
                seen[0], seen[1] = max(seen[0], value), max(seen[1], value / unit[name])
        cells = (f"{name} {e:.0e} ({u:.0f} ×)" for name, (e, u) in worst.items())
        print(f"{family:15} {'   '.join(cells)}", flush=True)
        if given.record:
            append_record(RESULTS, {"family": family, "cases": given.cases, "worst": worst})


if __name__ == "__main__":
    main()
