// SPDX-License-Identifier: Apache-2.0
//
// What the library does when a function of the user throws, and what it logs.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Server, ServerCredentials, type ServiceDefinition, status } from '@grpc/grpc-js';

import { type Calls, Client, DuetimeError, type Logger, Settlement } from '../src';
import { metadataOf } from '../src/channel';
import { rpcOf } from '../src/codec';
import { ConnectionLog, Log, Rarely } from '../src/log';

const limits = { timeout: 15_000 };
let server: Server;
let address: string;
// The times at which streams of subscribers were opened, and the settlements that the server got.
const opened: number[] = [];
const settled: string[] = [];

function serve(name: keyof Calls, handler: (stream: any) => void): void {
  const { path, request, response } = rpcOf(name);
  const method = {
    path, requestStream: true, responseStream: true,
    requestSerialize: (value: object) => request.encode(value), requestDeserialize: (bytes: Buffer) => request.decode(bytes),
    responseSerialize: (value: object) => response.encode(value), responseDeserialize: (bytes: Buffer) => response.decode(bytes),
  };
  server.addService({ [name]: method } as ServiceDefinition, { [name]: handler });
}

async function start(port = 0): Promise<void> {
  server = new Server();
  // Delivers one message, and breaks the stream when it is settled.
  serve('Subscribe', (stream) => {
    opened.push(performance.now());
    stream.on('error', () => undefined).on('data', ({ start: first, settlements }: any) => {
      if (first?.topic === 'none') stream.emit('error', { code: status.NOT_FOUND, details: 'no such topic' });
      else if (first !== undefined) stream.write({ started: {}, deliveries: [{ messageId: 'm', leaseToken: 't' }] });
      const [settlement] = settlements;
      if (settlement === undefined || settlement.release !== undefined) return;
      settled.push(settlement.nack?.reason ?? 'ack');
      stream.emit('error', { code: status.UNAVAILABLE, details: 'broken' });
    });
  });
  serve('ScheduleStream', (stream) => {
    let first = 0n;
    stream.on('end', () => stream.end()).on('data', ({ messages }: any) => {
      stream.write({ first, results: messages.map(() => ({ message: {} })) });
      first += BigInt(messages.length);
    });
  });
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, got) => (error ? reject(error) : resolve(got)));
  });
  address = `127.0.0.1:${bound}`;
}

before(() => start());
after(() => server.forceShutdown());

function collector(): { lines: string[]; logger: Logger } {
  const lines: string[] = [];
  const add = (level: string) => (text: string): void => void lines.push(`${level} ${text}`);
  return { lines, logger: { info: add('info'), warn: add('warn'), error: add('error') } };
}

// Ways to fail. The last one has no text.
const FAILURES: (() => any)[] = [
  () => {
    throw new Error('broke');
  },
  () => Promise.reject(new Error('broke')),
  () => {
    throw Object.create(null);
  },
  () => Promise.reject(),
];

test('a subscriber goes on when each of its callbacks throws, and logs it', limits, async () => {
  for (const fail of FAILURES) {
    for (const loggerFails of [false, true]) {
      opened.length = settled.length = 0;
      const { lines, logger } = collector();
      const client = new Client({ server: address, logger: loggerFails ? { info: fail, warn: fail, error: fail } : logger });
      const subscriber = client.subscribe({ topic: 't', onDisconnect: fail, backoff: { initial: 0, max: 0 } }, fail);
      while (settled.length < 3) await sleep(5);
      await subscriber.stop({ confirmTimeout: 0 });
      assert.equal(await subscriber.ended, undefined);
      client.close();
      assert.ok(!settled.includes('ack'));
      if (loggerFails) continue;
      assert.equal(lines.filter((line) => line.startsWith('error duetime: a handler threw')).length, 1, 'rarely');
      assert.ok(lines.filter((line) => line.startsWith('error duetime: onDisconnect threw: ')).length >= 2);
    }
  }
});

test('a stream of messages goes on when onResult throws', limits, async () => {
  for (const fail of FAILURES) {
    const { lines, logger } = collector();
    const client = new Client({ server: address, logger });
    const stream = client.scheduleStream({ onResult: fail });
    for (let frame = 0; frame < 3; ++frame) await stream.send([{ topic: 't', delay: 0 }, { topic: 't', delay: 0 }]);
    await stream.finish();
    await sleep(0);
    assert.equal(stream.answered, 6);
    assert.equal(lines.filter((line) => line.startsWith('error duetime: onResult threw: ')).length, 6);
    client.close();
  }
});

test('a function that gives no token is an error of the call', async () => {
  for (const fail of [...FAILURES, () => 'with\nlines']) await assert.rejects(metadataOf(fail), { name: 'Error', message: /^no token: / });
});

test('a backoff of zero does not spin', limits, async () => {
  opened.length = 0;
  const client = new Client({ server: address, logger: collector().logger });
  const subscriber = client.subscribe({ topic: 't', backoff: { initial: 0, max: 0, multiplier: 0 } }, () => undefined);
  while (opened.length < 5) await sleep(5);
  await subscriber.stop({ confirmTimeout: 0 });
  client.close();
  // Timers of Node.js may be a little early.
  assert.ok(opened[4]! - opened[0]! > 4 * 45, `4 reconnections within ${opened[4]! - opened[0]!} ms`);
});

test('the log names each change of the connection once, and a failure that lasts ever more rarely', () => {
  const { lines, logger } = collector();
  const log = new ConnectionLog(new Log(logger), 'it', 'there');
  const unreachable = new DuetimeError('UNAVAILABLE', 'ECONNREFUSED');
  const full = new DuetimeError('RESOURCE_EXHAUSTED', 'too many', { reason: 'STREAM_LIMIT' });
  for (let second = 0; second < 100; ++second) log.onFailure(unreachable, second * 1_000);
  log.onFailure(full, 150_000);
  log.onOpen(151_000);
  log.onFailure(undefined, 160_000);
  log.onFailure(unreachable, 161_000);
  log.onOpen(162_000);
  log.onFailure(unreachable, 163_000);
  log.onRefusal(new DuetimeError('NOT_FOUND', 'no topic'));
  assert.deepEqual(lines, [
    ...Array(4).fill('warn duetime: it cannot reach there: ECONNREFUSED'), // at 0, 10, 30 and 70 s
    'warn duetime: it is refused for now by there: too many',
    'warn duetime: it is connected to there after 151 s',
    'warn duetime: it lost there: the server ended the stream',
    'warn duetime: it is back at there after 2 s',
    'warn duetime: it lost there: ECONNREFUSED',
    'error duetime: it is refused by there and ends: NOT_FOUND: no topic',
  ]);
  const rarely = new Rarely();
  const hits = Array.from({ length: 3_600 }, (_, i) => i * 5).filter((second) => rarely.may(second * 1_000));
  assert.deepEqual(hits, [0, 10, 30, 70, 150, 310, 630, 1270, 2550, 5110, 8710, 12310, 15910]);
});

test('a subscriber logs its connection', limits, async () => {
  const client = (logger: Logger): Client => new Client({ server: address, logger });
  const fast = { backoff: { initial: 50, max: 50 } };
  const refused = collector();
  await client(refused.logger).subscribe({ topic: 'none', ...fast }, () => undefined).ended;
  assert.match(refused.lines.join('\n'), /^error duetime: the subscriber of topic none, subscription default, is refused by .*no such topic$/);

  server.forceShutdown();
  const { lines, logger } = collector();
  const subscriber = client(logger).subscribe({ topic: 't', subscription: 's', ...fast }, () => Settlement.leave());
  const logged = async (count: number): Promise<void> => {
    while (lines.length < count) await sleep(10);
  };
  await logged(1);
  await sleep(200);
  await start(Number(address.split(':')[1]));
  await logged(2);
  server.forceShutdown();
  await logged(3);
  await start(Number(address.split(':')[1]));
  await logged(4);
  await subscriber.stop({ confirmTimeout: 0 });
  const what = [/cannot reach 127.0.0.1:\d+: .*ECONNREFUSED/, /is connected to .* after \d+ s$/, /lost /, /is back at .* after \d+ s$/];
  assert.equal(lines.length, what.length, lines.join('\n'));
  for (const [index, pattern] of what.entries()) assert.match(lines[index]!, pattern);
});
