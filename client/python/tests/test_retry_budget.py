# SPDX-License-Identifier: Apache-2.0
"""How often calls are repeated while a server fails."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import grpc
import pytest
from fake_server import fake_server

from duetime import AsyncClient, Backoff, Client, Options, errors, pb
from duetime.retry_budget import RetryBudget

SHORT = Backoff(timedelta(milliseconds=50), timedelta(milliseconds=50))


@pytest.mark.parametrize(("events", "tokens"), [
    ([], 100),
    ([(0, "take")] * 30, 70),
    ([(0, "take")] * 150, 0),
    ([(0, "take")] * 100 + [(0.9, "take")], 0),
    ([(0, "take")] * 100 + [(1, "take"), (1, "take")], 0),
    # Ten calls pay for one repeat.
    ([(0, "take")] * 100 + [(0, "call")] * 9, 0),
    ([(0, "take")] * 100 + [(0, "call")] * 25, 2),
    ([(0, "take")] * 100 + [(0, "success")] * 40, 80),
    # Never more than 100.
    ([(0, "call")] * 50, 100),
    ([(0, "success")] * 50, 100),
    ([(0, "take")] * 100 + [(1e6, "call")], 100),
])
def test_the_tokens(events: list[tuple[float, str]], tokens: int) -> None:
    now = 1_000.0
    budget = RetryBudget(now)
    do = {"call": budget.begin_call, "take": budget.take, "success": budget.give_back}
    for seconds, what in events:
        now = 1_000.0 + seconds
        do[what](now)
    taken = 0
    while budget.take(now):
        taken += 1
    assert taken == tokens


class Server:
    """Answers UNAVAILABLE so many times, and then OK."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.tries = 0

    def answer(self, name: str, request: Any, context: Any) -> Any:
        self.tries += 1
        if self.tries <= self.failures:
            context.abort(grpc.StatusCode.UNAVAILABLE, f"failure {self.tries}")
        return pb.GetTopicResponse()


def test_a_call_outlasts_ten_failures() -> None:
    server = Server(10)
    with fake_server(server.answer) as address, Client(Options(server=address, backoff=SHORT)) as client:
        client.get_topic(pb.GetTopicRequest(name="t"))
    assert server.tries == 11


def test_the_last_tries_are_before_the_deadline_however_long_the_waits_are() -> None:
    server = Server(2)
    hours = Backoff(timedelta(hours=1), timedelta(hours=1))
    with fake_server(server.answer) as address:
        with Client(Options(server=address, backoff=hours, timeout=timedelta(seconds=1))) as client:
            client.get_topic(pb.GetTopicRequest(name="t"))
    assert server.tries == 3


def test_attempts_max_limits_the_tries() -> None:
    server = Server(10)
    with fake_server(server.answer) as address, Client(Options(server=address, backoff=SHORT, attempts_max=3)) as client:
        with pytest.raises(errors.Unavailable, match="failure 3"):
            client.get_topic(pb.GetTopicRequest(name="t"))
    assert server.tries == 3


def test_without_a_token_a_call_waits_and_makes_no_try() -> None:
    async def run(address: str) -> None:
        async with AsyncClient(Options(server=address, backoff=SHORT, timeout=timedelta(seconds=0.4))) as client:
            budget = client._connection._budget
            while budget.take(time.monotonic()):
                pass
            begin = time.monotonic()
            with pytest.raises(errors.Unavailable, match="failure 1"):
                await client.get_topic(pb.GetTopicRequest(name="t"))
            assert time.monotonic() - begin > 0.3
            assert server.tries == 1
            budget.give_back(time.monotonic())
            server.failures = 2
            await client.get_topic(pb.GetTopicRequest(name="t"))
            # The first try of the second call failed, and its one repeat gave its token back.
            assert server.tries == 3
            assert budget.take(time.monotonic())
    server = Server(100)
    with fake_server(server.answer) as address:
        asyncio.run(run(address))


def test_a_repeat_that_the_server_refuses_costs_no_token() -> None:
    names = [f"t{i}" for i in range(150)]
    tried: set[str] = set()

    def answer(_: str, request: Any, context: Any) -> Any:
        again = request.name in tried
        tried.add(request.name)
        context.abort(grpc.StatusCode.NOT_FOUND if again else grpc.StatusCode.UNAVAILABLE, "no")

    async def run(address: str) -> None:
        async with AsyncClient(Options(server=address, backoff=SHORT, timeout=timedelta(seconds=20))) as client:
            ends = await asyncio.gather(*(client.get_topic(pb.GetTopicRequest(name=name)) for name in names),
                                        return_exceptions=True)
            assert all(isinstance(end, errors.NotFound) for end in ends), ends
            budget, now = client._connection._budget, time.monotonic()
            assert sum(budget.take(now) for _ in names) == budget.TOKENS_MAX
    with fake_server(answer) as address:
        asyncio.run(run(address))


def test_repeats_of_many_calls_are_bounded() -> None:
    calls = 60

    async def run(address: str) -> None:
        async with AsyncClient(Options(server=address, backoff=SHORT, timeout=timedelta(seconds=1))) as client:
            ends = await asyncio.gather(*(client.get_topic(pb.GetTopicRequest(name="t")) for _ in range(calls)),
                                        return_exceptions=True)
            assert all(isinstance(end, errors.Unavailable) for end in ends)
    server = Server(1_000_000)
    begin = time.monotonic()
    with fake_server(server.answer) as address:
        asyncio.run(run(address))
    # Without a budget, each call would make about 25 tries.
    budget = RetryBudget.TOKENS_MAX + calls * RetryBudget.TOKENS_PER_CALL
    assert calls < server.tries <= calls + budget + (time.monotonic() - begin) * RetryBudget.TOKENS_PER_SECOND


def test_a_call_that_waits_for_its_repeat_ends_with_the_client() -> None:
    async def run(address: str) -> None:
        client = AsyncClient(Options(server=address, backoff=SHORT))
        call = asyncio.create_task(client.get_topic(pb.GetTopicRequest(name="t")))
        while server.tries == 0:
            await asyncio.sleep(0.001)
        await client.close()
        with pytest.raises(errors.Cancelled, match="closed"):
            await call
    server = Server(1_000)
    with fake_server(server.answer) as address:
        asyncio.run(run(address))
