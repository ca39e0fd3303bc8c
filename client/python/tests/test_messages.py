# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duetime import Key, LocalTime, NewMessage, Settlement, pb
from duetime.messages import schedule_request, set_target


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


def test_a_long_reason_is_cut_between_characters() -> None:
    request = pb.SubscribeRequest()
    Settlement.nack("ä" * 200).add_to(request, "token")
    assert request.nack[0].reason == "ä" * 127
