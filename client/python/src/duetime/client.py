# SPDX-License-Identifier: Apache-2.0
"""The client without asyncio. It runs the asynchronous one on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from duetime import errors, fork, pb
from duetime.aio import AsyncClient, CancelResult, CancelResults, RescheduleResult, Results, SettleResult
from duetime.callbacks import contained
from duetime.connection import Options
from duetime.messages import NewMessage, Target, When
from duetime.schedule_stream import AsyncScheduleStream, Result
from duetime.subscriber import AsyncSubscriber, SyncHandler
from duetime.subscriber_state import Counts

_Value = TypeVar("_Value")


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


class Client:
    """Calls to one server or one cell; for any number of threads. AsyncClient documents the methods.

        with Client() as client:
            client.schedule(NewMessage("orders", "remind 17", timedelta(minutes=30), key="order-17"))
    """

    def __init__(self, options: Options | None = None) -> None:
        self._loop = _Loop()
        try:
            self._inner = self._loop.call(lambda: AsyncClient(options))
        except BaseException:
            self._loop.close()
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
        if options.get("on_disconnect") is not None:
            options["on_disconnect"] = contained(options["on_disconnect"])
        return Subscriber(self._loop, self._loop.call(lambda: self._inner.subscribe(topic, handler, **options)))

    def schedule(self, message: NewMessage | pb.ScheduleRequest, *, repeat: bool = True) -> pb.ScheduleResponse:
        return self._loop.run(self._inner.schedule(message, repeat=repeat))

    def schedule_batch(self, messages: Sequence[NewMessage | pb.ScheduleRequest], *,
                       repeat: bool = True) -> Results:
        return self._loop.run(self._inner.schedule_batch(messages, repeat=repeat))

    def cancel(self, target: Target, *, stop_redelivery: bool = False) -> CancelResult:
        return self._loop.run(self._inner.cancel(target, stop_redelivery=stop_redelivery))

    def cancel_batch(self, targets: Sequence[Target], *,
                     stop_redelivery: bool = False) -> CancelResults:
        return self._loop.run(self._inner.cancel_batch(targets, stop_redelivery=stop_redelivery))

    def reschedule(self, target: Target, when: When, *, etag: str = "") -> RescheduleResult:
        return self._loop.run(self._inner.reschedule(target, when, etag=etag))

    def get(self, target: Target, *, full: bool = False) -> pb.GetResponse:
        return self._loop.run(self._inner.get(target, full=full))

    def explain(self, target: Target) -> pb.ExplainResponse:
        return self._loop.run(self._inner.explain(target))

    def list(self, request: pb.ListRequest) -> Iterator[pb.Message]:
        return self._loop.iterate(self._inner.list(request))

    def pull(self, request: pb.PullRequest) -> pb.PullResponse:
        return self._loop.run(self._inner.pull(request))

    def settle(self, request: pb.SettleRequest) -> SettleResult:
        return self._loop.run(self._inner.settle(request))

    def create_topic(self, topic: pb.Topic) -> pb.Topic:
        return self._loop.run(self._inner.create_topic(topic))

    def get_topic(self, name: str) -> pb.Topic:
        return self._loop.run(self._inner.get_topic(name))

    def update_topic(self, topic: pb.Topic, paths: Sequence[str]) -> pb.Topic:
        return self._loop.run(self._inner.update_topic(topic, paths))

    def delete_topic(self, name: str, *, force: bool = False) -> str:
        return self._loop.run(self._inner.delete_topic(name, force=force))

    def pause_topic(self, name: str) -> pb.Topic:
        return self._loop.run(self._inner.pause_topic(name))

    def resume_topic(self, name: str) -> pb.Topic:
        return self._loop.run(self._inner.resume_topic(name))

    def list_topics(self, request: pb.ListTopicsRequest | None = None) -> Iterator[pb.Topic]:
        return self._loop.iterate(self._inner.list_topics(request))

    def create_subscription(self, request: pb.CreateSubscriptionRequest) -> pb.Subscription:
        return self._loop.run(self._inner.create_subscription(request))

    def get_subscription(self, topic: str, name: str = "") -> pb.Subscription:
        return self._loop.run(self._inner.get_subscription(topic, name))

    def update_subscription(self, subscription: pb.Subscription, paths: Sequence[str]) -> pb.Subscription:
        return self._loop.run(self._inner.update_subscription(subscription, paths))

    def delete_subscription(self, topic: str, name: str = "") -> None:
        self._loop.run(self._inner.delete_subscription(topic, name))

    def list_subscriptions(self, request: pb.ListSubscriptionsRequest) -> Iterator[pb.Subscription]:
        return self._loop.iterate(self._inner.list_subscriptions(request))

    def forecast(self, request: pb.ForecastRequest) -> pb.ForecastResponse:
        return self._loop.run(self._inner.forecast(request))

    def start_bulk(self, request: pb.StartBulkRequest) -> pb.Operation:
        return self._loop.run(self._inner.start_bulk(request))

    def get_operation(self, name: str) -> pb.Operation:
        return self._loop.run(self._inner.get_operation(name))

    def cancel_operation(self, name: str) -> pb.Operation:
        return self._loop.run(self._inner.cancel_operation(name))

    def list_operations(self, request: pb.ListOperationsRequest | None = None) -> Iterator[pb.Operation]:
        return self._loop.iterate(self._inner.list_operations(request))

    def create_recurrence(self, request: pb.CreateRecurrenceRequest) -> pb.Recurrence:
        return self._loop.run(self._inner.create_recurrence(request))

    def get_recurrence(self, name: str) -> pb.Recurrence:
        return self._loop.run(self._inner.get_recurrence(name))

    def update_recurrence(self, request: pb.UpdateRecurrenceRequest) -> pb.Recurrence:
        return self._loop.run(self._inner.update_recurrence(request))

    def pause_recurrence(self, name: str) -> pb.Recurrence:
        return self._loop.run(self._inner.pause_recurrence(name))

    def resume_recurrence(self, name: str) -> pb.Recurrence:
        return self._loop.run(self._inner.resume_recurrence(name))

    def delete_recurrence(self, name: str) -> bool:
        return self._loop.run(self._inner.delete_recurrence(name))

    def preview_recurrence(self, request: pb.PreviewRecurrenceRequest) -> pb.PreviewRecurrenceResponse:
        return self._loop.run(self._inner.preview_recurrence(request))

    def list_recurrences(self, request: pb.ListRecurrencesRequest | None = None) -> Iterator[pb.Recurrence]:
        return self._loop.iterate(self._inner.list_recurrences(request))

    def server_info(self) -> pb.ServerInfoResponse:
        return self._loop.run(self._inner.server_info())


class Subscriber:
    """As AsyncSubscriber. Leave the `with` block, or call stop(), to end it gracefully."""

    def __init__(self, loop: _Loop, inner: AsyncSubscriber) -> None:
        self._loop = loop
        self._inner = inner

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

    def stop(self, timeout: timedelta = timedelta(seconds=30)) -> bool:
        return self._loop.run(self._inner.stop(timeout))


class ScheduleStream:
    """As AsyncScheduleStream."""

    def __init__(self, loop: _Loop, inner: AsyncScheduleStream) -> None:
        self._loop = loop
        self._inner = inner

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

    def send(self, *messages: NewMessage | pb.ScheduleRequest) -> None:
        self._loop.run(self._inner.send(*messages))

    def finish(self) -> None:
        self._loop.run(self._inner.finish())

    def cancel(self) -> None:
        self._loop.call(self._inner.cancel)

    def unanswered(self) -> list[pb.ScheduleRequest]:
        return self._loop.run(self._inner.unanswered())
