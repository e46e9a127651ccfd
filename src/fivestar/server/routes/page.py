"""The page and the API documentation, as built by `make web`.

The page is committed; Swagger UI is larger than all of it and is only in what `make web` built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

FOLDER = Path(__file__).parents[1] / "static"
MISSING = (
    "The page is not part of this installation. Build it in a checkout with: make web (it needs "
    "Node.js 18 or newer). The HTTP API works without it: /openapi.json"
)
NO_SWAGGER = (
    "Swagger UI is not part of this installation. Build it in a checkout with: make web (it needs "
    "Node.js 18 or newer). The API is described in /openapi.json and docs/http.md."
)

router = APIRouter(include_in_schema=False)


def is_built() -> bool:
    """Return whether the page is built."""
    return (FOLDER / "index.html").is_file()


def has_swagger() -> bool:
    """Return whether Swagger UI is built."""
    return (FOLDER / "swagger" / "swagger-ui-bundle.js").is_file()


def files() -> StaticFiles:
    """Serve the files of the page; browsers revalidate them each time."""
    return _RevalidatedFiles(directory=FOLDER)


class _RevalidatedFiles(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


@router.api_route("/", methods=["GET", "HEAD"])
async def page() -> Response:
    """Return the page."""
    return _file("index.html")


@router.get("/docs")
async def docs() -> Response:
    """Return Swagger UI."""
    return _file("docs.html") if has_swagger() else PlainTextResponse(NO_SWAGGER, 404)


def _file(name: str) -> Response:
    if not (FOLDER / name).is_file():
        return PlainTextResponse(MISSING, 404)
    return FileResponse(FOLDER / name, headers={"Cache-Control": "no-cache"})
