# SPDX-License-Identifier: Apache-2.0
"""A connection without a server: the test plays the server's part of its stream."""

from __future__ import annotations

import asyncio
from typing import Any

from duetime import Options


class FakeStream:
    """Both the connection and its one stream. Every write is in `written`; `answers` holds what read() returns."""

    def __init__(self) -> None:
        self.options = Options()
        self.written: asyncio.Queue[Any] = asyncio.Queue()
        self.answers: asyncio.Queue[Any] = asyncio.Queue()

    def stream(self, _: str) -> FakeStream:
        return self

    def refused_by_standby(self, _: Any) -> bool:
        return False

    async def read(self) -> Any:
        answer = await self.answers.get()
        if answer is None:
            raise asyncio.CancelledError
        return answer

    async def write(self, request: Any) -> None:
        self.written.put_nowait(request)

    async def done_writing(self) -> None:
        pass

    def cancel(self) -> None:
        self.answers.put_nowait(None)

    async def close(self) -> None:
        pass
