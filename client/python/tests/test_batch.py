# SPDX-License-Identifier: Apache-2.0
"""Handlers of several deliveries."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from fake import FakeStream
from google.protobuf.duration_pb2 import Duration

from duetime import AsyncSubscriber, Settlement, SubscriberOptions, errors, pb
from duetime.connection import Connection
from duetime.subscriber_state import SubscriberState

README = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8")


def opened(*deliveries: pb.Delivery) -> SubscriberState:
    state = SubscriberState(3_600)
    state.begin_stream()
    started = pb.SubscribeStarted(max_outstanding_messages=100, lease_duration=Duration(seconds=30))
    state.on_frame(pb.SubscribeResponse(started=started, deliveries=deliveries))
    return state


def of(*tokens: str) -> list[pb.Delivery]:
    return [pb.Delivery(lease_token=token) for token in tokens]


def taken(state: SubscriberState, most: int) -> list[str]:
    return [lease.delivery.lease_token for lease in asyncio.run(state.take_batch(most))]


def test_a_batch_is_what_waits() -> None:
    state = opened(*of("t0", "t1", "t2"))
    assert taken(state, 2) == ["t0", "t1"]
    assert taken(state, 2) == ["t2"]
    state.request_stop()
    assert taken(state, 2) == []


def test_a_batch_has_no_delivery_whose_lease_has_ended() -> None:
    state = opened(*of("t0", "t1", "t2"))
    state.queue[1].renewed -= 31
    assert taken(state, 10) == ["t0", "t2"]
    assert (state.counts.skipped, state.counts.leases_lost) == (1, 1)


def test_a_delivery_to_confirm_is_alone() -> None:
    first, second = of("t0"), of("t1", "t2")
    second[0].confirm_begun = True
    state = opened(*first, *second)
    assert taken(state, 10) == ["t0"]

    async def run() -> list[str]:
        task = asyncio.create_task(state.take_batch(10))
        await asyncio.sleep(0)
        state.on_frame(pb.SubscribeResponse(begun=["t1"]))
        return [lease.delivery.lease_token for lease in await task]
    assert asyncio.run(run()) == ["t1"]


async def settled(answer: Any) -> list[str]:
    """The request with the settlements of a batch of two, whose handler returns this: "ack", or the reason of a nack."""
    stream = FakeStream()

    def handler(_: list[pb.Delivery]) -> Any:
        return answer
    subscriber = AsyncSubscriber(cast(Connection, stream), SubscriberOptions("t"), handler, batch=True)
    stream.answers.put_nowait(pb.SubscribeResponse(started=pb.SubscribeStarted(max_outstanding_messages=100),
                                                   deliveries=of("t0", "t1")))
    while not (request := await asyncio.wait_for(stream.written.get(), 10)).settlements:
        pass
    await subscriber.stop(timedelta(0))
    return [one.nack.reason if one.HasField("nack") else "ack" for one in request.settlements]


@pytest.mark.parametrize(("answer", "settlements"), [
    (None, ["ack", "ack"]), ([], ["ack", "ack"]), ((Settlement.nack("a"), Settlement.ack()), ["a", "ack"]),
    ([Settlement.ack()], ["the handler returned 1 settlements for 2 deliveries"] * 2)])
def test_a_handler_returns_one_settlement_for_each_or_nothing(answer: Any, settlements: list[str]) -> None:
    assert asyncio.run(settled(answer)) == settlements


@pytest.mark.parametrize("answer", [Settlement.ack(), 7, "no", [Settlement.ack(), None]])
def test_a_wrong_type_nacks_all(answer: Any) -> None:
    assert all("must return a list" in reason for reason in asyncio.run(settled(answer)))


def test_a_batch_has_at_least_one() -> None:
    async def start() -> None:
        AsyncSubscriber(cast(Connection, FakeStream()), SubscriberOptions("t", batch_max=0), lambda _: None, batch=True)
    with pytest.raises(errors.InvalidArgument):
        asyncio.run(start())


def test_the_handler_of_the_readme_inserts_all() -> None:
    [code] = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "subscribe_batch(" in block]
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, payload BLOB)")
    calls: list[Any] = []

    class Client:
        def subscribe_batch(self, topic: str, handler: Any, batch_max: int) -> None:
            calls.append((topic, batch_max, handler([pb.Delivery(message_id=id) for id in ("m", "n", "m")])))
    exec(code, {"client": Client(), "database": database})
    assert calls == [("orders", 500, None)]
    assert database.execute("SELECT count(*) FROM orders").fetchone() == (2,)
