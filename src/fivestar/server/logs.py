"""Logs of the server: text for people or JSON lines for programs, each with its request id."""

from __future__ import annotations

import json
import logging
import re
import secrets
from datetime import UTC, datetime
from typing import Any, Literal

from starlette.types import Scope
from uvicorn.config import LOGGING_CONFIG

from fivestar.server.lanes import request_context

LogFormat = Literal["text", "json"]
ACCESS = "fivestar.access"
SERVER = "fivestar.server"
# Ids of requests that are accepted: nothing that could be mistaken for something else in a log.
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
# What a record of the access log adds to a JSON line.
_FIELDS = ("client", "method", "path", "route", "status", "seconds")

_access = logging.getLogger(ACCESS)


def request_id_of(header: bytes) -> str:
    """Return the id that a client has sent with its request, or a new one if it is not usable.

    >>> request_id_of(b"job-17"), len(request_id_of(b"a b")), len(request_id_of(b""))
    ('job-17', 16, 16)
    """
    if _REQUEST_ID.fullmatch(header):
        return header.decode()
    return secrets.token_hex(8)


def log_request(
    scope: Scope, request_id: str, route: str | None, status: int, seconds: float
) -> None:
    """Log a request that has ended, if requests are logged."""
    if not _access.isEnabledFor(logging.INFO):
        return
    path = scope.get("raw_path", b"").decode("ascii", "backslashreplace")
    if query := scope["query_string"]:
        path += "?" + query.decode("ascii", "backslashreplace")
    client = (scope.get("client") or ("-",))[0]
    version = scope["http_version"]
    _access.info(
        '%s - "%s %s HTTP/%s" %s %.1f ms %s',
        *(client, scope["method"], path, version, status or "-", 1e3 * seconds, request_id),
        extra={
            "request_id": request_id,
            "client": client,
            "method": scope["method"],
            "path": path,
            "route": route,
            "status": status or None,
            "seconds": round(seconds, 6),
        },
    )


class JsonFormatter(logging.Formatter):
    """Formats each record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line: time, level, logger, message, and what else is known."""
        context = request_context.get(None)
        request_id = getattr(record, "request_id", None) or (context and context.request_id)
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id:
            line["request_id"] = request_id
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_config(log_format: LogFormat, *, log_requests: bool) -> dict[str, Any]:
    """Return the configuration of all loggers of the server, for `logging.config.dictConfig`."""
    formatters = {**LOGGING_CONFIG["formatters"], "line": {"format": "%(message)s"}}
    if log_format == "json":
        formatter = {"()": "fivestar.server.logs.JsonFormatter"}
        formatters = {"default": formatter, "access": formatter, "line": formatter}
    access_handler = {
        "class": "logging.StreamHandler",
        "formatter": "line",
        "stream": "ext://sys.stdout",
    }
    return {
        **LOGGING_CONFIG,
        "formatters": formatters,
        "handlers": {**LOGGING_CONFIG["handlers"], "requests": access_handler},
        "loggers": {
            **LOGGING_CONFIG["loggers"],
            SERVER: {"handlers": ["default"], "level": "INFO", "propagate": False},
            ACCESS: {
                "handlers": ["requests"],
                "level": "INFO" if log_requests else "WARNING",
                "propagate": False,
            },
        },
    }
