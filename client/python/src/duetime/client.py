# SPDX-License-Identifier: Apache-2.0
"""The client without asyncio. It runs the asynchronous one on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import timedelta
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from duetime import errors, fork
from duetime.aio import AsyncClient
from duetime.callbacks import contained
from duetime.connection import Options
from duetime.schedule_stream import AsyncScheduleStream, Result
from duetime.subscriber import AsyncSubscriber, SyncBatchHandler, SyncHandler
from duetime.subscriber_state import Counts
from duetime.v1.admin_calls import AdminCalls

_Value = TypeVar("_Value")
_Inner = TypeVar("_Inner")
_Params = ParamSpec("_Params")


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._guard = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="duetime", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        try:
            fork.require_none()  # the child has no such thread
        except errors.FailedPrecondition:
            work.close()
            raise
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a callback on the client's thread must not call the client, which would wait for itself")
        with self._guard:
            if self._closed:
                work.close()
                raise errors.FailedPrecondition("the client is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise errors.Cancelled("the client was closed during the call") from None

    def call(self, function: Callable[[], _Value]) -> _Value:
        async def work() -> _Value:
            return function()
        return self.run(work())

    def iterate(self, items: AsyncIterator[_Value]) -> Iterator[_Value]:
        end = object()

        async def following() -> Any:
            return await anext(items, end)
        while (item := self.run(following())) is not end:
            yield item

    def close(self) -> None:
        """Cancels what runs on the loop, so that no thread waits for it in vain."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
            end = asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop)
        end.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()


class _OnLoop(Generic[_Inner]):
    """What runs its asynchronous counterpart on a loop."""

    def __init__(self, loop: _Loop, inner: _Inner) -> None:
        self._loop = loop
        self._inner = inner


def _sync(method: Callable[Concatenate[_Inner, _Params], Coroutine[Any, Any, _Value]],
          ) -> Callable[Concatenate[_OnLoop[_Inner], _Params], _Value]:
    """The method without asyncio, with the same parameters and text."""
    @functools.wraps(method)
    def call(self: _OnLoop[_Inner], /, *args: _Params.args, **kwargs: _Params.kwargs) -> _Value:
        return self._loop.run(method(self._inner, *args, **kwargs))
    return call


def _items(method: Callable[Concatenate[_Inner, _Params], AsyncIterator[_Value]],
           ) -> Callable[Concatenate[_OnLoop[_Inner], _Params], Iterator[_Value]]:
    """As _sync, of a method that iterates."""
    @functools.wraps(method)
    def iterate(self: _OnLoop[_Inner], /, *args: _Params.args, **kwargs: _Params.kwargs) -> Iterator[_Value]:
        return self._loop.iterate(method(self._inner, *args, **kwargs))
    return iterate


class Client(_OnLoop[AsyncClient], AdminCalls):
    """Calls to one server or one cell; for any number of threads. AsyncClient documents the methods.

        with Client() as client:
            client.schedule(NewMessage("orders", "remind 17", timedelta(minutes=30), key="order-17"))
    """

    def __init__(self, options: Options | None = None) -> None:
        loop = _Loop()
        try:
            super().__init__(loop, loop.call(lambda: AsyncClient(options)))
        except BaseException:
            loop.close()
            raise

    def close(self) -> None:
        """Closes the connection; after a fork it does nothing. Stop subscribers and finish streams before: this breaks them, and
        calls of other threads."""
        try:
            self._loop.run(self._inner.close())
        except errors.FailedPrecondition:
            return  # a repeat, or after a fork
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def schedule_stream(self, on_result: Callable[[int, Result], None], *, frames_max: int = 8,
                        answer_timeout: timedelta = timedelta(seconds=30)) -> ScheduleStream:
        """As AsyncClient.schedule_stream. `on_result` runs on the client's thread and must be brief. An exception is logged."""
        return ScheduleStream(self._loop, self._loop.call(lambda: self._inner.schedule_stream(
            contained(on_result), frames_max=frames_max, answer_timeout=answer_timeout)))

    def subscribe(self, topic: str, handler: SyncHandler, **options: Any) -> Subscriber:
        """As AsyncClient.subscribe. Handlers run in threads of their own, `handlers` at once."""
        return self._subscribe(self._inner.subscribe, topic, handler, options)

    def subscribe_batch(self, topic: str, handler: SyncBatchHandler, **options: Any) -> Subscriber:
        """As AsyncClient.subscribe_batch. Handlers run in threads of their own, `handlers` calls at once."""
        return self._subscribe(self._inner.subscribe_batch, topic, handler, options)

    def _subscribe(self, start: Callable[..., AsyncSubscriber], topic: str, handler: Any, options: dict[str, Any]) -> Subscriber:
        if options.get("on_disconnect") is not None:
            options["on_disconnect"] = contained(options["on_disconnect"])
        return Subscriber(self._loop, self._loop.call(lambda: start(topic, handler, **options)))

    schedule = _sync(AsyncClient.schedule)
    schedule_batch = _sync(AsyncClient.schedule_batch)
    cancel = _sync(AsyncClient.cancel)
    cancel_batch = _sync(AsyncClient.cancel_batch)
    reschedule = _sync(AsyncClient.reschedule)
    get = _sync(AsyncClient.get)
    explain = _sync(AsyncClient.explain)
    list = _items(AsyncClient.list)
    pull = _sync(AsyncClient.pull)
    settle = _sync(AsyncClient.settle)

    create_recurrence = _sync(AsyncClient.create_recurrence)
    get_recurrence = _sync(AsyncClient.get_recurrence)
    update_recurrence = _sync(AsyncClient.update_recurrence)
    pause_recurrence = _sync(AsyncClient.pause_recurrence)
    resume_recurrence = _sync(AsyncClient.resume_recurrence)
    delete_recurrence = _sync(AsyncClient.delete_recurrence)
    preview_recurrence = _sync(AsyncClient.preview_recurrence)
    list_recurrences = _items(AsyncClient.list_recurrences)


class Subscriber(_OnLoop[AsyncSubscriber]):
    """As AsyncSubscriber. Leave the `with` block, or call stop(), to end it gracefully."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def counts(self) -> Counts:
        return self._loop.call(lambda: dataclasses.replace(self._inner.counts))

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the end; False if the time is over first. Raises the error with which the server refused the
        subscriber for good."""
        async def ended() -> bool:
            try:
                await asyncio.wait_for(self._inner.wait(), None if timeout is None else timeout.total_seconds())
            except TimeoutError:
                return False
            return True
        return self._loop.run(ended())

    stop = _sync(AsyncSubscriber.stop)


class ScheduleStream(_OnLoop[AsyncScheduleStream]):
    """As AsyncScheduleStream."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.finish()
        else:
            self.unanswered()

    @property
    def sent(self) -> int:
        return self._inner.sent

    @property
    def answered(self) -> int:
        return self._inner.answered

    send = _sync(AsyncScheduleStream.send)
    finish = _sync(AsyncScheduleStream.finish)
    unanswered = _sync(AsyncScheduleStream.unanswered)

    def cancel(self) -> None:
        self._loop.call(self._inner.cancel)
