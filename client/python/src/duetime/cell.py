# SPDX-License-Identifier: Apache-2.0
"""Several servers of which one leads: how to reach that one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

#: A channel with these options is ready while the health of its server is SERVING, which means that the server leads. Pings
#: find a server whose machine vanished; the server allows one every second.
CHANNEL_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}],'
                            ' "healthCheckConfig": {"serviceName": "duetime.v1.Messages"}}'),
    ("grpc.keepalive_time_ms", 15_000), ("grpc.keepalive_timeout_ms", 3_000), ("grpc.http2.max_pings_without_data", 0),
]

#: Seconds to wait after NOT_LEADER. The health of the new leader arrives meanwhile.
LEADER_PAUSE = 0.05


class Cell:
    """Finds the leader among the members. REQUIRES: used on one event loop only."""

    def __init__(self, channels: list[grpc.aio.Channel]) -> None:
        # In the order in which they became ready. The last one is that of the leader: a member that hangs stays ready for
        # a while after another one has taken over.
        self._ready: list[grpc.aio.Channel] = []
        self._change = asyncio.get_running_loop().create_future()
        self._watches = [asyncio.create_task(self._watch(channel)) for channel in channels]

    def close(self) -> None:
        """Ends the waits for a leader with CancelledError."""
        for watch in self._watches:
            watch.cancel()
        self._change.cancel()

    async def leader(self) -> grpc.aio.Channel:
        """Waits until a member leads."""
        while not self._ready:
            await asyncio.shield(self._change)
        return self._ready[-1]

    async def _watch(self, channel: grpc.aio.Channel) -> None:
        while True:
            state = channel.get_state(try_to_connect=True)
            if channel in self._ready:
                self._ready.remove(channel)
            if state is grpc.ChannelConnectivity.READY:
                self._ready.append(channel)
                self._change.set_result(None)
                self._change = asyncio.get_running_loop().create_future()
            await channel.wait_for_state_change(state)


class LeaderStream:
    """A stream in both directions that opens when a member leads."""

    def __init__(self, cell: Cell, call: Callable[[grpc.aio.Channel], Any]) -> None:
        self._call = asyncio.create_task(self._open(cell, call))

    @staticmethod
    async def _open(cell: Cell, call: Callable[[grpc.aio.Channel], Any]) -> Any:
        return call(await cell.leader())

    async def read(self) -> Any:
        return await (await asyncio.shield(self._call)).read()

    async def write(self, request: Any) -> None:
        await (await asyncio.shield(self._call)).write(request)

    async def done_writing(self) -> None:
        await (await asyncio.shield(self._call)).done_writing()

    def cancel(self) -> None:
        # A task that is done ignores the cancellation.
        if not self._call.cancel() and not self._call.cancelled():
            self._call.result().cancel()
