"""The page and the documentation of the interface, as `make web` has built them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

FOLDER = Path(__file__).parents[1] / "static"
MISSING = (
    "The page is not part of this installation. Build it in a checkout with: make web (it needs "
    "Node.js 18 or newer). The HTTP interface works without it: /openapi.json"
)

router = APIRouter(include_in_schema=False)


def is_built() -> bool:
    """Whether the page is there."""
    return (FOLDER / "index.html").is_file()


def files() -> StaticFiles:
    """The files of the page; browsers ask each time whether they have changed."""
    return _Fresh(directory=FOLDER)


class _Fresh(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        found = super().file_response(*args, **kwargs)
        found.headers["Cache-Control"] = "no-cache"
        return found


@router.api_route("/", methods=["GET", "HEAD"])
async def page() -> Response:
    """The page itself."""
    return _file("index.html")


@router.get("/docs")
async def docs() -> Response:
    """Swagger UI."""
    return _file("docs.html")


def _file(name: str) -> Response:
    if not (FOLDER / name).is_file():
        return PlainTextResponse(MISSING, 404)
    return FileResponse(FOLDER / name, headers={"Cache-Control": "no-cache"})
