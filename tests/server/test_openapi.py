"""The server keeps what its OpenAPI document promises, whatever schemathesis makes up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPENAPI = ROOT / "docs" / "schemas" / "openapi.json"


def test_server_conforms_to_openapi(server, tmp_path):
    command = Path(sys.executable).with_name("schemathesis")
    words = ["run", f"{server}/openapi.json", "--checks=all", "--max-examples=15", "--seed=1"]
    done = subprocess.run(
        [command, *words], capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert "Tested: 23" in done.stdout


def test_openapi_document(client):
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    text = json.dumps(document)
    assert "HTTPValidationError" not in text
    assert "://" not in text.replace("https://json-schema.org", "")
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["summary"], path
            content = operation["responses"]["422"]["content"]
            assert list(content) == ["application/problem+json"]


def test_openapi_document_is_the_recorded_one(client):
    """A change of the API is a decision: UPDATE_DOCS=1 records it."""
    document = client.get("/openapi.json").json()
    document["info"].pop("version")
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_DOCS"):
        OPENAPI.write_text(text)
    assert json.loads(OPENAPI.read_text()) == document


def test_documentation_and_page_agree_with_openapi(client):
    paths = set(client.get("/openapi.json").json()["paths"])
    text = (ROOT / "docs" / "http.md").read_text()
    documented = set(re.findall(r"/(?:api/[a-z/-]+|health|ready|metrics)\b", text))
    assert documented == paths
    page = "".join(path.read_text() for path in (ROOT / "web" / "src").glob("*.ts"))
    used = set(re.findall(r'"(/api/[a-z/-]+)"', page))
    assert used <= paths
    assert "`/api/predict/${state.side}`" in page


def page_fields(interface):
    """Return the fields of an interface of the page."""
    api = (ROOT / "web" / "src" / "api.ts").read_text()
    (body,) = re.findall(
        rf"export interface {interface}(?: extends \w+)? \{{\n(.*?)\n\}}", api, re.S
    )
    return set(re.findall(r"^  (\w+)\??:", body, re.M))


@pytest.mark.parametrize(
    ("interface", "schema"),
    [
        ("RunInfo", "RunInfo"),
        ("Answer", "Answer"),
        ("Prediction", "PredictResponse"),
        ("Entity", "EntityMatch"),
        ("EntityCard", "EntityResponse"),
        ("Triple", "NamedTriple"),
        ("Neighbor", "Neighbor"),
        ("ProbableFact", "ProbableFact"),
        ("RelationFacts", "RelationFacts"),
        ("SearchScope", "SearchScope"),
        ("ProbableFacts", "ProbableFactsResponse"),
        ("Relation", "RelationCount"),
        ("DimensionMap", "DimensionMap"),
        ("Geometry", "GeometryResponse"),
        ("SphereFacts", "SphereFactsResponse"),
        ("FactPoint", "FactPoint"),
        ("RankedDimension", "RankedDimension"),
        ("RunComparison", "CompareResponse"),
        ("QueryComparison", "QueryComparison"),
        ("RelationComparison", "RelationComparison"),
        ("MapPoint", "MapPoint"),
        ("EntityMap", "MapResponse"),
    ],
)
def test_types_of_the_page_agree_with_openapi(client, interface, schema):
    properties = client.get("/openapi.json").json()["components"]["schemas"][schema]["properties"]
    assert page_fields(interface) <= set(properties)


@pytest.mark.parametrize(
    ("interface", "name"),
    [
        ("Explanation", None),
        ("Analogy", "Analogy"),
        ("PathPattern", "PathPattern"),
        ("SimilarEntities", "SimilarEntities"),
        ("OtherAnswers", "OtherAnswers"),
        ("QueryRank", "FilteredRank"),
    ],
)
def test_explanations_of_the_page_agree_with_the_schema(interface, name):
    schema = json.loads((ROOT / "docs/schemas/explain.json").read_text())
    properties = (schema if name is None else schema["$defs"][name])["properties"]
    assert page_fields(interface) <= set(properties)
