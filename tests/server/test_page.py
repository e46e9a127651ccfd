from __future__ import annotations

import gzip

from fivestar.server.routes import page


def test_the_committed_page_is_complete_and_small():
    assert page.is_built()
    files = [path for path in page.FOLDER.rglob("*") if path.is_file()]
    committed = [path for path in files if "swagger" not in path.parts]
    assert {"app.js", "style.css", "newsreader.woff2"} <= {path.name for path in committed}
    assert sum(len(gzip.compress(path.read_bytes())) for path in committed) < 250_000


def test_the_page_is_served_without_swagger(client, monkeypatch):
    monkeypatch.setattr(page, "has_swagger", lambda: False)
    assert "<title>" in client.get("/").text
    assert client.get("/static/app.js").status_code == 200
    found = client.get("/docs")
    assert (found.status_code, found.text) == (404, page.NO_SWAGGER)


def test_a_missing_page_says_how_to_build_it(client, monkeypatch, tmp_path):
    monkeypatch.setattr(page, "FOLDER", tmp_path)
    assert not page.is_built()
    assert not page.has_swagger()
    assert client.get("/").text == page.MISSING
