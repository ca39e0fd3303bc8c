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
      const box = await (await page.waitForSelector(".u-over")).boundingBox();
      assert.ok(box);
      await page.mouse.move(box.x + box.width * 0.2, box.y + 40);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.6, box.y + 40, { steps: 5 });
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
    ["a server that is gone is said, and the page goes on when it is back", () => withPage(browser, site, async (page, errors) => {
      const info = "**/api/duetime.v1.Admin/ServerInfo";
      await page.route(info, (route) => route.fulfill({
        status: 503, contentType: "application/json", body: `{"error":{"code":"UNAVAILABLE","reason":"","message":"failed to connect"}}`,
      }));
      await page.getByText("failed to connect").waitFor();
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
