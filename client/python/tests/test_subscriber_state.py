# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from duetime import Settlement, pb
from duetime.leases import Lease
from duetime.subscriber_state import SubscriberState


def started(credit: int = 0, lease: int = 30) -> pb.SubscribeResponse:
    start = pb.SubscribeStarted(max_outstanding_messages=credit, lease_duration=Duration(seconds=lease))
    return pb.SubscribeResponse(started=start)


def delivered(*tokens: str) -> pb.SubscribeResponse:
    return pb.SubscribeResponse(deliveries=[pb.Delivery(lease_token=token) for token in tokens])


def take(state: SubscriberState) -> Lease:
    lease = asyncio.run(state.take())
    assert lease is not None
    return lease


def opened(credit: int = 0, extend_max: float = 3_600) -> SubscriberState:
    state = SubscriberState(extend_max)
    state.begin_stream()
    state.on_frame(started(credit))
    return state


def written(state: SubscriberState, after: float) -> dict[str, list[str]]:
    """The tokens of the request that the writer sends this long after the last frame, by action; ack: without one."""
    request = state.try_write(state.last_frame + after)[0] or pb.SubscribeRequest()
    tokens: dict[str, list[str]] = {"begun": list(request.begun)} if request.begun else {}
    for one in request.settlements:
        tokens.setdefault(one.WhichOneof("action") or "ack", []).append(one.lease_token)
    assert len({one.lease_token for one in request.settlements}) == len(request.settlements), "a lease is settled twice"
    return tokens


def refused(*tokens: str) -> pb.SubscribeResponse:
    return pb.SubscribeResponse(refused=[pb.SettleRefusal(lease_token=token) for token in tokens])


def test_no_request_has_more_settlements_than_the_credit() -> None:
    state = opened(credit=3)
    state.on_frame(delivered(*(f"t{i}" for i in range(8))))
    for i in range(8):
        state.settle(take(state), Settlement.ack() if i % 2 else Settlement.nack("no"))
    assert [written(state, 0) for _ in range(4)] == [
        {"nack": ["t0", "t2"], "ack": ["t1"]}, {"ack": ["t3", "t5"], "nack": ["t4"]}, {"nack": ["t6"], "ack": ["t7"]}, {}]


def test_settlements_keep_the_order_of_the_handlers() -> None:
    state = opened()
    answers = {"a": Settlement.nack("no"), "b": Settlement.ack(), "c": Settlement.dead_letter("never"), "d": Settlement.release(),
               "e": Settlement.ack(), "f": Settlement.nack()}
    state.on_frame(delivered(*answers))
    for answer in answers.values():
        state.settle(take(state), answer)
    expected = pb.SubscribeRequest()
    for token, answer in answers.items():
        answer.add_to(expected, token)
    assert state.try_write(state.last_frame)[0] == expected


def test_extensions_share_the_room_of_settlements() -> None:
    state = opened(credit=3)
    state.on_frame(delivered("a", "b", "c", "d"))
    state.settle(take(state), Settlement.ack())
    assert [written(state, 11) for _ in range(3)] == [{"ack": ["a"], "extend": ["b", "c"]}, {"extend": ["d"]}, {}]


@pytest.mark.parametrize(("settlement", "expected"), [
    (Settlement.ack(), {"ack": ["a"]}), (Settlement.nack(), {"nack": ["a"]}), (Settlement.leave(), {"begun": ["a"]})])
def test_a_settled_lease_is_not_extended(settlement: Settlement, expected: Any) -> None:
    state = opened()
    state.on_frame(delivered("a"))
    state.settle(take(state), settlement)
    assert [written(state, after) for after in (11, 22)] == [expected, {}]
    assert state.counts.left == (settlement.kind == "leave")


def test_a_stop_gives_back_what_has_no_handler() -> None:
    state = opened()
    state.on_frame(delivered("a", "b"))
    lease = take(state)
    state.request_stop()
    expected = pb.SubscribeRequest(no_more_deliveries=True)
    Settlement.release().add_to(expected, "b")
    assert state.try_write(state.last_frame)[0] == expected
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


# ---- Reports. Handlers begin when the frame arrives; times are in seconds after that.

@pytest.mark.parametrize(("after", "settles_another", "expected"), [
    (0.09, False, {}),
    (0.11, False, {"begun": ["a"]}),
    (0.005, True, {"ack": ["b"]}),
    (0.02, True, {"ack": ["b"], "begun": ["a"]}),
    (11, False, {"begun": ["a"], "extend": ["a", "b"]}),
])
def test_a_handler_that_runs_on_is_reported_once(after: float, settles_another: bool, expected: Any) -> None:
    state = opened()
    state.on_frame(delivered("a", "b"))
    state.try_take(state.last_frame)
    if settles_another:
        state.settle(take(state), Settlement.ack())
    assert written(state, after) == expected
    state.on_frame(pb.SubscribeResponse(begun=expected.get("begun", [])))
    assert "begun" in expected or "begun" in written(state, after + 0.2)
    assert "begun" not in written(state, after + 0.4)


def test_a_delivery_that_its_handler_leaves_is_reported_at_once_and_once() -> None:
    state = opened()
    state.on_frame(delivered("a"))
    state.settle(take(state), Settlement.leave())
    assert written(state, 0) == {"begun": ["a"]}
    assert written(state, 1) == {}
    state.on_frame(refused("a"))
    assert state.counts.left == 1 and state.counts.refused == 0


def test_the_writer_wakes_for_a_report() -> None:
    state = opened()
    state.on_frame(delivered("a", "b"))
    now = state.last_frame
    assert state.try_write(now)[1] == pytest.approx(10)
    state._write_ready.clear()
    lease = state.try_take(now + 1)
    assert lease is not None and state._write_ready.is_set()
    assert state.try_write(now + 1.04)[1] == pytest.approx(0.06)
    state.settle(lease, Settlement.ack())
    assert written(state, 1.05) == {"ack": ["a"]}


def test_the_handlers_of_a_busy_subscriber_do_not_wake_the_writer() -> None:
    state = opened()
    state.on_frame(delivered("a", "b"))
    now = state.last_frame
    lease = state.try_take(now + 1)
    assert lease is not None
    state.settle(lease, Settlement.ack())
    assert written(state, 1.01) == {"ack": ["a"]}
    assert state.try_write(now + 1.01)[1] == pytest.approx(0.1)
    state._write_ready.clear()
    assert state.try_take(now + 1.06) is not None
    assert not state._write_ready.is_set()
    assert state.try_write(now + 1.11)[1] == pytest.approx(0.05)


def test_reports_share_the_room_of_a_request() -> None:
    state = opened(credit=3)
    state.on_frame(delivered(*"abcdef"))
    state.settle(take(state), Settlement.ack())
    for _ in range(5):
        state.try_take(state.last_frame)
    assert [written(state, 0.2) for _ in range(3)] == [{"ack": ["a"], "begun": ["b", "c"]}, {"begun": ["d", "e", "f"]}, {}]


@pytest.mark.parametrize(("after", "expected"), [(1, {"begun": ["a"]}), (10, {"begun": ["a"], "extend": ["a"]})])
def test_a_refused_report_is_a_lost_lease_and_then_a_refused_settlement_is_refused(after: float, expected: Any) -> None:
    state = opened()
    state.on_frame(delivered("a"))
    lease = take(state)
    assert written(state, after) == expected
    state.settle(lease, Settlement.ack())
    assert written(state, after) == {"ack": ["a"]}
    state.on_frame(refused(*["a"] * len(expected)))
    assert (state.counts.leases_lost, state.counts.refused) == (1, 0)
    state.on_frame(refused("a"))
    assert (state.counts.leases_lost, state.counts.refused, state.counts.skipped) == (1, 1, 0)


def test_reports_that_an_older_server_does_not_answer_are_forgotten() -> None:
    state = opened()
    state.on_frame(delivered("a", "b"))
    for token, answer in [("a", pb.SubscribeResponse(settled=["a"])), ("b", refused("b"))]:
        lease = take(state)
        written(state, 1)
        state.settle(lease, Settlement.ack())
        assert written(state, 2) == {"ack": [token]}
        state.on_frame(answer)
        assert (len(state.leases._reported), len(state._unconfirmed)) == (0, 0)
    assert (state.counts.acked, state.counts.refused, state.counts.leases_lost) == (1, 1, 0)


def test_a_report_of_an_ended_stream_is_not_sent_on_the_next() -> None:
    state = opened()
    state.on_frame(delivered("a"))
    state.try_take(state.last_frame)
    state.end_stream()
    state.begin_stream()
    state.on_frame(started())
    assert written(state, 1) == {}


# ---- Deliveries whose handler waits for a confirmation

def confirm(state: SubscriberState) -> None:
    state.on_frame(pb.SubscribeResponse(begun=["a"]))


def refuse(state: SubscriberState) -> None:
    state.on_frame(refused("a"))


@pytest.mark.parametrize(("what", "begins", "skipped", "lost", "then"), [
    ([confirm], True, 0, 0, {}),
    ([refuse], False, 1, 1, {}),
    ([SubscriberState.end_stream], False, 1, 0, {}),
    ([SubscriberState.request_stop], False, 1, 0, {"release": ["a"]}),
    # All of it before the handler's task goes on.
    ([confirm, SubscriberState.request_stop], False, 1, 0, {"release": ["a"]}),
    ([confirm, SubscriberState.end_stream], False, 1, 0, {}),
    ([confirm, refuse], False, 1, 1, {}),
])
def test_a_suspect_begins_when_the_server_has_confirmed_it(
        what: Any, begins: bool, skipped: int, lost: int, then: Any) -> None:
    async def run() -> None:
        state = opened()
        state.on_frame(pb.SubscribeResponse(deliveries=[pb.Delivery(lease_token="a", confirm_begun=True)]))
        slot = asyncio.create_task(state.take())
        await asyncio.sleep(0)
        assert written(state, 0) == {"begun": ["a"]}
        assert written(state, 11) == {"extend": ["a"]}
        assert not slot.done() and state.busy == 1
        for step in what:
            step(state)
        done, _ = await asyncio.wait([slot], timeout=0.01)
        assert bool(done and slot.result()) == begins
        assert (state.busy, state.counts.skipped, state.counts.leases_lost) == (int(begins), skipped, lost)
        assert written(state, 12) == then
        slot.cancel()
    asyncio.run(run())


# ---- Time in the queue. The lease is 30 s, and thus a check comes every 10 s.

@pytest.mark.parametrize(("extend_max", "begun_after", "checks"), [
    # A waiting delivery: extended, then given back before its lease ends.
    (3_600, None, {10: "extend", 20: "extend"}),
    (35, None, {10: "extend", 20: "extend", 30: "release", 40: None}),
    (0, None, {10: None, 19.9: None, 20: "release", 30: None}),
    (-1, None, {10: None, 19.9: None, 20: "release"}),
    (5, None, {10: None, 19.9: None, 20: "release"}),
    # The handler's time begins with the handler.
    (25, 12, {10: "extend", 20: "extend", 30: "extend", 40: None}),
    (0, 5, {10: None, 20: None, 30: None}),
    # The lease has ended before anything could be sent.
    (3_600, None, {31: "release"}),
])
def test_a_delivery_that_waits_is_given_back_and_a_handler_has_all_its_time(
        extend_max: float, begun_after: float | None, checks: dict[float, str | None]) -> None:
    state = opened(extend_max=extend_max)
    state.on_frame(delivered("a"))
    for after, field in checks.items():
        if begun_after is not None and state.busy == 0 and after > begun_after:
            assert state.try_take(state.last_frame + begun_after) is not None
        got = written(state, after)
        got.pop("begun", None)
        assert got == ({} if field is None else {field: ["a"]}), f"after {after} s"
    given_back = "release" in checks.values()
    assert (state.counts.skipped, len(state.queue)) == (int(given_back), int(not given_back and begun_after is None))
    # A stop waits for the confirmation.
    assert (state._skipped == {"a"}) == given_back
    state.on_frame(pb.SubscribeResponse(settled=["a"]))
    assert (state._skipped, state.counts.released) == (set(), 0)


@pytest.mark.parametrize(("extended_after", "taken_after", "begins"), [
    (None, 29.9, True), (None, 30, False), (10, 39.9, True), (10, 40, False)])
def test_nothing_is_handled_whose_lease_has_ended(extended_after: float | None, taken_after: float, begins: bool) -> None:
    state = opened()
    state.on_frame(delivered("a"))
    if extended_after is not None:
        assert written(state, extended_after) == {"extend": ["a"]}
    assert (state.try_take(state.last_frame + taken_after) is not None) == begins
    assert (state.counts.leases_lost, state.counts.skipped, state.busy) == (int(not begins), int(not begins), int(begins))


def test_nothing_is_handled_whose_lease_the_server_did_not_extend() -> None:
    state = opened()
    state.on_frame(delivered("a", "b"))
    assert written(state, 10) == {"extend": ["a", "b"]}
    state.on_frame(refused("a"))
    assert state.try_take(state.last_frame) is None
    lease = state.try_take(state.last_frame)
    assert lease is not None and lease.delivery.lease_token == "b"
    assert (state.counts.leases_lost, state.counts.skipped) == (1, 1)
