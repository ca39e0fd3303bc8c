# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import cast

import pytest
from fake import FakeStream

from duetime import AsyncScheduleStream, NewMessage, errors, pb
from duetime.connection import Connection


def test_a_cancelled_send_breaks_the_stream_so_that_no_answer_goes_to_the_wrong_message() -> None:
    async def run() -> list[str]:
        stream = AsyncScheduleStream(cast(Connection, FakeStream()), lambda number, result: None, frames_max=1, answer_timeout=30)
        await stream.send(NewMessage("t", key="a"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.send(NewMessage("t", key="b")), 0.05)
        with pytest.raises(errors.Cancelled):
            await stream.send(NewMessage("t", key="c"))
        return [one.key for one in await stream.unanswered()]
    assert asyncio.run(run()) == ["a", "b", "c"]


def test_frames_of_several_tasks_are_written_one_at_a_time_and_in_the_order_of_their_numbers() -> None:
    async def run() -> list[str]:
        fake = FakeStream()
        results: list[str] = []
        stream = AsyncScheduleStream(
            cast(Connection, fake), lambda number, result: results.append(result.message.key),  # type: ignore
            frames_max=1, answer_timeout=30)
        sends = [asyncio.create_task(stream.send(NewMessage("t", key=str(i)))) for i in range(5)]
        for i in range(5):
            frame = await asyncio.wait_for(fake.written.get(), 10)
            message = pb.Message(key=frame.messages[0].key)
            fake.answers.put_nowait(pb.ScheduleStreamResponse(first=i, results=[pb.ScheduleResult(message=message)]))
        await asyncio.gather(*sends)
        await stream.unanswered()
        return results
    assert asyncio.run(run()) == ["0", "1", "2", "3", "4"]


def test_an_impatient_finish_does_not_lose_what_has_no_answer() -> None:
    async def run() -> int:
        stream = AsyncScheduleStream(cast(Connection, FakeStream()), lambda number, result: None, frames_max=8, answer_timeout=30)
        await stream.send(NewMessage("t"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.finish(), 0.05)
        return len(await stream.unanswered())
    assert asyncio.run(run()) == 1
