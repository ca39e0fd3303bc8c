# SPDX-License-Identifier: Apache-2.0
"""Schedules many messages over one stream."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

import grpc
import grpc.aio

from duetime import errors, pb
from duetime.callbacks import call_back
from duetime.connection import Connection
from duetime.messages import NewMessage, schedule_request

#: What becomes of a message of a batch or stream.
Result = pb.ScheduleResponse | errors.DuetimeError


def result_of(item: pb.ScheduleResult) -> Result:
    if not item.HasField("message"):
        return errors.from_item(item.error)
    response = pb.ScheduleResponse(message=item.message, outcome=item.outcome, previous_message_id=item.previous_message_id,
                                   minute_limit_exceeded=item.minute_limit_exceeded,
                                   request_repeated=item.request_repeated, message_ended=item.message_ended)
    if item.HasField("old_deliver_time"):
        response.old_deliver_time.CopyFrom(item.old_deliver_time)
    return response


class AsyncScheduleStream:
    """Schedules many messages in frames. After a break it knows which of them have an answer.

    Messages are numbered from 0, in the order of sending. Those below `answered` have their result. The outcome of the
    others is unknown once the stream has ended; unanswered() returns these with their request ids, so that sending them on
    another stream within an hour makes no second message. It does not reconnect."""

    def __init__(self, connection: Connection, on_result: Callable[[int, Result], None],
                 frames_max: int, answer_timeout: float) -> None:
        self._connection = connection
        self._on_result = on_result
        self._frames_max = frames_max
        self._answer_timeout = answer_timeout
        self._frames: deque[list[pb.ScheduleRequest]] = deque()
        self._progress = time.monotonic()
        self._room = asyncio.Event()
        self._broken: errors.DuetimeError | None = None
        self._finished = False
        # Frames are sent in the order of their numbers, and gRPC takes one write at a time.
        self._sending = asyncio.Lock()
        #: The number of messages that send() got, and of those that have a result.
        self.sent = 0
        self.answered = 0
        self._call = connection.stream("ScheduleStream")
        self._reader = asyncio.create_task(self._read())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            await self.finish()
        else:
            self.cancel()
            await asyncio.wait([self._reader])

    async def send(self, *messages: NewMessage | pb.ScheduleRequest) -> None:
        """Sends one frame; returning means sent, not accepted. Waits while too many frames have no answer. An error means
        that the stream has ended, and unanswered() returns this frame, too. So does a cancellation of send()."""
        frame = [schedule_request(one, named=True) for one in messages]
        async with self._sending:
            if not self._frames:
                self._progress = time.monotonic()
            self._frames.append(frame)
            self.sent += len(frame)
            try:
                if await self._write(frame):
                    return
            except BaseException:
                self.cancel()  # the frame has a number, so the stream cannot go on without it
                raise
            raise await asyncio.shield(self._reader) or errors.Unavailable("the server ended the stream")

    async def _write(self, frame: list[pb.ScheduleRequest]) -> bool:
        """False if the stream is over. The reader knows why."""
        while len(self._frames) > self._frames_max and not self._reader.done():
            self._room.clear()
            await self._room.wait()
        if self._finished:
            raise errors.FailedPrecondition("the stream was finished")
        if self._reader.done():
            return False
        try:
            await self._call.write(pb.ScheduleStreamRequest(messages=frame))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return False
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return False
        return True

    async def finish(self) -> None:
        """Sends no more, and waits for all results. Raises why the stream ended early."""
        async with self._sending:
            if not self._finished and not self._reader.done():
                try:
                    await self._call.done_writing()
                except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    pass
            self._finished = True
        error = await asyncio.shield(self._reader)
        if error is None and self._frames:
            error = errors.Internal("the server ended the stream before it had answered all of it")
        if error is not None:
            raise error

    def cancel(self) -> None:
        """Breaks the stream."""
        self._call.cancel()

    async def unanswered(self) -> list[pb.ScheduleRequest]:
        """Removes and returns the messages without a result, in order. Ends the stream if it is open."""
        self.cancel()
        await asyncio.wait([self._reader])
        messages = [one for frame in self._frames for one in frame]
        self._frames.clear()
        return messages

    async def _read(self) -> errors.DuetimeError | None:
        watch = asyncio.create_task(self._watch())
        try:
            while (response := await self._call.read()) is not grpc.aio.EOF:
                if not self._take(response):
                    return errors.Internal("the server answered a frame that was not the next one")
            return None
        except grpc.aio.AioRpcError as error:
            return self._broken or self._connection.failure(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return self._broken or errors.Cancelled("the stream was cancelled")
        finally:
            watch.cancel()
            self._call.cancel()
            await self._connection.close()
            self._room.set()

    def _take(self, response: pb.ScheduleStreamResponse) -> bool:
        if not self._frames or response.first != self.answered or len(self._frames[0]) != len(response.results):
            return False
        for item in response.results:
            call_back("on_result", self._on_result, self.answered, result_of(item))
            self.answered += 1
        self._frames.popleft()
        self._progress = time.monotonic()
        self._room.set()
        return True

    async def _watch(self) -> None:
        while True:
            if not self._frames:
                self._progress = time.monotonic()
            rest = self._progress + self._answer_timeout - time.monotonic()
            if rest <= 0:
                break
            await asyncio.sleep(rest)
        self._broken = errors.DeadlineExceeded("the server did not answer a frame in time")
        self._call.cancel()
