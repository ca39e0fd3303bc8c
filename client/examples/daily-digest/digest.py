#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends each user a digest at 9:00 in the user's time zone. The README beside this file explains it."""

import argparse
import json
import os
import signal
import sys
from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

import duetime
from duetime import pb

TOPIC = "digests"


class Digests:
    """Each user has one recurrence. duetime makes the message of the next day when it delivers that of today."""

    def __init__(self, client: duetime.Client) -> None:
        self._client = client

    def subscribe(self, user: str, zone: str, hour: int = 9) -> pb.Recurrence:
        """Sets the digest of a user, who may have one already. A repeat changes nothing."""
        recurrence = pb.Recurrence(
            # The name follows from the user, so the service need not store it, and a user has at most one digest.
            name=f"{TOPIC}/{user}", topic=TOPIC,
            template=pb.MessageTemplate(
                payload=json.dumps({"user": user, "zone": zone}).encode(),
                # After a long outage, yesterday's digest is of no use.
                ttl=timedelta(hours=6), late_policy=pb.Message.LATE_POLICY_DROP),
            schedule=pb.RecurrenceSchedule(
                # A local time: it is 9:00 on the day on which clocks change, too.
                cron=f"0 {hour} * * *", time_zone=zone,
                # All users of a country would be due in the same second.
                jitter=timedelta(minutes=5)))
        try:
            return self._client.create_recurrence(pb.CreateRecurrenceRequest(recurrence=recurrence))
        except duetime.errors.AlreadyExists:
            # The user has moved to another zone. The update also moves the pending digest.
            request = pb.UpdateRecurrenceRequest(recurrence=recurrence)
            request.update_mask.paths.extend(["template", "schedule"])
            return self._client.update_recurrence(request)

    def unsubscribe(self, user: str) -> bool:
        """Also cancels the pending digest. Returns False if the user has none."""
        try:
            self._client.delete_recurrence(f"{TOPIC}/{user}")
            return True
        except duetime.errors.NotFound:
            return False


def send(delivery: pb.Delivery) -> None:
    """Handles one occurrence, which is an ordinary message."""
    content = json.loads(delivery.payload)
    today = delivery.deliver_time.ToDatetime(UTC).astimezone(ZoneInfo(content["zone"])).date()
    # A message can come more than once. User and day identify the digest: a service passes them to its mail provider as
    # idempotency key.
    print(f"sent digest {content['user']}/{today}, number {delivery.occurrence}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("subscribe", help="set the digest of a user, or move it to another zone")
    command.add_argument("user")
    command.add_argument("zone", help="for example Europe/Berlin")
    command.add_argument("--hour", type=int, default=9, help="local hour of the digest (default 9)")
    command = commands.add_parser("unsubscribe", help="end the digest of a user")
    command.add_argument("user")
    commands.add_parser("work", help="send due digests, until Ctrl-C")
    options = parser.parse_args()

    with duetime.Client(duetime.Options(server=os.environ.get("DUETIME_SERVER", "127.0.0.1:7788"))) as client:
        if options.command == "subscribe":
            recurrence = Digests(client).subscribe(options.user, options.zone, options.hour)
            due = recurrence.next_deliver_time.ToDatetime(UTC).astimezone(ZoneInfo(options.zone))
            print(f"{options.user}: the next digest is due at {due:%Y-%m-%d %H:%M:%S %Z}")
        elif options.command == "unsubscribe":
            print(f"{options.user}: {'no more digests' if Digests(client).unsubscribe(options.user) else 'had no digest'}")
        else:
            # Both signals leave the block below, which waits for running handlers and gives back the other messages.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: sys.exit())
            with client.subscribe(TOPIC, send, handlers=8) as subscriber:
                print("working", flush=True)
                subscriber.wait()


if __name__ == "__main__":
    main()
