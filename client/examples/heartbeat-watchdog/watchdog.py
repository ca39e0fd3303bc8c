#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Raises an alarm when a device sends no heartbeat for too long. The README beside this file explains it."""

import argparse
import asyncio
import os
from datetime import timedelta

import duetime
from duetime import pb

TOPIC = "watchdog"


class Watchdog:
    """Each device has one pending message, its alarm. Each heartbeat pushes the alarm back."""

    def __init__(self, client: duetime.AsyncClient, timeout: timedelta) -> None:
        self._client = client
        self._timeout = timeout

    async def beat(self, device: str) -> bool:
        """Returns True if the device is new, or was silent for so long that its alarm was raised."""
        answer = await self._client.schedule(
            duetime.NewMessage(
                TOPIC, device, self._timeout,
                # With the device as key there is one alarm per device, in whichever process its heartbeats arrive.
                key=device,
                # Moves the alarm in one atomic step, and only to a later time. REPLACE would also let the heartbeat of a
                # process with a shorter timeout move it to an earlier time.
                on_conflict=pb.ScheduleRequest.ON_CONFLICT_PUSH_BACK),
            # The next heartbeat makes up for a lost one, so this call needs no request id. The server stores a record for
            # each request id.
            repeat=False)
        return answer.outcome == pb.SCHEDULE_OUTCOME_CREATED

    async def forget(self, device: str) -> bool:
        """Ends the watch of a device. Returns False if its alarm was raised before."""
        answer = (await self._client.cancel(duetime.Key(TOPIC, device))).answer
        return answer.outcome == pb.CancelResponse.OUTCOME_CANCELLED


async def send_heartbeats(watchdog: Watchdog, device: str, interval: timedelta, count: int | None) -> None:
    """Stands for a device: sends `count` heartbeats, or goes on forever."""
    sent = 0
    while count is None or sent < count:
        try:
            if await watchdog.beat(device):
                print(f"{device}: watched", flush=True)
            sent += 1
        except duetime.errors.Unavailable as error:
            print(f"{device}: lost a heartbeat: {error}", flush=True)
        await asyncio.sleep(interval.total_seconds())
    print(f"{device}: sent its last heartbeat", flush=True)


async def run(server: str, timeout: timedelta, interval: timedelta) -> None:
    alarm = asyncio.Event()

    async def raise_alarm(delivery: pb.Delivery) -> None:
        # When this function raises an exception, duetime delivers the alarm again.
        print(f"ALARM {delivery.key}: no heartbeat for {timeout.total_seconds():g} s", flush=True)
        alarm.set()

    async with duetime.AsyncClient(duetime.Options(server=server)) as client:
        watchdog = Watchdog(client, timeout)
        async with client.subscribe(TOPIC, raise_alarm):
            pump = asyncio.create_task(send_heartbeats(watchdog, "pump", interval, None))
            await send_heartbeats(watchdog, "fan", interval, 3)
            await alarm.wait()
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
        print("pump: no alarm" if await watchdog.forget("pump") else "pump: had an alarm", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timeout", type=float, default=90, metavar="SECONDS", help="silence until the alarm (default 90)")
    parser.add_argument("--interval", type=float, default=30, metavar="SECONDS", help="between heartbeats (default 30)")
    options = parser.parse_args()
    server = os.environ.get("DUETIME_SERVER", "127.0.0.1:7788")
    asyncio.run(run(server, timedelta(seconds=options.timeout), timedelta(seconds=options.interval)))


if __name__ == "__main__":
    main()
