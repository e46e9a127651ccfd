"""Errors as problem documents (RFC 9457)."""

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
# Validation errors listed per request.
_MAX_ERRORS = 20
_CODES = {
    400: "malformed",
    401: "unauthorized",
    403: "not-allowed",
    404: "not-found",
    405: "method-not-allowed",
    408: "slow-headers",
    413: "too-large",
    415: "unsupported-media-type",
    422: "invalid",
    429: "too-many-requests",
    431: "headers-too-large",
    501: "missing-extra",
    503: "busy",
    504: "timeout",
}


class Problem(HTTPException):
    """An error response: `code` for programs, `detail` for people, `more` as further fields.

    It is an HTTPException so that it can also be raised while a body is read.
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
        """Return the response."""
        document = {
            "type": "about:blank",
            "title": HTTPStatus(self.status_code).phrase,
            "status": self.status_code,
            "detail": self.detail,
            "code": self.code,
            **self.more,
        }
        # ASCII: the detail may quote input that is not valid text.
        return Response(json.dumps(document), self.status_code, self.headers, MEDIA_TYPE)


def busy(reason: str) -> Problem:
    """Return a 503 for a full queue."""
    return Problem(503, f"{reason}; try again in a moment", headers={"Retry-After": "1"})


def too_many(reason: str) -> Problem:
    """Return a 429 for a client that has more than its share."""
    return Problem(429, f"{reason}; wait for its responses", headers={"Retry-After": "1"})


def internal_error() -> Problem:
    """Return a 500, which says nothing of its cause."""
    return Problem(500, "internal error; see the log of the server", "internal")


def problem_of(error: FivestarError) -> Problem:
    """Map an error of fivestar to a problem."""
    if isinstance(error, UnknownName):
        return Problem(404, str(error), "unknown-name", nearest=error.suggestions)
    if isinstance(error, AmbiguousName):
        candidates = [{"id": name, "label": label} for name, label in error.candidates]
        return Problem(409, str(error), "ambiguous-name", candidates=candidates)
    if isinstance(error, SettingsError | GraphError):
        return Problem(422, str(error))
    if isinstance(error, MissingExtra):
        return Problem(501, str(error))
    return Problem(500, str(error), "internal")


def add_problem_handlers(app: FastAPI) -> None:
    """Turn all errors into problem documents."""

    @app.exception_handler(FivestarError)
    async def known(_: Request, error: FivestarError) -> Response:
        return problem_of(error).response()

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        if isinstance(error, Problem):
            return error.response()
        return Problem(error.status_code, str(error.detail), headers=_headers(error)).response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return _validation_problem(error).response()

    @app.exception_handler(Exception)
    async def unexpected(_: Request, __: Exception) -> Response:
        return internal_error().response()


def _headers(error: HTTPException) -> dict[str, str] | None:
    return None if error.headers is None else dict(error.headers)


def _validation_problem(error: RequestValidationError) -> Problem:
    """List the validation errors; the input itself may be huge and is not quoted."""
    errors = error.errors()
    listed = [
        {
            "field": ".".join(str(part) for part in each["loc"])[:200],
            "message": str(each["msg"])[:500],
        }
        for each in errors[:_MAX_ERRORS]
    ]
    shown = "; ".join(f"{each['field']}: {each['message']}" for each in listed[:3])
    more = f" (and {len(errors) - 3} more)" if len(errors) > 3 else ""
    return Problem(422, shown + more, errors=listed)
