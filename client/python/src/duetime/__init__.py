# SPDX-License-Identifier: Apache-2.0
"""Client library of duetime, a durable delayed-message daemon: `Client`, and `AsyncClient` for asyncio."""

from duetime import fork  # isort: skip  (before anything imports grpc)
from duetime import errors, pb
from duetime.aio import AsyncClient, CancelResult, RescheduleResult, SettleResult
from duetime.client import Client, ScheduleStream, Subscriber
from duetime.connection import Backoff, Options
from duetime.errors import DuetimeError
from duetime.messages import Key, LocalTime, NewMessage, Settlement, Target, When
from duetime.schedule_stream import AsyncScheduleStream, Result
from duetime.subscriber import AsyncSubscriber, SubscriberOptions
from duetime.subscriber_state import Counts

__all__ = [
    "AsyncClient", "AsyncScheduleStream", "AsyncSubscriber", "Backoff", "CancelResult", "Client", "Counts",
    "DuetimeError", "Key", "LocalTime", "NewMessage", "Options", "RescheduleResult", "Result", "ScheduleStream", "SettleResult",
    "Settlement", "Subscriber", "SubscriberOptions", "Target", "When", "errors", "pb",
]
