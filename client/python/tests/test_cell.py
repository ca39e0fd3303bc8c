# SPDX-License-Identifier: Apache-2.0
"""Two servers, of which one leads or none."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyProto
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from duetime import AsyncClient, Backoff, Client, NewMessage, Options, Settlement, errors, pb

MESSAGE = NewMessage("t", when=timedelta(0))


class Member:
    """A server. Each Subscribe stream delivers its name once."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: It leads. Its health may say something else.
        self.leads = False
        self._serving = False
        self._changed = threading.Condition()
        self.accepted = 0
        self.refused = 0
        self.server = grpc.server(ThreadPoolExecutor(16))
        kinds: list[tuple[str, Any, Any]] = [("Schedule", pb.ScheduleRequest, pb.ScheduleResponse),
                                             ("Reschedule", pb.RescheduleRequest, pb.RescheduleResponse)]
        handlers = {method: grpc.unary_unary_rpc_method_handler(self._unary(response), request.FromString,
                                                                response.SerializeToString)
                    for method, request, response in kinds}
        handlers["Subscribe"] = grpc.stream_stream_rpc_method_handler(
            self._subscribe, pb.SubscribeRequest.FromString, pb.SubscribeResponse.SerializeToString)
        handlers["ScheduleStream"] = grpc.stream_stream_rpc_method_handler(
            self._schedule_stream, pb.ScheduleStreamRequest.FromString, pb.ScheduleStreamResponse.SerializeToString)
        self.server.add_generic_rpc_handlers((
            grpc.method_handlers_generic_handler("duetime.v1.Messages", handlers),
            grpc.method_handlers_generic_handler("grpc.health.v1.Health",
                                                 {"Watch": grpc.unary_stream_rpc_method_handler(self._watch)})))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def set(self, *, leads: bool, serving: bool) -> None:
        with self._changed:
            self.leads, self._serving = leads, serving
            self._changed.notify_all()

    def lead_after(self, seconds: float) -> None:
        threading.Timer(seconds, self.set, kwargs={"leads": True, "serving": True}).start()

    def resign(self) -> None:
        self.set(leads=False, serving=False)

    def _admit(self, context: Any) -> None:
        if self.leads:
            self.accepted += 1
            return
        self.refused += 1
        detail = AnyProto()
        detail.Pack(ErrorInfo(reason="NOT_LEADER", domain="duetime"))
        status = Status(code=grpc.StatusCode.UNAVAILABLE.value[0], details=[detail])
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNAVAILABLE, "standby")

    def _unary(self, response: Any) -> Any:
        def answer(_: Any, context: Any) -> Any:
            self._admit(context)
            return response()
        return answer

    def _subscribe(self, _: Any, context: Any) -> Iterator[pb.SubscribeResponse]:
        self._admit(context)
        yield pb.SubscribeResponse(started=pb.SubscribeStarted(),
                                   deliveries=[pb.Delivery(message_id=self.name, lease_token=self.name)])
        with self._changed:
            self._changed.wait_for(lambda: not self.leads, 10)
        self._admit(context)

    def _schedule_stream(self, requests: Any, context: Any) -> Iterator[pb.ScheduleStreamResponse]:
        self._admit(context)
        for _ in requests:
            yield pb.ScheduleStreamResponse(results=[pb.ScheduleResult(message=pb.Message(id=self.name))])

    def _watch(self, _: bytes, context: Any) -> Iterator[bytes]:
        with self._changed:
            while context.is_active():
                yield b"\x08\x01" if self._serving else b"\x08\x02"  # SERVING, NOT_SERVING
                self._changed.wait(10)


@pytest.fixture
def members() -> Iterator[list[Member]]:
    both = [Member("a"), Member("b")]
    yield both
    for member in both:
        member.server.stop(None)


def options(members: list[Member], **more: Any) -> Options:
    return Options(server=",".join(member.address for member in members), **more)


def test_calls_follow_the_leader(members: list[Member]) -> None:
    a, b = members
    with Client(options(members)) as client:
        b.lead_after(0.3)
        for _ in range(10):
            client.schedule(MESSAGE)
        assert (a.refused, b.accepted) == (0, 10)
        b.resign()
        a.lead_after(0.3)
        client.schedule(MESSAGE)  # waits for the next leader
        assert a.accepted == 1
        b.lead_after(0.3)
        a.server.stop(None)  # the leader is killed
        client.schedule(MESSAGE)
        assert b.accepted == 11


def test_a_call_that_a_standby_refuses_is_made_again_whatever_it_does(members: list[Member]) -> None:
    a, b = members
    a.set(leads=False, serving=True)  # it has not noticed yet that it leads no more
    b.lead_after(0.3)
    with Client(options(members)) as client:
        client.reschedule("m", timedelta(0), etag="e")
    assert a.refused > 1 and b.accepted == 1


def test_a_subscriber_follows_the_leader(members: list[Member]) -> None:
    a, b = members
    delivered: queue.Queue[str] = queue.Queue()

    def handle(delivery: pb.Delivery) -> Settlement:
        delivered.put(delivery.message_id)
        return Settlement.leave()
    # After NOT_LEADER the subscriber does not wait for so long.
    backoff = Backoff(initial=timedelta(hours=1), maximum=timedelta(hours=1))
    with Client(options(members)) as client, client.subscribe("t", handle, backoff=backoff) as subscriber:
        a.lead_after(0.3)
        assert delivered.get(timeout=10) == "a"
        a.resign()
        b.lead_after(0.3)
        assert delivered.get(timeout=10) == "b"
        b.resign()
        assert subscriber.stop()


def test_a_schedule_stream_opens_at_the_leader(members: list[Member]) -> None:
    for leader in members:
        results: list[Any] = []
        with Client(options(members)) as client:
            leader.lead_after(0.3)
            with client.schedule_stream(lambda _, result, results=results: results.append(result)) as stream:  # type: ignore
                stream.send(MESSAGE)
            assert [result.message.id for result in results] == [leader.name]
            leader.resign()
            stream = client.schedule_stream(lambda _, result: None, answer_timeout=timedelta(seconds=0.1))
            with pytest.raises(errors.DeadlineExceeded):
                stream.send(MESSAGE)


def test_a_wait_for_a_leader_ends_with_the_deadline_and_with_the_client(members: list[Member]) -> None:
    async def run() -> None:
        client = AsyncClient(options(members, timeout=timedelta(seconds=0.1)))
        with pytest.raises(errors.DeadlineExceeded):
            await client.schedule(MESSAGE)
        await client.close()
        client = AsyncClient(options(members))
        call = asyncio.create_task(client.schedule(MESSAGE))
        await asyncio.sleep(0.1)
        await client.close()
        with pytest.raises(errors.Cancelled):
            await call
    asyncio.run(run())


@pytest.mark.parametrize("server", ["127.0.0.1:1,", "127.0.0.1:1,host"])
def test_each_address_of_several_needs_a_port(server: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="host:port"):
        Client(Options(server=server))
