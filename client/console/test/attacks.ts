// SPDX-License-Identifier: Apache-2.0
//
// A page of another site, in the same browser, against the console.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser } from "playwright-core";
import type { Site, Test } from "./harness";

// What the other page tries. Each returns what it could read, or throws.
const attempts: [string, (url: string) => Promise<unknown>][] = [
  ["a call as text, without asking", (url) => fetch(url, { method: "POST", mode: "no-cors", body: "{}", headers: { "Content-Type": "text/plain" } }).then((one) => one.text())],
  ["a call as JSON", (url) => fetch(url, { method: "POST", headers: { "Content-Type": "application/json", "X-Duetime-Console": "1" }, body: "{}" }).then((one) => one.text())],
  ["a request behind a refused body", (url) => fetch(url, { method: "POST", mode: "no-cors", headers: { "Content-Type": "multipart/form-data; boundary=x" }, body:
    `POST ${new URL(url).pathname} HTTP/1.1\r\nHost: ${new URL(url).host}\r\nContent-Type: application/json\r\nX-Duetime-Console: 1\r\nContent-Length: 16\r\n\r\n{"name":"victim"}` }).then((one) => one.text())],
  ["a read", (url) => fetch(new URL("/console.json", url), {}).then((one) => one.text())],
];

export function attackTests(browser: Browser, site: Site): Test[] {
  return [
    ["another site can neither read, change nor frame the console", async () => {
      await site.call("Admin/CreateTopic", { topic: { name: "victim" } });
      const other = createServer((_request, response) => {
        response.setHeader("Content-Type", "text/html");
        response.end(`<iframe src="${site.url}/"></iframe>`);
      });
      await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
      const page = await browser.newPage();
      try {
        await page.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
        for (const [name, attempt] of attempts) {
          const read = await page.evaluate(`(${String(attempt)})(${JSON.stringify(`${site.url}/api/duetime.v1.Admin/PauseTopic`)})`).catch(() => "");
          assert.equal(read, "", name);
        }
        const form = `const form = document.createElement("form"); form.method = "post"; form.enctype = "text/plain"; form.target = "_blank";
          form.action = ${JSON.stringify(`${site.url}/api/duetime.v1.Admin/PauseTopic`)};
          const input = document.createElement("input"); input.name = '{"name":"victim","x":"'; input.value = '"}'; form.append(input);
          document.body.append(form); form.submit();`;
        const [opened] = await Promise.all([page.waitForEvent("popup"), page.evaluate(form)]);
        await opened.waitForLoadState();
        assert.match(await opened.locator("body").innerText(), /FOREIGN_ORIGIN/);
        const frame = page.frames()[1];
        assert.equal(await frame?.evaluate(() => document.getElementById("page")).catch(() => null), null);
        const { topic } = await site.call("Admin/GetTopic", { name: "victim" });
        assert.equal(topic.settings.paused, false);
      } finally {
        await page.context().close();
        other.close();
      }
    }],
    ["a name that points at the loopback leads to no page", async () => {
      const context = await browser.newContext();
      const page = await context.newPage();
      // Chromium resolves every name below localhost to the loopback.
      const response = await page.goto(site.url.replace("127.0.0.1", "attacker.localhost"));
      assert.equal(response?.status(), 403);
      assert.match(await page.locator("body").innerText(), /FOREIGN_HOST/);
      await context.close();
    }],
  ];
}
