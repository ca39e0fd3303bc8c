# SPDX-License-Identifier: Apache-2.0
"""Cases: many callers at once, whose calls share a stream."""

import collections
import random
from typing import Any

from harness import Client, Group, World, check, case, match, text

HOUR = "3600s"
OLD = 300


def schedule(topic: str, n: str, **fields: Any) -> dict[str, Any]:
    """A call whose answer shows `n`."""
    return {"op": "schedule", "request": {"topic": topic, "payload": text("p" * 100), "delay": HOUR, "labels": {"n": n},
                                          "request_id": n} | fields}


def calls_of(client: Client, topic: str, old: list[str]) -> list[dict[str, Any]]:
    """1,000 calls. `expect` is what the outcome of each must be."""
    calls = []

    def add(call: dict[str, Any], **expect: Any) -> None:
        calls.append(call | {"expect": expect})
    for i, message_id in enumerate(old):
        target = {"message_id": message_id}
        if i % 3 == 0:
            add({"op": "get", "request": target}, ok={"message": {"id": message_id, "labels": {"n": str(i)}}})
        elif i % 3 == 1:
            add({"op": "reschedule", "request": target | {"delay": "7200s"}},
                ok={"outcome": "OUTCOME_RESCHEDULED", "message": {"id": message_id}})
        elif i % 2 == 0:
            # A repeat finds that the try before it cancelled the message.
            add({"op": "cancel", "request": target},
                ok={"outcome": lambda got: got in ("OUTCOME_CANCELLED", "OUTCOME_ALREADY_CANCELLED"), "message_id": message_id})
        else:
            add({"op": "cancel", "request": {"key": {"topic": topic, "key": str(i)}}}, ok={"outcome": "OUTCOME_NOT_FOUND"})
    for name, settings, reason in (("full", {"max_pending": 1}, "TOPIC_FULL"),
                                   ("small", {"max_payload_bytes": 10}, "PAYLOAD_TOO_LARGE")):
        client.create_topic(topic={"name": f"{topic}.{name}", "settings": settings})
        client.make(f"{topic}.{name}", "p")
        add(schedule(f"{topic}.{name}", name), error={"reason": reason})
    lacks = client.driver.lacks
    if "cancel" not in lacks:
        add(schedule(topic, "cancelled") | {"cancel_ms": 300}, error={"code": "CANCELLED"})
    if "call_deadline" not in lacks:
        add(schedule(topic, "late") | {"timeout_ms": 300}, error={"code": "DEADLINE_EXCEEDED"})
    for i in range(1000 - len(calls)):
        add(schedule(topic, f"new{i}"), ok={"message": {"topic": topic, "labels": {"n": f"new{i}"}}})
    random.Random(1).shuffle(calls)
    return calls


def answers_belong(group: Group, calls: list[dict[str, Any]]) -> None:
    for number, call in enumerate(calls):
        match(group.outcomes[number], call["expect"], f"the outcome of {call}")


@case("together.each_answer_belongs_to_its_call")
def _(world: World) -> None:
    """The daemon dies when some of 1,000 callers have their answers, and the answers of others are on their way."""
    daemon = world.own_daemon()
    direct, topic = world.connect(daemon.address), world.new_name()
    old = [direct.make(topic, labels={"n": str(i)})["id"] for i in range(OLD)]
    calls = calls_of(direct, topic, old)
    ended_by_caller = {number for number, call in enumerate(calls) if call.keys() & {"cancel_ms", "timeout_ms"}}
    relay = world.relay(daemon.address)
    client = world.connect(relay.address, timeout_ms=60_000)
    client.get(message_id=old[0])  # Only a client that is connected has a stream for its calls.
    relay.hold("down")
    group = client.call_together([{name: value for name, value in call.items() if name != "expect"} for call in calls])
    check({group.take() for _ in ended_by_caller} == ended_by_caller, f"answers that were held: {group.outcomes}")
    while len(group.outcomes) < 50:
        if group.idle(0.1):
            relay.pass_piece("down")
        else:
            group.take()
    check(not group.pending.done(), "no call was left when the daemon died")
    daemon.kill()
    relay.cut()
    daemon.start()
    while len(group.outcomes) < len(calls):
        group.take()
    match(group.pending.result(), {})
    answers_belong(group, calls)
    kept = collections.Counter(message.get("labels", {}).get("n")
                               for message in direct.items("list", topic=topic, page_size=1000))
    for call in calls:
        if call["op"] == "schedule" and "ok" in call["expect"]:
            check(kept[call["request"]["request_id"]] == 1, f"{kept[call['request']['request_id']]} messages of {call}")
    check(max(kept.values()) == 1, f"a message is there twice: {kept.most_common(1)}")
