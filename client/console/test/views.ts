// SPDX-License-Identifier: Apache-2.0
//
// What single pages show.

import assert from "node:assert/strict";
import type { Browser } from "playwright-core";
import { href } from "../src/route";
import { until, type Site, type Test } from "./harness";
import { show, withPage } from "./pages";
import { bigNumber } from "./samples";

export function viewTests(browser: Browser, site: Site): Test[] {
  return [
    ["a time is in the browser's zone, with the UTC in its title", () => withPage(browser, site, async (page) => {
      const id = await site.schedule({ topic: "times", delay: undefined, deliver_time: "2030-12-24T17:00:00.500Z" });
      await show(page, href("message", { id }));
      const time = page.locator('time[title="2030-12-24 17:00:00.500 UTC"]').first();
      assert.ok((await time.innerText()).startsWith("2030-12-25 02:00:00.500"), await time.innerText());
    })],
    ["the command for a subscription without subscribers names it", () => withPage(browser, site, async (page) => {
      await show(page, href("subscription", { topic: "orders", name: "billing" }));
      await page.getByText("--subscription billing orders").waitFor();
    })],
    ["numbers of 64 bits keep all digits, also through the form", () => withPage(browser, site, async (page) => {
      await site.call("Admin/CreateTopic", { topic: { name: "big", settings: { max_pending: bigNumber } } });
      await show(page, href("topic", { name: "big" }));
      assert.ok((await page.locator("main").innerText()).includes(bigNumber));
      await page.getByRole("button", { name: "Edit settings" }).click();
      assert.equal(await page.getByLabel("Pending messages at most").inputValue(), bigNumber);
      await page.getByLabel("Pending messages at most").fill("9007199254740995");
      await page.getByRole("button", { name: "Change" }).click();
      await page.getByText("The settings are changed.").waitFor();
      assert.equal((await site.call("Admin/GetTopic", { name: "big" })).topic.settings.max_pending, "9007199254740995");
    })],
    ["the forecast goes from the year to the second", () => withPage(browser, site, async (page) => {
      await show(page, href("topic", { name: "orders" }));
      for (const [name, bucket] of [["Year", "day of UTC"], ["Month", "hour"], ["Hour", "minute"], ["Minute", "second"]] as const) {
        await page.getByRole("button", { name, exact: true }).click();
        await page.getByText(`by ${bucket}`, { exact: false }).first().waitFor();
        await page.waitForFunction(() => document.querySelector("[aria-busy]") === null);
      }
      await page.getByRole("button", { name: "Day", exact: true }).click();
      await page.getByText("by hour").first().waitFor();
      const box = await (await page.waitForSelector(".u-over")).boundingBox();
      assert.ok(box);
      await page.mouse.move(box.x + box.width * 0.2, box.y + 40);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.6, box.y + 40, { steps: 5 });
      // The chart follows the pointer once in a frame.
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      await page.mouse.up();
      await page.getByText("by minute").waitFor();
    })],
    ["a recurrence has no occurrences only once the server says so", () => withPage(browser, site, async (page) => {
      let answer = () => {};
      const asked = new Promise<void>((resolve) => { answer = resolve; });
      await page.route("**/PreviewRecurrence", async (route) => {
        await asked;
        await route.continue();
      });
      await page.goto(`${site.url}/${href("recurrence", { name: "standup" })}`);
      await page.getByText("The next 10 occurrences").waitFor();
      assert.equal(await page.getByText("No more occurrences").count(), 0);
      answer();
      await page.locator("svg.calendar").waitFor();
    })],
    ["the state of a message and its payload in three forms", () => withPage(browser, site, async (page) => {
      const payload = Buffer.from(`{"n":${bigNumber}}`).toString("base64");
      await show(page, href("message", { id: await site.schedule({ topic: "forms", payload }) }));
      assert.equal(await page.locator("pre").innerText(), `{\n  "n": ${bigNumber}\n}`);
      await page.getByRole("button", { name: "Hex" }).click();
      assert.ok((await page.locator("pre").innerText()).startsWith("00000000  7b 22 6e 22"));
      await page.getByRole("button", { name: "Text" }).click();
      assert.equal(await page.locator("pre").innerText(), `{"n":${bigNumber}}`);
      await show(page, href("message", { id: await site.schedule({ topic: "forms", payload: Buffer.from([0xff, 0]).toString("base64") }) }));
      assert.ok(await page.getByRole("button", { name: "Text" }).isDisabled());
    })],
    ["the timeline of a message in flight", () => withPage(browser, site, async (page) => {
      const { message } = await site.call("Messages/Get", { key: { topic: "orders", key: "held" } });
      await show(page, href("message", { id: message.id }));
      const events = await page.locator(".line .what").allInnerTexts();
      assert.deepEqual(events, ["accepted", "due", "the timer fired", "delivered", "now", "the lease ends"]);
    })],
    ["the search keeps to its filter", () => withPage(browser, site, async (page) => {
      await show(page, href("messages", { topic: "orders" }));
      await page.getByLabel("Key begins with").fill("order-1");
      await until("the keys", async () => (await page.locator("tbody tr").count()) === 31);
      await page.getByLabel("Labels").fill("customer=42");
      await until("the labels", async () => (await page.locator("tbody tr").count()) === 15);
      await page.getByLabel("Labels").fill("customer");
      await page.getByText("Labels are written as").waitFor();
      await page.getByLabel("Labels").fill("");
      await page.getByLabel("Id, or key").fill("acked");
      await page.getByRole("button", { name: "Open" }).click();
      await page.getByText("The message has ended").waitFor();
    })],
    ["a table is sorted by a column, up and down", () => withPage(browser, site, async (page) => {
      for (const [name, max] of [["sort/a", "9"], ["sort/b", "10"], ["sort/c", "2"]] as const) {
        await site.call("Admin/CreateTopic", { topic: { name, settings: { rate: { messages_per_second: max } } } });
      }
      await show(page, href("topics", { prefix: "sort/" }));
      const names = () => page.locator("tbody tr td:first-child").allInnerTexts();
      await page.getByRole("button", { name: "Rate" }).click();
      assert.deepEqual(await names(), ["sort/c", "sort/a", "sort/b"], "by number, not by letter");
      assert.equal(await page.getByRole("columnheader", { name: "Rate" }).getAttribute("aria-sort"), "ascending");
      await page.getByRole("button", { name: "Rate" }).click();
      assert.deepEqual(await names(), ["sort/b", "sort/a", "sort/c"]);
      await page.setViewportSize({ width: 390, height: 800 });
      await page.getByLabel("Sort by").selectOption("Topic");
      assert.deepEqual(await names(), ["sort/a", "sort/b", "sort/c"]);
    })],
    ["what does not exist is said once, and nothing empty is shown", () => withPage(browser, site, async (page, errors) => {
      for (const [address, text] of [
        [href("topic", { name: "nowhere" }), "There is no topic nowhere"], [href("messages", { topic: "nowhere" }), "There is no topic nowhere"],
        [href("dead-letters", { topic: "nowhere" }), "There is no topic nowhere"], [href("subscription", { topic: "orders", name: "none" }), "There is no subscription none"],
        [href("recurrence", { name: "never" }), "There is no recurrence never"], [href("message", { id: "0g1yay0000000000g9r8cwx3v4" }), "There is no such message"],
      ] as const) {
        await show(page, address);
        await page.getByText(text).waitFor();
        assert.equal(await page.locator(".problem").count(), 0, address);
        assert.equal(await page.locator("table, .tiles").count(), 0, address);
        assert.equal(await page.locator(".empty").count(), 1, address);
      }
      errors.splice(0); // The browser reports each status of 404.
    })],
    ["the field of a topic offers names, by mouse and by keyboard", () => withPage(browser, site, async (page, errors) => {
      for (const name of ["offer-a", "offer-b"]) await site.call("Admin/CreateTopic", { topic: { name } });
      await show(page, href("messages"));
      const field = page.getByLabel("Topic", { exact: true });
      await field.fill("offer-");
      await page.getByRole("option", { name: "offer-b" }).click();
      await until("the name", async () => (await field.inputValue()) === "offer-b");
      await field.fill("offer-");
      await page.getByRole("option", { name: "offer-a" }).waitFor();
      await field.press("ArrowDown");
      await field.press("Enter");
      await until("the name", async () => (await field.inputValue()) === "offer-a");
      await page.getByText("No pending message matches").waitFor();
      await show(page, href("messages"));
      await page.getByText("Which topic?").waitFor();
      errors.splice(0); // The browser reports each status of 404: half a name is no topic.
    })],
    ["who is connected, and the end of a stream", () => withPage(browser, site, async (page) => {
      await site.call("Admin/CreateSubscription", { subscription: { topic: "wires", name: "s" } });
      const reader = site.spawn(["subscribe", "wires", "--subscription", "s"]);
      await show(page, href("connections", { topic: "wires" }));
      await page.getByText("duetime subscribe", { exact: true }).waitFor();
      const [before] = (await site.call("Admin/ListStreams", { topic: "wires" })).streams;
      await page.getByRole("button", { name: /^End the stream/ }).click();
      await page.getByRole("dialog").getByRole("button", { name: "End the stream" }).click();
      await page.getByText("The stream is ended.").waitFor();
      await until("another stream", async () => (await site.call("Admin/ListStreams", { topic: "wires" })).streams.every((one: { id: string }) => one.id !== before.id));
      await reader.stop();
    })],
    ["a console that only reads offers no change, and makes none", async () => {
      const reading = await site.another(["--read-only"]);
      try {
        await withPage(browser, reading, async (page) => {
          for (const address of [href("topic", { name: "orders" }), href("messages", { topic: "orders" }), href("dead-letters", { topic: "orders" }), href("recurrences")]) {
            await show(page, address);
            assert.equal(await page.getByRole("button", { name: /Delete|Edit|Pause|Cancel|Move|Schedule|Create|Redrive/ }).count(), 0, address);
          }
          await page.getByText("read only").waitFor();
        });
        await assert.rejects(() => reading.call("Admin/PauseTopic", { name: "orders" }), /CONSOLE_READ_ONLY/);
        assert.equal((await reading.call("Admin/GetTopic", { name: "orders" })).topic.settings.paused, false);
      } finally {
        await reading.stopConsole();
      }
    }],
    ["the history of the console is there after a reload", () => withPage(browser, site, async (page) => {
      const history = await (await fetch(`${site.url}/history.json`)).json() as { times: number[]; values: Record<string, unknown[]> };
      assert.ok(history.times.length > 0);
      assert.deepEqual(Object.keys(history.values).sort(), ["accepted", "acked", "delivered", "late_half_ms", "late_most_ms"]);
      await show(page, href("overview"));
      await page.reload();
      await page.getByText("the console keeps six hours").waitFor();
      await show(page, href("topic", { name: "orders" }));
      await page.getByText("The last hours").waitFor();
    })],
    ["a server that is gone is said, and the page goes on when it is back", () => withPage(browser, site, async (page, errors) => {
      const info = "**/api/duetime.v1.Admin/ServerInfo";
      await page.route(info, (route) => route.fulfill({
        status: 503, contentType: "application/json", body: `{"error":{"code":"UNAVAILABLE","reason":"","message":"failed to connect"}}`,
      }));
      await page.getByText("failed to connect").waitFor();
      // The calls of the page fail, too: one banner says it.
      await page.route("**/api/**", (route) => route.fulfill({
        status: 503, contentType: "application/json", body: `{"error":{"code":"UNAVAILABLE","reason":"","message":"failed to connect"}}`,
      }));
      await show(page, href("topics"));
      await page.waitForResponse((response) => response.url().includes("ListTopics"));
      assert.equal(await page.locator(".problem").count(), 1);
      await page.unroute("**/api/**");
      // The server is still gone. Once it is back, the page asks by itself, and the button vanishes.
      const asked = page.waitForRequest(info);
      await page.getByRole("button", { name: "Try again" }).first().click();
      await asked;
      await page.unroute(info);
      await page.getByText("serving").waitFor();
      errors.splice(0); // The browser reports each status of 503.
    })],
  ];
}
