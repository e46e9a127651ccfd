"""The command line: one file a command."""

import time

# When the command was called, nearly: this is loaded first.
CALLED_AT = time.monotonic()
