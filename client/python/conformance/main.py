# SPDX-License-Identifier: Apache-2.0
"""The driver of the Python library (tests/conformance/PROTOCOL.md). With DUETIME_PYTHON_MODE=asyncio it drives AsyncClient."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import json
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, timedelta
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.message import Message

import duetime
from duetime import pb
from duetime.v1 import admin_pb2

ASYNC = os.environ.get("DUETIME_PYTHON_MODE") == "asyncio"
Object = dict[str, Any]

_printing = threading.Lock()


def emit(line: Object) -> None:
    text = json.dumps(line)
    with _printing:
        print(text, flush=True)


def plain(message: Message) -> Object:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def error_of(error: BaseException) -> Object:
    if not isinstance(error, duetime.DuetimeError):
        return {"code": "DRIVER", "message": f"{type(error).__name__}: {error}"}
    line: Object = {"code": error.code.name, "reason": error.reason, "message": error.message, "metadata": error.metadata,
                    "type": type(error).__name__}
    if error.fields:
        line["fields"] = [one.field for one in error.fields]
    if error.retry_delay:
        line["retry_delay_ms"] = round(error.retry_delay.total_seconds() * 1000)
    return line


def item_of(result: Any) -> Object:
    if isinstance(result, duetime.DuetimeError):
        return {"error": error_of(result)}
    return {"ok": plain(getattr(result, "answer", result))}


def millis(value: int | None) -> timedelta | None:
    return None if value is None else timedelta(milliseconds=value)


def when_of(request: Any) -> duetime.When | None:
    kind = request.WhichOneof("when")
    if kind is None:
        return None
    if kind == "deliver_time":
        return request.deliver_time.ToDatetime(tzinfo=UTC)  # type: ignore[no-any-return]
    if kind == "civil_time":
        return duetime.LocalTime(request.civil_time.local, request.civil_time.time_zone)
    return request.delay.ToTimedelta()  # type: ignore[no-any-return]


def message_of(request: pb.ScheduleRequest) -> duetime.NewMessage | pb.ScheduleRequest:
    """In the library's own type, if that can say the same."""
    try:
        message = duetime.NewMessage(
            request.topic, request.payload, when_of(request), key=request.key, on_conflict=request.on_conflict,
            only_if_exists=request.only_if_exists, request_id=request.request_id, validate_only=request.validate_only,
            attributes=request.attributes, labels=request.labels, ordering_key=request.ordering_key,
            late_policy=request.late_policy)
        if request.HasField("max_wait"):
            message.max_wait = request.max_wait.ToTimedelta()
        if request.HasField("spread"):
            message.spread = request.spread.ToTimedelta()
        if request.HasField("ttl"):
            message.lifetime = request.ttl.ToTimedelta()
        elif request.HasField("expire_time"):
            message.lifetime = request.expire_time.ToDatetime(tzinfo=UTC)
        same = message.proto()
    except (OverflowError, ValueError):
        return request
    return message if same == request else request


def target_of(request: Any) -> duetime.Target:
    return duetime.Key(request.key.topic, request.key.key) if request.HasField("key") else str(request.message_id)


def results(items: list[Any]) -> Object:
    return {"results": [item_of(one) for one in items]}


def field(name: str) -> Callable[[Any], Object]:
    return lambda message: {name: plain(message)}


def answer(result: Any) -> Object:
    return plain(result.answer)


def named(op: str) -> Callable[[Any, Any], Any]:
    return lambda client, request: getattr(client, op)(request)


# Each op: its request, the call, and what the answer is.
CALLS: dict[str, tuple[Any, Callable[[Any, Any], Any], Callable[[Any], Object]]] = {
    "schedule": (pb.ScheduleRequest, lambda c, r: c.schedule(message_of(r)), plain),
    "schedule_batch": (pb.ScheduleBatchRequest, lambda c, r: c.schedule_batch([message_of(one) for one in r.messages]), results),
    "cancel": (pb.CancelRequest, lambda c, r: c.cancel(target_of(r), stop_redelivery=r.stop_redelivery), answer),
    "cancel_batch": (pb.CancelBatchRequest, lambda c, r: c.cancel_batch([target_of(one) for one in r.cancels]), results),
    "reschedule": (pb.RescheduleRequest, lambda c, r: c.reschedule(target_of(r), when_of(r), etag=r.etag), answer),
    "get": (pb.GetRequest, lambda c, r: c.get(target_of(r), full=r.view == pb.MESSAGE_VIEW_FULL), plain),
    "explain": (pb.ExplainRequest, lambda c, r: c.explain(target_of(r)), plain),
    "pull": (pb.PullRequest, lambda c, r: c.pull(r), plain),
    "settle": (pb.SettleRequest, lambda c, r: c.settle(r), answer),
    "create_recurrence": (pb.CreateRecurrenceRequest, lambda c, r: c.create_recurrence(r), field("recurrence")),
    "get_recurrence": (pb.GetRecurrenceRequest, lambda c, r: c.get_recurrence(r.name), field("recurrence")),
    "update_recurrence": (pb.UpdateRecurrenceRequest, lambda c, r: c.update_recurrence(r), field("recurrence")),
    "pause_recurrence": (pb.PauseRecurrenceRequest, lambda c, r: c.pause_recurrence(r.name), field("recurrence")),
    "resume_recurrence": (pb.ResumeRecurrenceRequest, lambda c, r: c.resume_recurrence(r.name), field("recurrence")),
    "delete_recurrence": (pb.DeleteRecurrenceRequest, lambda c, r: c.delete_recurrence(r.name),
                          lambda cancelled: {"occurrence_cancelled": cancelled}),
    "preview_recurrence": (pb.PreviewRecurrenceRequest, lambda c, r: c.preview_recurrence(r), plain),
}
LISTS: dict[str, Any] = {
    "list": pb.ListRequest,
    "list_topics": pb.ListTopicsRequest,
    "list_subscriptions": pb.ListSubscriptionsRequest,
    "list_operations": pb.ListOperationsRequest,
    "list_recurrences": pb.ListRecurrencesRequest,
}

for method in admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods:
    op = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", method.name).lower()
    if op not in LISTS:
        CALLS[op] = (message_factory.GetMessageClass(method.input_type), named(op), plain)


class Worker:
    """One subscriber. The handlers of both modes get from queues how they end: the line of subscriber_finish."""

    def __init__(self, client: Any, line: Object) -> None:
        self.name = line["subscriber"]
        self.manual = line.get("mode") != "ack"
        self.handler_seconds = (line.get("handler_ms") or 0) / 1000
        self.exit_on: bytes | None = line["exit_on"].encode() if "exit_on" in line else None
        self.numbers = itertools.count(1)
        self.endings: dict[int, queue.SimpleQueue[Object]] = {}
        self.guard = threading.Lock()
        backoff = duetime.Backoff(millis(line.get("backoff_initial_ms")) or duetime.Backoff().initial,
                                  millis(line.get("backoff_max_ms")) or duetime.Backoff().maximum)
        names = ("subscription", "client_id", "max_outstanding_messages", "max_outstanding_bytes", "handlers")
        options: Object = {name: line[name] for name in names if name in line}
        for ours, theirs in (("lease", "lease_ms"), ("extend_max", "extend_max_ms"), ("silence_max", "silence_max_ms")):
            if theirs in line:
                options[ours] = millis(line[theirs])
        if "batch" in line:
            self.subscriber = client.subscribe_batch(line["topic"], self.handle_batch_async if ASYNC else self.handle_batch,
                                                     backoff=backoff, batch_max=line["batch"], **options)
        else:
            self.subscriber = client.subscribe(line["topic"], self.handle_async if ASYNC else self.handle, backoff=backoff,
                                               **options)

    def waiting(self, number: int) -> queue.SimpleQueue[Object]:
        with self.guard:
            return self.endings.setdefault(number, queue.SimpleQueue())

    def begin(self, event: Object, *deliveries: pb.Delivery) -> int:
        if any(delivery.payload == self.exit_on for delivery in deliveries):
            os._exit(3)
        number = next(self.numbers)
        emit(event | {"subscriber": self.name, "n": number})
        return number

    def end(self, number: int) -> Object | None:
        """How the call ends. None in the mode "ack"."""
        if not self.manual:
            time.sleep(self.handler_seconds)
            return None
        return self.waiting(number).get()

    async def end_async(self, number: int) -> Object | None:
        if not self.manual:
            await asyncio.sleep(self.handler_seconds)
            return None
        while self.waiting(number).empty():
            await asyncio.sleep(0.005)
        return self.waiting(number).get()

    def handle(self, delivery: pb.Delivery) -> duetime.Settlement | None:
        line = self.end(self.begin(event_of(delivery), delivery))
        return settlement_of(line["settlement"]) if line else None

    async def handle_async(self, delivery: pb.Delivery) -> duetime.Settlement | None:
        line = await self.end_async(self.begin(event_of(delivery), delivery))
        return settlement_of(line["settlement"]) if line else None

    def handle_batch(self, deliveries: list[pb.Delivery]) -> list[duetime.Settlement] | None:
        return settlements_of(self.end(self.begin(event_of_batch(deliveries), *deliveries)), len(deliveries))

    async def handle_batch_async(self, deliveries: list[pb.Delivery]) -> list[duetime.Settlement] | None:
        return settlements_of(await self.end_async(self.begin(event_of_batch(deliveries), *deliveries)), len(deliveries))


def event_of(delivery: pb.Delivery) -> Object:
    return {"event": "delivery", "delivery": plain(delivery)}


def event_of_batch(deliveries: list[pb.Delivery]) -> Object:
    return {"event": "batch", "deliveries": [plain(delivery) for delivery in deliveries]}


def settlements_of(line: Object | None, count: int) -> list[duetime.Settlement] | None:
    """What a handler of `count` deliveries returns."""
    if line is None:
        return None
    settlements = line["settlements"] if "settlements" in line else [line["settlement"]] * count
    return [settlement_of(one) for one in settlements]


def settlement_of(line: Object) -> duetime.Settlement:
    kind, reason, delay = line["kind"], line.get("reason", ""), millis(line.get("delay_ms"))
    if kind == "raise":
        raise RuntimeError(reason)
    if kind == "nack":
        return duetime.Settlement.nack(reason, delay=delay)
    if kind == "release":
        return duetime.Settlement.release(delay=delay)
    if kind == "dead_letter":
        return duetime.Settlement.dead_letter(reason)
    return {"ack": duetime.Settlement.ack, "leave": duetime.Settlement.leave}[kind]()


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


class Driver:
    """Each method of an op returns the answer, or an awaitable of it."""

    def __init__(self) -> None:
        self.clients: dict[str, Any] = {}
        self.streams: dict[str, Any] = {}
        self.workers: dict[str, Worker] = {}

    async def finished(self, value: Any) -> Any:
        return await value if inspect.isawaitable(value) else value

    async def answer(self, line: Object) -> Object:
        op = line["op"]
        if op in CALLS:
            kind, call, show = CALLS[op]
            request = json_format.ParseDict(line.get("request", {}), kind())
            return show(await self.finished(call(self.clients[line["client"]], request)))
        if op in LISTS:
            request = json_format.ParseDict(line.get("request", {}), LISTS[op]())
            return {"items": [plain(one) for one in await self.items(line, request)]}
        return await self.finished(getattr(self, op)(line)) or {}

    async def items(self, line: Object, request: Any) -> list[Any]:
        items = getattr(self.clients[line["client"]], line["op"])(request)
        limit = line.get("limit", sys.maxsize)
        if not ASYNC:
            return list(itertools.islice(items, limit))
        taken: list[Any] = []
        while len(taken) < limit:
            item = await anext(items, None)
            if item is None:
                break
            taken.append(item)
        return taken

    async def call_together(self, line: Object) -> None:
        calls = [one | {"client": line["client"]} for one in line["calls"]]
        if ASYNC:
            tasks = [asyncio.create_task(self.answer(one)) for one in calls]
            for task, one in zip(tasks, calls):
                if "cancel_ms" in one:
                    asyncio.get_running_loop().call_later(one["cancel_ms"] / 1000, task.cancel)
            await asyncio.gather(*(self.outcome(line, number, task) for number, task in enumerate(tasks)))
            return
        begin = threading.Barrier(len(calls))

        def call(number: int, one: Object) -> None:
            begin.wait()
            # Without a loop, which would have three files of its own: nothing here suspends.
            with contextlib.suppress(StopIteration):
                self.outcome(line, number, self.answer(one)).send(None)
        threads = [threading.Thread(target=call, args=one) for one in enumerate(calls)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    async def outcome(self, line: Object, number: int, answer: Awaitable[Object]) -> None:
        try:
            outcome: Object = {"ok": await answer}
        except asyncio.CancelledError:
            outcome = {"error": {"code": "CANCELLED", "message": "cancelled"}}
        except Exception as error:
            outcome = {"error": error_of(error)}
        emit({"event": "outcome", "group": line["group"], "number": number} | outcome)

    def hello(self, _: Object) -> Object:
        return {"language": "python", "lacks": ["call_deadline"] if ASYNC else ["call_deadline", "cancel"]}

    def client_open(self, line: Object) -> None:
        fields: Object = {name: read(line[name]) for name in ("tls_ca", "tls_cert", "tls_key") if line.get(name)}
        if "timeout_ms" in line:
            fields["timeout"] = timedelta(milliseconds=line["timeout_ms"])
        options = duetime.Options(server=line["server"], token=line.get("token"), **fields)
        self.clients[line["client"]] = duetime.AsyncClient(options) if ASYNC else duetime.Client(options)

    def client_close(self, line: Object) -> Any:
        return self.clients.pop(line["client"]).close()

    def stream_open(self, line: Object) -> None:
        def on_result(number: int, result: duetime.Result) -> None:
            emit({"event": "result", "stream": line["stream"], "number": number, **item_of(result)})
        self.streams[line["stream"]] = self.clients[line["client"]].schedule_stream(on_result)

    def stream_send(self, line: Object) -> Any:
        messages = [message_of(json_format.ParseDict(one, pb.ScheduleRequest())) for one in line["messages"]]
        return self.streams[line["stream"]].send(*messages)

    async def stream_finish(self, line: Object) -> Object:
        stream = self.streams.pop(line["stream"])
        error = None
        try:
            await self.finished(stream.finish())
        except duetime.DuetimeError as failure:
            error = error_of(failure)
        unanswered = await self.finished(stream.unanswered())
        return {"answered": stream.answered, "unanswered": [plain(one) for one in unanswered], "error": error}

    def subscriber_start(self, line: Object) -> None:
        worker = self.workers[line["subscriber"]] = Worker(self.clients[line["client"]], line)
        if ASYNC:
            asyncio.get_running_loop().create_task(self.watch(worker))
        else:
            threading.Thread(target=lambda: asyncio.run(self.watch(worker)), daemon=True).start()

    async def watch(self, worker: Worker) -> None:
        try:
            await self.finished(worker.subscriber.wait())
        except duetime.DuetimeError as error:
            emit({"event": "ended", "subscriber": worker.name, "error": error_of(error)})

    def subscriber_finish(self, line: Object) -> None:
        self.workers[line["subscriber"]].waiting(line["n"]).put(line)

    def subscriber_counts(self, line: Object) -> Object:
        counts = self.workers[line["subscriber"]].subscriber.counts
        return {name: getattr(counts, name) for name in counts.__slots__}

    async def subscriber_stop(self, line: Object) -> Object:
        limit = line.get("handlers_ms", 3_600_000) + line.get("confirm_ms", 5_000)
        return {"clean": await self.finished(self.workers[line["subscriber"]].subscriber.stop(timedelta(milliseconds=limit)))}

    async def respond(self, text: str) -> None:
        line = json.loads(text)
        try:
            emit({"id": line["id"], "ok": await self.answer(line)})
        except Exception as error:
            emit({"id": line["id"], "error": error_of(error)})


async def main_async(driver: Driver) -> None:
    loop = asyncio.get_running_loop()
    tasks = set()
    while text := await loop.run_in_executor(None, sys.stdin.readline):
        task = asyncio.create_task(driver.respond(text))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def main() -> None:
    driver = Driver()
    if ASYNC:
        try:
            asyncio.run(main_async(driver))
        finally:
            os._exit(0)
    for text in sys.stdin:
        threading.Thread(target=lambda text=text: asyncio.run(driver.respond(text)), daemon=True).start()
    os._exit(0)


main()
