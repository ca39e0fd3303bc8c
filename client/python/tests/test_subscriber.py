# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import Any, cast

import grpc
import pytest
from fake import FakeStream
from fake_server import fake_server

from duetime import AsyncClient, AsyncSubscriber, Backoff, Options, Settlement, SubscriberOptions, errors, pb
from duetime.connection import Connection


def plain(delivery: pb.Delivery) -> Any:
    wrong: Any = 7
    match delivery.lease_token:
        case "returns 7": return wrong
        case "stops": return next(iter(()))
        case "exits": sys.exit(1)
        case "is cancelled": raise asyncio.CancelledError
        case "has a wrong delay": return Settlement.nack(delay=wrong)
        case "has a wrong reason": return Settlement.dead_letter(wrong)
    return None


async def coroutine(delivery: pb.Delivery) -> Any:
    if delivery.lease_token == "exits":
        raise RuntimeError  # a SystemExit would end the event loop, as it should
    return plain(delivery)


async def settled(handler: Any, tokens: list[str]) -> dict[str, bool]:
    """Which of the deliveries the subscriber acked."""
    stream = FakeStream()
    subscriber = AsyncSubscriber(cast(Connection, stream), SubscriberOptions("t"), handler)
    stream.answers.put_nowait(pb.SubscribeResponse(started=pb.SubscribeStarted(max_outstanding_messages=100)))
    stream.answers.put_nowait(pb.SubscribeResponse(deliveries=[pb.Delivery(lease_token=token) for token in tokens]))
    result: dict[str, bool] = {}
    while len(result) < len(tokens):
        request = await asyncio.wait_for(stream.written.get(), 10)
        result |= {one.lease_token: not one.HasField("nack") for one in request.settlements}
    await subscriber.stop(timedelta(0))
    return result


@pytest.mark.parametrize("handler", [plain, coroutine])
def test_whatever_a_handler_does_the_next_delivery_gets_one(handler: Any) -> None:
    wrong = ["returns 7", "stops", "exits", "is cancelled", "has a wrong delay", "has a wrong reason"]
    assert asyncio.run(settled(handler, [*wrong, "is right"])) == {token: False for token in wrong} | {"is right": True}


@pytest.mark.parametrize("options", [{"handlers": 0}, {"max_outstanding_messages": 1 << 40}])
def test_an_invalid_option_raises_at_once(options: Any) -> None:
    async def start() -> None:
        AsyncSubscriber(cast(Connection, FakeStream()), SubscriberOptions("t", **options), plain)
    with pytest.raises((errors.InvalidArgument, ValueError)):
        asyncio.run(start())


def test_a_refusal_is_told_although_grpc_may_lose_it_while_a_request_is_written() -> None:
    def refuse(_: str, __: Any, context: Any) -> Any:
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")

    async def run(address: str) -> None:
        hour = timedelta(hours=1)
        async with AsyncClient(Options(server=address)) as client:
            for _ in range(20):
                subscriber = client.subscribe("t", plain, backoff=Backoff(hour, hour))
                with pytest.raises(errors.PermissionDenied):
                    await asyncio.wait_for(subscriber.wait(), 20)
    with fake_server(refuse) as address:
        asyncio.run(run(address))
