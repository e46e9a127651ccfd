"""What went wrong, as a problem document (RFC 9457) that says what to do."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from fivestar.errors import (
    AmbiguousName,
    FivestarError,
    GraphError,
    MissingExtra,
    SettingsError,
    UnknownName,
)

MEDIA_TYPE = "application/problem+json"
# Mistakes of one body that are listed.
_MOST_MISTAKES = 20
_CODES = {
    400: "malformed",
    401: "unauthorized",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
    422: "invalid",
    501: "missing-extra",
    503: "busy",
    504: "timeout",
}


class Problem(HTTPException):
    """A refusal. `code` is for programs, `detail` for people; `more` stands beside them.

    It is an HTTPException, so that it can be raised where a body is read, too.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        code: str | None = None,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(status, detail, headers)
        self.code = code or _CODES.get(status, "error")
        self.more = more

    def response(self) -> Response:
        """The document."""
        document = {
            "type": "about:blank",
            "title": HTTPStatus(self.status_code).phrase,
            "status": self.status_code,
            "detail": self.detail,
            "code": self.code,
            **self.more,
        }
        # ASCII: what clients sent may be quoted, and need not be proper text.
        return Response(json.dumps(document), self.status_code, self.headers, MEDIA_TYPE)


def busy(what: str) -> Problem:
    """Too much is waiting already."""
    return Problem(503, f"{what}; try again in a moment", headers={"Retry-After": "1"})


def problem_of(error: FivestarError) -> Problem:
    """What an error of ours means for a client."""
    if isinstance(error, UnknownName):
        return Problem(404, str(error), "unknown-name", nearest=error.nearest)
    if isinstance(error, AmbiguousName):
        candidates = [{"id": name, "label": label} for name, label in error.candidates]
        return Problem(409, str(error), "ambiguous-name", candidates=candidates)
    if isinstance(error, SettingsError | GraphError):
        return Problem(422, str(error))
    if isinstance(error, MissingExtra):
        return Problem(501, str(error))
    return Problem(500, str(error), "internal")


def answer_with_problems(app: FastAPI) -> None:
    """Make problem documents of all errors."""

    @app.exception_handler(FivestarError)
    async def ours(_: Request, error: FivestarError) -> Response:
        return problem_of(error).response()

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        if isinstance(error, Problem):
            return error.response()
        return Problem(error.status_code, str(error.detail), headers=_plain(error)).response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return _mistakes(error).response()

    @app.exception_handler(Exception)
    async def unexpected(_: Request, __: Exception) -> Response:
        detail = "something went wrong here, which the log of the server tells more about"
        return Problem(500, detail, "internal").response()


def _plain(error: HTTPException) -> dict[str, str] | None:
    return None if error.headers is None else dict(error.headers)


def _mistakes(error: RequestValidationError) -> Problem:
    """What is wrong where; the input itself is not quoted, since it may be huge."""
    mistakes = error.errors()
    found = [
        {"where": ".".join(str(part) for part in each["loc"])[:200], "what": str(each["msg"])[:500]}
        for each in mistakes[:_MOST_MISTAKES]
    ]
    shown = "; ".join(f"{each['where']}: {each['what']}" for each in found[:3])
    more = f" (and {len(mistakes) - 3} more)" if len(mistakes) > 3 else ""
    return Problem(422, shown + more, errors=found)
