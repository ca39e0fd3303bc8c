// SPDX-License-Identifier: Apache-2.0
//
// The data of the tests: a little of everything, and what an attacker would send.

import { until, type Site } from "./harness";

const base64 = (text: string) => Buffer.from(text).toString("base64");

// More than a double holds exactly.
export const bigNumber = "9007199254740993";

export async function fillLittle(site: Site): Promise<void> {
  const labels = { customer: "42", kind: "reminder" };
  await site.call("Admin/CreateTopic", { topic: { name: "orders", settings: { max_pending: bigNumber, rate: { messages_per_second: "500" } } } });
  await site.call("Admin/CreateSubscription", {
    subscription: { topic: "orders", name: "billing", settings: { retry: { max_attempts: 1 }, lease_duration: "3600s" } },
  });
  const messages = Array.from({ length: 120 }, (_unused, i) => ({
    topic: "orders", key: `order-${i}`, labels: i % 2 === 0 ? labels : {}, delay: `${600 + i * 977}s`,
    payload: base64(JSON.stringify({ order: i, total: 12.5 })),
  }));
  await site.call("Messages/ScheduleBatch", { messages });
  await site.schedule({ topic: "orders", key: "next-year", delay: "31000000s", payload: base64("happy new year") });
  await site.schedule({ topic: "invoices", delay: "30s" });
  // Three messages are delivered: one is acknowledged, one becomes a dead letter, one stays in flight.
  for (const key of ["acked", "rejected", "held"]) await site.schedule({ topic: "orders", key, delay: "0s", labels, payload: base64(key) });
  const tokens = new Map<string, string>();
  await until("three deliveries", async () => {
    const pulled = await site.call("Messages/Pull", { topic: "orders", subscription: "billing", max_messages: 3, wait: "1s" });
    for (const one of pulled.deliveries) tokens.set(one.key, one.lease_token);
    return tokens.size === 3;
  });
  await site.call("Messages/Settle", {
    settlements: [
      { lease_token: tokens.get("acked") },
      { lease_token: tokens.get("rejected"), dead_letter: { reason: "no such customer" } },
    ],
  });
  for (const [name, rule] of [["standup", { cron: "30 9 * * MON-FRI", time_zone: "Europe/Berlin" }], ["heartbeat", { interval: "3600s" }]] as const) {
    await site.call("Messages/CreateRecurrence", {
      recurrence: { name, topic: "chat", schedule: rule, template: { payload: base64("time to talk") } },
    });
  }
  await site.call("Admin/StartBulk", { topic: "orders", action: "BULK_ACTION_SHIFT", shift_by: "60s", filter: { key_prefix: "order-11" }, name: "shift-1" });
}

export const hostileText = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`;
// A quote, a command, a line break, and an override of the direction of text.
export const hostileKey = `'; touch /tmp/duetime-pwned #\n\u202egnp.exe $(id) \`id\` "`;
export const longName = `${"x".repeat(200)}/${"long.name_-:".repeat(4)}`;

export async function fillHostile(site: Site): Promise<void> {
  const labels = { evil: hostileText, "a-b.c/d:e": "'\" \u0000\u001b[31mred" };
  const attributes = { [hostileText]: hostileText, "javascript:alert(1)": "javascript:alert(1)" };
  const content = { labels, attributes, payload: base64(hostileText) };
  await site.schedule({ topic: "-rf", key: hostileText, ordering_key: hostileText, ...content });
  await site.schedule({ topic: "-rf", key: hostileKey, ...content, payload: base64("\u202e\u0000 reversed") });
  await site.schedule({ topic: "-rf", key: "é".repeat(127), labels: Object.fromEntries(Array.from({ length: 16 }, (_unused, i) => [`label-${i}`, "v".repeat(255)])) });
  await site.schedule({ topic: longName, key: "k".repeat(255), payload: Buffer.from(Array.from({ length: 700 }, (_unused, i) => i % 256)).toString("base64") });
  await site.call("Admin/CreateSubscription", { subscription: { topic: "-rf", name: "--help", settings: {} } });
  await site.call("Admin/CreateSubscription", { subscription: { topic: "-rf", name: longName, settings: { paused: true } } });
  await site.schedule({ topic: "-rf", key: "dead", delay: "0s", ...content });
  const pulled = await until("a delivery", async () => {
    const answer = await site.call("Messages/Pull", { topic: "-rf", subscription: "--help", max_messages: 1, wait: "1s" });
    return answer.deliveries[0];
  });
  await site.call("Messages/Settle", { settlements: [{ lease_token: pulled.lease_token, dead_letter: { reason: hostileText } }] });
  await site.call("Messages/CreateRecurrence", {
    recurrence: { name: "--all", topic: longName, schedule: { cron: "0 0 29 2 *" }, template: content },
  });
  await site.call("Admin/StartBulk", { topic: "-rf", action: "BULK_ACTION_RELEASE", filter: { key_prefix: hostileKey, labels: { evil: hostileText } } });
}
