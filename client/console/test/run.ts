// SPDX-License-Identifier: Apache-2.0
//
// The tests of the page, in a real browser against a real daemon and console. The last line is "N passed, N failed".
//
//   node build/test/run.js [--duetimed FILE] [--duetime FILE] [--assets DIR] [--shots DIR] [--only TEXT]

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { chromium } from "playwright-core";
import { attackTests } from "./attacks";
import { changeTests } from "./changes";
import { clockTests } from "./clock";
import { runTests, Site, type Programs, type Test } from "./harness";
import { loginTests, startWithLogin } from "./login";
import { pageTests } from "./pages";
import { fillHostile, fillLittle } from "./samples";
import { unitTests } from "./unit";
import { viewTests } from "./views";

function option(name: string, otherwise: string): string {
  const at = process.argv.indexOf(name);
  return resolve(at < 0 ? otherwise : (process.argv[at + 1] ?? otherwise));
}

async function main(): Promise<boolean> {
  const programs: Programs = {
    duetimed: option("--duetimed", "../../build/release/server/duetimed"),
    duetime: option("--duetime", "../../build/release/client/cli/duetime"),
    assets: option("--assets", "dist"),
  };
  const shots = option("--shots", "../../build/console-shots");
  const only = process.argv.includes("--only") ? process.argv[process.argv.indexOf("--only") + 1] ?? "" : "";
  const path = ["/usr/bin/chromium", "/usr/bin/google-chrome"].find(existsSync);
  const browser = await chromium.launch({ executablePath: path, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  const sites = await Promise.all([Site.start(programs), Site.start(programs), Site.start(programs)]);
  const [empty, little, hostile] = sites as [Site, Site, Site];
  const closed = await startWithLogin(programs);
  sites.push(closed.site);
  await Promise.all([fillLittle(little), fillHostile(hostile)]);
  const tests: Test[] = [
    ...unitTests(),
    ...pageTests(browser, { empty, little, hostile }, shots),
    ...viewTests(browser, little),
    ...attackTests(browser, hostile),
    ...changeTests(browser, little),
    ...clockTests(browser, programs),
    ...loginTests(browser, programs, closed, shots),
  ];
  const { passed, failed } = await runTests(tests.filter(([name]) => name.includes(only)));
  await browser.close();
  for (const site of sites) await site.stop();
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0;
}

// What a failed test left open does not keep this program.
process.exit((await main()) ? 0 : 1);
