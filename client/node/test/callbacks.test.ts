// SPDX-License-Identifier: Apache-2.0
//
// What the library does when a function of the user throws.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Server, ServerCredentials, type ServiceDefinition, status } from '@grpc/grpc-js';

import { type Calls, Client, type Logger } from '../src';
import { metadataOf } from '../src/channel';
import { rpcOf } from '../src/codec';

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

async function start(): Promise<void> {
  server = new Server();
  // Delivers one message, and breaks the stream when it is settled.
  serve('Subscribe', (stream) => {
    opened.push(performance.now());
    stream.on('error', () => undefined).on('data', ({ start: first, ack, nack }: any) => {
      if (first !== undefined) stream.write({ started: {}, deliveries: [{ messageId: 'm', leaseToken: 't' }] });
      if (ack.length + nack.length === 0) return;
      settled.push(ack.length > 0 ? 'ack' : nack[0].reason);
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
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, got) => (error ? reject(error) : resolve(got)));
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
      await subscriber.stop();
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
  await subscriber.stop();
  client.close();
  // Timers of Node.js may be a little early.
  assert.ok(opened[4]! - opened[0]! > 4 * 45, `4 reconnections within ${opened[4]! - opened[0]!} ms`);
});
