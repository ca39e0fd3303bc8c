// SPDX-License-Identifier: Apache-2.0
//
// The page of a server with a test clock.

import type { Browser } from "playwright-core";
import { Site, until, type Programs, type Test } from "./harness";
import { show, withPage } from "./pages";

export function clockTests(browser: Browser, programs: Programs): Test[] {
  return [
    ["the bar of a test clock says its date and moves it", async () => {
      const site = await Site.start(programs, () => ({ daemon: ["--test-clock=2030-03-30T10:00:00Z", "--test-clock-frozen"], console: [] }));
      try {
        await site.schedule({ topic: "trial", delay: "3600s" });
        await withPage(browser, site, async (page) => {
          await show(page, "#/overview");
          const bar = page.locator(".notice");
          // The tests' browser is in Tokyo.
          await page.getByText("2030-03-30 19:00:00, stands still").waitFor();
          await bar.getByRole("button", { name: "Next event" }).click();
          await page.getByText("2030-03-30 20:00:00, stands still").waitFor();
          await page.getByText("1 became due, 0 handed out.").waitFor();
          // The clock stands at the very time of the message.
          const due = page.locator(".tile", { hasText: "Due now" }).locator(".value");
          await until("the message is due", async () => (await due.innerText()) === "1");
          await bar.getByRole("button", { name: "+ 1 day" }).click();
          await page.getByText("2030-03-31 20:00:00, stands still").waitFor();
          // Without a pointer, a chart of lines tells its last values.
          const legend = page.locator(".u-legend", { hasText: "accepted/s" });
          await until("the legend tells a rate", async () => /accepted\/s:?\s*0/.test(await legend.innerText()));
        });
      } finally {
        await site.stop();
      }
    }],
  ];
}
