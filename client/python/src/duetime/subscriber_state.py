# SPDX-License-Identifier: Apache-2.0
"""What the tasks of a subscriber share: deliveries wait here for handlers, and settlements for the writer."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import time
from collections import deque

from duetime import pb
from duetime.leases import REPORT_AFTER, Lease, LeaseKeeper
from duetime.messages import Settlement

#: In place of "no limit".
_ALL = sys.maxsize


@dataclasses.dataclass(slots=True)
class Counts:
    """Counts since the start. Each delivery ends in one of acked ... skipped."""

    #: Deliveries whose handler has returned.
    delivered: int = 0
    #: Settlements that the server confirmed.
    acked: int = 0
    nacked: int = 0
    dead_lettered: int = 0
    released: int = 0
    #: The handler returned Settlement.leave().
    left: int = 0
    #: Settlements that the server refused: too late, or invalid.
    refused: int = 0
    #: Settlements without confirmation when the stream ended. The message may come again.
    lost: int = 0
    #: Deliveries without a handler: the stream or their lease ended, the subscriber stopped, or they waited for longer
    #: than extend_max. They come again.
    skipped: int = 0
    #: Streams that the server opened.
    streams: int = 0
    #: Requests with settlements.
    settle_requests: int = 0
    #: Leases that the server extended, and those that ended too early: before an extension, before the server knew of the
    #: handler, or before there was a handler.
    extended: int = 0
    leases_lost: int = 0


_CONFIRMED = {"ack": "acked", "nack": "nacked", "release": "released", "dead_letter": "dead_lettered"}


class SubscriberState:
    """Makes no calls and owns no task. REQUIRES: used on one event loop only.

    Invariants: (1) every queued delivery belongs to the open stream; (2) unconfirmed settlements wait in `outgoing`, or
    were sent on the open stream and have no answer; (3) the lease of a settled delivery is neither extended nor reported;
    (4) no handler begins whose lease is known to be lost."""

    def __init__(self, extend_max: float) -> None:
        self.counts = Counts()
        self.stopping = False
        self.open = False
        self.last_frame = 0.0
        self.leases = LeaseKeeper(extend_max)
        self.queue: deque[Lease] = deque()
        #: Deliveries that handlers have taken.
        self.busy = 0
        self._stream = 0
        self._draining = False
        self._outgoing: deque[tuple[Settlement, str]] = deque()
        self._no_more = False
        # The most settlements and reports in one request: the credit. The server ends a stream that exceeds its limit, and no
        # credit is greater than that. There may be more unsettled deliveries than credit, because the server does not count
        # those whose leases have ended.
        self._request_max = _ALL
        # The settlements without an answer, by token; and the releases of skipped deliveries.
        self._unconfirmed: dict[str, str] = {}
        self._skipped: set[str] = set()
        # What handlers have taken, and may not begin before the server has confirmed that.
        self._confirming: dict[str, Lease] = {}
        # When the writer wakes without a reason, if it sleeps; and if a handler began since it last slept.
        self._writer_wakes = 0.0
        self._has_begun = False
        self._lost_before_stop = 0
        self._write_ready = asyncio.Event()
        self._work_ready = asyncio.Event()
        self._changed = asyncio.Event()

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_change(self, seconds: float | None) -> None:
        await _wait(self._changed, seconds)

    # ---- The stream

    def begin_stream(self) -> None:
        self._stream += 1
        self.open, self._draining = True, False
        self.last_frame = time.monotonic()

    def end_stream(self) -> None:
        self.open = False
        self._skip_waiting()
        self.leases.clear()
        self._outgoing.clear()
        self._no_more = False
        self.counts.lost += len(self._unconfirmed)
        self._unconfirmed.clear()
        self._skipped.clear()
        self._write_ready.set()
        self.notify()

    def on_frame(self, response: pb.SubscribeResponse) -> None:
        self.last_frame = time.monotonic()
        if response.HasField("started"):
            self.counts.streams += 1
            self.leases.start(response.started.lease_duration)
            self._request_max = response.started.max_outstanding_messages or _ALL
            self._write_ready.set()
        self._confirm(response)
        if response.HasField("drain"):
            self._draining = True
            self._write_ready.set()
        for lease in self.leases.add(response.deliveries, self._stream, self.last_frame):
            if self.stopping or not self.open:
                self._skip(lease)
            else:
                self.queue.append(lease)
        if self.queue:
            self._work_ready.set()

    def _confirm(self, response: pb.SubscribeResponse) -> None:
        for token in response.begun:
            self.leases.on_begun(token)
            if self._confirming.pop(token, None) is not None:
                self.notify()
        for token in response.extended:
            self.leases.on_extended(token)
        self.counts.extended += len(response.extended)
        for token in response.settled:
            self.leases.on_settled(token)
            kind = self._unconfirmed.pop(token, None)
            if kind is not None:
                name = _CONFIRMED[kind]
                setattr(self.counts, name, getattr(self.counts, name) + 1)
            self._skipped.discard(token)
        for refusal in response.refused:
            lease = self.leases.on_refused(refusal.lease_token)
            if lease is not None:
                self._lose(lease)
            elif self._unconfirmed.pop(refusal.lease_token, None) is not None:
                self.counts.refused += 1
            self._skipped.discard(refusal.lease_token)
        if not self._unconfirmed:
            if self.stopping:
                self.notify()
            if self._draining:
                self._write_ready.set()

    def _lose(self, lease: Lease) -> None:
        """The lease has ended. A delivery without a running handler is dropped."""
        if lease.lost:
            return
        lease.lost = True
        self.counts.leases_lost += 1
        confirming = self._confirming.pop(lease.delivery.lease_token, None) is not None
        if not lease.released and (lease.begun is None or confirming):
            self._skip(lease)
            self.notify()

    def _skip(self, lease: Lease) -> None:
        """Drops a delivery without a handler. Releases it if the subscriber stops and its stream is open."""
        token = self.leases.release(lease)
        self.counts.skipped += 1
        if self.stopping and self.open and lease.stream == self._stream:
            self._outgoing.append((Settlement.release(), token))
            self._skipped.add(token)
            self._write_ready.set()

    def _skip_waiting(self) -> None:
        for lease in self._confirming.values():
            self._skip(lease)
        self._confirming.clear()
        while self.queue:
            lease = self.queue.popleft()
            if not lease.released:
                self._skip(lease)

    # ---- Handlers

    async def take(self) -> Lease | None:
        """Waits for a delivery whose handler may begin now; None after a request to stop."""
        while True:
            while not self.stopping and not self.queue:
                self._work_ready.clear()
                await self._work_ready.wait()
            if self.stopping:
                return None
            lease = self.try_take(time.monotonic())
            if lease is not None and (not lease.delivery.confirm_begun or await self._confirmed(lease)):
                return lease

    async def take_batch(self, most: int) -> list[Lease]:
        """As take(), with what waits behind the first delivery, at most `most` in all. A delivery whose begin the server must
        confirm is alone. Empty after a request to stop."""
        first = await self.take()
        if first is None:
            return []
        batch = [first]
        alone = first.delivery.confirm_begun
        while len(batch) < most and self.queue and not alone and not self.queue[0].delivery.confirm_begun:
            lease = self.try_take(time.monotonic())
            if lease is not None:
                batch.append(lease)
        return batch

    def try_take(self, now: float) -> Lease | None:
        """The first delivery of the queue; None if it is dropped, because its lease has ended. REQUIRES: the queue is not
        empty."""
        lease = self.queue.popleft()
        if lease.released:
            return None
        if self.leases.ended(lease, now):
            self._lose(lease)
            return None
        self.busy += 1
        self.leases.begin(lease, now)
        self._has_begun = True
        if lease.delivery.confirm_begun:
            self._confirming[lease.delivery.lease_token] = lease
            self._write_ready.set()
        elif now + REPORT_AFTER < self._writer_wakes:
            self._write_ready.set()
        return lease

    async def _confirmed(self, lease: Lease) -> bool:
        """Waits until the server knows that the handler begins. False: the handler must not begin."""
        while self._confirming.get(lease.delivery.lease_token) is lease:
            await self.wait_change(None)
        if not lease.released and (lease.lost or self.stopping or not self.open or lease.stream != self._stream):
            self._skip(lease)
        if lease.released:
            self._free_handler()
            return False
        lease.begun = time.monotonic()
        return True

    def _free_handler(self) -> None:
        self.busy -= 1
        if self._draining:
            self._write_ready.set()
        if self.stopping:
            self.notify()

    def settle(self, lease: Lease, settlement: Settlement) -> None:
        """The handler returned."""
        self.counts.delivered += 1
        on_stream = self.open and lease.stream == self._stream
        if settlement.kind == "leave" and on_stream:
            self.leases.leave(lease)
            self._write_ready.set()
        token = self.leases.release(lease)
        if settlement.kind == "leave":
            self.counts.left += 1
        elif not on_stream:
            self.counts.lost += 1
        else:
            self._outgoing.append((settlement, token))
            self._unconfirmed[token] = settlement.kind
            self._write_ready.set()
        self._free_handler()

    # ---- The writer

    async def next_write(self) -> pb.SubscribeRequest | None:
        """Waits for something to send. None: nothing more comes on this stream, which ends from this side."""
        while True:
            self._write_ready.clear()
            request, seconds = self.try_write(time.monotonic())
            if seconds is None or request is not None:
                return request
            await _wait(self._write_ready, seconds)

    def try_write(self, now: float) -> tuple[pb.SubscribeRequest | None, float | None]:
        """A request, or how long to wait for one; neither: the stream has nothing more to send."""
        if not self.open:
            return None, None
        self._writer_wakes = 0.0
        request = pb.SubscribeRequest(no_more_deliveries=self._no_more)
        self._no_more = False
        for _ in range(min(len(self._outgoing), self._request_max)):
            settlement, token = self._outgoing.popleft()
            settlement.add_to(request, token)
        self.counts.settle_requests += bool(request.settlements)
        given_back = self.leases.collect(now, self._request_max, request)
        self.counts.skipped += len(given_back)
        self._skipped.update(lease.delivery.lease_token for lease in given_back)
        while self.queue and self.queue[0].released:
            self.queue.popleft()
        self.leases.report(now, self._request_max, request)
        if request.ListFields():
            return request, 0
        # Nothing is left to settle: end the stream, so that a draining server does not wait for its grace period.
        if self._draining and not self.queue and self.busy == 0 and not self._unconfirmed:
            return None, None
        at = self.leases.next_collect(now)
        seconds = 3_600 if at is None else max(at - now, 0.001)
        if self._has_begun:
            # Handlers begin again soon, perhaps. The writer is awake in time for their reports, so that they need not wake it.
            self._has_begun = False
            seconds = min(seconds, REPORT_AFTER)
        self._writer_wakes = now + seconds
        return None, seconds

    # ---- Stop

    def request_stop(self) -> None:
        """Starts no further handler, and gives back what none got."""
        if self.stopping:
            return
        self.stopping = True
        self._lost_before_stop = self.counts.lost
        # Before the releases, so that the server does not deliver the same messages here again.
        self._no_more = self.open
        self._skip_waiting()
        self._write_ready.set()
        self._work_ready.set()
        self.notify()

    async def wait_handled(self, end: float) -> bool:
        while self.busy > 0 and time.monotonic() < end:
            await self.wait_change(end - time.monotonic())
        return self.busy == 0

    async def wait_confirmed(self, end: float) -> bool:
        """True if the server confirmed all settlements, and none was lost since the request to stop."""
        while (self._unconfirmed or self._skipped) and self.open and time.monotonic() < end:
            await self.wait_change(end - time.monotonic())
        return not self._unconfirmed and self.counts.lost == self._lost_before_stop


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        pass
