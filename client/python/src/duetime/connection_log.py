# SPDX-License-Identifier: Apache-2.0
"""What a subscriber logs about its connection. No clock: the caller passes the time."""

from __future__ import annotations

import logging

from duetime import errors

_LOG = logging.getLogger("duetime")

#: Seconds. A line that would say the same is logged after the first of these, then after twice as long, and so on. A stream
#: that lived as long makes the next trouble a new one.
_PAUSE, _PAUSE_MAX = 60.0, 3_600.0


class ConnectionLog:
    """Logs each change once: connected, cannot reach, lost, back, refused. While nothing changes, or the same changes come
    again and again, ever more rarely."""

    def __init__(self, server: str, topic: str) -> None:
        self._server = server
        self._topic = topic
        #: When the open stream opened, and when the trouble began.
        self._opened: float | None = None
        self._down: float | None = None
        #: A line about the trouble was logged.
        self._told = False
        #: What was logged, until when it is not logged again, and the pause after that.
        self._quiet: dict[tuple[object, ...], tuple[float, float]] = {}

    def opened(self, now: float) -> None:
        if self._down is None:
            _LOG.info("the subscriber of %r is connected to %s", self._topic, self._server)
        elif self._told:
            _LOG.info("the subscriber of %r is back: connected to %s after %.0f s", self._topic, self._server, now - self._down)
        self._opened, self._down, self._told = now, None, False

    def ended(self, now: float, error: errors.DuetimeError | None) -> None:
        """The stream has ended, or did not open, and will be opened again."""
        was_open = self._opened is not None
        if self._opened is not None and now - self._opened >= _PAUSE:
            self._quiet.clear()
        self._opened = None
        cause: object = error or "the server ended the stream"
        reason = error.reason if error is not None else ""
        self._tell(now, (was_open, type(error), reason), "has lost" if was_open else "cannot reach", cause)

    def waits(self, now: float, seconds: float) -> None:
        """The stream has not opened for so long, and has no error."""
        if self._opened is None:
            self._tell(now, (False, "waits"), "cannot reach", f"no server that leads has answered for {seconds:g} s")

    def _tell(self, now: float, what: tuple[object, ...], verb: str, cause: object) -> None:
        if self._down is None:
            self._down = now
        quiet_until, pause = self._quiet.get(what, (now, _PAUSE))
        if now < quiet_until:
            return
        self._quiet[what] = now + pause, min(2 * pause, _PAUSE_MAX)
        self._told = True
        _LOG.warning("the subscriber of %r %s %s, and tries again: %s", self._topic, verb, self._server, cause)

    def refused(self, error: errors.DuetimeError) -> None:
        _LOG.error("the subscriber of %r ends, because %s refused it: %s", self._topic, self._server, error)
