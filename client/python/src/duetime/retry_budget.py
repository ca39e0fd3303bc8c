# SPDX-License-Identifier: Apache-2.0
"""Bounds the load of repeats on a server that fails. No clock: the caller passes the time in seconds."""

from __future__ import annotations


class RetryBudget:
    """A bucket of tokens, of which each repeat takes one. It is full at first, so that calls outlast a restart.

    A repeat that the server answers, also with an error that ends the call, gives its token back: after a restart many calls
    come through quickly, because only other repeats are a load in vain."""

    TOKENS_MAX = 100.0
    TOKENS_PER_CALL = 0.1
    TOKENS_PER_SECOND = 1.0

    def __init__(self, now: float) -> None:
        self._tokens = self.TOKENS_MAX
        self._filled = now

    def begin_call(self, now: float) -> None:
        """The first try of a call, which takes no token."""
        self._add(now, self.TOKENS_PER_CALL)

    def take(self, now: float) -> bool:
        """Takes the token of a repeat. False if there is none; then the repeat must wait."""
        self._add(now, 0)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def give_back(self, now: float) -> None:
        """The server answered the repeat, so it may have one more."""
        self._add(now, 2)

    def _add(self, now: float, tokens: float) -> None:
        filled = self._tokens + (now - self._filled) * self.TOKENS_PER_SECOND + tokens
        self._tokens = min(filled, self.TOKENS_MAX)
        self._filled = now
