"""The command line, but after three epochs one process dies, unless torchrun has restarted it."""

from __future__ import annotations

import os
import signal

from fivestar.cli.main import main
from fivestar.training.loop import Trainer

take_step = Trainer._take_step


def die_or_take_step(trainer, *arguments):
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if (os.environ["RANK"], attempt, trainer.progress.epoch) == (os.environ["DYING"], "0", 3):
        os.kill(os.getpid(), signal.SIGKILL)
    take_step(trainer, *arguments)


if __name__ == "__main__":
    Trainer._take_step = die_or_take_step
    main()
