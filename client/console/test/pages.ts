// SPDX-License-Identifier: Apache-2.0
//
// Every page, wide and narrow, light and dark, with no data, a little and hostile data. Each keeps a screenshot.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { href, readRoute } from "../src/route";
import { until, type Site, type Test } from "./harness";
import { hostileKey, hostileText, longName } from "./samples";

// Opens a page and fails at the end of the test if the browser has reported an error, such as a breach of the security policy.
export async function withPage(browser: Browser, site: Site, run: (page: Page, errors: string[]) => Promise<void>, options: object = {}): Promise<void> {
  const context = await browser.newContext({ timezoneId: "Asia/Tokyo", locale: "en-GB", viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  try {
    page.setDefaultTimeout(15_000);
    await page.goto(`${site.url}/`);
    await run(page, errors);
    assert.deepEqual(errors, []);
  } catch (error) {
    // What the page looked like explains a failure best.
    console.log(`${page.url()}\n${errors.join("\n")}\n${await page.locator("body").innerText()}`);
    throw error;
  } finally {
    await context.close();
  }
}

// Goes to a page of the console and waits until it has its data.
export async function show(page: Page, address: string): Promise<void> {
  await page.evaluate((hash) => { location.hash = hash; }, address);
  await page.locator(`main[data-page="${readRoute(address).page}"] h1`).first().waitFor();
  await page.waitForFunction(() => document.querySelector("[aria-busy]") === null);
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}

const shotHeightMax = 3_000;
// A person finds nothing in a longer page. Text of an attacker is long.
const heightMax = 6_000;

type Address = [name: string, address: string];

async function addressesOf(name: string, site: Site): Promise<Address[]> {
  const topic = { empty: "none", little: "orders", hostile: "-rf" }[name] ?? "";
  const list: Address[] = [
    ["overview", href("overview")],
    ["topics", href("topics")],
    ["messages", href("messages", { topic: name === "empty" ? "" : topic, view: name === "hostile" ? "full" : "" })],
    ["dead-letters", href("dead-letters", { topic: name === "empty" ? "" : topic })],
    ["recurrences", href("recurrences")],
    ["connections", href("connections")],
    ["bulk", href("bulk")],
    ["server", href("server")],
  ];
  if (name === "empty") return list;
  const [recurrence, subscription, target] = name === "little" ? ["standup", "billing", { topic, key: "held" }] : ["--all", "--help", { topic, key: hostileText }];
  const found = await site.call("Messages/Get", { key: target });
  return [
    ...list,
    ["topic", href("topic", { name: topic })],
    ["subscription", href("subscription", { topic, name: subscription })],
    ["message", href("message", { id: found.message.id })],
    ["recurrence", href("recurrence", { name: recurrence })],
    ...(name === "hostile" ? ([["topic-long", href("topic", { name: longName })]] as Address[]) : []),
  ];
}

// Dialogs: the page, the button that opens one, and what is typed into it.
const dialogs: [name: string, address: (id: string) => string, button: string, ...fields: [label: string, text: string][]][] = [
  ["dialog-pause", () => href("topic", { name: "orders" }), "Pause"],
  ["dialog-settings", () => href("topic", { name: "orders" }), "Edit settings", ["Time to live", "90m"]],
  ["dialog-move", (id) => href("message", { id }), "Move", ["From now", "2d"]],
  ["dialog-cancel", (id) => href("message", { id }), "Cancel"],
  ["dialog-bulk", () => href("bulk", { topic: "orders", labels: "customer=42" }), "Count first"],
  ["dialog-schedule", () => href("messages", { topic: "orders" }), "Schedule a message", ["When", "tomorrow 9am"], ["Payload", `{"order": 17}`]],
  ["dialog-create-topic", () => href("topics"), "Create a topic", ["Name", "new"]],
  ["dialog-delete-topic", () => href("topic", { name: "orders" }), "Delete", ["Name of the topic", "orders"]],
  ["dialog-create-subscription", () => href("topic", { name: "orders" }), "Create a subscription", ["Name", "new"]],
  ["dialog-create-recurrence", () => href("recurrences"), "Create a recurrence", ["Name", "new"], ["Topic", "orders"], ["Cron expression", "0 9 * * *"]],
];

async function shootDialogs(page: Page, site: Site, path: (name: string) => string): Promise<void> {
  const { message } = await site.call("Messages/Get", { key: { topic: "orders", key: "next-year" } });
  for (const [name, address, button, ...fields] of dialogs) {
    await show(page, address(message.id));
    await page.getByRole("button", { name: button, exact: true }).click();
    for (const [label, text] of fields) await page.getByRole("dialog").getByLabel(label, { exact: true }).fill(text);
    await until("the dialog allows the change", () => page.locator("dialog button[type=submit]").isEnabled());
    await page.screenshot({ path: path(name) });
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  }
}

export function pageTests(browser: Browser, sites: Record<string, Site>, shots: string): Test[] {
  mkdirSync(shots, { recursive: true });
  const tests: Test[] = [];
  for (const [data, site] of Object.entries(sites)) {
    for (const [width, height] of [[1280, 800], [390, 800]] as const) {
      for (const colorScheme of ["light", "dark"] as const) {
        tests.push([`pages with ${data} data, ${width} wide, ${colorScheme}`, () => withPage(browser, site, async (page) => {
          for (const [name, address] of await addressesOf(data, site)) {
            await show(page, address);
            const [wide, long] = await page.evaluate(() => [document.documentElement.scrollWidth - innerWidth, document.documentElement.scrollHeight] as const);
            await page.screenshot({
              path: join(shots, `${data}-${name}-${width}-${colorScheme}.png`), fullPage: true, clip: { x: 0, y: 0, width, height: Math.min(long, shotHeightMax) },
            });
            assert.ok(wide <= 0, `${name} is ${wide} px wider than the screen`);
            assert.ok(long <= heightMax, `${name} is ${long} px long`);
            const problems = await page.locator(".problem").allInnerTexts();
            assert.deepEqual(problems, [], name);
            assert.equal(await page.evaluate(() => (window as { pwned?: number }).pwned), undefined, name);
            assert.equal(await page.locator("main img, main script, main iframe").count(), 0, name);
          }
          if (data === "little") await shootDialogs(page, site, (name) => join(shots, `${data}-${name}-${width}-${colorScheme}.png`));
        }, { colorScheme, viewport: { width, height } })]);
      }
    }
  }
  tests.push(["a narrow screen shows the whole navigation", () => withPage(browser, sites.empty as Site, async (page) => {
    await show(page, href("overview"));
    for (const link of await page.locator("nav a").all()) {
      const box = await link.boundingBox();
      assert.ok(box !== null && box.x >= 0 && box.x + box.width <= 390, `${await link.innerText()} is cut`);
    }
  }, { viewport: { width: 390, height: 800 } })]);
  tests.push(["hostile text is shown, not run", () => withPage(browser, sites.hostile as Site, async (page) => {
    await show(page, href("messages", { topic: "-rf" }));
    const text = await page.locator("main").innerText();
    assert.ok(text.includes(hostileText));
    assert.ok(text.includes("\\n\\u202egnp.exe"), "characters that reorder text are visible");
    assert.ok(!text.includes("\u202e"));
    assert.ok(text.includes(hostileKey.slice(0, 20)));
  })]);
  tests.push(["a list goes from page to page and back", () => withPage(browser, sites.little as Site, async (page) => {
    await show(page, href("messages", { topic: "orders" }));
    const first = await page.locator("a.id").first().innerText();
    await page.getByRole("button", { name: "Next" }).click();
    await until("the second page", async () => (await page.locator(".pager").innerText()).includes("page 2"));
    await until("other messages", async () => (await page.locator("a.id").first().innerText()) !== first);
    await page.getByRole("button", { name: "Back" }).click();
    await until("the first page", async () => (await page.locator("a.id").first().innerText()) === first);
  })]);
  return tests;
}
