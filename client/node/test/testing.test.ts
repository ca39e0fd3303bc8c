// SPDX-License-Identifier: Apache-2.0
//
// duetime/testing against the built daemon: the tests of the README, and what may go wrong.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { START, TestServer, testServer } from '../src/testing';

const here = process.env.DUETIMED || (process.env.PATH ?? '').split(':').some((folder) => {
  try {
    return readdirSync(folder).includes('duetimed');
  } catch {
    return false;
  }
});
const limits = { timeout: 60_000, skip: here ? false : 'needs DUETIMED, or duetimed on PATH' };
const hour = 3_600_000;

// Of this process, and without the mark by which a runner of tests knows its children.
const { NODE_TEST_CONTEXT: _, ...environment } = process.env;

test('the tests of the README pass', limits, () => {
  const readme = readFileSync(join(__dirname, '../../README.md'), 'utf8');
  const [, block] = /```js\n(const assert = [^]*?)```/.exec(readme)!;
  const program = join(__dirname, 'readme_tests.js'); // here, so that it finds the package by its name
  writeFileSync(program, block!);
  const { status, stdout, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8', env: environment });
  assert.ok(status === 0 && /pass 3\b/.test(stdout), stdout + stderr);
});

if (here) {
  const server = testServer({ beforeEach, afterEach });

  test('the clock moves by request only', limits, async () => {
    const { clock } = server();
    assert.deepEqual(await clock.now(), START);
    await clock.advance(hour);
    await clock.advanceTo(new Date(START.getTime() + 48 * hour));
    await server().client().schedule({ topic: 'next', delay: hour });
    assert.equal((await clock.next()).fired, 1n);
    assert.deepEqual(await clock.now(), new Date(START.getTime() + 49 * hour));
    assert.equal((await clock.next({ until: new Date(START.getTime() + 50 * hour) })).stop, 'STOP_NOTHING');
    await assert.rejects(clock.advanceTo(START), { code: 'INVALID_ARGUMENT', reason: 'INVALID_CLOCK' });
  });

  test('idle waits for handlers, and a move for its timeout', limits, async () => {
    let ended = 0;
    await server().subscribe({ topic: 'slow' }, async () => {
      await sleep(300);
      ++ended;
    });
    const client = server().client();
    await client.schedule({ topic: 'slow', delay: 0 });
    await server().idle();
    assert.equal(ended, 1);
    assert.deepEqual(await server().clock.now(), START);
    await client.schedule({ topic: 'slow', delay: hour });
    const held = server().clock.advance({ hours: 2 }, { timeout: 50 });
    await assert.rejects(held, { code: 'DEADLINE_EXCEEDED', message: /subscribers have messages/ });
    const { time, attempt } = server().deliveries('slow').at(-1)!;
    assert.deepEqual([time, attempt], [new Date(START.getTime() + hour), 1]);
    await assert.rejects(server().awaitSubscribers('nobody', 1, { timeout: 0 }), /has 0 subscribers/);
  });
}

test('a killed test leaves no server', limits, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'killed-'));
  const program = `require('duetime/testing').TestServer.start().then(({ address }) => console.log(address)); setInterval(() => {}, 1e6);`;
  const child = spawn(process.execPath, ['-e', program], {
    cwd: join(__dirname, '../..'), env: { ...environment, TMPDIR: folder }, stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout!, 'data');
  assert.equal(readdirSync(folder).length, 1);
  child.kill('SIGKILL');
  for (const end = performance.now() + 30_000; readdirSync(folder).length > 0; await sleep(5)) assert.ok(performance.now() < end);
  rmSync(folder, { recursive: true });
});

test('a server that cannot start says why', limits, async () => {
  const cases = [[{ binary: '/nowhere/duetimed' }, /or on PATH/], [{ at: new Date('2300-01-01') }, /test_clock/],
    [{ binary: 'false' }, /did not start/]] as const;
  for (const [options, text] of cases) {
    await assert.rejects(TestServer.start(options), { code: 'FAILED_PRECONDITION', message: text });
  }
});
