# SPDX-License-Identifier: Apache-2.0
"""The plain classes have the methods of the asynchronous ones, and type checkers see their parameters and results."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import assert_type

import pytest

from duetime import (
    AsyncClient,
    AsyncScheduleStream,
    AsyncSubscriber,
    CancelResult,
    Client,
    ScheduleStream,
    Subscriber,
    pb,
)


@pytest.mark.parametrize(("plain", "asynchronous"), [
    (Client, AsyncClient), (Subscriber, AsyncSubscriber), (ScheduleStream, AsyncScheduleStream)])
def test_a_plain_class_has_the_methods_of_the_asynchronous_one(plain: type, asynchronous: type) -> None:
    names, expected = ({name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
                       for kind in (plain, asynchronous))
    assert names == expected


def check_types(client: Client, subscriber: Subscriber, stream: ScheduleStream) -> None:
    """For mypy, which also reports a comment "ignore" without an error."""
    assert_type(client.cancel("id", stop_redelivery=True), CancelResult)
    assert_type(client.get_subscription(pb.GetSubscriptionRequest(topic="t")), pb.GetSubscriptionResponse)
    assert_type(client.list_topics(), Iterator[pb.Topic])
    assert_type(client.list(pb.ListRequest()), Iterator[pb.Message])
    assert_type(subscriber.stop(), bool)
    assert_type(stream.unanswered(), list[pb.ScheduleRequest])
    client.get_topic(5)  # type: ignore[arg-type]
    client.get_topic()  # type: ignore[call-arg]
    client.get_topic(pb.GetTopicRequest(), forse=True)  # type: ignore[call-arg]
    client.cancel("id", True)  # type: ignore[call-arg]
    stream.send(5)  # type: ignore[arg-type]
