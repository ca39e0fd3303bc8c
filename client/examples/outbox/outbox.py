#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Schedules messages from PostgreSQL transactions through an outbox table. The README beside this file explains it."""

import argparse
import json
import os
import pathlib
from datetime import timedelta
from typing import Any

import duetime
import psycopg
from psycopg.rows import DictRow, dict_row

BATCH = 500
# A NOTIFY that comes while the relay works is not lost. This is for a relay that lost its connection.
POLL_SECONDS = 5


def place_order(connection: psycopg.Connection[Any], order: int, customer: str, timeout: timedelta) -> None:
    """The business transaction: the order and its message exist together or not at all, without a call to duetime."""
    with connection.transaction():
        connection.execute("INSERT INTO orders (id, customer) VALUES (%s, %s)", [order, customer])
        connection.execute("INSERT INTO outbox (topic, key, payload, deliver_time) VALUES (%s, %s, %s, now() + %s)",
                           ["unpaid-orders", f"order-{order}", json.dumps({"order": order}), timeout])
        # PostgreSQL sends it at the commit.
        connection.execute("NOTIFY outbox")


def relay(connection: psycopg.Connection[DictRow], client: duetime.Client) -> int:
    """Hands up to BATCH rows over to duetime. Returns their number; raises the error of a row that must be tried again.

    A crash before the commit keeps the rows, and the next relay schedules them again. duetime recognises the request ids
    for an hour, and with ONCE the keys until a day after the end of the messages. So there is no second message."""
    with connection.transaction():
        # SKIP LOCKED lets several relays work side by side.
        rows = connection.execute("SELECT * FROM outbox WHERE refused IS NULL ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED",
                                  [BATCH]).fetchall()
        results = client.schedule_batch([message_of(row) for row in rows])
        retry = None
        for row, result in zip(rows, results, strict=True):
            if isinstance(result, (duetime.errors.Unavailable, duetime.errors.ResourceExhausted)):
                retry = result
            elif isinstance(result, duetime.DuetimeError):
                # One bad row must not hold up the others.
                connection.execute("UPDATE outbox SET refused = %s WHERE id = %s", [str(result), row["id"]])
                print(f"refused {row['key']}: {result}", flush=True)
            else:
                connection.execute("DELETE FROM outbox WHERE id = %s", [row["id"]])
                print(f"relayed {row['key']}", flush=True)
    if retry is not None:
        raise retry
    return len(rows)


def message_of(row: DictRow) -> duetime.NewMessage:
    return duetime.NewMessage(row["topic"], row["payload"], row["deliver_time"], key=row["key"],
                              on_conflict=duetime.pb.ScheduleRequest.ON_CONFLICT_ONCE, request_id=str(row["request_id"]))


def relay_forever(connection: psycopg.Connection[DictRow], client: duetime.Client) -> None:
    """May be killed at any moment."""
    connection.execute("LISTEN outbox")
    while True:
        try:
            while relay(connection, client) == BATCH:
                pass
        except duetime.DuetimeError as error:
            print(f"will try again: {error}", flush=True)
        # Returns at the first notification, or after the time.
        for _ in connection.notifies(timeout=POLL_SECONDS, stop_after=1):
            pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("init", help="create the tables")
    command = commands.add_parser("order", help="place an order")
    command.add_argument("order", type=int)
    command.add_argument("--customer", default="ann")
    command.add_argument("--timeout", type=float, default=30 * 60, metavar="SECONDS", help="default: 30 minutes")
    commands.add_parser("relay", help="relay the outbox, until Ctrl-C")
    options = parser.parse_args()

    # The variables PGHOST, PGPORT, PGDATABASE and PGUSER say where the database is.
    with psycopg.connect(autocommit=True, row_factory=dict_row) as connection:
        if options.command == "init":
            connection.execute(pathlib.Path(__file__).with_name("schema.sql").read_bytes())
        elif options.command == "order":
            place_order(connection, options.order, options.customer, timedelta(seconds=options.timeout))
        else:
            with duetime.Client(duetime.Options(server=os.environ.get("DUETIME_SERVER", "127.0.0.1:7788"))) as client:
                relay_forever(connection, client)


if __name__ == "__main__":
    main()
