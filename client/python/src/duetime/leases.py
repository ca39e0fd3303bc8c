# SPDX-License-Identifier: Apache-2.0
"""Which leases to extend, to report and to give back, and when. No clock and no task: the caller passes the time."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, deque
from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration

from duetime import pb
from duetime.messages import Settlement

#: Seconds after which a running handler is reported in a request of its own.
REPORT_AFTER = 0.1

#: Seconds for which a running handler is not reported in other requests: it may be about to settle.
_BRIEF = 0.01


@dataclasses.dataclass(slots=True, eq=False)
class Lease:
    """A delivery, and what the subscriber knows of its lease."""

    delivery: pb.Delivery
    frame: Frame
    #: The number of the stream that brought it.
    stream: int
    #: When it arrived or was last extended. The lease ends at most one lease duration later.
    renewed: float
    #: When a handler took it; None: it waits for one.
    begun: float | None = None
    #: It is settled or skipped.
    released: bool = False
    #: The server refused to extend it or to take the report of it, or it ended before a handler took it.
    lost: bool = False


@dataclasses.dataclass(slots=True, eq=False)
class Frame:
    """The deliveries of one response."""

    received: float
    leases: list[Lease] = dataclasses.field(default_factory=list)
    #: How many are neither settled nor skipped.
    held: int = 0
    check_at: float = 0
    #: The leases before this one are checked.
    checked: int = 0


def _has_room(request: pb.SubscribeRequest, size_max: int) -> bool:
    return len(request.settlements) + len(request.begun) < size_max


class LeaseKeeper:
    """Checks unsettled deliveries whenever a third of a lease has passed, so that a lost request or a slow server does not
    end a lease. Extends the lease of a running handler until `extend_max` after its begin, and of a waiting delivery until
    `extend_max` after its arrival. Then it gives the waiting delivery back, before its lease ends. Without extensions it
    gives back after two thirds of the lease.

    Reports each handler that runs for long enough once."""

    def __init__(self, extend_max: float) -> None:
        self._extend_max = extend_max
        self._duration = Duration()
        #: Seconds: a lease, and the time from check to check.
        self._lease = self._interval = 0.0
        self._extends = False
        # Those with unsettled deliveries, in the order of check_at, because each is appended with the same distance from now.
        self._frames: OrderedDict[Frame, None] = OrderedDict()
        # The deliveries of running handlers that are not reported, in the order of `begun`; and those to report at once.
        self._unreported: dict[Lease, None] = {}
        self._confirmable: deque[Lease] = deque()
        # Deliveries that their handlers have left, to report at once.
        self._left: deque[Lease] = deque()
        # Extensions and reports that the server has not answered.
        self._asked: dict[str, Lease] = {}
        self._reported: dict[str, Lease] = {}
        # False: the server is older, and answers no report.
        self._reports = True

    def start(self, duration: Duration) -> None:
        """The server opened a stream with leases of this length."""
        self._duration.CopyFrom(duration)
        self._lease = duration.seconds + duration.nanos / 1e9
        self._extends = self._lease / 3 < self._extend_max
        self._interval = self._lease / 3 if self._extends else self._lease * 2 / 3

    def clear(self) -> None:
        """The stream and its leases have ended."""
        self._frames.clear()
        self._unreported.clear()
        self._confirmable.clear()
        self._left.clear()
        self._asked.clear()
        self._reported.clear()
        self._reports = True
        self._interval = 0.0

    def add(self, deliveries: Sequence[pb.Delivery], stream: int, now: float) -> list[Lease]:
        frame = Frame(received=now, held=len(deliveries))
        frame.leases = [Lease(delivery, frame, stream, now) for delivery in deliveries]
        self._append(frame, now + self._interval)
        return frame.leases

    def _append(self, frame: Frame, check_at: float) -> None:
        if frame.held > 0 and self._interval > 0:
            frame.check_at, frame.checked = check_at, 0
            self._frames[frame] = None

    def ended(self, lease: Lease, now: float) -> bool:
        """True if the lease is over for certain. REQUIRES: the lease is of the open stream."""
        return 0 < self._lease <= now - lease.renewed

    def begin(self, lease: Lease, now: float) -> None:
        """A handler took the delivery. If the server must confirm that, it is reported at once."""
        lease.begun = now
        if lease.delivery.confirm_begun:
            self._confirmable.append(lease)
        elif self._reports:
            self._unreported[lease] = None

    def leave(self, lease: Lease) -> None:
        """The handler leaves the delivery unsettled. Without a report, the server would take it for one that has perhaps ended
        its process. Call it before `release`."""
        if lease in self._unreported:
            self._left.append(lease)

    def release(self, lease: Lease) -> str:
        """The delivery is settled or will not be handled. Returns its token. REQUIRES: once for each lease."""
        assert not lease.released
        lease.released = True
        self._unreported.pop(lease, None)
        lease.frame.held -= 1
        if lease.frame.held == 0:
            self._frames.pop(lease.frame, None)
        return lease.delivery.lease_token

    def collect(self, now: float, size_max: int, request: pb.SubscribeRequest) -> list[Lease]:
        """Adds settlements of the leases that are to be extended or given back now or soon after. Those without room stay due.
        Returns the leases that it gave back, which are released."""
        given_back: list[Lease] = []
        # A little ahead, so that deliveries that arrived close together share a request. None is given back ahead.
        until = now + (self._lease / 12 if self._extends else 0)
        while (frame := self._first()) is not None and frame.check_at <= until:
            while frame.checked < len(frame.leases):
                lease = frame.leases[frame.checked]
                extends = self._is_to_extend(lease, now)
                if extends or (lease.begun is None and not lease.released):
                    if not _has_room(request, size_max):
                        return given_back
                    if extends:
                        self._extend(lease, now, request)
                    else:
                        Settlement.release().add_to(request, self.release(lease))
                        given_back.append(lease)
                frame.checked += 1
            self._frames.pop(frame, None)
            self._append(frame, now + self._interval)
        return given_back

    def _is_to_extend(self, lease: Lease, now: float) -> bool:
        if not self._extends or lease.released or lease.lost:
            return False
        if lease.begun is not None:
            return now < lease.begun + self._extend_max
        return now + self._interval < lease.frame.received + self._extend_max and not self.ended(lease, now)

    def _extend(self, lease: Lease, now: float, request: pb.SubscribeRequest) -> None:
        token = lease.delivery.lease_token
        request.settlements.add(lease_token=token, extend=pb.ExtendLease(duration=self._duration))
        self._asked[token] = lease
        lease.renewed = now

    def report(self, now: float, size_max: int, request: pb.SubscribeRequest) -> None:
        """Adds reports. Those without room stay due."""
        while self._confirmable and _has_room(request, size_max):
            lease = self._confirmable.popleft()
            if not lease.released:
                self._report(lease, request)
        while self._left and _has_room(request, size_max):
            self._report(self._left.popleft(), request)
        due = now - (_BRIEF if request.ListFields() else REPORT_AFTER)
        while _has_room(request, size_max) and (begun := self._first_begun()) is not None and begun <= due:
            lease = next(iter(self._unreported))
            del self._unreported[lease]
            self._report(lease, request)
            due = now - _BRIEF

    def _report(self, lease: Lease, request: pb.SubscribeRequest) -> None:
        token = lease.delivery.lease_token
        request.begun.append(token)
        self._reported[token] = lease

    def _first_begun(self) -> float | None:
        return next(iter(self._unreported)).begun if self._unreported else None

    def next_collect(self, now: float) -> float | None:
        """When to call collect and report; None: no stream is open."""
        if self._interval == 0:
            return None
        frame = self._first()
        at = frame.check_at if frame is not None else now + self._interval
        begun = self._first_begun()
        return at if begun is None else min(at, begun + REPORT_AFTER)

    def _first(self) -> Frame | None:
        return next(iter(self._frames), None)

    def on_extended(self, token: str) -> None:
        self._asked.pop(token, None)

    def on_begun(self, token: str) -> None:
        self._reported.pop(token, None)

    def on_settled(self, token: str) -> None:
        """The server answers the report of a token before its settlement."""
        if token in self._reported:
            self._reports = False
            self._unreported.clear()
            self._left.clear()
            self._reported.clear()

    def on_refused(self, token: str) -> Lease | None:
        """The lease, if the server refused its report or its extension: it is lost. None: the refusal means a settlement,
        because the server answers the other requests for a token first."""
        lease = self._reported.pop(token, None) or self._asked.pop(token, None)
        if lease is not None:
            self._unreported.pop(lease, None)
        return lease
