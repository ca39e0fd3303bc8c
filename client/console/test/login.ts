// SPDX-License-Identifier: Apache-2.0
//
// The console for several people: HTTPS, and a login by the tokens of a daemon with access control and TLS.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { request, type APIRequestContext, type Browser, type Page } from "playwright-core";
import { Site, until, type Programs, type Test } from "./harness";
import { show } from "./pages";

export interface ClosedSite {
  site: Site;
  // By principal.
  tokens: Record<string, string>;
}

function run(program: string, words: string[]): string {
  const result = spawnSync(program, words, { encoding: "utf8" });
  assert.equal(result.status, 0, `${program} ${words.join(" ")}: ${result.stderr}`);
  return result.stdout;
}

// "ann" may do everything; "bob" may only read the topics of his team.
const rules = `
[[rule]]
who = ["ann"]
may = ["schedule", "cancel", "read", "read_payloads", "subscribe", "admin", "operate"]
topics = ["*"]

[[rule]]
who = ["bob"]
may = ["read"]
topics = ["bobs-*"]
`;

function makeToken(programs: Programs, directory: string, name: string): string {
  return run(programs.duetime, ["token", "create", name, "--file", join(directory, "tokens.toml")]).trim().split("\n").pop() ?? "";
}

export async function startWithLogin(programs: Programs): Promise<ClosedSite> {
  const tokens: Record<string, string> = {};
  const site = await Site.start(programs, (directory) => {
    const [cert, key] = [join(directory, "tls.crt"), join(directory, "tls.key")];
    run("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
      "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]);
    for (const name of ["ann", "bob"]) tokens[name] = makeToken(programs, directory, name);
    writeFileSync(join(directory, "access.toml"), rules);
    return {
      daemon: ["--tls-cert", cert, "--tls-key", key, "--tokens-file", join(directory, "tokens.toml"), "--access-file", join(directory, "access.toml")],
      console: ["--tls-ca", cert, "--login", "--serve-cert", cert, "--serve-key", key, "--public-host", "console.test"],
    };
  });
  return { site, tokens };
}

async function withRequests(run: (requests: APIRequestContext) => Promise<void>): Promise<void> {
  const requests = await request.newContext({ ignoreHTTPSErrors: true });
  try {
    await run(requests);
  } finally {
    await requests.dispose();
  }
}

const jsonHeaders = { "Content-Type": "application/json", "X-Duetime-Console": "1" };

async function connectTls(url: string): Promise<TLSSocket> {
  const socket = connect({ port: Number(new URL(url).port), host: "127.0.0.1", rejectUnauthorized: false });
  await once(socket, "secureConnect");
  // The console resets a connection that it cuts off.
  socket.on("error", () => {});
  socket.resume();
  return socket;
}

// The form of the page; the token goes in as a person pastes it.
async function logIn(page: Page, token: string): Promise<void> {
  await page.getByLabel("Token").fill(`${token}\n`.trimEnd());
  await page.getByRole("button", { name: "Log in" }).click();
}

export function loginTests(browser: Browser, programs: Programs, { site, tokens }: ClosedSite, shots: string): Test[] {
  const withPage = async (run: (page: Page) => Promise<void>, options: object = {}): Promise<void> => {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 }, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    try {
      await page.goto(`${site.url}/`);
      await run(page);
    } finally {
      await context.close();
    }
  };
  const call = (requests: APIRequestContext, headers: Record<string, string>, name = "Admin/ListTopics") =>
    requests.post(`${site.url}/api/duetime.v1.${name}`, { headers: { ...jsonHeaders, ...headers }, data: "{}" });

  return [
    ["login: nothing but the files of the page is for strangers", () => withRequests(async (requests) => {
      assert.equal((await requests.get(`${site.url}/`)).status(), 200);
      const bad = ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer a b", "Bearer ä", `Bearer ${"x".repeat(6_001)}`];
      for (const [path, post] of [["/console.json", false], ["/metrics", false], ["/history.json", false], ["/history.json?topic=bobs-orders", false], ["/api/duetime.v1.Admin/ListTopics", true]] as const) {
        for (const Authorization of bad) {
          const headers = { ...jsonHeaders, ...(Authorization === "" ? {} : { Authorization }) };
          const answer = await requests.fetch(`${site.url}${path}`, { method: post ? "POST" : "GET", headers, data: post ? "{}" : undefined }).catch(() => undefined);
          // The test's own library refuses some of them.
          if (answer === undefined) continue;
          assert.equal(answer.status(), 401, `${path} ${Authorization}`);
          assert.match(await answer.text(), /LOGIN_REQUIRED/);
        }
      }
      assert.match(await (await call(requests, { Authorization: "Bearer nonsense" })).text(), /INVALID_CREDENTIALS/);
    })],
    ["login: each person has their own rights, and never those of the console", () => withRequests(async (requests) => {
      const as = (name: string) => ({ Authorization: `Bearer ${tokens[name]}` });
      const create = await requests.post(`${site.url}/api/duetime.v1.Admin/CreateTopic`, {
        headers: { ...jsonHeaders, ...as("ann") }, data: JSON.stringify({ topic: { name: "bobs-topic" } }) });
      assert.equal(create.status(), 200, await create.text());
      for (const [name, status] of [["ann", 200], ["bob", 403]] as const) {
        for (const path of ["/metrics", "/history.json"]) {
          assert.equal((await requests.get(`${site.url}${path}`, { headers: as(name) })).status(), status, `${name} ${path}`);
        }
        const about = await requests.get(`${site.url}/console.json`, { headers: as(name) });
        assert.equal((await about.json()).principal, name);
      }
      const paused = await requests.post(`${site.url}/api/duetime.v1.Admin/PauseTopic`, {
        headers: { ...jsonHeaders, ...as("bob") }, data: JSON.stringify({ name: "bobs-topic" }) });
      assert.equal(paused.status(), 403);
      assert.match(await paused.text(), /PERMISSION_DENIED/);
    })],
    ["login: by the form, and out", () => withPage(async (page) => {
      await logIn(page, "nonsense");
      await page.getByText("The server refused the token").waitFor();
      await logIn(page, tokens.ann ?? "");
      await page.locator('main[data-page="overview"] h1').first().waitFor();
      await show(page, "#/topics");
      assert.deepEqual(await page.context().cookies(), [], "nothing that a browser would send by itself");
      await page.reload();
      await page.locator('main[data-page="topics"] h1').first().waitFor();
      await page.getByRole("button", { name: "Log out" }).click();
      await page.getByLabel("Token").waitFor();
      await page.reload();
      await page.getByLabel("Token").waitFor();
    })],
    ["login: a token that is revoked while the page is open ends the visit", async () => {
      const token = makeToken(programs, site.directory, "ann");
      const file = join(site.directory, "tokens.toml");
      const all = readFileSync(file, "utf8");
      const id = /id = '([^']+)'/.exec(all.slice(all.lastIndexOf("[[token]]")))?.[1] ?? "";
      await withPage(async (page) => {
        await until("the daemon knows the token", async () => {
          await logIn(page, token);
          return await page.locator('main[data-page="overview"] h1').first().waitFor({ timeout: 1_500 }).then(() => true, () => false);
        });
        run(programs.duetime, ["token", "revoke", id, "--file", file]);
        await page.getByText("The server refused the token").waitFor();
        assert.equal(await page.evaluate(() => sessionStorage.length), 0);
      });
    }],
    ["login: another site, even in the same browser, gets nothing", async () => {
      const other = createServer((_request, response) => response.end("other"));
      await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
      await withPage(async (page) => {
        await logIn(page, tokens.ann ?? "");
        await page.locator('main[data-page="overview"] h1').first().waitFor();
        const second = await page.context().newPage();
        await second.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
        for (const headers of [{}, { Authorization: "Bearer x" }]) {
          const read = await second.evaluate(([url, more]) => fetch(`${url}/console.json`, { headers: more as Record<string, string>, credentials: "include" })
            .then((answer) => answer.text()).catch(() => "refused"), [site.url, headers] as const);
          assert.equal(read, "refused");
        }
      }).finally(() => other.close());
    }],
    ["login: only under its own names, and only by HTTPS", () => withRequests(async (requests) => {
      const port = new URL(site.url).port;
      const hosts: [string, number][] = [["console.test", 200], [`127.0.0.1:${port}`, 200], ["evil.test", 403], [`console.test:${port}`, 403]];
      for (const [host, status] of hosts) {
        assert.equal((await requests.get(`${site.url}/`, { headers: { Host: host } })).status(), status, host);
      }
      const plain = await call(requests, { Origin: "http://console.test", Host: "console.test" });
      assert.match(await plain.text(), /FOREIGN_ORIGIN/);
      await assert.rejects(requests.get(`http://127.0.0.1:${port}/`, { timeout: 3_000 }));
    })],
    ["login: ten refused tokens, and the address waits", () => withRequests(async (requests) => {
      const own = await Site.start(programs, () => ({
        daemon: ["--tls-cert", join(site.directory, "tls.crt"), "--tls-key", join(site.directory, "tls.key"), "--tokens-file", join(site.directory, "tokens.toml")],
        console: ["--tls-ca", join(site.directory, "tls.crt"), "--login"],
      }));
      const visit = (token: string) => requests.get(`${own.url}/console.json`, { headers: { Authorization: `Bearer ${token}` } });
      try {
        assert.equal((await visit(tokens.ann ?? "")).status(), 200);
        for (let tries = 0; tries <= 10; ++tries) {
          assert.equal((await visit("wrong")).status(), tries < 10 ? 401 : 429);
        }
        assert.equal((await visit(tokens.bob ?? "")).status(), 429, "who is new behind the same proxy waits, too");
        assert.equal((await visit(tokens.ann ?? "")).status(), 200, "who is logged in goes on");
      } finally {
        await own.stop();
      }
    })],
    ["login: a head without an end is cut off", async () => {
      const socket = await connectTls(site.url);
      const closed = new Promise((resolve) => socket.once("close", resolve));
      const line = `x: ${"a".repeat(8_000)}\r\n`;
      socket.write("GET / HTTP/1.1\r\n");
      // The library itself would keep all of them.
      for (let sent = 0; sent < 32 << 20 && !socket.destroyed; sent += line.length) {
        if (!socket.write(line)) await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), closed]);
      }
      assert.ok(socket.destroyed, "32 MiB of headers");
    }],
    ["login: a request that comes byte by byte is cut off", async () => {
      const socket = await connectTls(site.url);
      const begin = Date.now();
      socket.write("GET / HTTP/1.1\r\nx: ");
      while (!socket.destroyed && Date.now() - begin < 40_000) {
        socket.write("a");
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      }
      const seconds = (Date.now() - begin) / 1_000;
      assert.ok(seconds > 10 && seconds < 30, `${seconds} s`);
    }],
    ["login: a body of the greatest size passes", () => withRequests(async (requests) => {
      const answer = await requests.post(`${site.url}/api/duetime.v1.Messages/Schedule`, {
        headers: { ...jsonHeaders, Authorization: `Bearer ${tokens.bob}` }, data: `{"topic": "x", "key": "${"a".repeat((2 << 20) - 100)}"}` });
      assert.match(await answer.text(), /PERMISSION_DENIED|KEY_TOO_LONG|INVALID/);
    })],
    ["login: what would open the console to everybody is refused at the start", () => {
      const open = ["console", "--assets", programs.assets];
      const tls = ["--tls-ca", join(site.directory, "tls.crt")];
      const serve = ["--serve-cert", join(site.directory, "tls.crt"), "--serve-key", join(site.directory, "tls.key")];
      writeFileSync(join(site.directory, "one.token"), tokens.ann ?? "");
      const cases: [RegExp, string[]][] = [
        [/ssh -L/, ["--listen", "0.0.0.0:0"]],
        [/ssh -L/, ["--listen", "0.0.0.0:0", "--login"]],
        [/ssh -L/, ["--listen", "0.0.0.0:0", ...serve]],
        [/--public-host/, ["--listen", "0.0.0.0:0", "--login", ...tls, ...serve]],
        [/must have none/, ["--login", ...tls, "--token-file", join(site.directory, "one.token")]],
        [/use TLS/, ["--listen", "127.0.0.1:0", "--login", "--server", "10.0.0.1:7788"]],
        [/--serve-key/, ["--serve-cert", join(site.directory, "tls.crt")]],
        [/not a certificate/, ["--listen", "127.0.0.1:0", "--serve-cert", join(site.directory, "tls.key"), "--serve-key", join(site.directory, "tls.key")]],
        [/--public-host is a name/, ["--public-host", "https://x"]],
      ];
      for (const [text, words] of cases) {
        const result = spawnSync(programs.duetime, [...open, ...words], { encoding: "utf8", timeout: 20_000 });
        assert.notEqual(result.status, 0, words.join(" "));
        assert.match(result.stderr, text);
      }
    }],
    ["login: a daemon that asks for no tokens gets no login", async () => {
      await assert.rejects(Site.start(programs, () => ({ daemon: [], console: ["--login"] })), /exit/);
    }],
    ...([["wide", 1280, "light"], ["narrow", 390, "dark"]] as const).map(([name, width, colorScheme]): Test =>
      [`login: as a picture, ${name}`, () => withPage(async (page) => {
        mkdirSync(shots, { recursive: true });
        await logIn(page, "nonsense");
        await page.getByText("The server refused the token").waitFor();
        await page.screenshot({ path: join(shots, `login-${name}.png`) });
        await logIn(page, tokens.ann ?? "");
        await page.getByRole("button", { name: "Log out" }).waitFor();
        await page.screenshot({ path: join(shots, `logged-in-${name}.png`) });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${wide} pixels too wide`);
      }, { viewport: { width, height: 800 }, colorScheme })]),
  ];
}
