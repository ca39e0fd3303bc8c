# SPDX-License-Identifier: Apache-2.0
"""A pull that waits, and the other calls of its client."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from fake_server import fake_server

from duetime import Client, NewMessage, Options, errors, pb

WAITING = pb.PullRequest(topic="t")
WAITING.wait.FromTimedelta(timedelta(seconds=30))


def test_no_other_call_waits_behind_a_pull() -> None:
    begun, gate = threading.Event(), threading.Event()
    clients: set[str] = set()

    def answer(name: str, _: Any, context: Any) -> Any:
        clients.add(context.peer())
        if name != "Pull":
            return pb.ScheduleResponse()
        begun.set()
        assert gate.wait(60)
        return pb.PullResponse(deliveries=[pb.Delivery(message_id="m")])
    with fake_server(answer, calls_per_connection=1) as address, ThreadPoolExecutor() as threads:
        with Client(Options(server=address, timeout=timedelta(seconds=2))) as client:
            pull = threads.submit(client.pull, WAITING)
            try:
                assert begun.wait(60)
                client.schedule(NewMessage("t", when=timedelta(0)))
            finally:
                gate.set()
            assert pull.result().deliveries[0].message_id == "m"
            assert len(clients) == 2
            client.pull(pb.PullRequest(topic="t"))  # without a wait
            assert len(clients) == 2
        with pytest.raises(errors.FailedPrecondition, match="closed"):
            client.pull(WAITING)


def test_a_pull_of_a_closed_client_opens_no_connection() -> None:
    client = Client(Options(server="127.0.0.1:1"))
    client.close()
    with pytest.raises(errors.FailedPrecondition, match="closed"):
        client.pull(WAITING)
