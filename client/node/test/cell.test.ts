// SPDX-License-Identifier: Apache-2.0
//
// Two servers, of which one leads or none.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Server, ServerCredentials, type ServiceDefinition } from '@grpc/grpc-js';

import { type Calls, Client, type ScheduleResponse, Settlement } from '../src';
import { rpcOf } from '../src/codec';
import { refusal } from './refusal';

// A server. It delivers its name once on each stream of a subscriber.
class Member {
  leads = false;
  // What its health says.
  serving = false;
  accepted = 0;
  refused = 0;
  address = '';
  readonly server = new Server();
  private readonly subscribers = new Set<{ emit(event: 'error', error: object): unknown }>();

  constructor(readonly name: string) {
    const unary = (_: unknown, answer: (error: object | null, response?: object) => void): void => {
      if (this.admits()) answer(null, {});
      else answer(refusal('NOT_LEADER'));
    };
    this.serve('Schedule', false, unary);
    this.serve('Reschedule', false, unary);
    this.serve('Subscribe', true, (stream) => {
      if (!this.admits()) return void stream.emit('error', refusal('NOT_LEADER'));
      stream.on('data', () => undefined).on('error', () => undefined);
      stream.write({ started: {}, deliveries: [{ messageId: name, leaseToken: name }] });
      this.subscribers.add(stream);
    });
    this.serve('ScheduleStream', true, (stream) => {
      if (!this.admits()) return void stream.emit('error', refusal('NOT_LEADER'));
      stream.on('data', () => stream.write({ results: [{ message: { id: name } }] }));
      stream.on('end', () => stream.end());
    });
    const same = (bytes: Buffer): Buffer => bytes;
    const check = {
      path: '/grpc.health.v1.Health/Check', requestStream: false, responseStream: false,
      requestSerialize: same, requestDeserialize: same, responseSerialize: same, responseDeserialize: same,
    };
    this.server.addService({ check } as ServiceDefinition, {
      check: (call: any, answer: any) => {
        assert.equal(call.request.toString(), '\x0a\x13duetime.v1.Messages');
        answer(null, Buffer.from([8, this.serving ? 1 : 2]));
      },
    });
  }

  async start(): Promise<void> {
    const port = await new Promise<number>((resolve, reject) => {
      this.server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound)));
    });
    this.address = `127.0.0.1:${port}`;
  }

  lead(): void {
    this.leads = this.serving = true;
  }

  leadSoon(): void {
    void sleep(300).then(() => this.lead());
  }

  resign(): void {
    this.leads = this.serving = false;
    for (const stream of this.subscribers) stream.emit('error', refusal('NOT_LEADER'));
    this.subscribers.clear();
  }

  private admits(): boolean {
    if (this.leads) ++this.accepted;
    else ++this.refused;
    return this.leads;
  }

  private serve(name: keyof Calls, streams: boolean, handler: (...words: any[]) => void): void {
    const { path, request, response } = rpcOf(name);
    const method = {
      path, requestStream: streams, responseStream: streams,
      requestSerialize: (value: object) => request.encode(value), requestDeserialize: (bytes: Buffer) => request.decode(bytes),
      responseSerialize: (value: object) => response.encode(value), responseDeserialize: (bytes: Buffer) => response.decode(bytes),
    };
    this.server.addService({ [name]: method } as ServiceDefinition, { [name]: handler });
  }
}

let a: Member;
let b: Member;
let client: Client;

beforeEach(async () => {
  a = new Member('a');
  b = new Member('b');
  await Promise.all([a.start(), b.start()]);
  client = new Client({ server: `${a.address},${b.address}` });
});

afterEach(() => {
  client.close();
  a.server.forceShutdown();
  b.server.forceShutdown();
});

const limits = { timeout: 15_000 };

test('calls follow the leader', limits, async () => {
  b.leadSoon();
  for (let i = 0; i < 10; ++i) await client.schedule({ topic: 't', delay: 0 });
  assert.deepEqual([a.refused, b.accepted], [0, 10]);
  b.resign();
  a.leadSoon();
  await client.schedule({ topic: 't', delay: 0 }); // waits for the next leader
  assert.equal(a.accepted, 1);
  b.leadSoon();
  a.server.forceShutdown(); // the leader is killed
  await client.schedule({ topic: 't', delay: 0 });
  assert.equal(b.accepted, 11);
});

test('a call that a standby refuses is made again, whatever it does', limits, async () => {
  a.serving = true; // it has not noticed yet that it leads no more
  void sleep(300).then(() => {
    a.serving = false;
    b.lead();
  });
  await client.reschedule({ messageId: 'm', delay: 0, etag: 'e' });
  assert.ok(a.refused > 1);
  assert.equal(b.accepted, 1);
});

test('a call that must not be repeated does not go to a leader that died before', limits, async () => {
  a.lead();
  await client.schedule({ topic: 't', delay: 0 });
  a.server.forceShutdown();
  b.lead();
  await sleep(100);
  await client.reschedule({ messageId: 'm', delay: 0, etag: 'e' });
  assert.equal(b.accepted, 1);
});

test('a subscriber follows the leader', limits, async () => {
  const delivered: string[] = [];
  // After NOT_LEADER the subscriber does not wait for so long.
  const backoff = { initial: 3_600_000, max: 3_600_000 };
  const subscriber = client.subscribe({ topic: 't', backoff }, ({ messageId }) => {
    delivered.push(messageId);
    return Settlement.leave();
  });
  a.leadSoon();
  while (delivered.length < 1) await sleep(10);
  a.resign();
  b.leadSoon();
  while (delivered.length < 2) await sleep(10);
  b.resign();
  await sleep(100);
  await subscriber.stop();
  assert.deepEqual(delivered, ['a', 'b']);
});

test('a stream of messages opens at the leader', limits, async () => {
  for (const leader of [a, b]) {
    leader.leadSoon();
    const at: string[] = [];
    const stream = client.scheduleStream({ onResult: (_, result) => at.push((result as ScheduleResponse).message!.id) });
    await stream.send([{ topic: 't', delay: 0 }]);
    await stream.finish();
    assert.deepEqual(at, [leader.name]);
    leader.resign();
    await client.schedule({ topic: 't', delay: 0 }, { timeout: 100 }).catch(() => undefined); // notices it
  }
  const late = client.scheduleStream({ onResult: () => undefined, answerTimeout: 100 });
  await assert.rejects(late.send([{ topic: 't', delay: 0 }]), { code: 'DEADLINE_EXCEEDED' });
  const empty = client.scheduleStream({ onResult: () => undefined });
  b.leadSoon();
  await empty.finish();
});

test('a wait for a leader ends with the deadline, with the signal, and with the client', limits, async () => {
  await assert.rejects(client.schedule({ topic: 't', delay: 0 }, { timeout: 100 }), { code: 'DEADLINE_EXCEEDED' });
  const controller = new AbortController();
  void sleep(100).then(() => controller.abort(new Error('enough')));
  await assert.rejects(client.schedule({ topic: 't', delay: 0 }, { signal: controller.signal }), { message: 'enough' });
  void sleep(100).then(() => client.close());
  await assert.rejects(client.schedule({ topic: 't', delay: 0 }), { code: 'CANCELLED' });
});

test('each address of several needs a port', () => {
  for (const server of ['127.0.0.1:1,', '127.0.0.1:1,host']) assert.throws(() => new Client({ server }), { code: 'INVALID_ARGUMENT' });
});
