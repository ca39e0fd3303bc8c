# SPDX-License-Identifier: Apache-2.0
"""Cases: calls about messages."""

from driver import CallError
from harness import Wrong, World, anything, case, check, match, millis, now, stamp, text, until

HOUR = 3_600_000


# ---- Times

@case("schedule.delay")
def _(world: World) -> None:
    answer = world.client.schedule(topic=world.new_name(), payload=text("p"), delay="90.250s")
    match(answer, {"outcome": "SCHEDULE_OUTCOME_CREATED",
                   "message": {"id": anything, "state": "STATE_SCHEDULED", "payload_bytes": 1, "etag": anything}})
    message = answer["message"]
    delay = millis(message["deliver_time"]) - millis(message["accept_time"])
    check(delay == 90_250, f"{delay} ms")


@case("schedule.absolute_time")
def _(world: World) -> None:
    wanted = stamp(now() + HOUR)
    message = world.client.make(world.new_name(), deliver_time=wanted)
    check(millis(message["deliver_time"]) == millis(wanted), f"{message}, not {wanted}")


@case("schedule.past_is_due")
def _(world: World) -> None:
    for when in ({"deliver_time": stamp(now() - HOUR)}, {"delay": "0s"}):
        match(world.client.make(world.new_name(), **when), {"state": "STATE_DUE"})


@case("schedule.forgotten_time")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    match(client.refused("INVALID_ARGUMENT", "DELIVER_TIME_MISSING", "schedule", topic=topic), {"fields": ["deliver_time"]})
    first, second = client.schedule_batch(messages=[{"topic": topic}, {"topic": topic, "delay": "0s"}])["results"]
    match(first, {"error": {"code": "INVALID_ARGUMENT", "reason": "DELIVER_TIME_MISSING"}})
    match(second, {"ok": {"message": {"state": "STATE_DUE"}}})


LOCAL_TIMES = [
    # zone, local time, UTC
    ("Europe/Berlin", "2030-07-01T09:00", "2030-07-01T07:00:00Z"),
    ("Europe/Berlin", "2030-01-01T09:00:30.250", "2030-01-01T08:00:30.250Z"),
    ("Europe/Berlin", "2030-03-31T02:30", "2030-03-31T01:30:00Z"),  # skipped: clocks go forward
    ("America/New_York", "2030-11-03T01:30", "2030-11-03T05:30:00Z"),  # twice: the first one
    ("Asia/Kathmandu", "2030-01-01T00:00", "2029-12-31T18:15:00Z"),
]


@case("schedule.local_time")
def _(world: World) -> None:
    for zone, local, wanted in LOCAL_TIMES:
        message = world.client.make(world.new_name(), civil_time={"local": local, "time_zone": zone})
        check(millis(message["deliver_time"]) == millis(wanted), f"{zone} {local}: {message}")
        match(message, {"civil_time": {"local": local, "time_zone": zone}})


# ---- Content

@case("schedule.all_fields")
def _(world: World) -> None:
    fields = {"attributes": {"a": "1", "ü": "ß €"}, "labels": {"tenant": "t1", "kind": "x"}, "ordering_key": "order",
              "ttl": "60s", "late_policy": "LATE_POLICY_DROP", "spread": "10s"}
    message = world.client.make(world.new_name(), "content", **fields)
    match(world.client.get(message_id=message["id"], view="MESSAGE_VIEW_FULL")["message"],
          fields | {"id": message["id"], "payload": text("content"), "ttl": lambda ttl: millis(ttl) == 60_000,
                    "spread": lambda spread: millis(spread) == 10_000})
    expires = stamp(now() + 2 * HOUR)
    message = world.client.make(world.new_name(), expire_time=expires)
    match(message, {"expire_time": lambda time: millis(time) == millis(expires)})


@case("schedule.any_bytes")
def _(world: World) -> None:
    for payload in (b"", bytes(range(256)), b"x" * 1_000_000):
        topic = world.new_name()
        world.client.make(topic, payload, delay="0s")
        match(world.client.pull(topic=topic, wait="30s"), {"deliveries": [{"payload": text(payload)}]})


@case("schedule.validate_only")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    client.make(topic)
    match(client.schedule(topic=topic, delay="60s", validate_only=True), {"message": {"id": ""}})
    check(len(client.items("list", topic=topic)) == 1, "the call made a message")


# ---- Repeats and conflicts

@case("schedule.request_id")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    request = {"topic": topic, "payload": text("p"), "delay": "3600s", "request_id": "intent-1"}
    first, repeat = client.schedule(**request), client.schedule(**request)
    check(first["message"]["id"] == repeat["message"]["id"], "a repeat made a second message")
    check(not first.get("request_repeated") and repeat.get("request_repeated"), "the answers do not tell the repeat")
    match(client.schedule_batch(messages=[request])["results"], [{"ok": {"request_repeated": True}}])
    error = client.refused("ALREADY_EXISTS", "REQUEST_ID_REUSED", "schedule", **request | {"payload": text("other")})
    match(error, {"metadata": {"topic": topic, "request_id": "intent-1", "message_id": first["message"]["id"]}})


@case("schedule.repeat_after_the_end")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    request = {"topic": topic, "payload": text("p"), "delay": "3600s", "request_id": "intent-1"}
    first = client.schedule(**request)
    check(not client.schedule(**request).get("message_ended"), "a pending message has ended")
    client.cancel(message_id=first["message"]["id"])
    ended = {"request_repeated": True, "message_ended": True,
             "message": {"id": first["message"]["id"], "state": "STATE_CANCELLED"}}
    match(client.schedule(**request), ended)
    match(client.schedule_batch(messages=[request])["results"], [{"ok": ended}])


@case("schedule.own_request_ids_differ")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    ids = {client.make(topic)["id"] for _ in range(20)} | set(client.make_many(topic, 20, payload=text("p")))
    check(len(ids) == 40, f"{len(ids)} messages of 40 equal requests")


def keyed(world: World, **fields):
    """A client, and a function that schedules with a key."""
    client, topic = world.client, world.new_name()

    def schedule(**more):
        return client.schedule(**{"topic": topic, "key": "k", "payload": text("p"), "delay": "3600s"} | fields | more)
    return client, topic, schedule


@case("conflict.fail")
def _(world: World) -> None:
    client, topic, schedule = keyed(world)
    first = schedule()
    match(schedule(on_conflict="ON_CONFLICT_FAIL"),
          {"outcome": "SCHEDULE_OUTCOME_UNCHANGED", "message": {"id": first["message"]["id"]}})
    error = client.refused("ALREADY_EXISTS", "CONTENT_MISMATCH", "schedule", topic=topic, key="k", payload=text("q"),
                           delay="3600s")
    match(error, {"metadata": {"topic": topic, "key": "k", "message_id": first["message"]["id"],
                               "state": anything}})


@case("conflict.after_the_end")
def _(world: World) -> None:
    client, topic, schedule = keyed(world)
    first = schedule()["message"]
    client.cancel(key={"topic": topic, "key": "k"})
    once = {"on_conflict": "ON_CONFLICT_ONCE"}
    match(schedule(**once), {"outcome": "SCHEDULE_OUTCOME_UNCHANGED", "message_ended": True,
                             "message": {"id": first["id"], "state": "STATE_CANCELLED"}})
    error = client.refused("ALREADY_EXISTS", "CONTENT_MISMATCH", "schedule", topic=topic, key="k", payload=text("q"),
                           delay="3600s", **once)
    match(error, {"metadata": {"message_id": first["id"], "state": "STATE_CANCELLED"}})
    # Without ONCE the key is free.
    second = schedule()
    match(second, {"outcome": "SCHEDULE_OUTCOME_CREATED", "previous_message_id": first["id"]})
    match(client.get(key={"topic": topic, "key": "k"}), {"message": {"id": second["message"]["id"],
                                                                     "state": "STATE_SCHEDULED"}})


@case("conflict.replace")
def _(world: World) -> None:
    client, _, schedule = keyed(world)
    first = schedule()["message"]
    answer = schedule(on_conflict="ON_CONFLICT_REPLACE", payload=text("new"), delay="7200s")
    match(answer, {"outcome": "SCHEDULE_OUTCOME_REPLACED", "message": {"id": first["id"]},
                   "old_deliver_time": lambda time: millis(time) == millis(first["deliver_time"])})
    check(answer["message"]["etag"] != first["etag"], "the etag is the same")
    match(client.get(message_id=first["id"], view="MESSAGE_VIEW_FULL"), {"message": {"payload": text("new")}})


@case("conflict.replace_of_delivered")
def _(world: World) -> None:
    client, topic, schedule = keyed(world)
    first = schedule(delay="0s")["message"]
    check(len(client.pull(topic=topic, wait="30s")["deliveries"]) == 1, "no delivery")
    match(schedule(on_conflict="ON_CONFLICT_REPLACE"),
          {"outcome": "SCHEDULE_OUTCOME_CREATED", "previous_message_id": first["id"]})


@case("conflict.keep_time")
def _(world: World) -> None:
    _, _, schedule = keyed(world)
    first = schedule()["message"]
    match(schedule(on_conflict="ON_CONFLICT_KEEP_TIME", payload=text("new"), delay="7200s"),
          {"outcome": "SCHEDULE_OUTCOME_REPLACED",
           "message": {"id": first["id"], "deliver_time": lambda time: millis(time) == millis(first["deliver_time"])}})


@case("conflict.push_back")
def _(world: World) -> None:
    _, _, schedule = keyed(world, on_conflict="ON_CONFLICT_PUSH_BACK", max_wait="7200s")
    first = schedule()["message"]
    for delay, wanted in (("60s", millis(first["deliver_time"])), ("86400s", millis(first["accept_time"]) + 2 * HOUR)):
        message = schedule(delay=delay)["message"]
        check(millis(message["deliver_time"]) == wanted, f"{delay}: {message}, not {stamp(wanted)}")


@case("conflict.only_if_exists")
def _(world: World) -> None:
    client, topic, schedule = keyed(world, on_conflict="ON_CONFLICT_REPLACE")
    request = {"topic": topic, "key": "k", "delay": "60s", "on_conflict": "ON_CONFLICT_REPLACE", "only_if_exists": True}
    error = client.refused("NOT_FOUND", "MESSAGE_NOT_FOUND", "schedule", **request)
    match(error, {"metadata": {"topic": topic, "key": "k"}})
    schedule()
    match(client.schedule(**request), {"outcome": "SCHEDULE_OUTCOME_REPLACED"})


# ---- Batches

@case("batch.schedule")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    good = {"topic": topic, "payload": text("p"), "delay": "3600s"}
    results = client.schedule_batch(messages=[good | {"key": "a"}, good | {"topic": "not a topic"},
                                              good | {"key": "a"}, good | {"labels": {"no key!": "v"}}])["results"]
    match(results, [
        {"ok": {"outcome": "SCHEDULE_OUTCOME_CREATED"}},
        {"error": {"code": "INVALID_ARGUMENT", "reason": "INVALID_TOPIC", "metadata": {"field": anything},
                   "type": anything, "fields": [anything]}},
        {"ok": {"outcome": "SCHEDULE_OUTCOME_UNCHANGED", "message": {"id": results[0]["ok"]["message"]["id"]}}},
        {"error": {"code": "INVALID_ARGUMENT", "reason": "INVALID_LABELS", "type": anything}}])
    match(client.schedule_batch(messages=[]), {"results": []})


@case("batch.cancel")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    first, second = client.make(topic), client.make(topic, key="k")
    cancels = [{"message_id": first["id"]}, {"key": {"topic": topic, "key": "k"}}, {"message_id": "no id"},
               {"message_id": first["id"]}]
    match(client.cancel_batch(cancels=cancels)["results"], [
        {"ok": {"outcome": "OUTCOME_CANCELLED", "message_id": first["id"]}},
        {"ok": {"outcome": "OUTCOME_CANCELLED", "message_id": second["id"]}},
        {"error": {"code": "INVALID_ARGUMENT", "reason": "INVALID_MESSAGE_ID", "type": anything}},
        {"ok": {"outcome": "OUTCOME_ALREADY_CANCELLED"}}])


# ---- Accepted messages

@case("cancel.outcomes")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    by_id, by_key = client.make(topic), client.make(topic, key="k")
    key = {"topic": topic, "key": "k"}
    match(client.cancel(message_id=by_id["id"]), {"outcome": "OUTCOME_CANCELLED", "state": "STATE_SCHEDULED"})
    match(client.cancel(message_id=by_id["id"]), {"outcome": "OUTCOME_ALREADY_CANCELLED", "end_time": anything})
    match(client.cancel(key=key), {"outcome": "OUTCOME_CANCELLED", "message_id": by_key["id"]})
    match(client.cancel(key=key | {"key": "none"}), {"outcome": "OUTCOME_NOT_FOUND", "message_id": ""})
    match(client.get(key=key), {"message": {"state": "STATE_CANCELLED"}})


@case("cancel.delivered")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    message = client.make(topic, delay="0s")
    token = client.pull(topic=topic, wait="30s")["deliveries"][0]["lease_token"]
    match(client.cancel(message_id=message["id"]), {"outcome": "OUTCOME_IN_FLIGHT", "redelivery_stopped": False})
    match(client.cancel(message_id=message["id"], stop_redelivery=True),
          {"outcome": "OUTCOME_IN_FLIGHT", "redelivery_stopped": True})
    match(client.settle(settlements=[{"lease_token": token}]),
          {"refused": [{"lease_token": token, "reason": "REASON_LEASE_LOST"}]})


@case("reschedule.times")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    old = client.make(topic, key="k")
    soon = stamp(now() + 2 * HOUR)
    for when, wanted in (({"deliver_time": soon}, soon),
                         ({"civil_time": {"local": "2030-07-01T09:00", "time_zone": "Europe/Berlin"}},
                          "2030-07-01T07:00:00Z")):
        answer = client.reschedule(key={"topic": topic, "key": "k"}, **when)
        match(answer, {"outcome": "OUTCOME_RESCHEDULED", "message_id": old["id"], "message": {
            "id": old["id"], "deliver_time": lambda time, wanted=wanted: millis(time) == millis(wanted)}})
    before = now()
    match(client.reschedule(message_id=old["id"], delay="60s"), {"message": {
        "deliver_time": lambda time: before + 50_000 <= millis(time) <= now() + 70_000}})
    match(client.reschedule(key={"topic": topic, "key": "none"}, delay="60s"), {"outcome": "OUTCOME_NOT_FOUND"})


@case("reschedule.etag")
def _(world: World) -> None:
    client = world.client
    message = client.make(world.new_name())
    moved = client.reschedule(message_id=message["id"], delay="60s", etag=message["etag"])["message"]
    error = client.refused("ABORTED", "ETAG_MISMATCH", "reschedule", message_id=message["id"], delay="90s",
                           etag=message["etag"])
    match(error, {"metadata": {"message_id": message["id"], "etag": moved["etag"]}})


@case("get.views")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    message = client.make(topic, "content", key="k", attributes={"a": "1"})
    match(client.get(key={"topic": topic, "key": "k"}),
          {"message": {"id": message["id"], "payload": "", "attributes": lambda a: not a, "payload_bytes": 7}})
    match(client.get(message_id=message["id"], view="MESSAGE_VIEW_FULL"),
          {"message": {"payload": text("content"), "attributes": {"a": "1"}}})


@case("explain")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    message = client.make(topic, delay="0s")
    client.pull(topic=topic, wait="30s")
    match(client.explain(message_id=message["id"]), {
        "message": {"state": "STATE_IN_FLIGHT"}, "summary": anything,
        "timeline": {"attempts": 1, "first_dispatch_time": anything, "lease_end_time": anything},
        "subscriptions": [{"subscription": "default", "state": "STATE_IN_FLIGHT"}]})


# ---- Lists

@case("list.pages")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    ids = set(client.make_many(topic, 25, delay="3600s"))
    for page_size in (0, 1, 10, 25, 1000):
        items = client.items("list", topic=topic, page_size=page_size)
        check(len(items) == 25 and {item["id"] for item in items} == ids, f"{len(items)} with pages of {page_size}")
    check(len(client.items("list", limit=7, topic=topic, page_size=3)) == 7, "not the first 7")


@case("list.filters")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    late = stamp(now() + 5 * HOUR)
    for key, fields in (("b-2", {"labels": {"t": "1"}}), ("b-1", {"labels": {"t": "2"}}),
                        ("a-1", {"labels": {"t": "1"}, "deliver_time": late}), ("c-1", {"delay": "0s"})):
        client.make(topic, key=key, **fields)
    for request, wanted in (({"key_prefix": "b-"}, ["b-1", "b-2"]), ({"labels": {"t": "1"}}, ["b-2", "a-1"]),
                            ({"start_time": late}, ["a-1"]), ({"end_time": late}, ["c-1", "b-2", "b-1"]),
                            ({"states": ["STATE_DUE", "STATE_IN_FLIGHT"]}, ["c-1"]), ({"key_prefix": "z"}, [])):
        keys = [item["key"] for item in client.items("list", topic=topic, page_size=1, **request)]
        check(keys == wanted, f"{request}: {keys}, not {wanted}")


# ---- Pull and settle

@case("pull.ack")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    message = client.make(topic, "content", delay="0s", key="k", attributes={"a": "1"}, labels={"l": "2"})
    deliveries = client.pull(topic=topic, wait="30s")["deliveries"]
    match(deliveries, [{"message_id": message["id"], "payload": text("content"), "attempt": 1, "key": "k",
                        "attributes": {"a": "1"}, "labels": {"l": "2"}, "lease_token": anything}])
    token = deliveries[0]["lease_token"]
    match(client.settle(settlements=[{"lease_token": token}]), {"settled": [token], "refused": []})
    check(client.state(message["id"]) == "STATE_ACKED", "not acked")
    match(client.settle(settlements=[{"lease_token": token}]), {"settled": [], "refused": [{"reason": "REASON_LEASE_LOST"}]})


@case("pull.waits")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    match(client.pull(topic=topic), {"deliveries": []})
    pending = client.begin("pull", topic=topic, wait="45s")
    message = client.make(topic, delay="0.2s")
    match(pending.result(), {"deliveries": [{"message_id": message["id"]}]})


@case("pull.that_waits_has_a_connection_of_its_own")
def _(world: World) -> None:
    """The server allows 1,000 calls at once on a connection. No other call may wait behind so many pulls."""
    client, topic = world.client, world.new_name()
    relay = world.losing_relay()
    through = world.connect(relay.address)
    through.make(topic)
    waiting = through.begin("pull", topic=topic, wait="45s")
    until(lambda: len(relay.calls) == 2, lambda: "the pull did not arrive")
    through.pull(topic=topic)
    through.make(topic)
    client.make(topic, delay="0s")
    through.settle(settlements=[{"lease_token": waiting.result()["deliveries"][0]["lease_token"]}])
    numbers = [number for _, number in relay.calls]
    waits = numbers.pop(1)
    check(len(set(numbers)) == 1 and waits not in numbers, f"{waits} for the pull that waits; the other calls: {numbers}")


@case("pull.limits")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    client.make_many(topic, 10)
    for size, count in ((4, 4), (1, 1), (100, 5)):
        got = len(client.pull(topic=topic, max_messages=size, wait="30s")["deliveries"])
        check(got == count, f"{got} messages with max_messages {size}")


@case("settle.all_kinds")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    client.make_many(topic, 5)
    tokens = {}
    for delivery in client.pull(topic=topic, wait="30s")["deliveries"]:
        tokens[delivery["payload"]] = delivery["lease_token"]
    ack, nack, dead, release, extend = (tokens[text(str(i))] for i in range(5))
    answer = client.settle(settlements=[
        {"lease_token": ack}, {"lease_token": "unknown"}, {"lease_token": ack},
        {"lease_token": nack, "extend": {"duration": "120s"}}, {"lease_token": nack, "nack": {"delay": "0s", "reason": "r"}},
        {"lease_token": dead, "dead_letter": {"reason": "bad"}}, {"lease_token": release, "release": {}},
        {"lease_token": extend, "extend": {"duration": "120s"}}])
    check(sorted(answer["settled"]) == sorted([ack, nack, dead, release]), f"{answer}")
    check(sorted(answer["extended"]) == sorted([nack, extend]), f"the order of a lease was not kept: {answer}")
    check(sorted(one["lease_token"] for one in answer["refused"]) == sorted(["unknown", ack]), f"{answer}")
    match(answer, {"refused": [{"reason": "REASON_LEASE_LOST"}] * 2})
    again = client.pull(topic=topic, max_messages=2, wait="30s")["deliveries"]
    while len(again) < 2:
        more = client.pull(topic=topic, max_messages=1, wait="30s")["deliveries"]
        check(more, f"only {again}")
        again += more
    check({delivery["payload"] for delivery in again} == {text("1"), text("3")}, f"{again}")
    match(client.pull(topic=topic + ".dlq", wait="30s"), {"deliveries": [
        {"dead_letter": {"topic": topic, "reason": "REASON_REJECTED", "reason_text": "bad"}}]})


# ---- Errors: each as its type

MESSAGE = {"topic": "t", "delay": "60s"}
ERRORS = [
    # op, request, code, reason, the refused field
    ("schedule", MESSAGE | {"topic": "not a topic"}, "INVALID_ARGUMENT", "INVALID_TOPIC", "topic"),
    ("schedule", {"topic": "t", "delay": "-1s"}, "INVALID_ARGUMENT", "DELIVER_TIME_OUT_OF_RANGE", "delay"),
    ("schedule", MESSAGE | {"payload": text("x" * 1_100_000)}, "INVALID_ARGUMENT", "PAYLOAD_TOO_LARGE", "payload"),
    ("schedule", MESSAGE | {"ttl": "-5s"}, "INVALID_ARGUMENT", "INVALID_TTL", "ttl"),
    ("schedule", MESSAGE | {"labels": {"a b": "c"}}, "INVALID_ARGUMENT", "INVALID_LABELS", "labels"),
    ("schedule", MESSAGE | {"on_conflict": "ON_CONFLICT_REPLACE"}, "INVALID_ARGUMENT", "INVALID_ON_CONFLICT", None),
    ("schedule", {"topic": "t", "civil_time": {"local": "2030-02-30T09:00", "time_zone": "UTC"}}, "INVALID_ARGUMENT",
     "INVALID_CIVIL_TIME", None),
    ("schedule", {"topic": "t", "civil_time": {"local": "2030-02-01T09:00", "time_zone": "CEST"}}, "INVALID_ARGUMENT",
     "INVALID_TIME_ZONE", None),
    ("get", {"message_id": "no id"}, "INVALID_ARGUMENT", "INVALID_MESSAGE_ID", None),
    ("get", {"key": {"topic": "t", "key": "none"}}, "NOT_FOUND", "MESSAGE_NOT_FOUND", None),
    ("explain", {"key": {"topic": "t", "key": "none"}}, "NOT_FOUND", "MESSAGE_NOT_FOUND", None),
    ("pull", {"topic": "t", "max_messages": -1}, "INVALID_ARGUMENT", "INVALID_PULL", None),
    ("settle", {"settlements": [{"lease_token": "x" * 65}]}, "INVALID_ARGUMENT", "INVALID_SETTLE", "lease_token"),
    ("get_topic", {"name": "nowhere"}, "NOT_FOUND", "TOPIC_NOT_FOUND", None),
    ("get_operation", {"name": "nothing"}, "NOT_FOUND", "OPERATION_NOT_FOUND", None),
    ("get_recurrence", {"name": "nothing"}, "NOT_FOUND", "RECURRENCE_NOT_FOUND", None),
]


@case("errors.of_calls")
def _(world: World) -> None:
    for op, request, code, reason, field in ERRORS:
        try:
            error = world.client.refused(code, reason, op, **request)
            check(error.get("message"), "no message")
            check(field is None or any(field in name for name in error.get("fields", [])), f"no field {field}: {error}")
        except Wrong as wrong:
            raise Wrong(f"{op} {str(request)[:200]}: {wrong}") from wrong


@case("errors.of_lists")
def _(world: World) -> None:
    for request, code, reason in (({"topic": "nowhere"}, "NOT_FOUND", "TOPIC_NOT_FOUND"),
                                  ({"topic": "a b"}, "INVALID_ARGUMENT", "INVALID_TOPIC"),
                                  ({"topic": "t", "states": ["STATE_ACKED"]}, "INVALID_ARGUMENT", "INVALID_FILTER")):
        try:
            raise Wrong(f"{request}: {world.client.items('list', **request)}")
        except CallError as error:
            check((error.code, error.reason) == (code, reason), f"{request}: {error}")


@case("errors.retry_delay")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    client.create_topic(topic={"name": topic, "settings": {
        "minute_limit": {"messages": "1", "policy": "POLICY_REFUSE"}}})
    when = "2030-07-01T07:00:00Z"
    client.make(topic, deliver_time=when)
    error = client.refused("RESOURCE_EXHAUSTED", "MINUTE_FULL", "schedule", topic=topic, deliver_time=when)
    check(error.get("retry_delay_ms", 0) > 0, f"no retry delay: {error}")
