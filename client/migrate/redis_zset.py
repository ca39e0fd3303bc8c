#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the delayed jobs of a Redis sorted set and hash as lines for `duetime import -`.

The score of a member is its due time, the member is the id of the job, and the field of the hash with that id is its payload.
Reads only. The README beside this file explains it."""

import argparse
import base64
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import redis

PAGE = 1000


def jobs(server: redis.Redis, zset: str, hash_name: str) -> Iterator[tuple[bytes, float, bytes | None]]:
    # ZSCAN does not block the server, and returns every member that is there from the beginning to the end. It may return
    # one twice; the lines are the same then.
    members = server.zscan_iter(zset, count=PAGE)
    while page := list(islice(members, PAGE)):
        payloads = server.hmget(hash_name, [member for member, _ in page])
        for (member, score), payload in zip(page, payloads, strict=True):
            yield member, score, payload


def line(topic: str, member: bytes, seconds: float, payload: bytes) -> str:
    return json.dumps({
        "topic": topic,
        # A repeat finds the key, also after the end of the message, and makes no second message. Later, the service cancels
        # and moves the message by it.
        "key": member.decode(),
        "on_conflict": "ON_CONFLICT_ONCE",
        "deliver_time": datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z"),
        "payload": base64.b64encode(payload).decode()})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topic", help="the topic of duetime")
    parser.add_argument("zset", help="the key of the sorted set")
    parser.add_argument("hash", help="the key of the hash")
    parser.add_argument("--url", default="redis://127.0.0.1:6379/0", help="the server (default %(default)s)")
    parser.add_argument("--milliseconds", action="store_true", help="scores are milliseconds (default: seconds)")
    options = parser.parse_args()

    skipped = 0
    for member, score, payload in jobs(redis.Redis.from_url(options.url), options.zset, options.hash):
        try:
            if payload is None:
                raise ValueError("it has no payload")
            print(line(options.topic, member, score / 1000 if options.milliseconds else score, payload))
        except (ValueError, OverflowError) as error:
            skipped += 1
            print(f"skipped {member!r}: {error}", file=sys.stderr)
    return 1 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
