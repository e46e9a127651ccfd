"""Everything that requests share: the runs, the lanes, the limits."""

from __future__ import annotations

from fastapi import Request

from fivestar.server.counters import Counters
from fivestar.server.lanes import Batcher, Lane
from fivestar.server.problems import Problem
from fivestar.server.served_run import ServedRun, names_of_folders
from fivestar.server.settings import ServerSettings


class Service:
    """The runs that are served, and where work waits."""

    def __init__(self, settings: ServerSettings, counters: Counters) -> None:
        self.limits = settings.limits
        self.counters = counters
        folders = names_of_folders(settings.runs)
        self.runs = {name: ServedRun(name, folder) for name, folder in folders.items()}
        self.products = Lane("products", self.limits.waiting)
        self.slow = Lane("slow", self.limits.slow_waiting)
        self.batchers = {
            name: Batcher(run.predictor, self.products, self.limits.waiting, counters)
            for name, run in self.runs.items()
        }
        self.is_ready = False

    def warm_up(self) -> None:
        """Find out what the first questions need; until then we are not ready."""
        for run in self.runs.values():
            run.warm_up()
        self.is_ready = True

    def close(self) -> None:
        """Let go of all threads."""
        self.is_ready = False
        self.products.close()
        self.slow.close()

    def run(self, name: str | None) -> ServedRun:
        """A run by its name; the first if none is given."""
        if name is None:
            return next(iter(self.runs.values()))
        try:
            return self.runs[name]
        except KeyError:
            served = ", ".join(self.runs)
            detail = f"no run {name!r} is served here; there are: {served}"
            raise Problem(404, detail, "unknown-run") from None

    def check_top(self, top: int) -> None:
        """Refuse to list too much."""
        if top > self.limits.top:
            raise Problem(422, f"at most {self.limits.top:,} at once, not {top:,}; ask for less")


async def service_of(request: Request) -> Service:
    """The service that a request is for. Not a plain function: those are run on other threads."""
    found: Service = request.app.state.service
    return found
