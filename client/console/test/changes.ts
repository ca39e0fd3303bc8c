// SPDX-License-Identifier: Apache-2.0
//
// Every change: by the page, and by the command that the page shows for it.

import assert from "node:assert/strict";
import type { Browser, Page } from "playwright-core";
import { href } from "../src/route";
import { until, type Site, type Test } from "./harness";
import { show, withPage } from "./pages";
import { hostileKey } from "./samples";

interface Case {
  name: string;
  // Makes what is changed, with names of its own for each run, and returns the address of its page.
  prepare: (tag: string) => Promise<string>;
  // Opens the dialog and fills it in.
  open: (page: Page) => Promise<void>;
  verb: string | RegExp;
  // The page asks for what is gone.
  gone?: boolean;
  // Returns true once the change has happened.
  done: (tag: string) => Promise<boolean>;
}

const click = (name: string | RegExp) => (page: Page) => page.getByRole("button", { name, exact: typeof name === "string" }).first().click();

function casesOf(site: Site): Case[] {
  const ids = new Map<string, string>();
  const message = (options: object = {}) => async (tag: string) => {
    ids.set(tag, await site.schedule({ topic: tag, ...options }));
    return href("message", { id: ids.get(tag) });
  };
  const get = async (tag: string) => (await site.call("Messages/Get", { message_id: ids.get(tag) })).message;
  const topic = (settings: object = {}) => async (tag: string) => {
    await site.call("Admin/CreateTopic", { topic: { name: tag, settings } });
    return href("topic", { name: tag });
  };
  const settingsOf = async (tag: string) => (await site.call("Admin/GetTopic", { name: tag })).topic.settings;
  const subscription = (settings: object = {}) => async (tag: string) => {
    await site.call("Admin/CreateSubscription", { subscription: { topic: tag, name: "s", settings } });
    return href("subscription", { topic: tag, name: "s" });
  };
  const readerOf = async (tag: string) => (await site.call("Admin/GetSubscription", { topic: tag, name: "s" })).subscription.settings;
  const deadLetter = async (tag: string) => {
    await site.call("Admin/CreateSubscription", { subscription: { topic: tag, name: "s" } });
    await site.schedule({ topic: tag, key: "k", delay: "0s" });
    const pulled = await until("a delivery", async () =>
      (await site.call("Messages/Pull", { topic: tag, subscription: "s", max_messages: 1, wait: "1s" })).deliveries[0]);
    await site.call("Messages/Settle", { settlements: [{ lease_token: pulled.lease_token, dead_letter: {} }] });
    return href("dead-letters", { topic: tag });
  };
  const pendingOf = async (name: string) => (await site.call("Admin/GetTopic", { name })).topic.counts.pending;
  const many = async (tag: string) => {
    for (const key of [hostileKey, `${hostileKey}2`, "other"]) await site.schedule({ topic: tag, key });
    return href("bulk", { topic: tag, prefix: hostileKey });
  };
  const recurrence = (paused: boolean) => async (tag: string) => {
    await site.call("Messages/CreateRecurrence", { recurrence: { name: tag, topic: tag, schedule: { interval: "3600s", start_time: "2030-01-01T00:00:00Z" } } });
    if (paused) await site.call("Messages/PauseRecurrence", { name: tag });
    return href("recurrence", { name: tag });
  };
  // The names of what the dialogs make.
  const made: string[] = [];
  const isGone = (tag: string) => settingsOf(tag).then(() => false, () => true);
  const deleting = async (page: Page): Promise<void> => {
    await click("Delete")(page);
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Type the name").waitFor();
    await dialog.getByLabel("Name of the topic").fill(await page.locator("h1").innerText());
  };
  const stateOf = async (tag: string) => (await site.call("Messages/GetRecurrence", { name: tag })).recurrence.state;
  return [
    { name: "cancel", prepare: message(), open: click("Cancel"), verb: "Cancel the message", done: async (tag) => (await get(tag)).state === "STATE_CANCELLED" },
    { name: "move", prepare: message(), verb: "Move", done: async (tag) => Date.parse((await get(tag)).deliver_time) > Date.now() + 40 * 86_400_000,
      open: async (page) => { await click("Move")(page); await page.getByLabel("From now").fill("50d"); } },
    { name: "move to a time", prepare: message(), verb: "Move", done: async (tag) => (await get(tag)).deliver_time === "2029-12-31T15:00:00Z",
      open: async (page) => { await click("Move")(page); await page.getByLabel("or at").fill("2030-01-01T00:00"); } },
    { name: "pause a topic", prepare: topic(), open: click("Pause"), verb: "Pause", done: async (tag) => (await settingsOf(tag)).paused },
    { name: "resume a topic", prepare: topic({ paused: true }), open: click("Resume"), verb: "Resume", done: async (tag) => !(await settingsOf(tag)).paused },
    { name: "settings of a topic", prepare: topic({ max_pending: "7", dead_letter_topic: "elsewhere", rate: { messages_per_second: "5" } }), verb: "Change",
      open: async (page) => {
        await click("Edit settings")(page);
        for (const [label, text] of [["Pending messages at most", ""], ["Dead-letter topic", ""], ["Deliveries per second", "20"], ["Time to live", "90m"],
          ["Due in one minute at most", "1000"]] as const) await page.getByLabel(label).fill(text);
        await page.getByLabel("Beyond that").selectOption("POLICY_SPREAD");
        await page.getByLabel("Later by at most").fill("1h");
      },
      done: async (tag) => {
        const { max_pending, dead_letter_topic, rate, default_ttl, minute_limit } = await settingsOf(tag);
        return JSON.stringify([max_pending, dead_letter_topic, rate?.messages_per_second, default_ttl, minute_limit?.messages, minute_limit?.policy, minute_limit?.spread_max])
          === JSON.stringify(["0", "", "20", "5400s", "1000", "POLICY_SPREAD", "3600s"]);
      } },
    { name: "pause a subscription", prepare: subscription(), open: click("Pause"), verb: "Pause", done: async (tag) => (await readerOf(tag)).paused },
    { name: "settings of a subscription", prepare: subscription({ retention: "60s" }), verb: "Change",
      open: async (page) => {
        await click("Edit settings")(page);
        for (const [label, text] of [["Failed attempts at most", "8"], ["First delay", "5s"], ["Random part", "0.25"], ["Keeps due messages for", ""]] as const) {
          await page.getByLabel(label).fill(text);
        }
        await page.getByLabel("Beyond the retention").selectOption("RETENTION_POLICY_DEAD_LETTER");
      },
      done: async (tag) => {
        const { retry, retention, retention_policy } = await readerOf(tag);
        return retry?.max_attempts === 8 && retry.min_backoff === "5s" && retry.jitter === 0.25 && retention === undefined
          && retention_policy === "RETENTION_POLICY_DEAD_LETTER";
      } },
    { name: "redrive dead letters", prepare: deadLetter, open: click("Redrive all that match"), verb: /^Redrive \d/, done: async (tag) => await pendingOf(tag) === "1" },
    { name: "purge dead letters", prepare: deadLetter, open: click("Purge all that match"), verb: /^Purge \d/, done: async (tag) => await pendingOf(`${tag}.dlq`) === "0" },
    { name: "delete one dead letter", prepare: deadLetter, open: click(/^Delete /), verb: "Delete the dead letter", done: async (tag) => await pendingOf(`${tag}.dlq`) === "0" },
    { name: "redrive one dead letter of two", prepare: async (tag) => (await deadLetter(tag), await deadLetter(tag)), open: click(/^Redrive \w{26}$/), verb: "Redrive 1", done: async (tag) => await pendingOf(tag) === "1" },
    { name: "redrive a dead letter from its own page", prepare: async (tag) => {
        await deadLetter(tag);
        const { messages } = await site.call("Messages/List", { topic: `${tag}.dlq` });
        return href("message", { id: messages[0].id });
      }, open: click("Redrive"), verb: "Redrive 1", done: async (tag) => await pendingOf(tag) === "1" },
    { name: "move one dead letter", prepare: deadLetter, verb: "Move", open: async (page) => { await click(/^Move /)(page); await page.getByLabel("From now").fill("50d"); },
      done: async (tag) => Date.parse((await site.call("Messages/List", { topic: `${tag}.dlq` })).messages[0].deliver_time) > Date.now() + 40 * 86_400_000 },
    { name: "schedule a message", prepare: topic(), verb: "Schedule",
      open: async (page) => {
        await click("Schedule a message")(page);
        const dialog = page.getByRole("dialog");
        await dialog.getByLabel("When").fill("2030-01-01 09:00");
        await dialog.getByLabel("Time zone").selectOption("Europe/Berlin");
        await dialog.getByLabel("Payload", { exact: true }).fill(`{"a": "it's\\n"}`);
        await dialog.getByLabel("Key", { exact: true }).fill(hostileKey.replaceAll("\n", ""));
        await dialog.getByText("Labels, attributes").click();
        await dialog.getByLabel("Labels", { exact: true }).fill("a=b c");
        await dialog.getByLabel("Attributes", { exact: true }).fill("x=$HOME");
        await dialog.getByText("1 January 2030").first().waitFor();
      },
      done: async (tag) => {
        const { messages } = await site.call("Messages/List", { topic: tag, view: "MESSAGE_VIEW_FULL" });
        const one = messages[0];
        return one !== undefined && JSON.stringify([one.deliver_time, Buffer.from(one.payload, "base64").toString(), one.key, one.labels, one.attributes])
          === JSON.stringify(["2030-01-01T08:00:00Z", `{"a": "it's\\n"}`, hostileKey.replaceAll("\n", ""), { a: "b c" }, { x: "$HOME" }]);
      } },
    { name: "schedule text that begins like an option", prepare: topic(), verb: "Schedule",
      open: async (page) => {
        await click("Schedule a message")(page);
        const dialog = page.getByRole("dialog");
        await dialog.getByLabel("When").fill("in 2 days");
        await dialog.getByLabel("Payload", { exact: true }).fill("-");
        await dialog.getByText("The payload is no JSON").waitFor();
        await dialog.getByLabel("The payload is").selectOption("text");
      },
      done: async (tag) => (await site.call("Messages/List", { topic: tag, view: "MESSAGE_VIEW_FULL" })).messages[0]?.payload === "LQ==" },
    { name: "create a topic", prepare: async (tag) => { made.push(tag); return href("topics"); }, verb: "Create", gone: true, // by another test
      open: async (page) => {
        await click("Create a topic")(page);
        const dialog = page.getByRole("dialog");
        await dialog.getByLabel("Name", { exact: true }).fill(made[made.length - 1] ?? "");
        await dialog.getByText("Settings", { exact: true }).click();
        await dialog.getByLabel("Pending messages at most").fill("7");
      },
      done: (tag) => settingsOf(tag).then((settings) => settings.max_pending === "7", () => false) },
    { name: "delete a topic", prepare: topic(), verb: "Delete the topic", open: deleting, gone: true, done: isGone },
    { name: "delete a topic with messages", prepare: async (tag) => (await many(tag), href("topic", { name: tag })), verb: "End 3 messages and delete", open: deleting, gone: true, done: isGone },
    { name: "create a subscription", prepare: topic(), verb: "Create",
      open: async (page) => {
        await click("Create a subscription")(page);
        await page.getByRole("dialog").getByLabel("Name", { exact: true }).fill("s");
        await page.getByRole("dialog").getByText("Settings", { exact: true }).click();
        await page.getByLabel("Failed attempts at most").fill("8");
      },
      done: (tag) => readerOf(tag).then((settings) => settings.retry.max_attempts === 8, () => false) },
    { name: "delete a subscription", prepare: subscription(), open: click("Delete"), verb: "Delete the subscription", gone: true,
      done: (tag) => readerOf(tag).then(() => false, () => true) },
    { name: "create a recurrence", prepare: async (tag) => { made.push(tag); return href("recurrences"); }, verb: "Create",
      open: async (page) => {
        await click("Create a recurrence")(page);
        const dialog = page.getByRole("dialog");
        const name = made[made.length - 1] ?? "";
        for (const [label, text] of [["Name", name], ["Topic", name], ["Cron expression", "0 9 1 1 *"], ["Payload", `"happy"`]] as const) {
          await dialog.getByLabel(label, { exact: true }).fill(text);
        }
        await dialog.getByLabel("Time zone").selectOption("UTC");
        await dialog.getByText(/Next, .*-01-01/).waitFor();
      },
      done: (tag) => site.call("Messages/GetRecurrence", { name: tag }).then(({ recurrence: one }) => one.schedule.cron === "0 9 1 1 *"
        && one.template.payload === Buffer.from(`"happy"`).toString("base64"), () => false) },
    { name: "delete a recurrence", prepare: recurrence(false), open: click("Delete"), verb: "Delete the recurrence", gone: true, done: (tag) => stateOf(tag).then(() => false, () => true) },
    { name: "bulk cancel by a hostile key", prepare: many, open: click("Count first"), verb: "Cancel 2", done: async (tag) => await pendingOf(tag) === "1" },
    { name: "bulk shift of all", prepare: async (tag) => (await many(tag), href("bulk", { topic: tag, action: "BULK_ACTION_SHIFT", by: "-15m" })),
      open: click("Count first"), verb: "Shift 3", done: async (tag) => {
        const { messages } = await site.call("Messages/List", { topic: tag });
        return messages.every((one: { deliver_time: string }) => Date.parse(one.deliver_time) < Date.now() + 86_400_000 - 600_000);
      } },
    { name: "pause a recurrence", prepare: recurrence(false), open: click("Pause"), verb: "Pause", done: async (tag) => await stateOf(tag) === "STATE_PAUSED" },
    { name: "resume a recurrence", prepare: recurrence(true), open: click("Resume"), verb: "Resume", done: async (tag) => await stateOf(tag) === "STATE_ACTIVE" },
  ];
}

export function changeTests(browser: Browser, site: Site): Test[] {
  const tests = casesOf(site).map((one, index): Test => [`change: ${one.name}, by the page and by its command`, () => withPage(browser, site, async (page, errors) => {
    const byPage = `-change-${index}/page`;
    await show(page, await one.prepare(byPage));
    await one.open(page);
    const confirm = page.getByRole("dialog").getByRole("button", { name: one.verb, exact: typeof one.verb === "string" });
    await until("the dialog allows it", () => confirm.isEnabled());
    assert.ok(!(await one.done(byPage)), "nothing happens before the change is confirmed");
    await confirm.click();
    await until("its effect", () => one.done(byPage));
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();

    const byCommand = `-change-${index}/command`;
    await show(page, await one.prepare(byCommand));
    // A page that goes on from the other address still shows its rows for a moment.
    await page.reload();
    await show(page, page.url().replace(/^[^#]*/, ""));
    await one.open(page);
    await until("the dialog allows it", () => confirm.isEnabled());
    const command = await page.getByRole("dialog").locator(".command code").innerText();
    const result = site.shell(command);
    assert.equal(result.status, 0, `${command}\n${result.out}`);
    await until(`the effect of ${command}`, () => one.done(byCommand));
    if (one.gone) errors.splice(0); // The browser reports each status of 404.
  })]);
  tests.push(["a change by keyboard: Enter opens, Escape leaves, Enter confirms", () => withPage(browser, site, async (page) => {
    const id = await site.schedule({ topic: "keys" });
    await show(page, href("messages", { topic: "keys" }));
    const button = page.getByRole("button", { name: `Cancel ${id}` });
    await button.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("aria-label")), `Cancel ${id}`, "the focus is back");
    await page.keyboard.press("Enter");
    const confirm = page.getByRole("button", { name: "Cancel the message" });
    await confirm.waitFor();
    for (let i = 0; i < 6 && !(await confirm.evaluate((one) => one === document.activeElement)); ++i) await page.keyboard.press("Tab");
    const outline = await confirm.evaluate((one) => getComputedStyle(one).outlineStyle);
    assert.notEqual(outline, "none", "the focus is visible");
    await page.keyboard.press("Enter");
    await page.getByText("It was never delivered and never will be.").waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByText("No pending message matches").waitFor();
  })]);
  tests.push(["a refused change says why and leaves the form", () => withPage(browser, site, async (page, errors) => {
    await site.call("Admin/CreateTopic", { topic: { name: "refused" } });
    await show(page, href("topic", { name: "refused" }));
    await page.getByRole("button", { name: "Edit settings" }).click();
    await page.getByLabel("Time to live").fill("9000d");
    await page.getByRole("dialog").getByRole("button", { name: "Change" }).click();
    await page.getByText("INVALID_TOPIC_SETTINGS").waitFor();
    assert.equal(await page.getByLabel("Time to live").inputValue(), "9000d");
    errors.splice(0); // The browser reports the status of 400.
  })]);
  return tests;
}
