"""Run PyKEEN's own generic test cases on 5★E as an interaction and as a model of PyKEEN.

    python scripts/pykeen_cases.py [--record results/pykeen_cases.jsonl]

The cases (`InteractionTestCase`, `ModelTestCase`, `EvaluationOnlyModelTestCase`) are in the source
distribution of PyKEEN, not in its wheel. The one of the installed version is downloaded by pip into
a temporary folder, with unittest-templates, which they are written in; nothing is installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
import unittest
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

FORMS: dict[str, dict[str, Any]] = {
    **{
        f"{denominator} {pairing} {score}": {
            "denominator": denominator,
            "pairing": pairing,
            "score": score,
        }
        for denominator in ("mobius", "phase", "none")
        for pairing in ("hermitian", "bilinear")
        for score in ("inner", "distance")
    },
    "mobius hermitian l1": {"score": "distance", "norm": "l1"},
    "mobius hermitian modulus": {"score": "distance", "norm": "modulus"},
}
# Also as models, each with the number of parameters that have a constant initialization (d = 1).
MODELS: dict[str, tuple[dict[str, Any], bool, int]] = {
    "default": ({}, False, 1),
    "default with inverse triples": ({}, True, 1),
    "identity": ({"init": "identity"}, False, 0),
    "phase bilinear": ({"denominator": "phase", "pairing": "bilinear"}, True, 0),
    "none": ({"denominator": "none"}, False, 1),
    "distance modulus": ({"score": "distance", "norm": "modulus"}, False, 1),
}


def main() -> None:
    """Download the cases, run them, and print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--record", type=Path, help="write one line of JSON per case to this file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="fivestar-") as folder:
        fetch_cases(Path(folder))
        sys.path.insert(0, folder)
        records = [run_case(name, case) for name, case in cases()]
    if arguments.record is not None:
        arguments.record.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    total, failed = (sum(record[key] for record in records) for key in ("tests", "failed"))
    print(f"{total} tests of PyKEEN {version('pykeen')}, {failed} failed")
    sys.exit(failed > 0 or total == 0)


def fetch_cases(folder: Path) -> None:
    """Put PyKEEN's package `tests` and unittest-templates into a folder."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    source = f"pykeen=={version('pykeen')}"
    download = ["download", "--no-deps", "--no-binary", "pykeen", "--dest", str(folder), source]
    templates = ["install", "--no-deps", "--target", str(folder), "unittest-templates"]
    for command in (download, templates):
        subprocess.run([*pip, *command], check=True)  # noqa: S603
    (archive,) = folder.glob("pykeen-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (folder / archive.name.removesuffix(".tar.gz") / "tests").rename(folder / "tests")


def cases() -> Iterator[tuple[str, type[unittest.TestCase]]]:
    """Yield the generic cases, each for one form of 5★E."""
    import torch  # noqa: PLC0415
    from tests import cases as generic  # noqa: PLC0415

    from fivestar.integrations.pykeen import FiveStarE, FiveStarEInteraction  # noqa: PLC0415

    for name, options in FORMS.items():
        for dtype in (torch.float32, torch.complex64):
            body = {
                "cls": FiveStarEInteraction,
                "kwargs": options,
                "dtype": dtype,
                "atol": 1e-6,  # scores near 0 are differences of larger numbers
                "_exp_score": lambda self, h, r, t: expected_score(h, r, t, **self.kwargs),
            }
            title = f"InteractionTestCase {name} {'complex' if dtype.is_complex else 'real'}"
            yield title, type("Case", (generic.InteractionTestCase,), body)
    for name, (options, inverse, constant) in MODELS.items():
        body = {
            "cls": FiveStarE,
            "kwargs": options,
            "create_inverse_triples": inverse,
            "num_constant_init": constant,
        }
        distance = options.get("score") == "distance"
        base = generic.DistanceModelTestCase if distance else generic.ModelTestCase
        yield f"{base.__name__} {name}", type("Case", (base,), body)
    for reciprocals in (False, True):
        body = {"cls": evaluated(reciprocals=reciprocals)}
        title = f"EvaluationOnlyModelTestCase {'with' if reciprocals else 'without'} reciprocals"
        yield title, type("Case", (generic.EvaluationOnlyModelTestCase,), body)


def expected_score(
    h: Any,
    r: Any,
    t: Any,
    denominator: str = "mobius",
    pairing: str = "hermitian",
    score: str = "inner",
    norm: str = "l2",
) -> Any:
    """Return the score by complex arithmetic, without any code of the package."""
    import torch  # noqa: PLC0415

    h, a, b, c, d, t = (x.to(torch.complex128) for x in (h, *r, t))
    upper, lower = a * h + b, c * h + d
    size = {
        "mobius": lower.abs() ** 2 + 1e-6 * (c.abs() ** 2 + d.abs() ** 2),
        "phase": lower.abs(),
    }
    query = upper if denominator == "none" else upper * lower.conj() / size[denominator]
    query = query if pairing == "hermitian" else query.conj()
    if score == "inner":
        return (query * t.conj()).real.sum().float()
    if norm == "modulus":
        return -(query - t).abs().sum().float()
    return -torch.linalg.vector_norm(torch.view_as_real(query - t), ord=int(norm[1])).float()


def evaluated(*, reciprocals: bool) -> type:
    """Return the class of models of fivestar in PyKEEN, for triples of PyKEEN."""
    import fivestar  # noqa: PLC0415
    from fivestar.integrations.pykeen import EvaluationModel  # noqa: PLC0415

    class Evaluated(EvaluationModel):
        def __init__(self, triples_factory: Any) -> None:
            options = {"dim": 4, "epochs": 1, "reciprocals": reciprocals, "valid": 0}
            super().__init__(fivestar.train(triples_factory, model="complex", **options))

    return Evaluated


def run_case(name: str, case: type[unittest.TestCase]) -> dict[str, Any]:
    """Run one case, print its line, and return it as a record."""
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    result = unittest.TestResult()
    suite.run(result)
    failed = [*result.failures, *result.errors]
    record = {
        "pykeen": version("pykeen"),
        "case": name,
        "tests": result.testsRun,
        "failed": len(failed),
        "skipped": sorted(reason for _, reason in result.skipped),
    }
    print(f"{name}: {result.testsRun} tests, {len(failed)} failed, {len(result.skipped)} skipped")
    for test, trace in failed:
        print(f"  {test}\n{trace}")
    return record


if __name__ == "__main__":
    main()
