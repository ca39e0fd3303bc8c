# SPDX-License-Identifier: Apache-2.0
"""One case for each program of client/examples. The programs run with the real times, which the case reads from the server; then
the case makes a message due."""

import http.server
import json
import os
import signal
import threading
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import duetime
import psycopg
from duetime import pb

from peers import Postgres
from support import EXAMPLES, Case, World, check, equal, eventually, moment, span

CASES: list[Case] = []


def case(name: str, language: str):
    def register(function):
        CASES.append(Case(name, language, function))
        return function
    return register


@case("order-timeout", "java")
def order_timeout(world: World) -> None:
    topic = "order-timeouts"
    shop = world.start("mvn", "-q", "-B", "exec:java", folder=os.path.join(EXAMPLES, "order-timeout"))
    shop.expect("type: place ORDER")
    for order in ("17", "18"):
        shop.type(f"place {order}")
        shop.expect(f"^order {order}: open until")
        equal(span(world.get(topic, f"order-{order}")), timedelta(minutes=30), "the time-out")
    first = world.get(topic, "order-17")
    shop.type("place 17")
    shop.expect("^order 17: open until", count=2)
    equal(world.get(topic, "order-17").etag, first.etag, "the version after a repeat")

    shop.type("pay 17")
    shop.expect("^order 17: paid$")
    equal(world.get(topic, "order-17").state, pb.Message.STATE_CANCELLED, "the time-out of a paid order")

    world.make_due(topic, "order-18")
    shop.expect("^order 18: cancelled, because it was not paid in time")
    eventually(lambda: world.get(topic, "order-18").state == pb.Message.STATE_ACKED, "the time-out is settled")
    shop.type("pay 18")
    shop.expect("^order 18: cannot be paid$")
    check("not cancelled" not in shop.end(), "a cancel failed")


@case("marketing-push", "go")
def marketing_push(world: World) -> None:
    users, rate, topic = 20_000, 10_000, "pushes"
    program = os.path.join(world.build, "marketing-push")
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    plan = [program, "-users", str(users), "-rate", str(rate), "-at", at.isoformat(), "plan"]
    equal(world.output(*plan), f"{users} pushes scheduled, 0 existed, 0 refused", "the first plan")
    equal(world.output(*plan), f"0 pushes scheduled, {users} existed, 0 refused", "the second plan")
    push = world.get(topic, "lunch/user-19999")
    equal(moment(push.deliver_time), at, "the time of a push")
    equal((dict(push.labels), push.ttl.ToTimedelta()), ({"campaign": "lunch"}, timedelta(hours=2)), "label and ttl")

    operation = world.client.start_bulk(pb.StartBulkRequest(topic=topic, action=pb.BULK_ACTION_RELEASE)).operation
    name, done = pb.GetOperationRequest(name=operation.name), pb.Operation.STATE_DONE
    eventually(lambda: world.client.get_operation(name).operation.state == done, "the release of the campaign")
    start = time.monotonic()
    sender = world.start(program, "send")
    eventually(lambda: world.client.get_topic(pb.GetTopicRequest(name=topic)).topic.counts.pending == 0, "all pushes are sent")
    took = time.monotonic() - start
    # A tenth of a second's pushes may come at once.
    check(took >= users / rate - 0.11, f"{users} pushes took {took:.2f} s, so the pace was not kept")
    check(f"stopped after {users} pushes" in sender.end(signal.SIGTERM), f"the sender printed:\n{sender.output}")


@case("heartbeat-watchdog", "python")
def heartbeat_watchdog(world: World) -> None:
    program, topic = os.path.join(EXAMPLES, "heartbeat-watchdog", "watchdog.py"), "watchdog"
    slow = world.start("python3", program)
    slow.expect("^fan: watched")
    slow.expect("^pump: watched")
    for device in ("fan", "pump"):
        equal(span(world.get(topic, device)), timedelta(seconds=90), "the time until the alarm")
    slow.kill()
    # Heartbeats of a process with a shorter timeout do not move an alarm to an earlier time.
    first = world.get(topic, "fan")
    quick = world.start("python3", program, "--timeout", "1", "--interval", "0.1")
    quick.expect("^fan: sent its last heartbeat")
    equal(world.get(topic, "fan").deliver_time, first.deliver_time, "the alarm after heartbeats with a shorter timeout")
    quick.kill()
    for device in ("fan", "pump"):
        world.client.cancel(duetime.Key(topic, device))

    watchdog = world.start("python3", program, "--timeout", "3", "--interval", "0.1")
    watchdog.expect("^fan: sent its last heartbeat")
    deadline = world.get(topic, "pump").deliver_time
    eventually(lambda: moment(world.get(topic, "pump").deliver_time) > moment(deadline), "a heartbeat pushes the alarm back")
    output = watchdog.end()
    equal([line for line in output.splitlines() if line.startswith("ALARM")], ["ALARM fan: no heartbeat for 3 s"], "the alarms")
    check(output.endswith("pump: no alarm"), f"it printed:\n{output}")
    equal(world.get(topic, "pump").state, pb.Message.STATE_CANCELLED, "the alarm of a device that is watched no longer")


@case("auto-review", "node")
def auto_review(world: World) -> None:
    topic = "auto-reviews"
    shop = world.start("node", "auto-review.js", folder=os.path.join(EXAMPLES, "auto-review"))
    for order in ("17", "18"):
        shop.type(f"delivered {order}")
        shop.expect(f"^order {order}: automatic review at")
        equal(span(world.get(topic, f"review-{order}")), timedelta(hours=48), "the time for the own review")
    first = world.get(topic, "review-17")
    shop.type("delivered 17")
    shop.expect(r"^order 17: automatic review at .* \(was reported before\)")
    equal(world.get(topic, "review-17").etag, first.etag, "the version after a repeat")

    shop.type("review 18 3")
    shop.expect("^order 18: 3 stars by the buyer$")
    equal(world.get(topic, "review-18").state, pb.Message.STATE_CANCELLED, "the automatic review")

    world.make_due(topic, "review-17")
    shop.expect("^order 17: 5 stars, automatically")
    eventually(lambda: world.get(topic, "review-17").state == pb.Message.STATE_ACKED, "the automatic review is settled")
    shop.type("review 17 1")
    shop.expect("^order 17: 1 stars by the buyer; the automatic review was not cancelled: OUTCOME_SETTLED")
    # Nor does a report after the end make a second review.
    shop.type("delivered 17")
    shop.expect(r"^order 17: automatic review at .* \(was reported before\)")
    equal(world.pending(topic), [], "the pending reviews")
    shop.end()


class Endpoint(http.server.ThreadingHTTPServer):
    """Answers a webhook with the next of the statuses planned for its text, then with 200."""

    def __init__(self, plans: dict[str, list[int]]):
        super().__init__(("127.0.0.1", 0), Answer)
        self.plans = plans
        # When each text came, and with which idempotency key.
        self.times: dict[str, list[float]] = {text: [] for text in plans}
        self.keys: dict[str, set[str]] = {text: set() for text in plans}
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:  # pylint: disable=invalid-name
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with self.server.lock:
            self.server.times[text].append(time.monotonic())
            self.server.keys[text].add(self.headers["Idempotency-Key"])
            plan = self.server.plans[text]
            status = plan.pop(0) if plan else 200
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@case("retry-queue", "go")
def retry_queue(world: World) -> None:
    program = os.path.join(world.build, "retry-queue")
    endpoint = Endpoint({"shaky": [500, 500], "busy": [429], "wrong": [404], "dead": [500] * 3})
    world.closing.callback(endpoint.shutdown)
    url = f"http://127.0.0.1:{endpoint.server_port}/"

    usual = world.start(program, "-url", url, "work")
    usual.expect("^working")
    usual.kill()
    sender = pb.GetSubscriptionRequest(topic="webhooks", name="sender")
    retry = world.client.get_subscription(sender).subscription.settings.retry
    equal((retry.min_backoff.ToTimedelta(), retry.multiplier, retry.max_attempts), (timedelta(seconds=5), 2, 8), "the policy")

    worker = world.start(program, "-url", url, "-min-backoff", "200ms", "-max-attempts", "3", "work")
    worker.expect("^working")
    policy = world.client.get_subscription(sender).subscription.settings.retry
    equal(policy.max_attempts, 3, "the attempts after the change of the policy")
    for text in endpoint.plans:
        world.output(program, "send", text)
    shaky, busy = endpoint.times["shaky"], endpoint.times["busy"]
    eventually(lambda: len(shaky) == 3 and len(busy) == 2, "the retries")
    check(shaky[1] - shaky[0] >= 0.2 and shaky[2] - shaky[1] >= 0.4, f"the back-off was not kept: {shaky}")
    check(busy[1] - busy[0] >= 1, f"Retry-After was not kept: {busy}")
    equal(len(endpoint.keys["shaky"]), 1, "the number of idempotency keys of a webhook")

    eventually(lambda: len(world.pending("webhooks.dlq")) == 2, "two dead letters")
    letters = world.output(program, "dead")
    check("1 attempts, REASON_REJECTED: 404 Not Found" in letters, f"no rejected webhook in:\n{letters}")
    check("3 attempts, REASON_MAX_ATTEMPTS: 500 Internal Server Error" in letters, f"no failed webhook in:\n{letters}")
    equal(world.output(program, "redrive"), "sent back 2 webhooks", "the redrive")
    eventually(lambda: len(endpoint.times["dead"]) == 4 and len(endpoint.times["wrong"]) == 2, "the webhooks come again")
    eventually(lambda: not world.pending("webhooks"), "all webhooks are delivered")
    equal(world.output(program, "dead"), "", "the dead letters after the redrive")
    worker.end(signal.SIGTERM)


def quiet_zones() -> list[str]:
    """Zones in which no digest comes by itself while the case runs."""
    def seconds_from_nine(zone: str) -> float:
        local = datetime.now(ZoneInfo(zone))
        return abs((local - local.replace(hour=9, minute=0)).total_seconds())

    zones = ("Europe/Berlin", "Asia/Shanghai", "America/New_York", "Pacific/Auckland", "America/Sao_Paulo")
    return [zone for zone in zones if seconds_from_nine(zone) > 900]


@case("daily-digest", "python")
def daily_digest(world: World) -> None:
    program, topic = os.path.join(EXAMPLES, "daily-digest", "digest.py"), "digests"
    zones = dict(zip(("ann", "bo", "cy"), quiet_zones()))
    for user, zone in zones.items():
        for _ in range(2):  # A repeat changes nothing.
            world.output("python3", program, "subscribe", user, zone)
        recurrence = world.client.get_recurrence(f"digests/{user}")
        due = moment(recurrence.next_deliver_time).astimezone(ZoneInfo(zone))
        check(due.hour == 9 and due.minute < 5, f"the digest of {user} is due at {due}, not between 9:00 and 9:05")
        preview = world.client.preview_recurrence(pb.PreviewRecurrenceRequest(name=recurrence.name, count=366))
        times = {moment(one.time).astimezone(ZoneInfo(zone)).strftime("%H:%M") for one in preview.occurrences}
        equal(times, {"09:00"}, f"the local times of a year of {user}")
    equal(len(world.pending(topic)), 3, "the pending digests")

    zone = quiet_zones()[3]
    world.output("python3", program, "subscribe", "ann", zone)
    due = moment(world.client.get_recurrence("digests/ann").next_deliver_time).astimezone(ZoneInfo(zone))
    equal(due.hour, 9, "the local hour after ann's move")
    world.output("python3", program, "unsubscribe", "bo")
    equal(len(world.pending(topic)), 2, "the pending digests after bo left")

    worker = world.start("python3", program, "work")
    worker.expect("^working")
    first = world.client.get_recurrence("digests/cy").next_message_id
    world.client.reschedule(first, timedelta(0))
    today = datetime.now(ZoneInfo(zones["cy"])).date()
    worker.expect(rf"^sent digest cy/({today}|{today + timedelta(days=1)}), number 1$")
    eventually(lambda: world.client.get_recurrence("digests/cy").next_message_id not in ("", first), "the digest after that")
    worker.end(signal.SIGTERM)


@case("outbox", "python")
def outbox(world: World) -> None:
    program, topic = os.path.join(EXAMPLES, "outbox", "outbox.py"), "unpaid-orders"
    postgres = Postgres(world.folder)
    world.closing.callback(postgres.stop)
    world.environment |= postgres.environment
    world.output("python3", program, "init")
    connection = world.closing.enter_context(psycopg.connect(
        host=postgres.folder, user="shop", dbname="postgres", autocommit=True))

    def rows() -> int:
        return connection.execute("SELECT count(*) FROM outbox WHERE refused IS NULL").fetchone()[0]

    # A transaction that fails leaves neither order nor message.
    world.output("python3", program, "order", "1")
    world.output("python3", program, "order", "1", code=1)
    equal(rows(), 1, "the rows after an order and its repeat")

    # The relay crashes between the answer of duetime and its commit: its DELETE waits for a lock that the test holds.
    connection.execute("""
        CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN OLD; END $$;
        CREATE TRIGGER wait BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION wait()""")

    def crash() -> pb.Message:
        connection.execute("SELECT pg_advisory_lock(1)")
        relay = world.start("python3", program, "relay")
        message = eventually(lambda: world.pending(topic), "the message of the order")[0]
        relay.kill()
        connection.execute("SELECT pg_advisory_unlock(1)")
        equal(rows(), 1, "the rows after the crash")
        return message

    first = crash()
    off = abs(span(first) - timedelta(minutes=30))
    check(off < timedelta(seconds=30), f"the time-out is off by {off} from 30 minutes")

    # A row that duetime refuses does not hold up the others.
    connection.execute("INSERT INTO outbox (topic, key, payload, deliver_time) VALUES ('a b', 'bad', '', now())")
    relay = world.start("python3", program, "relay")
    relay.expect("^relayed order-1$")
    relay.expect("^refused bad: ")
    equal([one.id for one in world.pending(topic)], [first.id], "the messages after the second relay")
    world.output("python3", program, "order", "2")
    relay.expect("^relayed order-2$")
    eventually(lambda: rows() == 0, "the outbox is empty")
    equal(sorted(one.key for one in world.pending(topic)), ["order-1", "order-2"], "the keys of the messages")
    message = world.client.get(first.id, full=True).message
    equal(json.loads(message.payload), {"order": 1}, "the payload")
    relay.kill()

    # The message of an order has ended when the next relay schedules it again, more than an hour later.
    for one in world.pending(topic):
        world.client.cancel(one.id)
    world.output("python3", program, "order", "3")
    world.client.cancel(crash().id)
    connection.execute("UPDATE outbox SET request_id = gen_random_uuid()")
    relay = world.start("python3", program, "relay")
    relay.expect("^relayed order-3$")
    equal(world.pending(topic), [], "the messages after their end")
