"""The server keeps what its OpenAPI document promises, whatever schemathesis makes up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_server_conforms_to_openapi(server, tmp_path):
    command = Path(sys.executable).with_name("schemathesis")
    words = ["run", f"{server}/openapi.json", "--checks=all", "--max-examples=15", "--seed=1"]
    done = subprocess.run(
        [command, *words], capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert "Tested: 18" in done.stdout


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
