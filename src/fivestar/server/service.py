"""State shared by all requests: the served models, the workers, the limits."""

from __future__ import annotations

from fastapi import Request

from fivestar.server.batching import Batcher, Worker
from fivestar.server.metrics import Metrics
from fivestar.server.problems import Problem
from fivestar.server.served_model import ServedModel, names_of_folders
from fivestar.server.settings import ServerSettings


class Service:
    """The served models and the workers that answer requests."""

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self.limits = settings.limits
        self.metrics = metrics
        folders = names_of_folders(settings.runs)
        self.models = {name: ServedModel(name, folder) for name, folder in folders.items()}
        self.scoring = Worker("scoring", self.limits.queued_queries)
        self.slow = Worker("slow", self.limits.queued_requests)
        self.batchers = {
            name: Batcher(served.model, self.scoring, self.limits.queued_queries, metrics)
            for name, served in self.models.items()
        }
        self.is_ready = False

    def warm_up(self) -> None:
        """Build the indices that the first requests need."""
        for served in self.models.values():
            served.warm_up()
        self.is_ready = True

    def close(self) -> None:
        """Stop all workers."""
        self.is_ready = False
        self.scoring.close()
        self.slow.close()

    def model(self, run: str | None) -> ServedModel:
        """Return a model by the name of its run; by default the first."""
        if run is None:
            return next(iter(self.models.values()))
        try:
            return self.models[run]
        except KeyError:
            detail = f"no run {run!r} is served here; choose one of: {', '.join(self.models)}"
            raise Problem(404, detail, "unknown-run") from None

    def check_top(self, top: int) -> None:
        """Reject requests for too many results."""
        if top > self.limits.top:
            raise Problem(422, f"top is {top:,}, but at most {self.limits.top:,} are returned")


async def service_of(request: Request) -> Service:
    """Return the service of a request. Async: FastAPI runs plain functions on other threads."""
    service: Service = request.app.state.service
    return service
