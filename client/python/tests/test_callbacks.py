# SPDX-License-Identifier: Apache-2.0
"""Functions of the program that fail. The library logs that, and goes on."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NoReturn

import grpc
import pytest
from fake_server import fake_server

from duetime import AsyncClient, Backoff, Client, NewMessage, Options, pb

BACKOFF = Backoff(timedelta(milliseconds=1), timedelta(milliseconds=1))


class Server:
    """Each Subscribe stream delivers one message, and breaks when that is settled."""

    def __init__(self) -> None:
        self.nacks: queue.Queue[str] = queue.Queue()

    def __call__(self, name: str, requests: Any, context: Any) -> Iterator[Any]:
        return self.subscribe(requests, context) if name == "Subscribe" else self.schedule_stream(requests)

    def subscribe(self, requests: Any, context: Any) -> Iterator[pb.SubscribeResponse]:
        yield pb.SubscribeResponse(started=pb.SubscribeStarted(), deliveries=[pb.Delivery(lease_token="a")])
        for request in requests:
            for settlement in request.settlements:
                self.nacks.put(settlement.nack.reason)
                context.abort(grpc.StatusCode.UNAVAILABLE, "the stream broke")

    def schedule_stream(self, requests: Any) -> Iterator[pb.ScheduleStreamResponse]:
        first = 0
        for request in requests:
            results = [pb.ScheduleResult(message=pb.Message())] * len(request.messages)
            yield pb.ScheduleStreamResponse(first=first, results=results)
            first += len(results)


async def end(value: Any) -> Any:
    return await value if asyncio.iscoroutine(value) else value


async def use(client: Any, server: Server, handler: Any, fail: Any) -> int:
    """Uses whatever calls functions of the program. Returns how many messages of a stream have a result."""
    subscriber = client.subscribe("t", handler, on_disconnect=fail, backoff=BACKOFF)
    for _ in range(3):  # the third comes after a second call of on_disconnect
        assert "on purpose" in await asyncio.to_thread(server.nacks.get, timeout=10)
    await end(subscriber.stop(timedelta(seconds=10)))
    stream = client.schedule_stream(fail)
    for _ in range(2):
        await end(stream.send(NewMessage("t"), NewMessage("t")))
    await end(stream.finish())
    return int(stream.answered)


ERRORS = [RuntimeError, asyncio.CancelledError, StopIteration]
MODES = [(mode, error) for mode in ("threads", "asyncio", "asyncio with async handlers") for error in ERRORS]


# In the program's own event loop SystemExit ends the program, as it should.
@pytest.mark.parametrize(("mode", "error"), [*MODES, ("threads", SystemExit)])
def test_an_exception_of_any_callback_is_logged_and_the_library_goes_on(
        caplog: pytest.LogCaptureFixture, mode: str, error: type[BaseException]) -> None:
    def fail(*_: object) -> NoReturn:
        raise error("on purpose")

    async def fail_async(_: pb.Delivery) -> NoReturn:
        raise RuntimeError("on purpose")

    server = Server()
    with fake_server(server) as address:
        if mode == "threads":
            with Client(Options(server=address)) as client:
                assert asyncio.run(use(client, server, fail, fail)) == 4
        else:
            async def run() -> int:
                async with AsyncClient(Options(server=address)) as client:
                    return await use(client, server, fail if mode == "asyncio" else fail_async, fail)
            assert asyncio.run(run()) == 4
    logged = [record.getMessage() for record in caplog.records if record.name == "duetime"]
    assert logged.count("a handler of the topic 't' failed") >= 3
    assert logged.count("the callback on_disconnect failed") >= 2
    assert logged.count("the callback on_result failed") == 4
