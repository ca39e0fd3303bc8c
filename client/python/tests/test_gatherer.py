# SPDX-License-Identifier: Apache-2.0
"""Concurrent calls share a stream."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import grpc
import pytest
from fake_server import CallStream, fake_server
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from duetime import AsyncClient, Client, NewMessage, Options, errors, pb

NOW = timedelta(0)
Frames = Iterator[pb.CallStreamRequest]
Responses = Iterator[pb.CallStreamResponse]


def scheduled_as(call: pb.StreamedCall) -> pb.StreamedAnswer:
    """The answer to a Schedule: its message has the key as id."""
    return pb.StreamedAnswer(number=call.number, schedule=pb.ScheduleResponse(message=pb.Message(id=call.schedule.key)))


def answer_all(frames: Frames, _: Any) -> Responses:
    """Answers each frame in the reverse order."""
    for frame in frames:
        yield pb.CallStreamResponse(answers=[scheduled_as(call) for call in reversed(frame.calls)])


class Unary:
    """Answers calls of their own, and keeps them."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.metadata: list[dict[str, str]] = []

    def __call__(self, name: str, request: Any, context: Any) -> Any:
        assert name == "Schedule"
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        return pb.ScheduleResponse(message=pb.Message(id=request.key))


def with_client(call_stream: CallStream | None, use: Callable[[AsyncClient], Any], **options: Any) -> Unary:
    """Returns the calls of their own."""
    unary = Unary()

    async def run(address: str) -> None:
        async with AsyncClient(Options(server=address, **options)) as client:
            await use(client)
    with fake_server(unary, call_stream=call_stream) as address:
        asyncio.run(run(address))
    return unary


async def schedule_many(client: AsyncClient, count: int, **options: Any) -> list[errors.DuetimeError | None]:
    """Makes calls at once. Each must get its own answer. Returns the errors."""
    async def one(key: str) -> errors.DuetimeError | None:
        try:
            answer = await client.schedule(NewMessage("t", when=NOW, key=key), **options)
        except errors.DuetimeError as error:
            return error
        assert answer.message.id == key
        return None
    return await asyncio.gather(*(one(f"k{i}") for i in range(count)))


def test_tasks_share_frames_and_each_call_gets_its_answer() -> None:
    sizes: list[int] = []

    def answer(frames: Frames, context: Any) -> Responses:
        for frame in frames:
            sizes.append(len(frame.calls))
            yield from answer_all(iter([frame]), context)

    async def use(client: AsyncClient) -> None:
        assert await schedule_many(client, 1_001) == [None] * 1_001
        assert await schedule_many(client, 1) == [None]
    assert not with_client(answer, use).requests
    assert sizes == [1_000, 1, 1]


def test_threads_share_a_stream() -> None:
    streams = []

    def answer(frames: Frames, context: Any) -> Responses:
        streams.append(1)
        return answer_all(frames, context)

    unary = Unary()
    keys = [f"k{i}" for i in range(200)]
    with fake_server(unary, call_stream=answer) as address, Client(Options(server=address)) as client:
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda key: client.schedule(NewMessage("t", when=NOW, key=key)).message.id, keys))
    assert answers == keys and streams == [1] and not unary.requests


def test_the_failure_of_a_call_is_the_error_of_a_call_of_its_own() -> None:
    failure = pb.Failure(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message="full", reason="TOPIC_FULL",
                         metadata={"a": "b"}, field="topic", retry_delay=Duration(seconds=1))

    def on_stream(frames: Frames, _: Any) -> Responses:
        for frame in frames:
            (call,) = frame.calls
            unknown = pb.StreamedAnswer(number=77)
            yield pb.CallStreamResponse(answers=[unknown, pb.StreamedAnswer(number=call.number, error=failure)])

    def alone(_: str, request: Any, context: Any) -> Any:
        status = status_pb2.Status(code=failure.code)
        for detail in (error_details_pb2.ErrorInfo(reason="TOPIC_FULL", metadata={"a": "b"}),
                       error_details_pb2.BadRequest(field_violations=[{"field": "topic", "description": "full"}]),
                       error_details_pb2.RetryInfo(retry_delay=Duration(seconds=1))):
            status.details.add().Pack(detail)
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")

    def error_of(separate_calls: bool, address: str) -> dict[str, Any]:
        with Client(Options(server=address, separate_calls=separate_calls)) as client, \
                pytest.raises(errors.ResourceExhausted) as raised:
            client.schedule(NewMessage("t", when=NOW))
        error = vars(raised.value)
        return error | {"text": str(raised.value), "fields": [vars(field) for field in error["fields"]]}
    with fake_server(alone, call_stream=on_stream) as address:
        assert error_of(False, address) == error_of(True, address)


def refuse(code: grpc.StatusCode, reason: str, taken: int | None = None) -> Callable[[Any], Responses]:
    """Ends a stream, after a response that says how many calls it took."""
    def end(context: Any) -> Responses:
        if taken is not None:
            yield pb.CallStreamResponse(calls_taken=taken)
        status = status_pb2.Status(code=code.value[0])
        status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason))
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(code, "ended")
    return end


ENDS: dict[str, tuple[Callable[[Any], Responses], list[str]]] = {
    "took one": (refuse(grpc.StatusCode.UNAVAILABLE, "DRAINING", 2), ["Unavailable", "None", "None"]),
    "took none": (refuse(grpc.StatusCode.UNAVAILABLE, "DRAINING", 1), ["None"] * 3),
    "does not say": (refuse(grpc.StatusCode.UNAVAILABLE, ""), ["Unavailable"] * 3),
    "another error": (refuse(grpc.StatusCode.PERMISSION_DENIED, ""), ["PermissionDenied"] * 3),
    "cancelled on its way": (refuse(grpc.StatusCode.CANCELLED, ""), ["Unavailable"] * 3),
    "no error": (lambda _: iter(()), ["Unavailable"] * 3),
}


@pytest.mark.parametrize(("end", "want"), ENDS.values(), ids=ENDS)
def test_the_stream_ends_with_three_open_calls(end: Callable[[Any], Responses], want: list[str]) -> None:
    """The calls are made once, so only those that were not taken are made again."""
    streams = []

    def answer(frames: Frames, context: Any) -> Responses:
        streams.append(1)
        if len(streams) > 1:
            yield from answer_all(frames, context)
        yield from answer_all(iter([next(frames)]), context)
        assert len(next(frames).calls) == 3
        yield from end(context)

    async def use(client: AsyncClient) -> None:
        await schedule_many(client, 1)  # the server accepts the stream
        ends = [type(error).__name__.replace("NoneType", "None") for error in await schedule_many(client, 3, repeat=False)]
        assert ends == want
        assert await schedule_many(client, 1) == [None]
    with_client(answer, use)
    assert len(streams) == 2


def test_a_caller_that_gives_up_after_the_call_was_sent() -> None:
    sent: queue.Queue[pb.StreamedCall] = queue.Queue()
    go_on = threading.Event()

    def answer(frames: Frames, context: Any) -> Responses:
        for frame in frames:
            for call in frame.calls:
                sent.put(call)
            go_on.wait(10)
            yield from answer_all(iter([frame]), context)

    async def use(client: AsyncClient) -> None:
        gives_up = asyncio.create_task(client.schedule(NewMessage("t", when=NOW, key="given up")))
        first = await asyncio.to_thread(sent.get, timeout=10)
        assert 5 < first.timeout.seconds + first.timeout.nanos / 1e9 <= 10
        never_sent = asyncio.create_task(client.schedule(NewMessage("t", when=NOW, key="never sent")))
        await asyncio.sleep(0)
        for task in (never_sent, gives_up):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        go_on.set()
        assert await schedule_many(client, 1) == [None]
        assert sent.get_nowait().schedule.key == "k0"
    with_client(answer, use)


def test_a_deadline_is_kept_if_the_stream_hangs() -> None:
    over = threading.Event()

    def hang(frames: Frames, _: Any) -> Responses:
        over.wait(10)
        return iter(())

    async def use(client: AsyncClient) -> None:
        begin = time.monotonic()
        assert [type(error) for error in await schedule_many(client, 2)] == [errors.DeadlineExceeded] * 2
        assert 0.1 <= time.monotonic() - begin < 5
        over.set()
    with_client(hang, use, timeout=timedelta(seconds=0.1))


LARGE = NewMessage("t", bytes(64 << 10), NOW)
SMALL = NewMessage("t", "small", NOW)
SEPARATE: dict[str, tuple[CallStream | None, NewMessage, dict[str, Any]]] = {
    "large": (answer_all, LARGE, {}),
    "option": (answer_all, SMALL, {"separate_calls": True}),
    "unknown to the server": (None, SMALL, {}),
    "too many streams": (lambda _, context: refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, "STREAM_LIMIT")(context), SMALL, {}),
}


@pytest.mark.parametrize(("call_stream", "message", "options"), SEPARATE.values(), ids=SEPARATE)
@pytest.mark.parametrize("repeat", [True, False])
def test_calls_of_their_own(call_stream: CallStream | None, message: NewMessage, options: dict[str, Any], repeat: bool) -> None:
    async def use(client: AsyncClient) -> None:
        for _ in range(2):
            await client.schedule(message, repeat=repeat)
    unary = with_client(call_stream, use, trace_context=lambda: ("p", ""), **options)
    assert len(unary.requests) == 2
    assert all(one["traceparent"] == "p" and "tracestate" not in one for one in unary.metadata)


def test_a_refused_stream_is_tried_again_after_a_pause() -> None:
    streams = []

    def answer(frames: Frames, context: Any) -> Responses:
        streams.append(1)
        return answer_all(frames, context) if len(streams) > 1 else refuse(grpc.StatusCode.UNIMPLEMENTED, "")(context)

    async def use(client: AsyncClient) -> None:
        await schedule_many(client, 3, repeat=False)
        (gatherer,) = client._connection._gatherers.values()
        while gatherer._separate_until < time.monotonic() + 5:
            await asyncio.sleep(0.001)
        await schedule_many(client, 3)
        assert streams == [1]
        gatherer._separate_until = time.monotonic()
        assert await schedule_many(client, 3) == [None] * 3
    assert len(with_client(answer, use).requests) == 6
    assert streams == [1, 1]


def test_the_trace_context_travels_with_each_call() -> None:
    traces: list[tuple[str, str]] = []

    def answer(frames: Frames, context: Any) -> Responses:
        for frame in frames:
            traces.extend((call.traceparent, call.tracestate) for call in frame.calls)
            yield from answer_all(iter([frame]), context)
    with_client(answer, lambda client: schedule_many(client, 2), trace_context=lambda: ("p", "s"))
    assert traces == [("p", "s")] * 2


def test_no_server() -> None:
    with Client(Options(server="127.0.0.1:1", attempts_max=2)) as client, \
            pytest.raises(errors.Unavailable, match="failed to connect"):
        client.schedule(NewMessage("t", when=NOW))


def test_calls_of_a_closed_client_end() -> None:
    sent = threading.Event()

    def hang(frames: Frames, _: Any) -> Responses:
        next(frames)
        sent.set()
        yield from (pb.CallStreamResponse() for _ in frames)

    async def use(client: AsyncClient) -> None:
        calls = asyncio.create_task(schedule_many(client, 2))
        await asyncio.to_thread(sent.wait, 10)
        await client.close()
        assert [type(error) for error in await calls] == [errors.Cancelled] * 2
    with_client(hang, use)


def test_a_response_that_cannot_be_read_ends_the_stream() -> None:
    def garbage(frames: Frames, _: Any) -> Responses:
        next(frames)

        class Bytes:
            def SerializeToString(self) -> bytes:
                return b"\xff"
        yield Bytes()  # type: ignore[misc]

    async def use(client: AsyncClient) -> None:
        assert [type(error) for error in await schedule_many(client, 1)] == [errors.Internal]
    with_client(garbage, use)
