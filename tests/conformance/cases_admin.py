# SPDX-License-Identifier: Apache-2.0
"""Cases: topics, subscriptions, forecasts, operations on many messages, recurrences, streams of messages to schedule."""

from harness import Client, World, anything, case, check, match, millis, now, stamp, text, until

HOUR = 3_600_000


# ---- Topics

@case("topic.settings")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    settings = {"max_pending": "2", "default_ttl": "3600s", "rate": {"messages_per_second": "10"}}
    match(client.create_topic(topic={"name": topic, "settings": settings}),
          {"topic": {"name": topic, "settings": {"max_pending": 2, "rate": {"messages_per_second": 10}}}})
    match(client.create_topic(topic={"name": topic, "settings": settings}), {"topic": {"name": topic}})
    client.refused("ALREADY_EXISTS", "TOPIC_EXISTS", "create_topic", topic={"name": topic})
    client.make_many(topic, 2, delay="3600s")
    match(client.refused("RESOURCE_EXHAUSTED", "TOPIC_FULL", "schedule", topic=topic, delay="1s"),
          {"metadata": {"topic": topic}})
    match(client.get_topic(name=topic), {"topic": {"counts": {"pending": 2},
                                                   "settings": {"default_ttl": lambda ttl: millis(ttl) == HOUR}}})


@case("topic.update")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    client.create_topic(topic={"name": topic, "settings": {"max_pending": "5", "max_payload_bytes": "10"}})
    match(client.update_topic(topic={"name": topic, "settings": {"max_pending": "7"}},
                              update_mask="settings.maxPending,settings.maxPayloadBytes"),
          {"topic": {"settings": {"max_pending": 7, "max_payload_bytes": 0}}})
    client.refused("INVALID_ARGUMENT", "INVALID_UPDATE_MASK", "update_topic", topic={"name": topic}, update_mask="name")
    client.refused("INVALID_ARGUMENT", "INVALID_TOPIC_SETTINGS", "update_topic",
                   topic={"name": topic, "settings": {"max_pending": "-1"}}, update_mask="settings.maxPending")
    client.refused("NOT_FOUND", "TOPIC_NOT_FOUND", "update_topic", topic={"name": topic + ".none"},
                   update_mask="settings")


@case("topic.pause")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    message = client.make(topic, delay="0s")
    match(client.pause_topic(name=topic), {"topic": {"settings": {"paused": True}}})
    match(client.pull(topic=topic, wait="0.5s"), {"deliveries": []})
    match(client.resume_topic(name=topic), {"topic": {"settings": {"paused": False}}})
    match(client.pull(topic=topic, wait="30s"), {"deliveries": [{"message_id": message["id"]}]})


def wait_done(client: Client, name: str) -> dict:
    """The operation, when it has ended."""
    operation = {}

    def ended() -> bool:
        operation.update(client.get_operation(name=name)["operation"])
        return operation["state"] != "STATE_RUNNING"
    until(ended, lambda: f"{operation}")
    return operation


@case("topic.delete")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    message = client.make(topic)
    match(client.refused("FAILED_PRECONDITION", "TOPIC_NOT_EMPTY", "delete_topic", name=topic),
          {"metadata": {"topic": topic, "messages": "1"}})
    operation = client.delete_topic(name=topic, force=True)["operation"]
    match(wait_done(client, operation), {"state": "STATE_DONE", "changed": 1, "action": "BULK_ACTION_PURGE"})
    match(client.delete_topic(name=topic), {"operation": ""})
    client.refused("NOT_FOUND", "TOPIC_NOT_FOUND", "get_topic", name=topic)
    check(client.state(message["id"]) == "STATE_CANCELLED", "the message goes on")


@case("topic.list")
def _(world: World) -> None:
    client, prefix = world.client, world.new_name()
    names = [f"{prefix}/{i:02}" for i in range(12)]
    for name in names:
        client.create_topic(topic={"name": name})
    for page_size in (0, 5):
        items = client.items("list_topics", name_prefix=prefix, page_size=page_size)
        check([item["name"] for item in items] == names, f"{items}")


# ---- Subscriptions

@case("subscription.settings")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    settings = {"lease_duration": "5s", "retry": {"min_backoff": "1s", "max_attempts": 3}}
    name = {"topic": topic, "name": "s"}
    match(client.create_subscription(subscription=name | {"settings": settings}),
          {"subscription": name | {"create_time": anything, "settings": {"retry": {"max_attempts": 3}}}})
    client.refused("ALREADY_EXISTS", "SUBSCRIPTION_EXISTS", "create_subscription", subscription=name)
    match(client.update_subscription(subscription=name | {"settings": {"paused": True}}, update_mask="settings.paused"),
          {"subscription": {"settings": {"paused": True, "retry": {"max_attempts": 3}}}})
    client.make(topic, delay="0s")
    match(client.pull(topic=topic, subscription="s", wait="0.5s"), {"deliveries": []})
    client.update_subscription(subscription=name, update_mask="settings.paused")
    match(client.pull(topic=topic, subscription="s", wait="30s"), {"deliveries": [{"attempt": 1}]})
    match(client.get_subscription(**name), {"subscription": {"counts": {"in_flight": 1, "delivered": 1}}})
    client.delete_subscription(**name)
    client.refused("NOT_FOUND", "SUBSCRIPTION_NOT_FOUND", "get_subscription", **name)


@case("subscription.start")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    client.create_subscription(subscription={"topic": topic, "name": "first"})
    client.make(topic, "old", delay="0s")
    for name, start in (("all", "START_ALL"), ("new", "START_NEW")):
        client.create_subscription(subscription={"topic": topic, "name": name}, start=start)
    client.make(topic, "new", delay="0s")
    for name, wanted in (("first", 2), ("all", 2), ("new", 1)):
        got = 0
        while got < wanted:
            deliveries = client.pull(topic=topic, subscription=name, wait="30s")["deliveries"]
            check(deliveries, f"{name}: {got} messages, not {wanted}")
            got += len(deliveries)
        match(client.pull(topic=topic, subscription=name, wait="0.2s"), {"deliveries": []})


@case("subscription.list")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    names = [f"s{i:02}" for i in range(7)]
    for name in names:
        client.create_subscription(subscription={"topic": topic, "name": name})
    items = client.items("list_subscriptions", topic=topic, page_size=3)
    check([item["name"] for item in items] == names, f"{items}")


# ---- Forecast, server

@case("forecast")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    hour = (now() // HOUR + 10) * HOUR
    client.make_many(topic, 3, deliver_time=stamp(hour + 60_000))
    client.make(topic, deliver_time=stamp(hour + 5 * HOUR))
    match(client.forecast(topic=topic, start_time=stamp(hour), bucket="BUCKET_HOUR", buckets=2), {
        "buckets": [{"start_time": lambda time: millis(time) == hour, "count": {"messages": 3, "bytes": anything}}],
        "later": {"messages": 1}, "total": {"messages": 4}, "overdue": {"messages": 0}})


@case("server.info")
def _(world: World) -> None:
    match(world.client.server_info(), {"version": anything, "state": "SERVING_STATE_SERVING", "shards": 1,
                                       "limits": {"payload_bytes_max": 1_048_576}, "server_time": anything})


# ---- Operations on many messages

@case("bulk.cancel")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    for key in ("a-1", "a-2", "b-1"):
        client.make(topic, key=key)
    request = {"topic": topic, "filter": {"key_prefix": "a-"}, "action": "BULK_ACTION_CANCEL"}
    match(client.start_bulk(**request, dry_run=True),
          {"operation": {"dry_run": True, "state": "STATE_DONE", "matched": 2, "changed": 0, "sample": lambda s: len(s) == 2}})
    operation = client.start_bulk(**request)["operation"]
    check(operation["name"], "an operation without a name")
    match(wait_done(client, operation["name"]), {"state": "STATE_DONE", "matched": 2, "changed": 2, "end_time": anything})
    check([item["key"] for item in client.items("list", topic=topic)] == ["b-1"], "not only b-1 is left")


@case("bulk.shift_and_release")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    message = client.make(topic)
    name = world.new_name("op")
    request = {"topic": topic, "action": "BULK_ACTION_SHIFT", "shift_by": "3600s", "name": name}
    client.start_bulk(**request)
    match(client.start_bulk(**request), {"operation": {"name": name}})
    client.refused("ALREADY_EXISTS", "OPERATION_EXISTS", "start_bulk", **request | {"shift_by": "60s"})
    match(wait_done(client, name), {"state": "STATE_DONE", "changed": 1})
    moved = client.get(message_id=message["id"])["message"]
    check(millis(moved["deliver_time"]) == millis(message["deliver_time"]) + HOUR, f"{moved}")
    client.start_bulk(topic=topic, action="BULK_ACTION_RELEASE")
    match(client.pull(topic=topic, wait="30s"), {"deliveries": [{"message_id": message["id"]}]})
    match(client.cancel_operation(name=name), {"operation": {"state": "STATE_DONE"}})
    client.refused("INVALID_ARGUMENT", "INVALID_ACTION", "start_bulk", topic=topic)


@case("bulk.redrive")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    client.make(topic, "content", delay="0s", key="k")
    token = client.pull(topic=topic, wait="30s")["deliveries"][0]["lease_token"]
    client.settle(settlements=[{"lease_token": token, "dead_letter": {}}])
    operation = client.start_bulk(topic=topic + ".dlq", action="BULK_ACTION_REDRIVE")["operation"]
    match(wait_done(client, operation["name"]), {"state": "STATE_DONE", "changed": 1})
    match(client.pull(topic=topic, wait="30s"), {"deliveries": [{"payload": text("content"), "key": "k", "attempt": 1}]})


@case("bulk.list")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    client.create_topic(topic={"name": topic})
    names = {client.start_bulk(topic=topic, action="BULK_ACTION_CANCEL")["operation"]["name"] for _ in range(5)}
    check(len(names) == 5, "two operations have one name")
    items = client.items("list_operations", topic=topic, page_size=2)
    check({item["name"] for item in items} == names and len(items) == 5, f"{items}")


# ---- Recurrences

def recurrence(world: World, **fields) -> dict:
    return {"name": world.new_name("recurrence"), "topic": world.new_name(), "template": {"payload": text("tick")},
            "schedule": {"cron": "0 9 * * *", "time_zone": "Europe/Berlin"}} | fields


@case("recurrence.life")
def _(world: World) -> None:
    client, wanted = world.client, recurrence(world)
    name = wanted["name"]
    made = client.create_recurrence(recurrence=wanted)["recurrence"]
    match(made, {"name": name, "state": "STATE_ACTIVE", "etag": anything, "next_deliver_time": anything,
                 "next_message_id": anything, "schedule": {"cron": "0 9 * * *"}})
    match(client.create_recurrence(recurrence=wanted), {"recurrence": {"etag": made["etag"]}})
    client.refused("ALREADY_EXISTS", "CONTENT_MISMATCH", "create_recurrence",
                   recurrence=wanted | {"overlap": "OVERLAP_SKIP"})
    changed = client.update_recurrence(recurrence=wanted | {"overlap": "OVERLAP_SKIP"}, update_mask="overlap",
                                       etag=made["etag"])["recurrence"]
    match(changed, {"overlap": "OVERLAP_SKIP"})
    client.refused("ABORTED", "ETAG_MISMATCH", "update_recurrence", recurrence=wanted, update_mask="overlap",
                   etag=made["etag"])
    match(client.pause_recurrence(name=name), {"recurrence": {"state": "STATE_PAUSED", "next_message_id": ""}})
    match(client.resume_recurrence(name=name), {"recurrence": {"state": "STATE_ACTIVE", "next_message_id": anything}})
    match(client.get_recurrence(name=name), {"recurrence": {"template": {"payload": text("tick")}}})
    match(client.delete_recurrence(name=name), {"occurrence_cancelled": True})
    client.refused("NOT_FOUND", "RECURRENCE_NOT_FOUND", "delete_recurrence", name=name)


@case("recurrence.delivers")
def _(world: World) -> None:
    client, wanted = world.client, recurrence(world, schedule={"interval": "1s", "max_count": "2"})
    client.create_recurrence(recurrence=wanted)
    subscriber = client.subscribe(wanted["topic"], handlers=1)
    for number in (1, 2):
        delivery = subscriber.take()
        match(delivery, {"recurrence": wanted["name"], "occurrence": number, "payload": text("tick")})
        subscriber.finish(delivery)
    until(lambda: client.get_recurrence(name=wanted["name"])["recurrence"]["state"] == "STATE_COMPLETED",
          lambda: "not completed")


@case("recurrence.list_and_preview")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    names = set()
    for _ in range(5):
        names.add(client.create_recurrence(recurrence=recurrence(world, topic=topic))["recurrence"]["name"])
    items = client.items("list_recurrences", topic=topic, page_size=2)
    check({item["name"] for item in items} == names and len(items) == 5, f"{items}")
    schedule = {"cron": "30 9 * * *", "time_zone": "Europe/Berlin", "start_time": "2030-07-01T00:00:00Z"}
    match(client.preview_recurrence(schedule=schedule, count=2), {"occurrences": [
        {"number": 1, "time": "2030-07-01T07:30:00Z", "civil_time": {"time_zone": "Europe/Berlin"}},
        {"number": 2, "time": "2030-07-02T07:30:00Z"}]})
    match(client.preview_recurrence(name=names.pop(), count=3), {"occurrences": lambda o: len(o) == 3})
    client.refused("INVALID_ARGUMENT", "INVALID_CRON", "preview_recurrence", schedule={"cron": "61 * * * *"})
    client.refused("INVALID_ARGUMENT", "INVALID_CRON", "create_recurrence",
                   recurrence=recurrence(world, schedule={"cron": "never"}))


# ---- Streams of messages to schedule

@case("stream.results")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    stream = world.stream(client)
    good = {"topic": topic, "delay": "3600s", "payload": text("p")}
    stream.send([good | {"key": "a"}, good | {"topic": "not a topic"}])
    match(stream.result(), {"ok": {"outcome": "SCHEDULE_OUTCOME_CREATED", "message": {"key": "a"}}})
    match(stream.result(), {"error": {"code": "INVALID_ARGUMENT", "reason": "INVALID_TOPIC", "type": anything}})
    stream.send([good | {"key": "a"}, good | {"key": "b"}])
    match(stream.result(), {"ok": {"outcome": "SCHEDULE_OUTCOME_UNCHANGED"}})
    end, results = stream.finish()
    match(end, {"answered": 4, "unanswered": [], "error": None})
    match(results, [{"ok": {"message": {"key": "b"}}}])
    check(len(client.items("list", topic=topic)) == 2, "not two messages")


@case("stream.many")
def _(world: World) -> None:
    client, topic = world.client, world.new_name()
    stream = world.stream(client)
    for _ in range(20):
        stream.send([{"topic": topic, "delay": "3600s", "payload": text("p")}] * 500)
    end, results = stream.finish()
    match(end, {"answered": 10_000, "unanswered": [], "error": None})
    check(len({result["ok"]["message"]["id"] for result in results}) == 10_000, "two messages have one id")
    match(client.get_topic(name=topic), {"topic": {"counts": {"pending": 10_000}}})
