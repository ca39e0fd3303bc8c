# SPDX-License-Identifier: Apache-2.0
"""Concurrent calls share a stream, which costs client and server less than a call of its own for each."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from duetime import errors, pb
from duetime.messages import duration

#: The calls that a stream takes, and their names in its frames.
FIELDS = {"Schedule": "schedule", "Cancel": "cancel", "Reschedule": "reschedule", "Get": "get"}

# The most calls and bytes of a frame.
_FRAME_CALLS_MAX = 1_000
_FRAME_BYTES_MAX = 1 << 20
# A larger request is a call of its own, so that it delays no other call.
_GATHERED_BYTES_MAX = 64 << 10
# After a server refused the stream, calls are calls of their own for so many seconds.
_SEPARATE_PAUSE = 10.0


class NotTakenError(Exception):
    """The stream ended before the server took the call, which has changed nothing."""

    def __init__(self, failure: errors.DuetimeError) -> None:
        super().__init__(failure)
        self.failure = failure


#: What becomes of a call: its answer, or a function that makes its error, since an exception serves one raise only. None: it
#: must be a call of its own.
_Outcome = pb.StreamedAnswer | Callable[[], Exception] | None


@dataclasses.dataclass(slots=True, eq=False)
class _Call:
    """One call until its outcome. If the caller waits no more, `outcome` is done."""

    field: str
    request: Message
    size: int
    end: float
    trace: tuple[str, str]
    outcome: asyncio.Future[_Outcome]

    def decide(self, outcome: _Outcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def expire(self) -> None:
        self.decide(lambda: errors.DeadlineExceeded("the call had no answer before its deadline"))


class _Stream:
    """One stream, with the calls that were sent on it, by number."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.open: dict[int, _Call] = {}
        self.sent = 0
        # A frame is on its way, so there is a connection; the server has answered something, or the stream has outlasted a
        # call of its own, so the server has not refused it.
        self.written = False
        self.served = False
        self.accepted = False
        # Calls wait.
        self.wake = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []


class Gatherer:
    """Makes the calls of all tasks on one stream. The calls that wait while a frame is written travel in the next one. `open`
    opens a stream, and `failure` is what its error means. REQUIRES: used on one event loop only."""

    def __init__(self, open: Callable[[], Any], failure: Callable[[grpc.RpcError], errors.DuetimeError]) -> None:
        self._open = open
        self._failure = failure
        self._waiting: list[_Call] = []
        self._stream: _Stream | None = None
        # No stream is tried before.
        self._separate_until = 0.0

    async def call(self, name: str, request: Message, end: float, trace: tuple[str, str], *, may_repeat: bool) -> Any:
        """Returns the answer, or None if this must be a call of its own. Raises NotTakenError or DuetimeError."""
        size = request.ByteSize()
        if size > _GATHERED_BYTES_MAX or self._separate():
            return None
        if not may_repeat and (self._stream is None or not self._stream.accepted):
            # gRPC may lose the status of a refused stream (errors.STATUS_LOST), and then nobody knows that the call changed
            # nothing. Without a frame the status is not lost.
            self._wake()
            return None
        loop = asyncio.get_running_loop()
        call = _Call(FIELDS[name], request, size, end, trace, loop.create_future())
        timer = loop.call_later(max(end - time.monotonic(), 0.001), call.expire)
        self._waiting.append(call)
        self._wake()
        try:
            outcome = await call.outcome
        finally:
            timer.cancel()
        if outcome is None:
            return None
        if not isinstance(outcome, pb.StreamedAnswer):
            raise outcome()
        if outcome.HasField("error"):
            raise errors.from_item(outcome.error)
        if outcome.WhichOneof("answer") != call.field:
            raise errors.Internal("the server answered a call with an answer that this client does not know")
        # A copy, because the answer itself keeps those to all calls of its frame in memory.
        part = getattr(outcome, call.field)
        answer = type(part)()
        answer.CopyFrom(part)
        return answer

    def stream(self) -> object:
        """What to pass to on_separate_answer()."""
        return self._stream

    def on_separate_answer(self, stream: object) -> None:
        """A call of its own has succeeded that began while `stream` was this."""
        if self._stream is not None and self._stream is stream:
            self._stream.accepted = True

    def close(self) -> None:
        """Ends all calls. REQUIRES: call() is not called again."""
        if self._stream is not None:
            for task in self._stream.tasks:
                task.cancel()
            self._on_end(self._stream, errors.Cancelled("the client was closed during the call"), None)

    def _separate(self) -> bool:
        return self._stream is None and time.monotonic() < self._separate_until

    def _wake(self) -> None:
        """Makes the stream send, and opens one if there is none."""
        stream = self._stream
        if stream is None:
            stream = self._stream = _Stream(self._open())
            stream.tasks = [asyncio.create_task(self._send(stream)), asyncio.create_task(self._receive(stream))]
        stream.wake.set()

    async def _send(self, stream: _Stream) -> None:
        """Writes frames until the stream is over, whose reason _receive gets."""
        try:
            while True:
                await stream.wake.wait()
                stream.wake.clear()
                # Lets the tasks run that a frame of answers has just woken, so that their next calls share a frame.
                await asyncio.sleep(0)
                while (frame := self._next_frame(stream)) is not None:
                    await stream.call.write(frame)
                    stream.written = True
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return

    def _next_frame(self, stream: _Stream) -> pb.CallStreamRequest | None:
        """Takes calls that wait. None: there are none."""
        frame = pb.CallStreamRequest()
        now = time.monotonic()
        size = taken = 0
        for call in self._waiting:
            if len(frame.calls) == _FRAME_CALLS_MAX or size > _FRAME_BYTES_MAX:
                break
            taken += 1
            if call.outcome.done():
                continue
            stream.sent += 1
            stream.open[stream.sent] = call
            size += call.size
            item = frame.calls.add(number=stream.sent, timeout=duration(timedelta(seconds=max(call.end - now, 0.001))),
                                   traceparent=call.trace[0], tracestate=call.trace[1])
            getattr(item, call.field).CopyFrom(call.request)
        del self._waiting[:taken]
        return frame if frame.calls else None

    async def _receive(self, stream: _Stream) -> None:
        """Passes answers on until the stream is over."""
        failure: errors.DuetimeError = errors.Cancelled("the client was closed during the call")
        calls_taken: int | None = None
        try:
            while (response := await stream.call.read()) is not grpc.aio.EOF:
                if response is None:  # gRPC has logged why
                    failure = errors.Internal("the server sent a response that cannot be read")
                    return
                stream.served = stream.accepted = True
                calls_taken = response.calls_taken if response.HasField("calls_taken") else None
                for answer in response.answers:
                    call = stream.open.pop(answer.number, None)
                    if call is not None:
                        call.decide(answer)
            failure = _unknown("without an error")
        except grpc.aio.AioRpcError as error:
            failure = self._failure(error)
            if isinstance(failure, errors.Cancelled):
                failure = _unknown(failure.message)
        finally:
            self._on_end(stream, failure, calls_taken)

    def _on_end(self, stream: _Stream, failure: errors.DuetimeError, calls_taken: int | None) -> None:
        if self._stream is not stream:
            return  # close() was first
        self._stream = None
        for task in stream.tasks:
            if task is not asyncio.current_task():
                task.cancel()
        stream.call.cancel()
        # A server refuses a stream before it reads from it.
        refused = not stream.served and (isinstance(failure, errors.Unimplemented) or failure.reason == "STREAM_LIMIT")
        if refused or (not stream.served and failure.reason == errors.STATUS_LOST):
            self._separate_until = time.monotonic() + _SEPARATE_PAUSE
        elif not stream.served and failure.reason == "NOT_LEADER":
            calls_taken = 0
        for number, call in stream.open.items():
            if refused:
                call.decide(None)
            elif calls_taken is not None and number > calls_taken:
                call.decide(lambda: NotTakenError(_again(failure)))
            else:
                call.decide(lambda: _again(_unknown(failure.message) if failure.reason == "NOT_LEADER" else failure))
        if self._separate():
            self._decide_waiting(None)
        elif not stream.written or isinstance(failure, errors.Cancelled):
            self._decide_waiting(lambda: _again(failure))
        elif self._waiting:
            self._wake()

    def _decide_waiting(self, outcome: _Outcome) -> None:
        for call in self._waiting:
            call.decide(outcome)
        self._waiting.clear()


def _unknown(why: str) -> errors.DuetimeError:
    return errors.Unavailable(f"the stream of calls ended before the server answered; the outcome is unknown: {why}")


def _again(failure: errors.DuetimeError) -> errors.DuetimeError:
    return type(failure)(failure.message, reason=failure.reason, metadata=failure.metadata, fields=failure.fields,
                         retry_delay=failure.retry_delay)
