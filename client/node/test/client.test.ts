// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';

import { Metadata, Server, ServerCredentials, type ServerUnaryCall, type ServiceError, status } from '@grpc/grpc-js';

import { type Calls, Client, DuetimeError, type NewMessage, type RescheduleRequest, type ScheduleRequest } from '../src';
import { ADMIN_CALLS, codecOfName, rpcOf } from '../src/codec';
import { Backoff } from '../src/backoff';
import { RetryBudget } from '../src/retry_budget';
import { fittingReason } from '../src/settlement';

type Answer = (error: Partial<ServiceError> | null, response?: object) => void;
type Unary = (call: ServerUnaryCall<any, any>, answer: Answer) => void;

// What the server does with the next calls, and the requests that it got.
let behaviour: Unary = () => undefined;
const requests: object[] = [];
const server = new Server();
let address: string;
let client: Client;
const FAST = { backoff: { initial: 1, max: 2 } };

function serve(name: keyof Calls): void {
  const { path, request, response } = rpcOf(name);
  const definition = {
    path, requestStream: false, responseStream: false,
    requestSerialize: (value: object) => request.encode(value), requestDeserialize: (bytes: Buffer) => request.decode(bytes),
    responseSerialize: (value: object) => response.encode(value), responseDeserialize: (bytes: Buffer) => response.decode(bytes),
  };
  server.addService({ [name]: definition }, {
    [name]: (call: ServerUnaryCall<any, any>, answer: Answer) => {
      requests.push(call.request);
      behaviour(call, answer);
    },
  });
}

before(async () => {
  for (const name of ['Schedule', 'Reschedule'] as const) serve(name);
  for (const { name } of ADMIN_CALLS) serve(name);
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound)));
  });
  address = `127.0.0.1:${port}`;
  client = new Client({ server: address, ...FAST });
});

after(() => {
  client.close();
  server.forceShutdown();
});

function unavailable(times: number, response: object): Unary {
  requests.length = 0;
  return (_, answer) => (requests.length <= times ? answer({ code: status.UNAVAILABLE, details: 'later' }) : answer(null, response));
}

test('schedule repeats the same request id after UNAVAILABLE', async () => {
  behaviour = unavailable(2, { outcome: 'SCHEDULE_OUTCOME_CREATED' });
  assert.equal((await client.schedule({ topic: 't', delay: 1000 })).outcome, 'SCHEDULE_OUTCOME_CREATED');
  const ids = requests.map((request) => (request as ScheduleRequest).requestId);
  assert.equal(ids.length, 3);
  assert.equal(new Set(ids).size, 1);
  assert.match(ids[0]!, /.{20}/);
});

test('a call is repeated until it succeeds, or has had its tries', async () => {
  behaviour = unavailable(10, {});
  await client.schedule({ topic: 't', delay: 0 });
  assert.equal(requests.length, 11);
  behaviour = unavailable(5, {});
  const limited = new Client({ server: address, ...FAST, triesMax: 4 });
  await assert.rejects(limited.schedule({ topic: 't', delay: 0 }), { code: 'UNAVAILABLE' });
  assert.equal(requests.length, 4);
  limited.close();
});

test('the last tries of a call are before its deadline, however long the waits are', async () => {
  const own = new Client({ server: address, backoff: { initial: 3_600_000, max: 3_600_000 }, timeout: 1_000 });
  behaviour = unavailable(2, {});
  await own.schedule({ topic: 't', delay: 0 });
  assert.equal(requests.length, 3);
  own.close();
});

test('a client without budget waits and makes no tries', { timeout: 15_000 }, async () => {
  const own = new Client({ server: address, ...FAST, timeout: 3_000 });
  behaviour = unavailable(Infinity, {});
  await assert.rejects(own.schedule({ topic: 't', delay: 0 }), { code: 'UNAVAILABLE' });
  // 100 repeats, and one more for each second.
  assert.ok(requests.length > 100 && requests.length <= 105, `${requests.length} tries`);
  behaviour = unavailable(1, {});
  await own.schedule({ topic: 't', delay: 0 }); // it waits for its token
  own.close();
});

test('repeats that succeed cost no budget', { timeout: 15_000 }, async () => {
  const own = new Client({ server: address, ...FAST });
  for (let call = 0; call < 300; ++call) {
    behaviour = unavailable(1, {});
    await own.schedule({ topic: 't', delay: 0 });
  }
  own.close();
});

test('repeats that the server refuses cost no budget', { timeout: 15_000 }, async () => {
  const own = new Client({ server: address, ...FAST });
  for (let call = 0; call < 300; ++call) {
    behaviour = (_, answer) => answer({ code: requests.length > 1 ? status.NOT_FOUND : status.UNAVAILABLE, details: 'no' });
    requests.length = 0;
    await assert.rejects(own.schedule({ topic: 't', delay: 0 }), { code: 'NOT_FOUND' });
  }
  own.close();
});

test('the budget holds what calls and time add', () => {
  const drain = (budget: RetryBudget, now: number): number => {
    let tokens = 0;
    while (budget.take(now)) ++tokens;
    return tokens;
  };
  for (const [calls, givenBack, milliseconds, tokens] of [
    [0, 0, 0, 0], [9, 0, 0, 0], [10, 0, 0, 1], [25, 0, 0, 2], [0, 0, 999, 0], [0, 0, 1_000, 1], [5, 0, 500, 1], [0, 3, 0, 6],
    [10, 1, 7_500, 10], [0, 0, -5_000, 0], [2_000, 0, 0, 100], [0, 200, 0, 100], [0, 0, 1e9, 100], [600, 60, 60_000, 100],
  ] as const) {
    const budget = new RetryBudget(7);
    assert.equal(drain(budget, 7), 100);
    for (let i = 0; i < calls; ++i) budget.onCall();
    for (let i = 0; i < givenBack; ++i) budget.giveBack();
    assert.equal(drain(budget, 7 + milliseconds), tokens, `${calls} calls, ${givenBack} given back, ${milliseconds} ms`);
  }
  const full = new RetryBudget(0);
  full.onCall();
  full.giveBack();
  assert.equal(drain(full, 1e9), 100);
});

test('a reschedule with an etag is not repeated', async () => {
  behaviour = unavailable(1, {});
  await assert.rejects(client.reschedule({ messageId: 'm', delay: 0, etag: 'e' }), { name: 'DuetimeError', code: 'UNAVAILABLE' });
  assert.equal((requests[0] as RescheduleRequest).etag, 'e');
  assert.equal(requests.length, 1);
});

test('an error has the details that the server sent', async () => {
  const detail = (type: string, fields: object): object =>
    ({ type_url: `type.googleapis.com/google.rpc.${type}`, value: codecOfName(`google.rpc.${type}`).encode(fields) });
  const details = codecOfName('google.rpc.Status').encode({
    details: [
      detail('ErrorInfo', { reason: 'MINUTE_FULL', metadata: { topic: 't' } }),
      detail('BadRequest', { fieldViolations: [{ field: 'topic', description: 'd' }] }),
      detail('RetryInfo', { retryDelay: 1500 }),
    ],
  });
  const metadata = new Metadata();
  metadata.set('grpc-status-details-bin', details);
  behaviour = (_, answer) => answer({ code: status.RESOURCE_EXHAUSTED, details: 'full', metadata });
  const error = await client.schedule({ topic: 't', delay: 0 }).catch((caught: unknown) => caught);
  assert.ok(error instanceof DuetimeError);
  assert.deepEqual([error.code, error.reason, error.message, error.retryDelay], ['RESOURCE_EXHAUSTED', 'MINUTE_FULL', 'full', 1500]);
  assert.deepEqual(error.metadata, { topic: 't' });
  assert.equal(error.fieldViolations[0]!.field, 'topic');
});

test('a signal cancels a call, which throws the reason of the signal', { timeout: 5_000 }, async () => {
  const controller = new AbortController();
  let cancelled: Promise<unknown> | undefined;
  behaviour = (call) => {
    cancelled = once(call, 'cancelled');
    controller.abort(new Error('enough'));
  };
  const call = client.schedule({ topic: 't', delay: 0 }, { signal: controller.signal, timeout: 60_000 });
  await assert.rejects(call, { message: 'enough' });
  await cancelled;
});

test('each call of the service Admin is a method, which is repeated as its option says', async () => {
  assert.ok(ADMIN_CALLS.length > 20);
  for (const { name, items } of ADMIN_CALLS) {
    behaviour = unavailable(1, {});
    const { repeat } = rpcOf(name);
    const result = (client as any)[name[0]!.toLowerCase() + name.slice(1)]({});
    const error = await (items === undefined ? result : result.pages().next()).then(() => undefined, (caught: Error) => caught);
    if (repeat === 'CALL_REPEAT_ONCE') assert.equal(error?.code, 'UNAVAILABLE', name);
    else assert.equal(error, undefined, name);
    assert.equal(requests.length, repeat === 'CALL_REPEAT_ONCE' ? 1 : 2, name);
    assert.deepEqual(requests[0], requests.at(-1), name);
    if (repeat === 'CALL_REPEAT_IF_NAMED') assert.match((requests[0] as { name: string }).name, /.{20}/);
  }
});

test('a list reads all pages, also after an empty one', async () => {
  const pages = [{ topics: [{ name: 'a' }], nextPageToken: '1' }, { nextPageToken: '2' }, { topics: [{ name: 'b' }] }];
  behaviour = (call, answer) => answer(null, pages[Number(call.request.pageToken)]);
  const names = [];
  for await (const { name } of client.listTopics()) names.push(name);
  assert.deepEqual(names, ['a', 'b']);
});

test('a wrong value is an error of the library, before anything is sent', async () => {
  requests.length = 0;
  const wrong = { name: 'DuetimeError', code: 'INVALID_ARGUMENT', reason: '', message: /no field delya/ };
  const message = { topic: 't', delya: 1000 } as object as NewMessage;
  await assert.rejects(client.schedule(message), wrong);
  const stream = client.scheduleStream({ onResult: () => undefined });
  await assert.rejects(stream.send([message]), wrong);
  stream.cancel();
  assert.throws(() => client.subscribe({ topic: 7 as unknown as string }, () => undefined), { code: 'INVALID_ARGUMENT' });
  assert.equal(requests.length, 0);
});

test('a call of a closed client is an error of the library', async () => {
  const closed = new Client({ server: address });
  closed.close();
  await assert.rejects(closed.schedule({ topic: 't', delay: 0 }), { name: 'DuetimeError', code: 'CANCELLED' });
});

test('options that contradict each other are refused', () => {
  assert.throws(() => new Client({ token: 'secret' }), { code: 'INVALID_ARGUMENT' });
  assert.throws(() => new Client({ tls: { cert: 'c' } }), { code: 'INVALID_ARGUMENT' });
  assert.throws(() => new Client({ tls: { ca: '/etc/ca.pem' } }), { code: 'INVALID_ARGUMENT', message: /tls.ca is no PEM/ });
});

test('each wait is in the upper half of its bound, and added to the server\'s delay', () => {
  const backoff = new Backoff({ initial: 100, max: 300 }, () => 0);
  assert.deepEqual([backoff.next(), backoff.next(), backoff.next(), backoff.next(1000)], [50, 100, 150, 1150]);
});

test('a long reason is cut between two characters', () => {
  assert.equal(fittingReason(`${'x'.repeat(254)}€`), 'x'.repeat(254));
  assert.equal(fittingReason('€'.repeat(85)), '€'.repeat(85));
});
