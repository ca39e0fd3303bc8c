# SPDX-License-Identifier: Apache-2.0
"""How the library calls functions of the program that are not handlers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

_LOG = logging.getLogger("duetime")


def call_back(name: str, callback: Callable[..., object], *arguments: Any) -> None:
    """Calls it, and logs its exception, because the library must go on. SystemExit and KeyboardInterrupt pass: they mean the
    program, whose event loop this is."""
    try:
        callback(*arguments)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException:
        _LOG.exception("the callback %s failed", name)


def contained(callback: Callable[..., object]) -> Callable[..., None]:
    """The callback for an event loop in a thread of the library, where a SystemExit would only end that thread."""
    def call(*arguments: Any) -> None:
        try:
            callback(*arguments)
        except (SystemExit, KeyboardInterrupt) as error:
            raise RuntimeError(f"{type(error).__name__} in a callback does not end the program") from error
    return call
