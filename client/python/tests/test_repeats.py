# SPDX-License-Identifier: Apache-2.0
"""Which calls are made again when their first answer is lost."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import grpc
from fake_server import METHODS, fake_server
from google.protobuf import message_factory

from duetime import AsyncClient, Key, NewMessage, Options, pb
from duetime.v1 import admin_pb2, call_pb2

NOW = timedelta(0)
REQUEST = NewMessage("t", when=NOW)
KEY = Key("t", "k")

Call = Callable[[AsyncClient], Any]

# A repeat does no harm, and its answer does not mislead.
REPEATED: dict[str, Call] = {
    "cancel": lambda c: c.cancel(KEY),
    "cancel_batch": lambda c: c.cancel_batch([KEY]),
    "create_recurrence": lambda c: c.create_recurrence(pb.CreateRecurrenceRequest()),
    "explain": lambda c: c.explain(KEY),
    "get": lambda c: c.get(KEY),
    "get_recurrence": lambda c: c.get_recurrence("r"),
    "list": lambda c: anext(c.list(pb.ListRequest()), None),
    "list_recurrences": lambda c: anext(c.list_recurrences(), None),
    "pause_recurrence": lambda c: c.pause_recurrence("r"),
    "preview_recurrence": lambda c: c.preview_recurrence(pb.PreviewRecurrenceRequest()),
    "reschedule": lambda c: c.reschedule(KEY, NOW),
    "resume_recurrence": lambda c: c.resume_recurrence("r"),
    "schedule": lambda c: c.schedule(REQUEST),
    "schedule_batch": lambda c: c.schedule_batch([REQUEST]),
    "settle": lambda c: c.settle(pb.SettleRequest()),
    "update_recurrence": lambda c: c.update_recurrence(pb.UpdateRecurrenceRequest()),
}
# A repeat of a delete would find nothing, one of a pull would lease more messages, and with an etag the change of the first
# try would look like another client's.
ONCE: dict[str, Call] = {
    "delete_recurrence": lambda c: c.delete_recurrence("r"),
    "pull": lambda c: c.pull(pb.PullRequest()),
    "reschedule with an etag": lambda c: c.reschedule(KEY, NOW, etag="e"),
    "schedule without repeat": lambda c: c.schedule(REQUEST, repeat=False),
    "schedule_batch without repeat": lambda c: c.schedule_batch([REQUEST], repeat=False),
    "update_recurrence with an etag": lambda c: c.update_recurrence(pb.UpdateRecurrenceRequest(etag="e")),
}



def calls_of_admin(*, once: bool) -> dict[str, Call]:
    """The calls that the protos let be repeated, or those that are made once."""
    def make(client: AsyncClient, name: str, method: Any) -> Any:
        result = getattr(client, name)(message_factory.GetMessageClass(method.input_type)())
        return result if inspect.iscoroutine(result) else anext(result, None)
    methods: list[Any] = list(admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods)
    return {name: functools.partial(make, name=name, method=method) for method in methods
            if (method.GetOptions().Extensions[call_pb2.call].repeat == call_pb2.CALL_REPEAT_ONCE) == once
            for name in [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", method.name).lower()]}


REPEATED |= calls_of_admin(once=False)
ONCE |= calls_of_admin(once=True)


def lose_first_answers(calls: dict[str, Call]) -> dict[str, tuple[int, str]]:
    """Makes each call with a client of its own. Returns its tries, and how the last one ended."""
    guard = threading.Lock()
    tries: dict[str, list[Any]] = {}

    def answer(name: str, request: Any, context: Any) -> Any:
        with guard:
            requests = tries.setdefault(dict(context.invocation_metadata())["authorization"], [])
            requests.append(request)
        if len(requests) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
        assert request == requests[0], "a repeat differs"
        response: Any = message_factory.GetMessageClass(METHODS[name].output_type)()
        if name.endswith("Batch"):
            response.results.add()
        return response

    async def make(name: str, call: Call, address: str) -> str:
        async with AsyncClient(Options(server=address)) as client:
            client._connection._metadata = (("authorization", name),)
            try:
                await call(client)
            except Exception as error:
                return type(error).__name__
            return "OK"

    async def make_all(address: str) -> list[str]:
        return await asyncio.gather(*(make(name, call, address) for name, call in calls.items()))
    with fake_server(answer) as address:
        ends = asyncio.run(make_all(address))
    return {name: (len(tries[name]), end) for name, end in zip(calls, ends, strict=True)}


def test_calls_whose_repeat_is_safe_are_made_again() -> None:
    assert lose_first_answers(REPEATED) == dict.fromkeys(REPEATED, (2, "OK"))


def test_other_calls_are_made_once() -> None:
    assert lose_first_answers(ONCE) == dict.fromkeys(ONCE, (1, "Unavailable"))


def test_each_call_is_in_one_of_the_tables() -> None:
    calls = {name for name, _ in inspect.getmembers(AsyncClient, inspect.isfunction) if not name.startswith("_")}
    calls -= {"close", "schedule_stream", "subscribe", "subscribe_batch"}
    assert calls == REPEATED.keys() | {name for name in ONCE if " " not in name}


def test_a_bulk_operation_has_a_name_so_that_a_repeat_is_recognised() -> None:
    names: list[str] = []

    def answer(_: str, request: Any, context: Any) -> Any:
        names.append(request.name)
        return pb.StartBulkResponse()

    async def start(address: str) -> pb.StartBulkRequest:
        unnamed = pb.StartBulkRequest()
        async with AsyncClient(Options(server=address)) as client:
            for request in (unnamed, unnamed, pb.StartBulkRequest(name="mine")):
                await client.start_bulk(request)
        return unnamed
    with fake_server(answer) as address:
        assert not asyncio.run(start(address)).name
    assert names[2] == "mine" and len(set(names)) == 3 and all(1 <= len(name) <= 63 for name in names)
