# SPDX-License-Identifier: Apache-2.0
"""One case for each way in of client/migrate, against a real server of its kind. Each imports twice."""

import os
import re
import shlex
import socket
import time
from datetime import UTC, datetime, timedelta

import psycopg
import redis

import duetime

from peers import Beanstalkd, Postgres, Redis
from support import MIGRATE, Case, World, check, equal, moment

CASES: list[Case] = []
# More than a page of each adapter.
JOBS = 2500
BODY = 'a "quoted" \\ text,\nof two lines: é'
DUE = datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def case(name: str):
    def register(function):
        CASES.append(Case(name, "python", function))
        return function
    return register


def shell(world: World, script: str, code: int = 0) -> str:
    world.environment["PATH"] = f"{os.path.dirname(world.duetime_program)}:{world.environment['PATH']}"
    return world.start("bash", "-o", "pipefail", "-c", script, folder=MIGRATE).end(code=code)


def due(number: int) -> datetime:
    return DUE + timedelta(seconds=number)


def import_twice(world: World, script: str) -> None:
    """The second time after an empty line, so that all lines have other request ids, as they would more than an hour later. Only
    the keys recognise the repeat then."""
    first = shell(world, script)
    second = shell(world, script.replace("duetime import -", "(echo && cat) | duetime import -"))
    check(f"scheduled {JOBS} messages, 0 lines refused" in first, f"the first import printed:\n{first}")
    check(f"scheduled 0 messages, {JOBS} were there already, 0 lines refused" in second, f"the second import printed:\n{second}")


def import_after_the_end(world: World, topic: str, script: str) -> None:
    """The services have cancelled all messages."""
    shell(world, f"duetime bulk cancel {topic} --all --wait")
    again = shell(world, script.replace("duetime import -", "(echo && echo && cat) | duetime import -"))
    wanted = f"scheduled 0 messages, {JOBS} were there already (of these have ended: {JOBS} cancelled)"
    check(wanted in again, f"the import after the end printed:\n{again}")
    equal(world.pending(topic), [], "the pending messages")


def check_messages(world: World, topic: str, key: str) -> None:
    """Every message has its time, and the payload of one is as it was. `key` has a place for the number."""
    times = {message.key: moment(message.deliver_time) for message in world.pending(topic)}
    equal(times, {key.format(number): due(number) for number in range(1, JOBS + 1)}, "the times of the messages")
    message = world.client.get(duetime.Key(topic, key.format(7)), full=True).message
    equal(message.payload.decode(), f"7 {BODY}", "a payload")


def documented(command: str) -> str:
    """The commands of the README that use this program."""
    with open(os.path.join(MIGRATE, "README.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```sh\n(.*?)```", file.read(), re.DOTALL)
    return next(block for block in blocks if command in block)


@case("migrate.postgresql")
def postgresql(world: World) -> None:
    server = Postgres(world.folder)
    world.closing.callback(server.stop)
    # The time zone of a session must not matter.
    world.environment |= server.environment | {"PGTZ": "Asia/Kolkata"}
    with psycopg.connect(host=server.folder, user="shop", dbname="postgres", autocommit=True) as connection:
        connection.execute("CREATE TABLE jobs (id bigint, body text, due_at timestamptz, state text)")
        with connection.cursor().copy("COPY jobs FROM STDIN") as copy:
            for number in range(1, JOBS + 1):
                copy.write_row((number, f"{number} {BODY}", due(number), "pending"))
            copy.write_row((0, "done", DUE, "done"))
    import_twice(world, documented("psql"))
    check_messages(world, "jobs", "job-{}")
    import_after_the_end(world, "jobs", documented("psql"))


@case("migrate.redis")
def redis_zset(world: World) -> None:
    server = Redis(world.folder)
    world.closing.callback(server.stop)
    connection = world.closing.enter_context(redis.Redis(unix_socket_path=server.socket))
    for zset, unit in (("delayed", 1), ("delayed-ms", 1000)):
        connection.zadd(zset, {f"job-{number}": due(number).timestamp() * unit for number in range(1, JOBS + 1)})
    connection.hset("payloads", mapping={f"job-{number}": f"{number} {BODY}" for number in range(1, JOBS + 1)})

    url = shlex.quote(f"unix://{server.socket}")
    import_twice(world, f"python3 redis_zset.py redis delayed payloads --url {url} | duetime import -")
    check_messages(world, "redis", "job-{}")
    import_after_the_end(world, "redis", f"python3 redis_zset.py redis delayed payloads --url {url} | duetime import -")
    import_twice(world, f"python3 redis_zset.py redis-ms delayed-ms payloads --url {url} --milliseconds | duetime import -")
    check_messages(world, "redis-ms", "job-{}")

    connection.zadd("delayed", {"lost": 1.0})
    output = shell(world, f"python3 redis_zset.py redis delayed payloads --url {url} | duetime import -", code=1)
    check("skipped b'lost': it has no payload" in output, f"it printed:\n{output}")


class Tube:
    """A connection to beanstalkd."""

    def __init__(self, port: int):
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._stream = self._connection.makefile("rwb")

    def send(self, *commands: bytes) -> list[bytes]:
        """Returns the first words of each answer, which must be one line."""
        self._stream.write(b"".join(command + b"\r\n" for command in commands))
        self._stream.flush()
        return [self._stream.readline().split()[0] for _ in commands]

    def put(self, tube: str, body: str, delay: int) -> None:
        data = body.encode()
        answers = self.send(b"use " + tube.encode(), b"put 5 %d 60 %d\r\n%b" % (delay, len(data), data))
        equal(answers, [b"USING", b"INSERTED"], "the answer of beanstalkd")


def fill(tube: Tube, first: int = 1) -> None:
    """JOBS delayed jobs, and others that must not come along: of another tube, ready, deleted, kicked."""
    end = first + JOBS
    for number in range(first, end):
        tube.put("mail", f"{number} {BODY}", 100_000 + number)
    tube.put("other", "x", 100)
    tube.put("mail", "ready", 0)
    tube.put("mail", "deleted", 100)
    tube.put("mail", "kicked", 100)
    equal(tube.send(b"delete %d" % (end + 2), b"kick-job %d" % (end + 3)), [b"DELETED", b"KICKED"], "the changes")


def check_beanstalkd(world: World, topic: str, begin: float, end: float, late_max: int) -> None:
    """The jobs were put between `begin` and `end`, with a delay of 100,000 s and their number. Times are in milliseconds."""
    messages = world.pending(topic)
    equal(len(messages), JOBS, "the number of messages")
    for message in messages:
        number = int(message.key.removeprefix("beanstalkd/mail/"))
        seconds = moment(message.deliver_time).timestamp() - 100_000 - number
        check(begin - 0.002 <= seconds <= end + late_max + 0.002,
              f"job {number} was put at {seconds} and not between {begin} and {end}")
    message = world.client.get(duetime.Key(topic, "beanstalkd/mail/77"), full=True).message
    equal((message.payload.decode(), dict(message.attributes)), (f"77 {BODY}", {"beanstalkd-priority": "5"}), "the content")


@case("migrate.beanstalkd.binlog")
def beanstalkd_binlog(world: World) -> None:
    server = Beanstalkd(world.folder, with_binlog=True)
    world.closing.callback(server.stop)
    tube = Tube(server.port)
    begin = time.time()
    fill(tube)
    output = shell(world, f"./beanstalkd.py mail mail --server 127.0.0.1:{server.port}", code=1)
    check("this daemon has a binlog" in output, f"it printed:\n{output}")
    server.stop()
    import_twice(world, f"./beanstalkd.py beanstalkd-binlog mail --binlog {shlex.quote(server.binlog)} | duetime import -")
    check_beanstalkd(world, "beanstalkd-binlog", begin, time.time(), late_max=0)
    import_after_the_end(world, "beanstalkd-binlog",
                         f"./beanstalkd.py beanstalkd-binlog mail --binlog {shlex.quote(server.binlog)} | duetime import -")


@case("migrate.beanstalkd.server")
def beanstalkd_server(world: World) -> None:
    server = Beanstalkd(world.folder, with_binlog=False)
    world.closing.callback(server.stop)
    # Each takes an id, although it makes no job.
    for _ in range(10):
        equal(Tube(server.port).send(b"put 1 100 60 1\r\nabc")[0], b"EXPECTED_CRLF", "the answer to a bad job")
    begin = time.time()
    fill(Tube(server.port), first=11)
    lines = os.path.join(world.folder, "jobs.ndjson")
    shell(world, f"./beanstalkd.py beanstalkd-server mail --server 127.0.0.1:{server.port} >{shlex.quote(lines)}")
    import_twice(world, f"cat {shlex.quote(lines)} | duetime import -")
    check_beanstalkd(world, "beanstalkd-server", begin, time.time(), late_max=2)
