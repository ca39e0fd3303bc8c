# SPDX-License-Identifier: Apache-2.0
"""Cases: a server that dies, is silent or is not there. TLS and tokens."""

import collections
import time

from driver import CallError
from harness import Client, World, Wrong, check, case, match, text, until

LONG_LEASE = 600_000


def take_all(subscriber, ids, at_half=lambda: None) -> None:
    """Takes each of the messages at least once. Every repeat must be marked as one."""
    got, half = collections.Counter(), False
    while len(got) < len(ids):
        delivery = subscriber.take()
        got[delivery["message_id"]] += 1
        check(got[delivery["message_id"]] == 1 or delivery["maybe_redelivered"], f"twice, unmarked: {delivery}")
        if not half and len(got) >= len(ids) // 2:
            half = True
            at_half()
    check(set(got) == set(ids), "messages that nobody scheduled")


# ---- A daemon that dies

@case("killed.subscriber_carries_on")
def _(world: World) -> None:
    daemon = world.own_daemon()
    client, topic = world.connect(daemon.address), world.new_name()
    subscriber = client.subscribe(topic, handlers=8, mode="ack", handler_ms=4, backoff_max_ms=500)
    ids = client.make_many(topic, 10_000)

    def kill() -> None:
        daemon.kill()
        daemon.start()
    take_all(subscriber, ids, kill)
    until(lambda: not int(client.get_topic(name=topic)["topic"].get("counts", {}).get("pending", 0)),
          lambda: "messages are pending")
    subscriber.wait_counts(streams=2)
    check(subscriber.stop(), "not clean")


@case("killed.handler_runs_on")
def _(world: World) -> None:
    daemon = world.own_daemon()
    client, topic = world.connect(daemon.address), world.new_name()
    message = client.make(topic, delay="0s")
    subscriber = client.subscribe(topic, backoff_max_ms=500)
    delivery = subscriber.take()
    daemon.kill()
    daemon.start()
    subscriber.wait_counts(streams=2)
    subscriber.finish(delivery)  # Its stream and its lease are gone.
    again = subscriber.take()
    match(again, {"message_id": message["id"], "maybe_redelivered": True})
    subscriber.finish(again)
    client.wait_state(message["id"], "STATE_ACKED")
    match(subscriber.wait_counts(acked=1), {"acked": 1})


@case("killed.client_carries_on")
def _(world: World) -> None:
    daemon = world.own_daemon()
    client, topic = world.connect(daemon.address), world.new_name()
    message = client.make(topic, key="k")
    daemon.kill()
    pending = client.begin("get", message_id=message["id"])
    daemon.start()
    try:
        match(pending.result(), {"message": {"key": "k"}})
    except CallError as error:  # The client may give up before the daemon is back.
        check(error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"), f"{error}")
    carries_on(client)
    match(client.get(message_id=message["id"]), {"message": {"key": "k"}})
    match(client.schedule(topic=topic, key="k", payload=text("p"), delay="3600s"), {"outcome": "SCHEDULE_OUTCOME_UNCHANGED"})


def carries_on(client: Client) -> None:
    """Waits until a call succeeds."""
    def answers() -> bool:
        try:
            client.server_info()
            return True
        except CallError as error:
            check(error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"), f"{error}")
            return False
    until(answers, lambda: "no call succeeds any more")


@case("killed.stream_of_messages")
def _(world: World) -> None:
    daemon = world.own_daemon()
    client, topic = world.connect(daemon.address), world.new_name()
    relay = world.relay(daemon.address)
    through = world.connect(relay.address)
    stream = world.stream(through)
    frame = [{"topic": topic, "delay": "3600s", "payload": text("p")}] * 100
    stream.send(frame)
    for _ in range(100):
        stream.result()
    relay.hold("down")  # The messages arrive, and their answers do not.
    stream.send(frame)
    until(lambda: client.get_topic(name=topic)["topic"]["counts"].get("pending") in ("200", 200), lambda: "not 200 pending")
    daemon.kill()
    relay.cut()
    daemon.start()
    end, results = stream.finish()
    check(end["answered"] + len(end["unanswered"]) == 200, f"{end['answered']} and {len(end['unanswered'])} of 200")
    check(all("ok" in result for result in results), "a message was refused")
    if end["unanswered"]:  # Otherwise the library has sent them again itself.
        check(end["error"]["code"] in ("UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED"), f"{end['error']}")
        carries_on(through)
        again = world.stream(through)
        again.send(end["unanswered"])
        match(again.finish()[0], {"answered": len(end["unanswered"]), "unanswered": [], "error": None})
    check(len(client.items("list", topic=topic, page_size=1000)) == 200, "a repeat made a second message")


@case("restart.drains")
def _(world: World) -> None:
    daemon = world.own_daemon()
    client, topic = world.connect(daemon.address), world.new_name()
    first = client.make(topic, delay="0s")
    subscriber = client.subscribe(topic, backoff_max_ms=500)
    delivery = subscriber.take()
    daemon.begin_stop()  # It sends a drain notice, and waits for settlements.
    subscriber.finish(delivery)
    daemon.end_stop()
    daemon.start()
    subscriber.wait_counts(streams=2, acked=1)
    check(client.state(first["id"]) == "STATE_ACKED", "the settlement during the drain was lost")
    second = client.make(topic, delay="0s")
    delivery = subscriber.take()
    match(delivery, {"message_id": second["id"], "attempt": 1})
    subscriber.finish(delivery)
    subscriber.wait_counts(acked=2)


@case("absent.subscriber_waits_for_the_server")
def _(world: World) -> None:
    daemon = world.own_daemon()
    client, topic = world.connect(daemon.address), world.new_name()
    message = client.make(topic, delay="0s")
    daemon.stop()
    subscriber = client.subscribe(topic, backoff_max_ms=500)
    subscriber.nothing(1.5, "an event without a server")
    daemon.start()
    delivery = subscriber.take()
    match(delivery, {"message_id": message["id"]})
    subscriber.finish(delivery)
    subscriber.wait_counts(acked=1)


@case("absent.call_fails")
def _(world: World) -> None:
    daemon = world.own_daemon()
    daemon.stop()
    client = world.connect(daemon.address, timeout_ms=3_000)
    start = time.monotonic()
    for op, request in (("schedule", {"topic": "t", "delay": "1s"}), ("get_topic", {"name": "t"})):
        try:
            raise Wrong(f"{op} without a server: {client.begin(op, **request).result()}")
        except CallError as error:
            check(error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED") and error.reason == "", f"{error}")
            check(error.error.get("type"), "no type")
    check(time.monotonic() - start < 30, "the calls did not keep their deadline of 3 s")


def use_all_connections(client: Client) -> None:
    """A library may have one connection for each service, and opens it at the first call."""
    client.cancel(key={"topic": "t", "key": "none"})
    client.server_info()
    client.items("list_topics", limit=1)


# ---- A server that is silent

@case("silent.call_ends_at_its_deadline")
def _(world: World) -> None:
    relay = world.relay(world.daemon.address)
    client = world.connect(relay.address, timeout_ms=2_000)
    use_all_connections(client)
    relay.hold()
    start = time.monotonic()
    try:
        raise Wrong(f"an answer of a silent server: {client.get_topic(name='t')}")
    except CallError as error:
        check(error.code == "DEADLINE_EXCEEDED", f"{error}")
    check(1.5 < time.monotonic() - start < 20, f"{time.monotonic() - start} s with a deadline of 2 s")


@case("silent.subscriber_notices")
def _(world: World) -> None:
    daemon = world.own_daemon("--heartbeat-ms", "500")
    client, topic = world.connect(daemon.address), world.new_name()
    relay = world.relay(daemon.address)
    subscriber = world.connect(relay.address).subscribe(topic, silence_max_ms=2_500, backoff_max_ms=500)
    subscriber.wait_counts(streams=1)
    time.sleep(4)  # Heartbeats keep an idle stream.
    match(subscriber.counts(), {"streams": 1})
    relay.hold()
    time.sleep(5)  # Twice as long as the subscriber may wait. Nothing that happens meanwhile can be seen from here.
    relay.release()
    subscriber.wait_counts(streams=2)
    message = client.make(topic, delay="0s")
    delivery = subscriber.take()
    match(delivery, {"message_id": message["id"]})
    subscriber.finish(delivery)
    client.wait_state(message["id"], "STATE_ACKED")


# ---- TLS and tokens

@case("tls.server_certificate")
def _(world: World) -> None:
    files = world.certificates()
    daemon = world.own_daemon("--tls-cert", files.path("server.pem"), "--tls-key", files.path("server.key"))
    client, topic = world.connect(daemon.address, tls_ca=files.path("ca.pem")), world.new_name()
    message = client.make(topic, delay="0s")
    subscriber = client.subscribe(topic)
    delivery = subscriber.take()
    match(delivery, {"message_id": message["id"]})
    subscriber.finish(delivery)
    subscriber.wait_counts(acked=1)
    stream = world.stream(client)
    stream.send([{"topic": topic, "delay": "60s"}])
    match(stream.finish()[0], {"answered": 1, "error": None})
    for options in ({"tls_ca": files.path("stranger.pem")}, {}):
        refused(world.connect(daemon.address, timeout_ms=3_000, **options))


def refused(client: Client) -> None:
    """The connection must fail."""
    try:
        raise Wrong(f"{client.server_info()}")
    except CallError as error:
        check(error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"), f"{error}")


@case("tls.client_certificate")
def _(world: World) -> None:
    files = world.certificates()
    daemon = world.own_daemon("--tls-cert", files.path("server.pem"), "--tls-key", files.path("server.key"),
                              "--tls-client-ca", files.path("ca.pem"))
    authority = {"tls_ca": files.path("ca.pem")}
    client = world.connect(daemon.address, tls_cert=files.path("client.pem"), tls_key=files.path("client.key"), **authority)
    topic = world.new_name()
    client.make(topic, delay="0s")
    subscriber = client.subscribe(topic)
    subscriber.finish(subscriber.take())
    subscriber.wait_counts(acked=1)
    refused(world.connect(daemon.address, timeout_ms=3_000, **authority))


# The codes of HPACK (RFC 7541, Appendix B) for the characters of the header below.
HUFFMAN = {"B": "1011101", "e": "00101", "a": "00011", "r": "101100", " ": "010100", "1": "00001", "2": "00010",
           "0": "00000", "t": "01001", "o": "00111", "c": "00100", "i": "00110", "s": "01000"}


def in_hpack(value: str) -> list[bytes]:
    """What the value of a header may be on the wire, but for the last bits."""
    bits = "".join(HUFFMAN[character] for character in value)
    whole = len(bits) // 8 * 8
    return [value.encode(), int(bits[:whole], 2).to_bytes(whole // 8, "big")]


@case("token.needs_tls", needs="token")
def _(world: World) -> None:
    try:
        world.connect(token="secret")
    except CallError as error:
        check(error.code == "INVALID_ARGUMENT", f"{error}")
        return
    raise Wrong("a client that would reveal its token")


@case("token.is_sent", needs="token")
def _(world: World) -> None:
    files = world.certificates()
    relay = world.relay(world.daemon.address, tls=files.server_context())
    token = "a0t1o2c0i1s2"
    client, topic = world.connect(relay.address, tls_ca=files.path("ca.pem"), token=token), world.new_name()

    def sent() -> bool:
        return any(form in relay.sent_up for form in in_hpack("Bearer " + token))
    client.server_info()
    check(sent(), "a call without the token")
    relay.cut()
    relay.sent_up.clear()  # A new connection does not remember the headers of the first.
    subscriber = client.subscribe(topic)
    subscriber.wait_counts(streams=1)
    check(sent(), "a subscriber without the token")
