# SPDX-License-Identifier: Apache-2.0
"""Cases: what the server's limits allow, at its largest, passes through every library, in both directions."""

from typing import Any

from harness import Client, World, case, check, match, text

MIB = 1 << 20
# The largest value of each knob that bounds a message, a batch or an answer (server/config/knobs.cc). batch_bytes_max is
# the smallest value that payload_bytes_max allows, so that one message is larger than a batch may be.
KNOBS = {"payload_bytes_max": 64 * MIB, "attributes_max": 1_000, "attributes_bytes_max": MIB, "labels_max": 64,
         "batch_messages_max": 100_000, "batch_bytes_max": 64 * MIB, "frame_messages_max": 10_000,
         "frame_bytes_max": 64 * MIB, "outstanding_messages_max": 10_000_000, "stream_unsent_bytes_max": 1024 * MIB,
         "recurrence_bytes_max": 128 * MIB}
# Names of messages have at most 255 bytes. These have three bytes for a character.
NAME = "€" * 85


def largest_daemon(world: World, **knobs: int) -> Client:
    flags = [word for name, value in (KNOBS | knobs).items() for word in ("--" + name.replace("_", "-"), str(value))]
    # A driver needs seconds to read the JSON of a request of 88 MB, and more on a busy machine.
    return world.connect(world.own_daemon(*flags).address, timeout_ms=50_000)


def long_name(world: World, kind: str = "topic") -> str:
    """A name of a topic or subscription with the most bytes."""
    return world.new_name(kind).ljust(255, "x")


def largest_attributes() -> dict[str, str]:
    count, size = KNOBS["attributes_max"], KNOBS["attributes_bytes_max"]
    keys = [f"{i:04}" for i in range(count)]
    each, more = divmod(size - sum(map(len, keys)), count)
    return {key: "v" * (each + (i < more)) for i, key in enumerate(keys)}


def largest_labels() -> dict[str, str]:
    return {f"{i:02}".ljust(63, "k"): NAME for i in range(KNOBS["labels_max"])}


def largest_message(topic: str) -> dict[str, Any]:
    """A request to schedule a message that is as large as each limit allows."""
    return {"topic": topic, "payload": text(b"\xa5" * KNOBS["payload_bytes_max"]), "attributes": largest_attributes(),
            "labels": largest_labels(), "key": NAME, "ordering_key": NAME, "request_id": "r" * 128, "delay": "0s"}


def check_same(received: dict[str, Any], sent: dict[str, Any], where: str) -> None:
    """As match, without the bytes in the text of a failure."""
    for field in ("payload", "attributes", "labels", "key", "ordering_key"):
        check(received.get(field) == sent[field], f"{where}: {field} is not as it was sent")


@case("limits.largest_message")
def _(world: World) -> None:
    client, topic, subscription = largest_daemon(world), long_name(world), long_name(world, "subscription")
    client.create_subscription(subscription={"topic": topic, "name": subscription})
    request = largest_message(topic)
    message = client.schedule(**request)["message"]
    check_same(client.get(key={"topic": topic, "key": NAME}, view="MESSAGE_VIEW_FULL")["message"], request, "get")
    [listed] = client.items("list", topic=topic, view="MESSAGE_VIEW_FULL")
    check_same(listed, request, "list")
    pulled = client.pull(topic=topic, subscription=subscription, wait="30s")["deliveries"]
    check_same(pulled[0], request, "pull")
    client.settle(settlements=[{"lease_token": pulled[0]["lease_token"], "nack": {"delay": "0s", "reason": NAME}}])
    subscriber = client.subscribe(topic, subscription=subscription, client_id=NAME)
    delivery = subscriber.take()
    check_same(delivery, request, "subscriber")
    match(delivery, {"message_id": message["id"], "attempt": 2})
    subscriber.finish(delivery)
    client.wait_state(message["id"], "STATE_ACKED")


@case("limits.largest_message_of_a_batch")
def _(world: World) -> None:
    client, topic = largest_daemon(world), long_name(world)
    request = largest_message(topic)
    [result] = client.schedule_batch(messages=[request])["results"]
    match(result, {"ok": {"outcome": "SCHEDULE_OUTCOME_CREATED"}})
    stream = world.stream(client)
    stream.send([request])  # The repeat has the same request_id.
    match(stream.result(), {"ok": {"request_repeated": True}})
    match(stream.finish()[0], {"answered": 1, "error": None})


@case("limits.largest_recurrence")
def _(world: World) -> None:
    client, topic = largest_daemon(world), long_name(world)
    template = {field: largest_message(topic)[field] for field in ("payload", "attributes", "labels", "ordering_key")}
    client.create_recurrence(recurrence={"name": "r" * 255, "topic": topic, "template": template,
                                         "schedule": {"interval": "3600s"}})
    received = client.get_recurrence(name="r" * 255)["recurrence"]["template"]
    for field, value in template.items():
        check(received.get(field) == value, f"{field} is not as it was sent")


@case("limits.most_messages_of_a_batch")
def _(world: World) -> None:
    client, topic, count = largest_daemon(world), world.new_name(), KNOBS["batch_messages_max"]
    results = client.schedule_batch(messages=[{"topic": topic, "delay": "3600s"}] * count)["results"]
    ids = [result["ok"]["message"]["id"] for result in results]
    check(len(set(ids)) == count, f"{len(set(ids))} messages of {count}")
    results = client.cancel_batch(cancels=[{"message_id": id} for id in ids])["results"]
    check([result["ok"]["message_id"] for result in results] == ids, f"{len(results)} results of {count}, or others")


@case("limits.largest_answer_to_a_batch")
def _(world: World) -> None:
    # The answer has the labels, so it has as many bytes as the request.
    size, labels = 68 * MIB, largest_labels()
    client = largest_daemon(world, batch_bytes_max=2 * size, mailbox_bytes_max=2 * size)
    count = size // sum(len(key) + len(value.encode()) for key, value in labels.items())
    message = {"topic": world.new_name(), "labels": labels, "delay": "3600s"}
    results = client.schedule_batch(messages=[message] * count)["results"]
    check(len(results) == count and all(result["ok"]["message"]["labels"] == labels for result in results),
          f"{len(results)} results of {count}, or other labels")


@case("limits.longest_names_in_errors")
def _(world: World) -> None:
    client, topic, request_id = world.client, long_name(world), "€" * 42
    first = client.make(topic, key=NAME, request_id=request_id)
    key = {"topic": topic, "key": NAME}
    other = key | {"delay": "7200s"}
    match(client.refused("ALREADY_EXISTS", "CONTENT_MISMATCH", "schedule", **other),
          {"metadata": key | {"message_id": first["id"]}})
    match(client.refused("ALREADY_EXISTS", "REQUEST_ID_REUSED", "schedule", **other, request_id=request_id),
          {"metadata": key | {"message_id": first["id"], "request_id": request_id}})
    match(client.refused("ABORTED", "ETAG_MISMATCH", "reschedule", key=key, etag="9" * 19, delay="1s"),
          {"metadata": {"message_id": first["id"]}})
    match(client.refused("NOT_FOUND", "MESSAGE_NOT_FOUND", "schedule", topic=topic, key="€" * 84 + "ab_", delay="1s",
                         on_conflict="ON_CONFLICT_REPLACE", only_if_exists=True),
          {"metadata": {"topic": topic, "key": "€" * 84 + "ab_"}})
    subscription = long_name(world, "subscription")
    match(client.refused("NOT_FOUND", "SUBSCRIPTION_NOT_FOUND", "get_subscription", topic=topic, name=subscription),
          {"metadata": {"topic": topic, "subscription": subscription}})
