# SPDX-License-Identifier: Apache-2.0
"""A process that was forked after its parent made a client."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from fake_server import fake_server

from duetime import pb

# The child reports an exception, and an alarm ends one that hangs.
PROGRAM = """
import asyncio, os, signal, sys
from duetime import AsyncClient, Client, NewMessage, Options, Settlement

options = Options(server=sys.argv[1])

async def call():
    async with AsyncClient(options) as client:
        await client.server_info()

async def call_with(client):
    await client.server_info()

client = Client(options)
client.server_info()
subscriber = client.subscribe("t", lambda _: Settlement.ack())
inner = client._inner
if sys.argv[2] == "closed":
    subscriber.stop()
    client.close()
child = os.fork()
if child == 0:
    signal.alarm(10)
    for use in sys.argv[3:]:
        try:
            exec(use)
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
    client.close()
    os._exit(0)
print("ended with", os.waitpid(child, 0)[1])
if sys.argv[2] == "open":
    client.server_info()
    subscriber.stop()
    client.close()
"""


USES = ["client.server_info()", "client.subscribe('t', print)", "subscriber.counts", "subscriber.stop()",
        "client.schedule_stream(print)", "Client(options).server_info()", "asyncio.run(call())", "asyncio.run(call_with(inner))"]


@pytest.mark.parametrize("state", ["open", "closed"])
def test_a_use_after_a_fork_raises_at_once(state: str) -> None:
    def answer(name: str, request: Any, context: Any) -> Any:
        return pb.ServerInfoResponse() if name == "ServerInfo" else (pb.SubscribeResponse() for _ in request)
    with fake_server(answer) as address:
        run = subprocess.run([sys.executable, "-c", PROGRAM, address, state, *USES], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    *uses, last = run.stdout.splitlines()
    assert len(uses) == len(USES), run.stdout
    for use in uses:
        assert use.startswith("FailedPrecondition FAILED_PRECONDITION: this process was forked after process ")
        assert use.endswith("Make each Client after the fork, and none before it")
    assert last == "ended with 0"
