# SPDX-License-Identifier: Apache-2.0
"""Cases: the answer of each call is lost once. The option `repeat` of a call (call.proto) says what a library then does."""

import os
import re
from typing import Any, Callable

from driver import CallError
from harness import Client, World, Wrong, case, check, match, text

PROTOS = os.path.join(os.path.dirname(__file__), "../../proto/duetime/v1")
HOUR = "3600s"
DAILY = {"cron": "0 9 * * *", "time_zone": "Europe/Berlin"}

Make = Callable[[Client, str], dict[str, Any]]
Check = Callable[[Client, str, dict[str, Any]], None]


def read_table() -> dict[str, str]:
    """The option `repeat` of each unary call, as the protos have it: READ, SAFE, IF_NAMED, WITHOUT_ETAG or ONCE."""
    table = {}
    for name in ("messages", "admin"):
        with open(os.path.join(PROTOS, f"{name}.proto"), encoding="utf-8") as file:
            rows = re.finditer(r"^  rpc (\w+)\((stream )?.*?\brepeat: CALL_REPEAT_(\w+)", file.read(),
                               re.MULTILINE | re.DOTALL)
            for method in rows:
                if not method[2]:
                    table[method[1]] = method[3]
    assert len(table) > 30, "the protos have no such option"
    return table


TABLE = read_table()
# The cases have no requests for these, which the tool makes.
OF_THE_TOOL = {"CheckAccess", "ListStreams", "EndStream", "StartBackup", "ReadBackup", "EndBackup", "HandOver"}


def message(client: Client, topic: str, **fields: Any) -> dict[str, Any]:
    return client.make(topic, **fields)


def lease(client: Client, topic: str) -> str:
    client.make(topic, delay="0s")
    return client.pull(topic=topic, wait="30s")["deliveries"][0]["lease_token"]


def made_topic(client: Client, topic: str) -> str:
    client.create_topic(topic={"name": topic})
    return topic


def made_subscription(client: Client, topic: str) -> dict[str, Any]:
    client.create_subscription(subscription={"topic": topic, "name": "s"})
    return {"topic": topic, "name": "s"}


def made_operation(client: Client, topic: str) -> str:
    return client.start_bulk(topic=made_topic(client, topic), action="BULK_ACTION_CANCEL")["operation"]["name"]


def recurrence(topic: str, **fields: Any) -> dict[str, Any]:
    return {"name": topic, "topic": topic, "template": {"payload": text("p")}, "schedule": DAILY} | fields


def made_recurrence(client: Client, topic: str, **fields: Any) -> dict[str, Any]:
    return client.create_recurrence(recurrence=recurrence(topic, **fields))["recurrence"]


# What each call asks for. A call with an etag has a name of its own.
REQUESTS: dict[str, Make] = {
    "Schedule": lambda c, t: {"topic": made_topic(c, t), "payload": text("p"), "delay": HOUR},
    "Schedule to validate only": lambda c, t: {"topic": made_topic(c, t), "delay": HOUR, "validate_only": True},
    "ScheduleBatch": lambda c, t: {"messages": [{"topic": made_topic(c, t) if i == 0 else t, "delay": HOUR} for i in range(10)]},
    "Cancel": lambda c, t: {"message_id": message(c, t)["id"]},
    "CancelBatch": lambda c, t: {"cancels": [{"message_id": message(c, t)["id"]} for _ in range(3)]},
    "Reschedule": lambda c, t: {"message_id": message(c, t)["id"], "delay": "7200s"},
    "Reschedule with an etag": lambda c, t: {"message_id": (m := message(c, t))["id"], "delay": "7200s", "etag": m["etag"]},
    "Get": lambda c, t: {"message_id": message(c, t)["id"]},
    "List": lambda c, t: {"topic": made_topic(c, t)},
    "Explain": lambda c, t: {"message_id": message(c, t)["id"]},
    "CreateRecurrence": lambda c, t: {"recurrence": recurrence(made_topic(c, t))},
    "GetRecurrence": lambda c, t: {"name": made_recurrence(c, t)["name"]},
    "ListRecurrences": lambda c, t: {"topic": made_topic(c, t)},
    "UpdateRecurrence": lambda c, t: {
        "recurrence": made_recurrence(c, t) | {"overlap": "OVERLAP_SKIP"}, "update_mask": "overlap"},
    "UpdateRecurrence with an etag": lambda c, t: {
        "recurrence": (r := made_recurrence(c, t)) | {"overlap": "OVERLAP_SKIP"}, "update_mask": "overlap", "etag": r["etag"]},
    "PauseRecurrence": lambda c, t: {"name": made_recurrence(c, t)["name"]},
    "ResumeRecurrence": lambda c, t: c.pause_recurrence(name=made_recurrence(c, t)["name"]) and {"name": t},
    "DeleteRecurrence": lambda c, t: {"name": made_recurrence(c, t)["name"]},
    "PreviewRecurrence": lambda c, t: {"schedule": DAILY, "count": 2},
    "Pull": lambda c, t: message(c, t, delay="0s") and {"topic": t, "wait": "30s"},
    "Settle": lambda c, t: {"settlements": [{"lease_token": lease(c, t)}]},
    "ServerInfo": lambda c, t: {},
    "CreateTopic": lambda c, t: {"topic": {"name": t, "settings": {"max_pending": 7}}},
    "GetTopic": lambda c, t: {"name": made_topic(c, t)},
    "ListTopics": lambda c, t: {"page_size": 1},
    "UpdateTopic": lambda c, t: {"topic": {"name": made_topic(c, t), "settings": {"max_pending": 7}},
                                 "update_mask": "settings.maxPending"},
    "PauseTopic": lambda c, t: {"name": made_topic(c, t)},
    "ResumeTopic": lambda c, t: {"name": made_topic(c, t)},
    "DeleteTopic": lambda c, t: {"name": made_topic(c, t)},
    "CreateSubscription": lambda c, t: {"subscription": {"topic": made_topic(c, t), "name": "s"}},
    "GetSubscription": made_subscription,
    "ListSubscriptions": lambda c, t: {"topic": made_topic(c, t)},
    "UpdateSubscription": lambda c, t: {"subscription": made_subscription(c, t) | {"settings": {"paused": True}},
                                        "update_mask": "settings.paused"},
    "DeleteSubscription": made_subscription,
    "Forecast": lambda c, t: {"topic": made_topic(c, t), "bucket": "BUCKET_HOUR", "buckets": 2},
    "StartBulk": lambda c, t: {"topic": made_topic(c, t), "action": "BULK_ACTION_CANCEL"},
    "StartBulk as a dry run": lambda c, t: {"topic": made_topic(c, t), "action": "BULK_ACTION_CANCEL", "dry_run": True},
    "GetOperation": lambda c, t: {"name": made_operation(c, t)},
    "ListOperations": lambda c, t: {"topic": made_topic(c, t)},
    "CancelOperation": lambda c, t: {"name": made_operation(c, t)},
}
assert {name.partition(" ")[0] for name in REQUESTS} == TABLE.keys() - OF_THE_TOOL, "the table and the cases differ"


def pending(client: Client, topic: str, count: int) -> list[dict[str, Any]]:
    items = client.items("list", topic=topic)
    check(len(items) == count, f"{len(items)} messages, not {count}")
    return items


def check_schedule(client: Client, topic: str, answer: dict[str, Any]) -> None:
    match(answer, {"message": {"id": pending(client, topic, 1)[0]["id"]}, "outcome": "SCHEDULE_OUTCOME_CREATED",
                   "request_repeated": True})


def check_batch(client: Client, topic: str, answer: dict[str, Any]) -> None:
    for result in answer["results"]:
        match(result, {"ok": {"outcome": "SCHEDULE_OUTCOME_CREATED", "request_repeated": True}})
    ids = {one["id"] for one in pending(client, topic, 10)}
    check(ids == {one["ok"]["message"]["id"] for one in answer["results"]}, f"{answer}")


def operations(client: Client, topic: str, count: int) -> None:
    items = client.items("list_operations", topic=topic)
    check(len(items) == count, f"{len(items)} operations, not {count}")


# What holds then: of the answer (of the repeat) and of the server.
EFFECTS: dict[str, Check] = {
    "Schedule": check_schedule,
    "ScheduleBatch": check_batch,
    "Cancel": lambda c, t, a: match(a, {"outcome": "OUTCOME_ALREADY_CANCELLED"}),
    "CancelBatch": lambda c, t, a: match(a, {"results": [{"ok": {"outcome": "OUTCOME_ALREADY_CANCELLED"}}] * 3}),
    "Reschedule": lambda c, t, a: match(a, {"outcome": "OUTCOME_RESCHEDULED"}),
    "Settle": lambda c, t, a: match(a, {"settled": [], "refused": [{"reason": "REASON_LEASE_LOST"}]}),
    "CreateRecurrence": lambda c, t, a: match(a, {"recurrence": {"next_message_id": pending(c, t, 1)[0]["id"]}}),
    "Schedule to validate only": lambda c, t, a: pending(c, t, 0),
    "StartBulk": lambda c, t, a: operations(c, t, 1),
    "StartBulk as a dry run": lambda c, t, a: operations(c, t, 0),
    "DeleteTopic": lambda c, t, a: c.refused("NOT_FOUND", "TOPIC_NOT_FOUND", "get_topic", name=t),
    "Pull": lambda c, t, a: match(c.pull(topic=t), {"deliveries": []}),
}


# The field with which the server recognises a repeat. The library sets it only if the call makes something.
NAME_FIELD = {"Schedule": 11, "Schedule to validate only": 11, "StartBulk": 6, "StartBulk as a dry run": 6}


# The calls that a library may send on a CallStream.
STREAMED = ("Schedule", "Cancel", "Reschedule", "Get")


def fields_of(body: bytes) -> dict[int, bytes | int]:
    """Returns the last value of each field of a message of the protos. Its fields are varints, bytes, texts and messages."""
    at, fields = 0, {}

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            value |= (body[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if body[at - 1] < 128:
                return value
    while at < len(body):
        tag = varint()
        value: bytes | int = varint()
        if tag & 7 == 2:
            at, value = at + value, body[at:at + value]
        fields[tag >> 3] = value
    return fields


def request_of(rpc: str, body: bytes) -> bytes:
    """Returns the request in the body of a call of its own, or in that of a CallStream with this call only."""
    message = body[5:]  # gRPC puts five bytes before each message.
    first = fields_of(message).get(1, b"")
    # A StreamedCall begins with its number, and a text never with the byte of that field.
    if rpc in STREAMED and first[:1] == b"\x08":
        return next(value for field, value in fields_of(first).items() if field in range(3, 7))
    return message


def in_snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])| ", "_", name).lower()


def lose_answer(world: World, name: str) -> None:
    rpc = name.partition(" ")[0]
    op = in_snake_case(rpc)
    topic = world.new_name()
    request = REQUESTS[name](world.client, topic)
    repeated = TABLE[rpc] in ("READ", "SAFE", "IF_NAMED") or (TABLE[rpc] == "WITHOUT_ETAG" and not request.get("etag"))
    relay = world.losing_relay()
    client = world.connect(relay.address, timeout_ms=30_000)
    relay.lose_next_answer()
    answer: dict[str, Any] = {}
    try:
        if rpc.startswith("List"):
            client.items(op, limit=1, **request)
        else:
            answer = client.begin(op, **request).result()
        if not repeated:
            raise Wrong(f"an answer that the library cannot know: {answer}")
    except CallError as error:
        check(not repeated and error.code == "UNAVAILABLE", f"{error}")
    # A CallStream without a frame is no try.
    tries = [request_of(rpc, bytes(body)) for body, _ in relay.calls if body]
    check(len(tries) == 1 + repeated, f"{len(tries)} tries, not {1 + repeated}")
    check(len(set(tries)) == 1, f"a repeat differs: {tries}")
    if name in NAME_FIELD:
        check((NAME_FIELD[name] in fields_of(tries[0])) == (name == rpc), f"named, or not: {tries[0]}")
    EFFECTS.get(name, lambda c, t, a: None)(world.client, topic, answer)


for _name in REQUESTS:
    case("lost_answer." + in_snake_case(_name))(lambda world, name=_name: lose_answer(world, name))
