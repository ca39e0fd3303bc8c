# SPDX-License-Identifier: Apache-2.0
"""Cases: subscribers on a server that is well."""

import collections

from harness import Subscriber, World, anything, case, check, match, millis, stamp, text, now, until

# Longer than a case may take: a message that comes again within this time was given back, its lease did not end.
LONG_LEASE = 600_000


def start(world: World, count: int = 1, **options) -> tuple[Subscriber, str, list[str]]:
    """A subscriber whose handlers wait for the case, and messages that are due."""
    topic = world.new_name()
    ids = world.client.make_many(topic, count)
    return world.client.subscribe(topic, **{"lease_ms": LONG_LEASE} | options), topic, ids


def counts_of(world: World, topic: str) -> dict:
    """The server's counts of the subscription "default"."""
    return world.client.get_subscription(topic=topic)["subscription"].get("counts", {})


# ---- Settlements

@case("subscriber.ack")
def _(world: World) -> None:
    subscriber, _, ids = start(world)
    delivery = subscriber.take()
    match(delivery, {"message_id": ids[0], "attempt": 1, "payload": text("0"), "maybe_redelivered": False})
    check(world.client.state(ids[0]) == "STATE_IN_FLIGHT", "not in flight while the handler runs")
    subscriber.finish(delivery)
    world.client.wait_state(ids[0], "STATE_ACKED")
    match(subscriber.wait_counts(acked=1), {"delivered": 1, "acked": 1, "nacked": 0, "streams": 1})


@case("subscriber.delivery_fields")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    due = stamp(now() - 5_000)
    fields = {"key": "k", "ordering_key": "k", "attributes": {"a": "ß"}, "labels": {"l": "1"}}
    message = client.make(topic, bytes(range(256)), deliver_time=due, **fields)
    subscriber = client.subscribe(topic, subscription="some/name", client_id="conformance")
    delivery = subscriber.take()
    match(delivery, fields | {"message_id": message["id"], "payload": text(bytes(range(256))), "lease_token": anything,
                              "deliver_time": lambda time: millis(time) == millis(due), "accept_time": anything,
                              "lateness": lambda value: millis(value) >= 5_000})
    subscriber.finish(delivery)
    subscriber.wait_counts(acked=1)


@case("subscriber.nack")
def _(world: World) -> None:
    subscriber, _, ids = start(world)
    subscriber.finish(subscriber.take(), "nack", reason="not now")
    again = subscriber.take()
    match(again, {"message_id": ids[0], "attempt": 2, "maybe_redelivered": True})
    subscriber.finish(again)
    match(subscriber.wait_counts(acked=1), {"nacked": 1, "acked": 1, "delivered": 2})


@case("subscriber.nack_after")
def _(world: World) -> None:
    subscriber, _, _ = start(world)
    subscriber.finish(subscriber.take(), "nack", delay_ms=1500)
    before = now()
    again = subscriber.take()
    check(now() - before >= 1_300, f"the message came again after {now() - before} ms, not 1500")
    match(again, {"attempt": 2})
    subscriber.finish(again)


@case("subscriber.retry_policy")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    client.create_subscription(subscription={"topic": topic, "settings": {
        "retry": {"min_backoff": "0.2s", "max_attempts": 3}}})
    client.make(topic, "content", delay="0s")
    subscriber = client.subscribe(topic)
    for attempt in (1, 2, 3):
        delivery = subscriber.take()
        match(delivery, {"attempt": attempt})
        subscriber.finish(delivery, "nack", reason=f"failure {attempt}")
    dead = client.subscribe(topic + ".dlq")
    delivery = dead.take()
    match(delivery, {"payload": text("content"), "dead_letter": {
        "topic": topic, "attempts": 3, "reason": "REASON_MAX_ATTEMPTS", "reason_text": "failure 3"}})
    dead.finish(delivery)


@case("subscriber.dead_letter")
def _(world: World) -> None:
    subscriber, topic, ids = start(world)
    subscriber.finish(subscriber.take(), "dead_letter", reason="not an order")
    match(subscriber.wait_counts(dead_lettered=1), {"dead_lettered": 1})
    check(world.client.state(ids[0]) == "STATE_DEAD_LETTERED", "no dead letter")
    match(world.client.pull(topic=topic + ".dlq", wait="30s"), {"deliveries": [{"dead_letter": {
        "topic": topic, "message_id": ids[0], "reason": "REASON_REJECTED", "reason_text": "not an order"}}]})


@case("subscriber.release")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    # One failed attempt would make a dead letter.
    client.create_subscription(subscription={"topic": topic, "settings": {"retry": {"max_attempts": 1}}})
    client.make(topic, delay="0s")
    subscriber = client.subscribe(topic, lease_ms=LONG_LEASE)
    for _ in range(3):
        subscriber.finish(subscriber.take(), "release")
    delivery = subscriber.take()
    subscriber.finish(delivery)
    subscriber.wait_counts(acked=1, released=3)


@case("subscriber.raise", needs="raise")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    client.create_subscription(subscription={"topic": topic, "settings": {"retry": {"max_attempts": 2}}})
    client.make(topic, delay="0s")
    subscriber = client.subscribe(topic, lease_ms=LONG_LEASE)
    for attempt in (1, 2):
        delivery = subscriber.take()
        match(delivery, {"attempt": attempt})
        subscriber.finish(delivery, "raise", reason="the handler broke")
    match(client.pull(topic=topic + ".dlq", wait="30s"), {"deliveries": [{"dead_letter": {
        "reason": "REASON_MAX_ATTEMPTS", "reason_text": lambda reason: "the handler broke" in (reason or "")}}]})
    # The subscriber goes on.
    client.make(topic, "next", delay="0s")
    delivery = subscriber.take()
    match(delivery, {"payload": text("next")})
    subscriber.finish(delivery)


@case("subscriber.leave")
def _(world: World) -> None:
    subscriber, _, ids = start(world, lease_ms=1_000)
    subscriber.finish(subscriber.take(), "leave")
    again = subscriber.take()  # The lease has ended, and nothing extended it.
    match(again, {"message_id": ids[0], "attempt": 2})
    subscriber.finish(again)
    subscriber.wait_counts(acked=1)


# ---- Leases

@case("subscriber.slow_handler_keeps_its_lease")
def _(world: World) -> None:
    subscriber, topic, ids = start(world, lease_ms=2_000)
    delivery = subscriber.take()
    other = world.client.subscribe(topic)
    other.nothing(6, "the lease of a running handler ended")
    subscriber.finish(delivery)
    world.client.wait_state(ids[0], "STATE_ACKED")
    match(subscriber.wait_counts(acked=1, extended=2), {"delivered": 1})


@case("subscriber.extends_what_waits_for_a_handler")
def _(world: World) -> None:
    subscriber, topic, _ = start(world, 3, lease_ms=2_000, handlers=1)
    first = subscriber.take()
    other = world.client.subscribe(topic)
    other.nothing(5, "the lease of a message that waits for a handler ended")
    for delivery in (first, None, None):
        delivery = delivery or subscriber.take()
        match(delivery, {"attempt": 1})
        subscriber.finish(delivery)
    subscriber.wait_counts(acked=3)


@case("subscriber.extend_max")
def _(world: World) -> None:
    subscriber, topic, ids = start(world, lease_ms=1_000, extend_max_ms=1_500)
    slow = subscriber.take()
    stop = subscriber.begin_stop()  # So that the message comes again only to the other one.
    other = world.client.subscribe(topic)
    delivery = other.take()
    match(delivery, {"message_id": ids[0], "maybe_redelivered": True})
    other.finish(delivery)
    world.client.wait_state(ids[0], "STATE_ACKED")
    subscriber.finish(slow)  # Too late: refused, and no harm.
    stop.result()
    match(other.wait_counts(acked=1), {"acked": 1})
    match(subscriber.counts(), {"acked": 0})


@case("subscriber.waiting_in_the_buffer_is_no_work")
def _(world: World) -> None:
    """The last message waits longer for the handler than extend_max. No failed attempt counts for it, and no handler gets
    a message whose lease has ended."""
    client, topic = world.client, world.new_name()
    client.create_subscription(subscription={"topic": topic, "settings": {"retry": {"max_attempts": 3}}})
    client.make_many(topic, 12)
    subscriber = client.subscribe(topic, handlers=1, mode="ack", handler_ms=500, lease_ms=1_000, extend_max_ms=1_500)
    subscriber.wait_counts(acked=12)
    match(subscriber.counts(), {"delivered": 12, "acked": 12, "refused": 0})
    match(counts_of(world, topic), {"acked": 12, "dead_lettered": 0})


def end_the_process_with_one_message(world: World, **options) -> None:
    """One of 400 messages ends each process that gets it. It becomes a dead letter, and the others are acked."""
    client, topic = world.client, world.new_name()
    client.create_subscription(subscription={"topic": topic, "settings": {
        "retry": {"max_attempts": 3, "min_backoff": "0s"}}})
    client.make_many(topic, 400)

    def pending() -> int:
        return int(client.get_topic(name=topic)["topic"].get("counts", {}).get("pending", 0))
    ends = 0
    while pending():
        check(ends < 10, "the message is no dead letter after 10 ends of the process")
        process = world.client_of_a_new_driver()
        # Perhaps the process ends before it answers.
        process.driver.begin("subscriber_start", client=process.name, subscriber="w", topic=topic, mode="ack", exit_on="0",
                             **options)
        until(lambda: process.driver.exit_status() is not None or not pending(),
              lambda: f"{pending()} messages are pending, and no process has ended")
        late = now() + 1_000  # The server may notice the end of a process before this one does.
        until(lambda: process.driver.exit_status() is not None or now() > late, lambda: "")
        if process.driver.exit_status() is not None:
            check(process.driver.exit_status() == 3, f"the driver ended: {process.driver.log()}")
            ends += 1
    match(counts_of(world, topic), {"acked": 399, "dead_lettered": 1, "dropped": 0})
    match(client.pull(topic=topic + ".dlq"), {"deliveries": [{"payload": text("0"), "dead_letter": {
        "reason": "REASON_MAX_ATTEMPTS"}}]})
    # The first process ends before it has reported the handler's begin, so the first end does not count.
    check(3 <= ends <= 4, f"{ends} ends of the process with max_attempts 3")


@case("subscriber.a_message_that_ends_the_process_takes_no_neighbour")
def _(world: World) -> None:
    end_the_process_with_one_message(world)


# ---- Handlers and credit

@case("subscriber.handlers_at_once")
def _(world: World) -> None:
    subscriber, _, _ = start(world, 10, handlers=3)
    running = [subscriber.take() for _ in range(3)]
    subscriber.nothing(1, "more than 3 handlers at once")
    for _ in range(7):
        subscriber.finish(running.pop(0))
        running.append(subscriber.take())
    for delivery in running:
        subscriber.finish(delivery)
    match(subscriber.wait_counts(acked=10), {"delivered": 10})


@case("subscriber.one_handler_keeps_the_order")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    begin = now() - 60_000
    for i in reversed(range(20)):
        client.make(topic, str(i), deliver_time=stamp(begin + i * 1000), ordering_key="o")
    subscriber = client.subscribe(topic, handlers=1, mode="ack")
    got = [subscriber.take()["payload"] for _ in range(20)]
    # Messages that are due at their acceptance come in the order of the acceptance.
    check(got == [text(str(i)) for i in reversed(range(20))], f"{got}")


@case("subscriber.credit")
def _(world: World) -> None:
    subscriber, topic, _ = start(world, 5, handlers=5, max_outstanding_messages=2)
    held = [subscriber.take(), subscriber.take()]
    subscriber.nothing(1, "more than 2 deliveries with a credit of 2")
    match(counts_of(world, topic), {"in_flight": 2, "ready": 3})
    subscriber.finish(held.pop())
    held.append(subscriber.take())
    subscriber.finish(held.pop(), "nack", delay_ms=60_000)
    held.append(subscriber.take())
    subscriber.nothing(0.5, "more than 2 deliveries with a credit of 2")


@case("subscriber.credit_in_bytes")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    for i in range(3):
        client.make(topic, f"{i}" * 1000, delay="0s")
    subscriber = client.subscribe(topic, handlers=3, max_outstanding_bytes=1500)
    first = subscriber.take()
    subscriber.nothing(1, "2000 bytes with a credit of 1500")
    subscriber.finish(first)
    subscriber.take()


# ---- Batches

def first_batch(world: World, count: int, batch: int = 100, **options) -> tuple[Subscriber, str, list[str], dict]:
    """A subscriber with one handler, whose call gets `count` messages that arrived while the handler was busy, and no more
    than `batch`. The payloads are 0, 1, 2 ... in their order."""
    client, topic = world.client, world.new_name()
    client.create_subscription(subscription={"topic": topic, "settings": {"retry": {"max_attempts": 2}}})
    subscriber = client.subscribe(topic, batch=batch, **{"lease_ms": LONG_LEASE} | options)
    client.make(topic, "first", delay="0s")
    busy = subscriber.take_batch()
    match(busy, {"deliveries": [{"payload": text("first")}]})
    ids = client.make_many(topic, count)
    until(lambda: int(counts_of(world, topic).get("in_flight", 0)) == count + 1, lambda: "not all are delivered")
    subscriber.nothing(1, "a call beside the only handler")  # The deliveries arrive meanwhile.
    subscriber.finish_batch(busy, [{"kind": "ack"}])
    return subscriber, topic, ids, subscriber.take_batch()


def payloads_of(batch: dict) -> list[str]:
    return [delivery["payload"] for delivery in batch["deliveries"]]


@case("subscriber.batch_is_what_waits", needs="batch")
def _(world: World) -> None:
    subscriber, _, ids, batch = first_batch(world, 7, batch=3)
    for expected in ("012", "345", "6"):
        if expected != "012":
            batch = subscriber.take_batch()
        check(payloads_of(batch) == [text(payload) for payload in expected], f"{batch}, not {expected}")
        subscriber.finish_batch(batch, [{"kind": "ack"}] * len(expected))
    match(subscriber.wait_counts(acked=8), {"delivered": 8})
    for message_id in ids:
        world.client.wait_state(message_id, "STATE_ACKED")


@case("subscriber.batch_settles_each", needs="batch")
def _(world: World) -> None:
    subscriber, topic, ids, batch = first_batch(world, 5)
    check([delivery["message_id"] for delivery in batch["deliveries"]] == ids, f"{batch}")
    subscriber.finish_batch(batch, [
        {"kind": "ack"}, {"kind": "nack", "delay_ms": 3_600_000}, {"kind": "dead_letter", "reason": "no"},
        {"kind": "release", "delay_ms": 3_600_000}, {"kind": "leave"}])
    match(subscriber.wait_counts(acked=2, nacked=1, dead_lettered=1, released=1), {"delivered": 6, "acked": 2})
    states = [world.client.state(message_id) for message_id in ids]
    check(states[0] == "STATE_ACKED" and states[2] == "STATE_DEAD_LETTERED", f"{states}")
    match(counts_of(world, topic), {"acked": 2, "dead_lettered": 1, "in_flight": 1})
    match(world.client.pull(topic=topic + ".dlq", wait="30s"), {"deliveries": [{"payload": text("2")}]})


@case("subscriber.batch_without_settlements_is_acked", needs="batch")
def _(world: World) -> None:
    subscriber, _, ids, batch = first_batch(world, 4)
    subscriber.finish_batch(batch, [])
    match(subscriber.wait_counts(acked=5), {"delivered": 5, "nacked": 0})
    for message_id in ids:
        check(world.client.state(message_id) == "STATE_ACKED", "not acked")


def check_all_are_nacked(world: World, settle, reason: str) -> None:
    """`settle` ends the handler so that it nacks all messages of the batch: they come again, and then are dead letters."""
    subscriber, topic, ids, batch = first_batch(world, 4)
    seen: collections.Counter = collections.Counter()
    while True:
        settle(subscriber, batch)
        seen.update((delivery["message_id"], delivery["attempt"]) for delivery in batch["deliveries"])
        if len(seen) == 8:
            break
        batch = subscriber.take_batch()
    check(seen == collections.Counter((message_id, attempt) for message_id in ids for attempt in (1, 2)), f"{seen}")
    match(subscriber.wait_counts(nacked=8), {"acked": 1})
    match(world.client.pull(topic=topic + ".dlq", wait="30s"), {"deliveries": lambda all: all and reason in all[0][
        "dead_letter"]["reason_text"]})
    # The subscriber goes on.
    world.client.make(topic, "next", delay="0s")
    batch = subscriber.take_batch()
    match(batch, {"deliveries": [{"payload": text("next")}]})
    subscriber.finish_batch(batch, [{"kind": "ack"}])
    subscriber.wait_counts(acked=2)


@case("subscriber.batch_with_a_wrong_count_is_nacked", needs="batch")
def _(world: World) -> None:
    check_all_are_nacked(world, lambda subscriber, batch: subscriber.finish_batch(
        batch, [{"kind": "ack"}] * (len(batch["deliveries"]) + 1)), "settlements for")


@case("subscriber.batch_raises", needs="batch")
def _(world: World) -> None:
    check_all_are_nacked(world, lambda subscriber, batch: subscriber.finish(batch, "raise", reason="the handler broke"),
                         "the handler broke")


@case("subscriber.batch_keeps_the_order", needs="batch")
def _(world: World) -> None:
    """One handler gets messages in the order of the stream, and several get those of one ordering key in their order."""
    client, topic = world.client, world.new_name()
    client.make_many(topic, 50)
    subscriber = client.subscribe(topic, batch=7, mode="ack")
    got: list[str] = []
    while len(got) < 50:
        batch = payloads_of(subscriber.take_batch())
        check(len(batch) <= 7, f"{len(batch)} messages in a batch")
        got += batch
    check(got == [text(str(i)) for i in range(50)], f"{got}")
    topic, begin = world.new_name(), now() - 60_000
    for i in range(24):
        client.make(topic, str(i), deliver_time=stamp(begin + i), ordering_key=str(i % 4))
    subscriber = client.subscribe(topic, batch=10, handlers=2, mode="ack")
    by_key: dict[str, list[str]] = collections.defaultdict(list)
    while sum(len(payloads) for payloads in by_key.values()) < 24:
        for delivery in subscriber.take_batch()["deliveries"]:
            by_key[delivery["ordering_key"]].append(delivery["payload"])
    for key, payloads in by_key.items():
        check(payloads == [text(str(i)) for i in range(int(key), 24, 4)], f"{key}: {payloads}")


@case("subscriber.slow_batch_keeps_its_leases", needs="batch")
def _(world: World) -> None:
    subscriber, topic, ids, batch = first_batch(world, 4, batch=3, lease_ms=2_000)
    other = world.client.subscribe(topic)
    other.nothing(5, "a lease of a running batch or of a message that waits ended")
    subscriber.finish_batch(batch, [])
    batch = subscriber.take_batch()
    match(batch, {"deliveries": [{"payload": text("3"), "attempt": 1}]})
    subscriber.finish_batch(batch, [])
    match(subscriber.wait_counts(acked=5), {"delivered": 5})


@case("subscriber.batch_has_no_lease_that_ended", needs="batch")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    client.make_many(topic, 24)
    subscriber = client.subscribe(topic, batch=2, mode="ack", handler_ms=500, lease_ms=1_000, extend_max_ms=1_500)
    subscriber.wait_counts(acked=24)
    match(subscriber.counts(), {"delivered": 24, "acked": 24, "refused": 0})


@case("subscriber.a_batch_that_ends_the_process_takes_no_neighbour", needs="batch")
def _(world: World) -> None:
    end_the_process_with_one_message(world, batch=100)


@case("stop.waits_for_a_batch", needs="batch")
def _(world: World) -> None:
    subscriber, topic, ids, batch = first_batch(world, 6, batch=4)
    stop = subscriber.begin_stop()
    other = world.client.subscribe(topic, mode="ack")
    check({other.take()["message_id"] for _ in range(2)} == set(ids[4:]), "not what no handler had")
    check(not stop.done(), "the stop did not wait for the handler")
    subscriber.finish_batch(batch, [])
    match(stop.result(), {"clean": True})
    match(subscriber.counts(), {"delivered": 5, "acked": 5})
    other.nothing(0.5, "a message of the batch")


# ---- Several subscribers and subscriptions

@case("subscriber.two_share")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    workers = [client.subscribe(topic, handlers=2, max_outstanding_messages=2) for _ in range(2)]
    for worker in workers:
        worker.wait_counts(streams=1)
    ids = client.make_many(topic, 4)
    held = [(worker, worker.take()) for worker in workers for _ in range(2)]
    check({delivery["message_id"] for _, delivery in held} == set(ids), "not each message once")
    for worker, delivery in held:
        worker.finish(delivery)
    for worker in workers:
        worker.wait_counts(acked=2)


@case("subscriber.each_subscription_gets_all")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    workers = [client.subscribe(topic, subscription=name, mode="ack") for name in ("a", "b")]
    for worker in workers:
        worker.wait_counts(streams=1)
    ids = set(client.make_many(topic, 20))
    for worker in workers:
        check({worker.take()["message_id"] for _ in range(20)} == ids, "not each message")


# ---- Stop

@case("stop.confirms_settlements")
def _(world: World) -> None:
    subscriber, _, ids = start(world, 50, handlers=50)
    for delivery in [subscriber.take() for _ in range(50)]:
        subscriber.finish(delivery)
    check(subscriber.stop(), "not clean")
    match(subscriber.counts(), {"acked": 50})
    for message_id in ids:
        check(world.client.state(message_id) == "STATE_ACKED", "stopped before the settlements were confirmed")


@case("stop.waits_for_handlers")
def _(world: World) -> None:
    subscriber, _, ids = start(world, lease_ms=2_000)
    delivery = subscriber.take()
    stop = subscriber.begin_stop()
    subscriber.nothing(3, "an event")
    check(not stop.done(), "the stop did not wait for the handler")
    check(world.client.state(ids[0]) == "STATE_IN_FLIGHT", "the lease ended during the stop")
    subscriber.finish(delivery)
    match(stop.result(), {"clean": True})
    check(world.client.state(ids[0]) == "STATE_ACKED", "not acked")


@case("stop.gives_back_what_is_not_begun")
def _(world: World) -> None:
    subscriber, topic, ids = start(world, 8, handlers=2)
    running = [subscriber.take(), subscriber.take()]
    until(lambda: counts_of(world, topic).get("in_flight") in ("8", 8), lambda: "not all are delivered")
    stop = subscriber.begin_stop(handlers_ms=50_000)
    other = world.client.subscribe(topic, handlers=6, mode="ack")
    got = {other.take(40)["message_id"] for _ in range(6)}
    check(got == set(ids) - {delivery["message_id"] for delivery in running}, f"{got}")
    check(not stop.done(), "the stop did not wait for the handlers")
    for delivery in running:
        subscriber.finish(delivery)
    match(stop.result(), {"clean": True})
    match(subscriber.counts(), {"delivered": 2, "acked": 2})
    other.wait_counts(acked=6)
    match(counts_of(world, topic), {"acked": 8, "streams": 1})


@case("stop.does_not_wait_for_ever")
def _(world: World) -> None:
    subscriber, topic, ids = start(world)
    stuck = subscriber.take()
    check(not subscriber.stop(handlers_ms=500, confirm_ms=500), "clean, although a handler runs")
    other = world.client.subscribe(topic)
    delivery = other.take()
    match(delivery, {"message_id": ids[0], "attempt": 2})
    other.finish(delivery)
    subscriber.finish(stuck)
    other.wait_counts(acked=1)


@case("stop.of_an_idle_subscriber")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    subscriber = client.subscribe(topic)
    subscriber.wait_counts(streams=1)
    before = now()
    check(subscriber.stop(), "not clean")
    check(now() - before < 20_000, "the stop waited for nothing")
    until(lambda: not int(counts_of(world, topic).get("streams", 0)), lambda: "the stream is open")


# ---- Permanent errors

@case("ended.by_a_wrong_topic")
def _(world: World) -> None:
    match(world.client.subscribe("not a topic").ended(),
          {"code": "INVALID_ARGUMENT", "reason": "INVALID_TOPIC", "type": anything})


@case("ended.by_a_deleted_subscription")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    subscriber = client.subscribe(topic, subscription="s")
    subscriber.wait_counts(streams=1)
    client.delete_subscription(topic=topic, name="s")
    match(subscriber.ended(), {"code": "NOT_FOUND", "reason": "SUBSCRIPTION_NOT_FOUND"})


# ---- Many

@case("many.none_lost_none_twice")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    subscriber = client.subscribe(topic, handlers=8, mode="ack")
    ids = client.make_many(topic, 10_000)
    got = collections.Counter()
    while len(got) < len(ids):
        delivery = subscriber.take()
        got[delivery["message_id"]] += 1
        check(got[delivery["message_id"]] == 1 or delivery["maybe_redelivered"], f"twice, unmarked: {delivery}")
    check(set(got) == set(ids), "messages that nobody scheduled")
    match(subscriber.wait_counts(acked=10_000), {"acked": 10_000})
    check(subscriber.stop(), "not clean")
    match(client.get_topic(name=topic), {"topic": {"counts": {"pending": 0}}})
