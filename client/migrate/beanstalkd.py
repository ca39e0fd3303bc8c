#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the delayed jobs of a beanstalkd tube as lines for `duetime import -`.

Reads the binlog, with exact times, or asks a daemon without a binlog, with times that are up to two seconds later. Reads only.
The README beside this file explains it."""

import argparse
import base64
import glob
import json
import os
import re
import socket
import struct
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import BinaryIO, NamedTuple

INVALID, READY, RESERVED, BURIED, DELAYED = range(5)
# struct Jobrec of version 7: id, pri, delay, ttr, body_size, created_at, deadline_at, five counts, state; of a 64-bit machine.
RECORD = struct.Struct("@QIqqiqqIIIIIB0Q")
BINLOG_VERSION = 7
PAGE = 1000


class Job(NamedTuple):
    id: int
    priority: int
    due_ns: int
    body: bytes


# ---- The binlog. Each file is a version and records. A record is the length of the tube's name, the name, a Jobrec and the body;
# ---- or, for a change of a job's state, a length of 0 and a Jobrec.


def binlog_jobs(folder: str, tube: str) -> Iterator[Job]:
    # Only jobs that have not ended, because a binlog also has the bodies of those that have.
    jobs: dict[int, tuple[str, bytes, tuple[int, ...]]] = {}
    paths = glob.glob(os.path.join(folder, "binlog.[0-9]*"))
    if not paths:
        raise ValueError(f"{folder} has no binlog")
    for path in sorted(paths, key=lambda path: int(path.rpartition(".")[2])):
        with open(path, "rb") as file:
            if struct.unpack("@i", file.read(4)) != (BINLOG_VERSION,):
                raise ValueError(f"{path} is not a binlog of version {BINLOG_VERSION}")
            for name, record, body in records(file):
                number, state = record[0], record[-1]
                if state == INVALID:
                    jobs.pop(number, None)
                elif name is not None:
                    jobs[number] = (name, body, record)
                elif number in jobs:
                    jobs[number] = (*jobs[number][:2], record)
    for number, (name, body, record) in jobs.items():
        if name == tube and record[-1] == DELAYED:
            yield Job(number, record[1], record[6], body)


def records(file: BinaryIO) -> Iterator[tuple[str | None, tuple[int, ...], bytes]]:
    while len(head := file.read(4)) == 4:
        (length,) = struct.unpack("@i", head)
        name = file.read(length)
        record = RECORD.unpack(file.read(RECORD.size))
        if record[0] == 0:  # the space that beanstalkd has reserved
            return
        # The size includes the line end that follows each body in the protocol.
        body = file.read(record[4])[:-2] if length else b""
        yield name.decode() if length else None, record, body


# ---- A daemon without a binlog. `peek-delayed` shows the first delayed job only, but `stats-job` and `peek` find any job by its
# ---- id, and change nothing. Ids begin with 1 at the start of the daemon, and each `put` takes one at most.


def live_jobs(address: str, tube: str) -> Iterator[Job]:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rwb") as stream:
        stats = ask(stream, ["stats"])[0]
        if field(stats, "binlog-current-index") != "0":
            raise ValueError("this daemon has a binlog: read that instead")
        last = int(field(stats, "cmd-put"))
        for first in range(1, last + 1, PAGE):
            ids = range(first, min(first + PAGE, last + 1))
            stats_of = dict(zip(ids, ask(stream, [f"stats-job {number}" for number in ids]), strict=True))
            now = time.time()
            delayed = [number for number, text in stats_of.items()
                       if text and field(text, "state") == "delayed" and field(text, "tube").strip('"') == tube]
            for number, body in zip(delayed, ask(stream, [f"peek {number}" for number in delayed]), strict=True):
                # Rounded up, because time-left is rounded down, and a message must not be early.
                due = int(now) + int(field(stats_of[number], "time-left")) + 2
                if body is not None:  # it has not ended meanwhile
                    yield Job(number, int(field(stats_of[number], "pri")), due * 1_000_000_000, body)


def ask(stream: BinaryIO, commands: list[str]) -> list[bytes | None]:
    """Sends all commands, and returns the data of each answer; None for NOT_FOUND."""
    stream.write("".join(command + "\r\n" for command in commands).encode())
    stream.flush()
    answers: list[bytes | None] = []
    for command in commands:
        words = stream.readline().decode().split()
        if words == ["NOT_FOUND"]:
            answers.append(None)
        elif words and words[0] in ("OK", "FOUND"):
            answers.append(stream.read(int(words[-1]) + 2)[:-2])
        else:
            raise ValueError(f"beanstalkd answered {command} with {' '.join(words)}")
    return answers


def field(text: bytes, name: str) -> str:
    return re.search(rf"^{name}: (.*)$", text.decode(), re.MULTILINE)[1]


# ---- Both


def line(topic: str, tube: str, job: Job) -> str:
    due = datetime.fromtimestamp(job.due_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return json.dumps({
        "topic": topic,
        # A repeat finds the key and makes no second message.
        "key": f"beanstalkd/{tube}/{job.id}",
        "on_conflict": "ON_CONFLICT_ONCE",
        "deliver_time": f"{due}.{job.due_ns % 1_000_000_000:09}Z",
        "payload": base64.b64encode(job.body).decode(),
        "attributes": {"beanstalkd-priority": str(job.priority)}})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topic", help="the topic of duetime")
    parser.add_argument("tube")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--binlog", metavar="DIRECTORY", help="the binlog of a stopped daemon, or a copy")
    source.add_argument("--server", metavar="HOST:PORT", help="a daemon without a binlog")
    options = parser.parse_args()

    found = binlog_jobs(options.binlog, options.tube) if options.binlog else live_jobs(options.server, options.tube)
    try:
        for job in found:
            print(line(options.topic, options.tube, job))
    except (OSError, ValueError, struct.error) as error:
        print(f"beanstalkd.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
