"""Reload runs whose folders change, without downtime.

Each worker looks at the manifests of its runs from time to time. A new version is verified by its
manifest, loaded and warmed up while the old one serves, and then replaces it; requests that have
begun finish with the old one. If the new version is damaged, the old one stays, and the log and the
metrics say so.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from pathlib import Path

from fivestar.errors import DamagedRun, FivestarError
from fivestar.runs.manifest import MANIFEST, read_manifest, run_version
from fivestar.server.lanes import RequestContext, request_context
from fivestar.server.logs import SERVER
from fivestar.server.service import ServedModel, Service

logger = logging.getLogger(SERVER)

# The modification time and size of each file of a run.
_State = dict[str, tuple[int, int, int]]


class Reloader:
    """Watches the folders of the served runs.

    Args:
        service: the service that serves them.
        folders: the folder of each run, by its name.
        interval: seconds between two looks.
    """

    def __init__(self, service: Service, folders: dict[str, Path], interval: float) -> None:
        self._service = service
        self._folders = folders
        self._interval = interval
        self._seen = {name: _state(folder) for name, folder in folders.items()}

    async def watch(self) -> None:
        """Reload what has changed, until cancelled."""
        request_context.set(RequestContext("reloading"))
        while True:
            await asyncio.sleep(self._interval)
            for name in self._folders:
                await self.check(name)

    async def check(self, name: str) -> None:
        """Reload a run if its files have changed since the last look."""
        state = _state(self._folders[name])
        if state == self._seen[name]:
            return
        self._seen[name] = state
        try:
            served = await self._service.maintenance.run(self._load, name)
        except Exception as error:
            self._service.metrics.count_reload(succeeded=False)
            unexpected = None if isinstance(error, FivestarError) else error
            logger.warning(
                "Keeping the old version of the run %s: %s", name, error, exc_info=unexpected
            )
            return
        if served is not None:
            self._service.replace(served)
            self._service.metrics.count_reload(succeeded=True)
            logger.info("Serving version %s of the run %s", served.version, name)

    def _load(self, name: str) -> ServedModel | None:
        """Load the version that the folder holds; None if it is the one that is served."""
        folder = self._folders[name]
        version = run_version(folder)
        if version == self._service.models[name].version:
            return None
        served = ServedModel.load(name, folder, limits=self._service.limits)
        if served.version != version:
            raise DamagedRun(f"{folder}: changes while it is loaded")
        served.warm_up()
        gc.freeze()  # see `freeze_indices`
        return served


def _state(folder: Path) -> _State:
    """Return what changes when files of a run are written; hashing them all would take long."""
    try:
        names = [*read_manifest((folder / MANIFEST).read_bytes(), str(folder)), MANIFEST]
    except (OSError, DamagedRun):
        names = [MANIFEST]
    state = {}
    for name in names:
        try:
            status = (folder / name).stat()
        except OSError:
            continue
        state[name] = (status.st_ino, status.st_mtime_ns, status.st_size)
    return state
