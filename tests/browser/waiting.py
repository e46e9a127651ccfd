"""Wait for what a page will show."""

from __future__ import annotations

# Long enough for a busy machine; nothing is asserted about time.
TIMEOUT = 120_000


def expect(locator):
    from playwright.sync_api import expect as waiting  # noqa: PLC0415

    waiting.set_options(timeout=TIMEOUT)
    return waiting(locator)
