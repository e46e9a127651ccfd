"""Worker processes: those that die are restarted; if none can start, the server gives up."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from socket import socket

import uvicorn
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

# Starts in a row that may fail while no worker serves.
_MAX_FAILURES = 3
# Seconds until the next attempt, doubled each time, while another worker serves.
_FIRST_DELAY = 1.0
_MAX_DELAY = 60.0

logger = logging.getLogger("uvicorn.error")


class Supervisor(Multiprocess):
    """Keeps the workers alive.

    A worker that dies before it serves has failed to start. After a few failures in a row, the
    supervisor stops if no other worker serves: the socket would accept connections that nobody
    answers. Else it tries again, less and less often.

    Args:
        config: configuration of uvicorn, with the number of workers.
        sockets: the bound sockets.
        folder: where workers that serve leave a file named after their process id.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket], folder: Path) -> None:
        super().__init__(config, sockets)
        self.has_failed = False
        self._folder = folder
        self._failures = 0
        self._next_start = 0.0

    def keep_subprocess_alive(self) -> None:
        """Restart workers that have died or hang."""
        if self.should_exit.is_set():
            return
        alive = [each.is_alive(self.config.timeout_worker_healthcheck) for each in self.processes]
        serves = [self._serves(each) for each in self.processes]
        if any(is_alive and has for is_alive, has in zip(alive, serves, strict=True)):
            is_served = True
            if all(alive) and all(serves):
                self._failures = 0
        else:
            is_served = False
        for index, process in enumerate(self.processes):
            if not alive[index] and time.monotonic() >= self._next_start:
                self._restart(index, process, failed=not serves[index], is_served=is_served)
            if self.should_exit.is_set():
                return

    def _restart(self, index: int, process: Process, *, failed: bool, is_served: bool) -> None:
        process.kill()
        process.join()
        self._mark(process).unlink(missing_ok=True)
        if failed:
            self._failures += 1
            if not is_served and self._failures >= _MAX_FAILURES:
                self.has_failed = True
                self.should_exit.set()
                return
            if is_served:
                delay = min(_MAX_DELAY, _FIRST_DELAY * 2**self._failures)
                logger.error("A worker cannot start; next attempt in %g s", delay)
                self._next_start = time.monotonic() + delay
        self.processes[index] = Process(self.config, self.sockets)
        self.processes[index].start()

    def _serves(self, process: Process) -> bool:
        return self._mark(process).exists()

    def _mark(self, process: Process) -> Path:
        return self._folder / str(process.pid)
