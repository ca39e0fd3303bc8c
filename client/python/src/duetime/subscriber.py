# SPDX-License-Identifier: Apache-2.0
"""Receives due messages over one stream that is kept open."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio

from duetime import errors, pb
from duetime.callbacks import call_back
from duetime.cell import LEADER_PAUSE
from duetime.connection import Backoff, Connection, Waits
from duetime.connection_log import ConnectionLog
from duetime.messages import Settlement, duration
from duetime.subscriber_state import Counts, SubscriberState

_LOG = logging.getLogger("duetime")

#: What a handler returns; None acks.
Settled = Settlement | None
AsyncHandler = Callable[[pb.Delivery], Awaitable[Settled]]
SyncHandler = Callable[[pb.Delivery], Settled]

#: What a handler of several deliveries returns: one settlement for each, in their order; None or an empty list acks all.
SettledBatch = Sequence[Settlement] | None
AsyncBatchHandler = Callable[[list[pb.Delivery]], Awaitable[SettledBatch]]
SyncBatchHandler = Callable[[list[pb.Delivery]], SettledBatch]


@dataclasses.dataclass(slots=True)
class SubscriberOptions:
    """What a subscriber reads and how. Only the topic is required; zero means the server's default."""

    topic: str
    #: Empty means "default". The first use creates it. Subscribers of one subscription share its messages.
    subscription: str = ""
    client_id: str = ""
    #: The credit: the most messages and bytes that are delivered and not settled (default 1,000 and 64 MiB).
    max_outstanding_messages: int = 0
    max_outstanding_bytes: int = 0
    #: The lease of a delivery (default: of the subscription). When this program dies, others get its messages then.
    lease: timedelta | None = None
    #: For how long the subscriber extends the lease of a delivery, from the begin of its handler on. A delivery that waits
    #: for a handler for so long is given back; no attempt of it has failed. 0: no lease is extended, and a delivery is given
    #: back when it has waited for two thirds of its lease.
    extend_max: timedelta = timedelta(hours=1)
    #: How many calls of the handler run at once. One handler gets the deliveries in the order of the stream.
    handlers: int = 1
    #: The most deliveries in one call of a handler of subscribe_batch. The credit bounds a batch as well.
    batch_max: int = 100
    backoff: Backoff = Backoff()
    #: A stream ends if the server is silent for this long. It sends a heartbeat every 15 s by default.
    silence_max: timedelta = timedelta(minutes=1)
    #: Gets the error of a stream that will be opened again, or None. Must be brief. An exception is logged.
    on_disconnect: Callable[[errors.DuetimeError | None], None] | None = None


#: Seconds after which a stream that has not opened, and has no error, is logged.
_PATIENCE = 5.0

#: The most streams in a row whose status is lost before the subscriber waits as after any other error.
_LOST_MAX = 20

# Errors about the request itself. Others may pass: a restart, a full table, a broken connection.
_PERMANENT = (errors.InvalidArgument, errors.NotFound, errors.AlreadyExists, errors.PermissionDenied, errors.Unauthenticated,
              errors.FailedPrecondition, errors.OutOfRange, errors.Unimplemented)


class AsyncSubscriber:
    """Keeps a stream to the server open until stop(), or until the server refuses it for good.

    Calls the handler for each delivery, extends the lease meanwhile, and settles as the handler says: None or
    Settlement.ack() acks, an exception nacks. A handler may be an async function, or a plain one, which then runs in a
    thread. A message can come more than once: message_id is the same each time, and maybe_redelivered says when to check.

    With `batch`, the handler gets a list of the deliveries that have arrived when it is free, at most batch_max. None waits
    for others, so there may be one. A wrong number of settlements nacks all, as an exception does."""

    def __init__(self, connection: Connection, options: SubscriberOptions,
                 handler: AsyncHandler | SyncHandler | AsyncBatchHandler | SyncBatchHandler, *, batch: bool = False) -> None:
        if options.handlers < 1 or options.batch_max < 1:
            raise errors.InvalidArgument("a subscriber needs at least one handler, and batches of at least one message")
        self._connection = connection
        self._options = options
        # Made here, so that an invalid option raises.
        self._start = _start(options)
        self._handler: Callable[[Any], Any] = handler
        self._batch = batch
        self._state = SubscriberState(options.extend_max.total_seconds())
        self._log = ConnectionLog(connection.options.server, options.topic)
        self._error: errors.DuetimeError | None = None
        self._call: Any = None
        self._silent = False
        self._threads: concurrent.futures.ThreadPoolExecutor | None = None
        if not inspect.iscoroutinefunction(handler):
            self._threads = concurrent.futures.ThreadPoolExecutor(options.handlers, "duetime-handler")
        self._tasks = [asyncio.create_task(self._handle()) for _ in range(options.handlers)]
        self._task = asyncio.create_task(self._run())
        self._stopped: asyncio.Task[bool] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    @property
    def counts(self) -> Counts:
        return dataclasses.replace(self._state.counts)

    async def wait(self) -> None:
        """Waits for the end. Raises the error with which the server refused the subscriber for good."""
        await asyncio.shield(self._task)
        if self._error is not None:
            raise self._error

    async def stop(self, timeout: timedelta = timedelta(seconds=30)) -> bool:
        """Ends gracefully: starts no further handler, gives back what none got, waits for handlers and for the server's
        confirmations, and closes the stream. True if every handler returned and every settlement was confirmed; other
        messages come again."""
        if self._stopped is None:
            self._stopped = asyncio.create_task(self._stop(time.monotonic() + timeout.total_seconds()))
        return await asyncio.shield(self._stopped)

    async def _stop(self, end: float) -> bool:
        self._state.request_stop()
        handled = await self._state.wait_handled(end)
        confirmed = await self._state.wait_confirmed(end)
        if self._call is not None:
            self._call.cancel()
        await self._task
        for task in self._tasks:
            task.cancel()
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        return handled and confirmed

    # ---- Handlers

    async def _handle(self) -> None:
        while leases := await self._state.take_batch(self._options.batch_max if self._batch else 1):
            settlements = await self._settlements([lease.delivery for lease in leases])
            for lease, settlement in zip(leases, settlements, strict=True):
                self._state.settle(lease, settlement)

    async def _settlements(self, deliveries: list[pb.Delivery]) -> Sequence[Settlement]:
        """What the handler says of each. Whatever it raises, and a value of another type, nacks all."""
        count = len(deliveries)
        what = deliveries if self._batch else deliveries[0]
        try:
            if self._threads is None:
                answer: Any = self._handler(what)
            else:
                answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._call_plain, what)
            if inspect.isawaitable(answer):
                answer = await answer
            if isinstance(answer, BaseException):
                raise _HandlerError from answer
            if self._batch:
                return _checked(answer, count)
            if answer is not None and not isinstance(answer, Settlement):
                raise TypeError(f"a handler must return a duetime.Settlement or None, not {type(answer)}")
            return [answer or Settlement.ack()]
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            cause: BaseException = error
        except _HandlerError as error:
            cause = error.__cause__ or error
        except Exception as error:  # whatever a handler raises
            cause = error
        _LOG.error("a handler of the topic %r failed", self._options.topic, exc_info=cause)
        return [Settlement.nack(str(cause) or type(cause).__name__)] * count

    def _call_plain(self, what: Any) -> Any:
        # Returns the error, because asyncio has meanings of its own for StopIteration, SystemExit and CancelledError.
        try:
            return self._handler(what)
        except BaseException as error:
            return error

    # ---- The stream

    async def _run(self) -> None:
        waits = Waits(self._options.backoff)
        lost = 0  # streams in a row
        try:
            while not self._state.stopping:
                opened = time.monotonic()
                error = await self._run_stream()
                if self._state.stopping:
                    return
                if isinstance(error, _PERMANENT):
                    self._log.refused(error)
                    self._error = error
                    return
                self._log.ended(time.monotonic(), error)
                # A stream that lived longer than the longest wait starts the backoff anew.
                if time.monotonic() - opened > self._options.backoff.maximum.total_seconds():
                    waits.reset()
                if self._options.on_disconnect is not None:
                    call_back("on_disconnect", self._options.on_disconnect, error)
                lost = lost + 1 if error is not None and error.reason == errors.STATUS_LOST else 0
                wait = LEADER_PAUSE
                # The next stream may tell what the server's status was.
                if not self._connection.refused_by_standby(error) and not 0 < lost <= _LOST_MAX:
                    wait = waits.next(error.retry_delay if error is not None else None)
                end = time.monotonic() + wait
                while not self._state.stopping and time.monotonic() < end:
                    await self._state.wait_change(end - time.monotonic())
        except Exception:
            _LOG.exception("the subscriber of %r ends by a fault", self._options.topic)
            raise
        finally:
            self._state.request_stop()  # ends the handlers' tasks
            await self._connection.close()

    async def _run_stream(self) -> errors.DuetimeError | None:
        """One stream from its opening to its end. Returns how it ended; None: with OK."""
        self._silent = False
        self._state.begin_stream()
        call = self._call = self._connection.stream("Subscribe")
        patience = asyncio.get_running_loop().call_later(_PATIENCE, lambda: self._log.waits(time.monotonic(), _PATIENCE))
        helpers = [asyncio.create_task(self._write(call)), asyncio.create_task(self._watch(call))]
        try:
            while (response := await call.read()) is not grpc.aio.EOF:
                if response.HasField("started"):
                    self._log.opened(time.monotonic())
                self._state.on_frame(response)
            return None
        except grpc.aio.AioRpcError as error:
            return self._connection.failure(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            seconds = self._options.silence_max.total_seconds()
            return errors.Unavailable(f"no sign of life from the server for {seconds:g} s") if self._silent else None
        finally:
            patience.cancel()
            self._state.end_stream()
            for helper in helpers:
                helper.cancel()
            call.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)

    async def _watch(self, call: Any) -> None:
        silence_max = self._options.silence_max.total_seconds()
        while (rest := self._state.last_frame + silence_max - time.monotonic()) > 0:
            await asyncio.sleep(rest)
        self._silent = True
        call.cancel()

    async def _write(self, call: Any) -> None:
        """Sends until the stream is over. Its errors say nothing: the reader gets the stream's error."""
        request: pb.SubscribeRequest | None = self._start
        while request is not None:
            await call.write(request)
            await asyncio.sleep(0)  # handlers that are ready share a request
            request = await self._state.next_write()
        if self._state.open:
            await call.done_writing()


class _HandlerError(Exception):
    """A plain handler raised its cause."""


def _checked(answer: Any, count: int) -> Sequence[Settlement]:
    """The answer of a handler of `count` deliveries. Raises TypeError or ValueError if that is not one settlement for each."""
    if answer is None:
        return [Settlement.ack()] * count
    if not isinstance(answer, Sequence) or not all(isinstance(one, Settlement) for one in answer):
        raise TypeError(f"a handler must return a list of duetime.Settlement or None, not {answer!r}")
    if len(answer) not in (0, count):
        raise ValueError(f"the handler returned {len(answer)} settlements for {count} deliveries")
    return answer or [Settlement.ack()] * count


def _start(options: SubscriberOptions) -> pb.SubscribeRequest:
    start = pb.SubscribeStart(topic=options.topic, subscription=options.subscription, client_id=options.client_id,
                              max_outstanding_messages=options.max_outstanding_messages,
                              max_outstanding_bytes=options.max_outstanding_bytes, reports_begun=True)
    if options.lease is not None:
        start.lease_duration.CopyFrom(duration(options.lease))
    return pb.SubscribeRequest(start=start)
