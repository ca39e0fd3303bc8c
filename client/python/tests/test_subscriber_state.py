# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

from google.protobuf.duration_pb2 import Duration

from duetime import Settlement, pb
from duetime.leases import Lease
from duetime.subscriber_state import SubscriberState

NOW = 1_000.0


def started(credit: int = 0, lease: int = 30) -> pb.SubscribeResponse:
    start = pb.SubscribeStarted(max_outstanding_messages=credit, lease_duration=Duration(seconds=lease))
    return pb.SubscribeResponse(started=start)


def delivered(*tokens: str) -> pb.SubscribeResponse:
    return pb.SubscribeResponse(deliveries=[pb.Delivery(lease_token=token) for token in tokens])


def take(state: SubscriberState) -> Lease:
    lease = asyncio.run(state.take())
    assert lease is not None
    return lease


def opened(credit: int = 0) -> SubscriberState:
    state = SubscriberState(extend_max=3_600)
    state.begin_stream()
    state.on_frame(started(credit))
    return state


def settlements(request: pb.SubscribeRequest | None) -> int:
    assert request is not None
    return len(request.ack) + len(request.nack) + len(request.release) + len(request.dead_letter)


def test_no_request_has_more_settlements_than_the_credit() -> None:
    state = opened(credit=3)
    state.on_frame(delivered(*(f"t{i}" for i in range(8))))
    for i in range(8):
        state.settle(take(state), Settlement.ack() if i % 2 else Settlement.nack("no"))
    sizes = [settlements(state.try_write(NOW)[0]) for _ in range(3)]
    assert sizes == [3, 3, 2]
    assert state.try_write(NOW)[0] is None


def test_extensions_share_the_room_of_settlements() -> None:
    state = opened(credit=3)
    state.on_frame(delivered("a", "b", "c", "d"))
    lease = take(state)
    state.settle(lease, Settlement.ack())
    request, _ = state.try_write(state.last_frame + 11)
    assert request is not None
    assert (list(request.ack), [one.lease_token for one in request.extend]) == (["a"], ["b", "c"])
    request, _ = state.try_write(state.last_frame + 11)
    assert request is not None
    assert [one.lease_token for one in request.extend] == ["d"]


def test_a_settled_lease_is_not_extended() -> None:
    state = opened()
    state.on_frame(delivered("a"))
    state.settle(take(state), Settlement.leave())
    assert state.try_write(state.last_frame + 11)[0] is None
    assert state.counts.left == 1


def test_a_stop_gives_back_what_has_no_handler() -> None:
    state = opened()
    state.on_frame(delivered("a", "b"))
    lease = take(state)
    state.request_stop()
    request, _ = state.try_write(NOW)
    assert request is not None
    assert request.no_more_deliveries
    assert [one.lease_token for one in request.release] == ["b"]
    state.settle(lease, Settlement.ack())
    state.on_frame(pb.SubscribeResponse(settled=["a", "b"]))
    assert (state.counts.acked, state.counts.released, state.counts.skipped) == (1, 0, 1)


def test_what_the_server_did_not_confirm_is_lost_with_the_stream() -> None:
    state = opened()
    state.on_frame(delivered("a", "b"))
    state.settle(take(state), Settlement.ack())
    late = take(state)
    state.end_stream()
    state.settle(late, Settlement.ack())
    assert state.counts.lost == 2


def test_a_refused_extension_is_a_lost_lease_and_a_refused_ack_is_refused() -> None:
    state = opened()
    state.on_frame(delivered("a", "b"))
    state.settle(take(state), Settlement.ack())
    assert state.try_write(state.last_frame + 11)[0] is not None
    state.on_frame(pb.SubscribeResponse(refused=[pb.SettleRefusal(lease_token="a"), pb.SettleRefusal(lease_token="b")]))
    assert (state.counts.refused, state.counts.leases_lost) == (1, 1)


def test_frames_without_unsettled_deliveries_are_not_kept_behind_a_slow_one() -> None:
    state = opened()
    state.on_frame(delivered("slow"))
    take(state)
    for i in range(10):
        state.on_frame(delivered(f"t{i}"))
        state.settle(take(state), Settlement.ack())
    assert len(state.leases._frames) == 1
