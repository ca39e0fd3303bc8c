# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio. `duetime.Client` is the same without asyncio."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from google.protobuf.message import Message

from duetime import errors, pb
from duetime.connection import Connection, Options, require_type
from duetime.messages import NewMessage, Target, When, schedule_request, set_target, set_when
from duetime.schedule_stream import AsyncScheduleStream, Result, result_of
from duetime.subscriber import (AsyncBatchHandler, AsyncHandler, AsyncSubscriber, SubscriberOptions, SyncBatchHandler,
                                SyncHandler)
from duetime.v1.admin_calls import AsyncAdminCalls

_Response = TypeVar("_Response", bound=Message)


class _NoTruth:
    """A result that is no truth value: whatever happened, `if result:` would be true."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is not true or false: ask its .cancelled, .moved or .answer.outcome")


@dataclasses.dataclass(slots=True)
class CancelResult(_NoTruth):
    """The answer to a cancel. `tried_before`: an earlier try had no answer, so the outcome may be its effect."""

    answer: pb.CancelResponse
    tried_before: bool

    @property
    def cancelled(self) -> bool:
        """True: this call cancelled the message, which was never delivered and never will be. Otherwise answer.outcome says
        why not."""
        outcome = self.answer.outcome
        return outcome == pb.CancelResponse.OUTCOME_CANCELLED or (
            self.tried_before and outcome == pb.CancelResponse.OUTCOME_ALREADY_CANCELLED)


@dataclasses.dataclass(slots=True)
class RescheduleResult(_NoTruth):
    """The answer to a reschedule."""

    answer: pb.RescheduleResponse

    @property
    def moved(self) -> bool:
        """True: the message has the new time. Otherwise answer.outcome says why not."""
        return self.answer.outcome == pb.RescheduleResponse.OUTCOME_RESCHEDULED


@dataclasses.dataclass(slots=True)
class SettleResult:
    """The answer to a settle. `tried_before`: as in CancelResult."""

    answer: pb.SettleResponse
    tried_before: bool


Results = list[Result]
CancelResults = list[CancelResult | errors.DuetimeError]


def _named(request: Message) -> Message:
    """The request with a random name, if the server recognises a repeat by the name and the request has none."""
    if not isinstance(request, pb.StartBulkRequest) or request.name or request.dry_run:  # a dry run is not stored
        return request
    named = pb.StartBulkRequest(name=secrets.token_hex(16))
    named.MergeFrom(request)
    return named


class AsyncClient(AsyncAdminCalls):
    """Calls to one server or one cell. Make it within a running event loop, and use it there only.

    The calls of the service Admin take the requests and return the responses of the protos; lists are iterators.

    Calls raise DuetimeError. Those whose repeat is safe are made again after UNAVAILABLE; the others (deletes, pull, and a
    reschedule or an update of a recurrence with an etag) are made once, and their outcome is then unknown."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or Options()
        self._connection = Connection(self._options)
        # For pulls that wait. The server allows so many calls at once on a connection, and others would wait behind them.
        self._waiting_pulls: Connection | None = None

    async def close(self) -> None:
        await self._connection.close()
        if self._waiting_pulls is not None:
            await self._waiting_pulls.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def _call(self, name: str, request: Message, kind: type[_Response], *, repeat: bool = True) -> _Response:
        return (await self._connection.call(name, _named(request), kind, repeat=repeat))[0]

    async def _items(self, name: str, request: Any, kind: Any, field: str) -> AsyncIterator[Any]:
        async for page in self._connection.pages(name, request, kind, field):
            for item in page:
                yield item

    # ---- Messages

    async def schedule(self, message: NewMessage | pb.ScheduleRequest, *, repeat: bool = True) -> pb.ScheduleResponse:
        """Schedules a message, which is on disk when this returns. With `repeat`, a message without a request id gets a
        random one, and the call is made again after UNAVAILABLE; there is one message. If `message_ended` of the answer is
        true, the call was a repeat, and nothing is pending: the message has ended, as its state says."""
        request = schedule_request(message, named=repeat)
        return await self._call("Schedule", request, pb.ScheduleResponse, repeat=repeat)

    async def schedule_batch(self, messages: Sequence[NewMessage | pb.ScheduleRequest], *,
                             repeat: bool = True) -> Results:
        """Schedules messages; one result each, in order, which may be an error. After an error of the call all outcomes
        are unknown."""
        if not messages:
            return []
        request = pb.ScheduleBatchRequest(messages=[schedule_request(one, named=repeat) for one in messages])
        response = await self._call("ScheduleBatch", request, pb.ScheduleBatchResponse, repeat=repeat)
        if len(response.results) != len(messages):
            raise errors.Internal("the server answered with another number of results")
        return [result_of(item) for item in response.results]

    def schedule_stream(self, on_result: Callable[[int, Result], None], *,
                        frames_max: int = 8, answer_timeout: timedelta = timedelta(seconds=30)) -> AsyncScheduleStream:
        """Opens a stream to schedule many messages. `on_result` gets the number and the result of each, in order. If it raises,
        the exception is logged."""
        return AsyncScheduleStream(Connection(self._options), on_result, frames_max, answer_timeout.total_seconds())

    async def cancel(self, target: Target, *, stop_redelivery: bool = False) -> CancelResult:
        """Cancels a message. Any outcome is a result, also that there is no such message."""
        request = pb.CancelRequest(stop_redelivery=stop_redelivery)
        set_target(request, target)
        answer, tries = await self._connection.call("Cancel", request, pb.CancelResponse)
        return CancelResult(answer, tries > 1)

    async def cancel_batch(self, targets: Sequence[Target], *,
                           stop_redelivery: bool = False) -> CancelResults:
        if not targets:
            return []
        request = pb.CancelBatchRequest()
        for target in targets:
            set_target(request.cancels.add(stop_redelivery=stop_redelivery), target)
        answer, tries = await self._connection.call("CancelBatch", request, pb.CancelBatchResponse)
        if len(answer.results) != len(targets):
            raise errors.Internal("the server answered with another number of results")
        return [CancelResult(item.cancel, tries > 1) if item.HasField("cancel") else errors.from_item(item.error)
                for item in answer.results]

    async def reschedule(self, target: Target, when: When, *, etag: str = "") -> RescheduleResult:
        """Moves a message. With an etag the call is made once: a repeat would see the change of the first try."""
        request = pb.RescheduleRequest(etag=etag)
        set_target(request, target)
        set_when(request, when)
        return RescheduleResult(await self._call("Reschedule", request, pb.RescheduleResponse))

    async def get(self, target: Target, *, full: bool = False) -> pb.GetResponse:
        """The state of a message; `full`: with payload and attributes."""
        request = pb.GetRequest(view=pb.MESSAGE_VIEW_FULL if full else pb.MESSAGE_VIEW_BASIC)
        set_target(request, target)
        return await self._call("Get", request, pb.GetResponse)

    async def explain(self, target: Target) -> pb.ExplainResponse:
        """The history of a message, and what it waits for."""
        request = pb.ExplainRequest()
        set_target(request, target)
        return await self._call("Explain", request, pb.ExplainResponse)

    def list(self, request: pb.ListRequest) -> AsyncIterator[pb.Message]:
        """The pending messages of a topic, over all pages."""
        return self._items("List", request, pb.ListResponse, "messages")

    async def pull(self, request: pb.PullRequest) -> pb.PullResponse:
        """Leases a few messages. Made once: what an unanswered try leased comes again after its lease. A pull that waits uses a
        second connection, so no other call waits behind it."""
        require_type("Pull", request)
        wait = request.wait.seconds + request.wait.nanos / 1e9
        connection = self._connection
        if wait > 0:
            connection.require_open()
            connection = self._waiting_pulls = self._waiting_pulls or Connection(self._options)
        answer, _ = await connection.call("Pull", request, pb.PullResponse, extra=wait)
        return answer

    async def settle(self, request: pb.SettleRequest) -> SettleResult:
        """Settles or extends leases that pull returned. Settlement.add_to() fills the request."""
        answer, tries = await self._connection.call("Settle", request, pb.SettleResponse)
        return SettleResult(answer, tries > 1)

    def subscribe(self, topic: str, handler: AsyncHandler | SyncHandler, **options: Any) -> AsyncSubscriber:
        """Starts a subscriber; the options are those of SubscriberOptions. A server that cannot be reached is no error."""
        return AsyncSubscriber(Connection(self._options), SubscriberOptions(topic, **options), handler)

    def subscribe_batch(self, topic: str, handler: AsyncBatchHandler | SyncBatchHandler, **options: Any) -> AsyncSubscriber:
        """As subscribe, with a handler of up to `batch_max` deliveries (AsyncSubscriber). `handlers` counts its calls."""
        return AsyncSubscriber(Connection(self._options), SubscriberOptions(topic, **options), handler, batch=True)

    # ---- Recurrences

    async def create_recurrence(self, request: pb.CreateRecurrenceRequest) -> pb.Recurrence:
        return (await self._call("CreateRecurrence", request, pb.CreateRecurrenceResponse)).recurrence

    async def get_recurrence(self, name: str) -> pb.Recurrence:
        return (await self._call("GetRecurrence", pb.GetRecurrenceRequest(name=name), pb.GetRecurrenceResponse)).recurrence

    async def update_recurrence(self, request: pb.UpdateRecurrenceRequest) -> pb.Recurrence:
        """Changes a recurrence. With an etag the call is made once, as a reschedule."""
        require_type("UpdateRecurrence", request)
        return (await self._call("UpdateRecurrence", request, pb.UpdateRecurrenceResponse)).recurrence

    async def pause_recurrence(self, name: str) -> pb.Recurrence:
        return (await self._call("PauseRecurrence", pb.PauseRecurrenceRequest(name=name), pb.PauseRecurrenceResponse)).recurrence

    async def resume_recurrence(self, name: str) -> pb.Recurrence:
        request = pb.ResumeRecurrenceRequest(name=name)
        return (await self._call("ResumeRecurrence", request, pb.ResumeRecurrenceResponse)).recurrence

    async def delete_recurrence(self, name: str) -> bool:
        """Deletes a recurrence. True if its next occurrence was cancelled."""
        request = pb.DeleteRecurrenceRequest(name=name)
        return (await self._call("DeleteRecurrence", request, pb.DeleteRecurrenceResponse)).occurrence_cancelled

    async def preview_recurrence(self, request: pb.PreviewRecurrenceRequest) -> pb.PreviewRecurrenceResponse:
        return await self._call("PreviewRecurrence", request, pb.PreviewRecurrenceResponse)

    def list_recurrences(self, request: pb.ListRecurrencesRequest | None = None) -> AsyncIterator[pb.Recurrence]:
        return self._items("ListRecurrences", request or pb.ListRecurrencesRequest(), pb.ListRecurrencesResponse, "recurrences")
