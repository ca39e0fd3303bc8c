# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from google.protobuf.duration_pb2 import Duration

from duetime import CancelResult, Key, LocalTime, NewMessage, RescheduleResult, Settlement, pb
from duetime.messages import schedule_request, set_target, set_when


def test_when_a_message_is_due() -> None:
    assert NewMessage("t", when=timedelta(milliseconds=1_500)).proto().delay.ToTimedelta() == timedelta(milliseconds=1_500)
    moment = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert NewMessage("t", when=moment).proto().deliver_time.ToDatetime(tzinfo=UTC) == moment
    local = NewMessage("t", when=LocalTime("2030-01-02T03:04", "Asia/Shanghai")).proto().civil_time
    assert (local.local, local.time_zone) == ("2030-01-02T03:04", "Asia/Shanghai")
    with pytest.raises(ValueError):
        NewMessage("t", when=datetime(2030, 1, 2)).proto()


def test_a_random_request_id_does_not_replace_one() -> None:
    assert schedule_request(NewMessage("t", request_id="mine"), named=True).request_id == "mine"
    first, second = (schedule_request(NewMessage("t"), named=True).request_id for _ in range(2))
    assert first != second
    assert schedule_request(NewMessage("t"), named=False).request_id == ""


def test_targets() -> None:
    request = pb.GetRequest()
    set_target(request, Key("t", "k"))
    assert (request.key.topic, request.key.key) == ("t", "k")
    set_target(request, "id")
    assert request.WhichOneof("target") == "message_id"


@pytest.mark.parametrize(("settlement", "action"), [
    (Settlement.ack(), {}),
    (Settlement.nack(), {"nack": pb.Nack()}),
    (Settlement.nack("r", delay=timedelta(0)), {"nack": pb.Nack(delay=Duration(), reason="r")}),
    (Settlement.dead_letter("r"), {"dead_letter": pb.DeadLetterLease(reason="r")}),
    (Settlement.dead_letter(), {"dead_letter": pb.DeadLetterLease()}),
    (Settlement.release(), {"release": pb.ReleaseLease()}),
    (Settlement.release(delay=timedelta(seconds=2)), {"release": pb.ReleaseLease(delay=Duration(seconds=2))}),
    # A reason that is too long is cut between characters.
    (Settlement.nack("ä" * 200), {"nack": pb.Nack(reason="ä" * 127)}),
    (Settlement.dead_letter("ä" * 200), {"dead_letter": pb.DeadLetterLease(reason="ä" * 127)}),
])
def test_a_settlement_names_its_lease_and_its_action(settlement: Settlement, action: Any) -> None:
    request = pb.SettleRequest()
    settlement.add_to(request, "token")
    assert list(request.settlements) == [pb.Settlement(lease_token="token", **action)]


@pytest.mark.parametrize(("make", "text"), [
    (lambda wrong: NewMessage("t", "x", wrong), "timedelta.* not 5 \\(int\\)"),
    (lambda wrong: NewMessage("t", wrong), "payload is bytes.* not 5 \\(int\\)"),
    (lambda wrong: NewMessage("t", "x", cast(Any, (wrong, wrong))), "LocalTime, not \\(5, 5\\)"),
    (lambda wrong: set_when(pb.RescheduleRequest(), wrong), "timedelta.* not 5 \\(int\\)"),
    (lambda wrong: set_target(pb.GetRequest(), wrong), "Key\\(topic, key\\), not by 5 \\(int\\)"),
    (lambda wrong: schedule_request(wrong, named=True), "NewMessage.* not a int"),
])
def test_a_wrong_type_is_named_where_it_is(make: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        make(5)


def test_pairs_of_texts_are_local_times_and_keys() -> None:
    pair: Any = ("2030-01-02T03:04", "UTC")
    assert NewMessage("t", when=pair).proto().civil_time.time_zone == "UTC"
    request = pb.GetRequest()
    pair = ("t", "k")
    set_target(request, pair)
    assert request.key.key == "k"


CANCEL, MOVE = pb.CancelResponse, pb.RescheduleResponse


@pytest.mark.parametrize(("outcome", "tried_before", "cancelled"), [
    (CANCEL.OUTCOME_CANCELLED, False, True), (CANCEL.OUTCOME_ALREADY_CANCELLED, False, False),
    (CANCEL.OUTCOME_ALREADY_CANCELLED, True, True), (CANCEL.OUTCOME_IN_FLIGHT, True, False),
    (CANCEL.OUTCOME_NOT_FOUND, False, False)])
def test_if_a_cancel_cancelled(outcome: Any, tried_before: bool, cancelled: bool) -> None:
    assert CancelResult(CANCEL(outcome=outcome), tried_before).cancelled is cancelled


@pytest.mark.parametrize(("outcome", "moved"), [(MOVE.OUTCOME_RESCHEDULED, True), (MOVE.OUTCOME_IN_FLIGHT, False)])
def test_if_a_reschedule_moved(outcome: Any, moved: bool) -> None:
    assert RescheduleResult(MOVE(outcome=outcome)).moved is moved


@pytest.mark.parametrize("result", [CancelResult(CANCEL(), False), RescheduleResult(MOVE())])
def test_the_result_of_a_change_is_no_truth_value(result: Any) -> None:
    with pytest.raises(TypeError, match="Result is not true or false"):
        bool(result)
