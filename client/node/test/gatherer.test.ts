// SPDX-License-Identifier: Apache-2.0
//
// Calls that share a stream, against a server that answers as each test says.

import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';

import { Server, ServerCredentials, type ServerDuplexStream, status } from '@grpc/grpc-js';

import { Client, type CallStreamRequest, type ClientOptions, type StreamedCall } from '../src';
import { rpcOf } from '../src/codec';
import { refusal } from './refusal';

type Frames = ServerDuplexStream<CallStreamRequest, object>;

let onFrame: (stream: Frames, calls: StreamedCall[], streamNumber: number) => void;
let frames: StreamedCall[][] = [];
let streams = 0;
let unaryCalls = 0;
const server = new Server();
let address: string;
const limits = { timeout: 15_000 };

function answerOf({ number, schedule, get }: StreamedCall): object {
  if (schedule) return { number, schedule: { message: { topic: schedule.topic } } };
  if (get) return { number, get: {} };
  return { number, cancel: { outcome: 'CANCEL_OUTCOME_CANCELLED' } };
}

before(async () => {
  const definitionOf = (name: 'CallStream' | 'Schedule', isStream: boolean): object => {
    const { path, request, response } = rpcOf(name);
    return {
      path, requestStream: isStream, responseStream: isStream,
      requestSerialize: (value: object) => request.encode(value), requestDeserialize: (bytes: Buffer) => request.decode(bytes),
      responseSerialize: (value: object) => response.encode(value), responseDeserialize: (bytes: Buffer) => response.decode(bytes),
    };
  };
  server.addService({ Schedule: definitionOf('Schedule', false), CallStream: definitionOf('CallStream', true) } as never, {
    Schedule: (call: any, answer: any) => {
      ++unaryCalls;
      answer(null, { message: { topic: call.request.topic } });
    },
    CallStream: (stream: Frames) => {
      const number = ++streams;
      stream.on('data', ({ calls }: CallStreamRequest) => {
        frames.push(calls);
        onFrame(stream, calls, number);
      });
      stream.on('end', () => stream.end());
      stream.on('error', () => undefined);
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound)));
  });
  address = `127.0.0.1:${port}`;
});

after(() => server.forceShutdown());

beforeEach(() => {
  frames = [];
  streams = unaryCalls = 0;
  onFrame = (stream, calls) => stream.write({ answers: calls.map(answerOf) });
});

async function withClient(run: (client: Client) => Promise<void>, options: ClientOptions = {}): Promise<void> {
  const client = new Client({ server: address, triesMax: 1, ...options });
  try {
    await run(client);
  } finally {
    client.close();
  }
}

function fail(stream: Frames, code: number): void {
  stream.emit('error', { code, details: 'refused' });
}

test('calls made together travel in one frame, and each gets its own answer in any order', limits, () => withClient(async (client) => {
  onFrame = (stream, calls) => stream.write({ answers: [{ number: 999n, get: {} }, ...calls.map(answerOf).reverse()] });
  const topics = Array.from({ length: 300 }, (_, index) => `t${index}`);
  for (let round = 0; round < 2; ++round) {
    const answers = await Promise.all(topics.map((topic) => client.schedule({ topic, delay: 0 })));
    assert.deepEqual(answers.map(({ message }) => message!.topic), topics);
  }
  assert.deepEqual(frames.map((calls) => calls.length), [300, 300]);
  assert.equal(streams, 1);
  assert.equal(unaryCalls, 0);
  assert.ok(frames[0]![0]!.timeout! > 5_000 && frames[0]![0]!.timeout! <= 10_000);
}));

test('a failed call has the parts that a call of its own has', limits, () => withClient(async (client) => {
  const failure = { code: status.NOT_FOUND, message: 'no', reason: 'TOPIC_NOT_FOUND', metadata: { topic: 't' }, field: 'topic', retryDelay: 70 };
  onFrame = (stream, calls) => stream.write({ answers: calls.map(({ number }) => ({ number, error: failure })) });
  await assert.rejects(client.get({ messageId: 'm' }), {
    code: 'NOT_FOUND', message: 'no', reason: 'TOPIC_NOT_FOUND', metadata: { topic: 't' },
    fieldViolations: [{ field: 'topic', description: 'no' }], retryDelay: 70,
  });
}));

test('a call that its caller gave up ends at once, and is not sent if it was not sent yet', limits, () => withClient(async (client) => {
  const early = new AbortController();
  const unsent = client.cancel({ messageId: 'm' }, { signal: early.signal });
  const sent = client.get({ messageId: 'm' });
  early.abort(new Error('early'));
  await assert.rejects(unsent, /early/);
  await sent;
  assert.deepEqual(frames.map((calls) => calls.map((call) => call.get !== undefined)), [[true]]);
  const late = new AbortController();
  onFrame = () => late.abort(new Error('late'));
  await assert.rejects(client.get({ messageId: 'm' }, { signal: late.signal }), /late/);
  onFrame = () => undefined;
  await assert.rejects(client.get({ messageId: 'm' }, { timeout: 50 }), { code: 'DEADLINE_EXCEEDED' });
}));

test('after the end of a stream only the calls that it did not take are made again', limits, () => withClient(async (client) => {
  onFrame = (stream, calls, number) => {
    if (number > 1) return void stream.write({ answers: calls.map(answerOf) });
    stream.write({ answers: [answerOf(calls[0]!)], callsTaken: 2n });
    fail(stream, status.UNAVAILABLE);
  };
  const results = await Promise.allSettled(['a', 'b', 'c'].map((topic) => client.schedule({ topic, delay: 0 })));
  assert.deepEqual(results.map((result) => (result.status === 'fulfilled' ? result.value.message!.topic : result.reason.code)), ['a', 'UNAVAILABLE', 'c']);
  assert.deepEqual(frames.map((calls) => calls.length), [3, 1]);
}));

// Of a call, NOT_LEADER would say that it changed nothing.
test('a stream that ends because its member leads no more may have begun its calls', limits, () => withClient(async (client) => {
  onFrame = (stream, calls) => {
    stream.write({ answers: [answerOf(calls[0]!)], callsTaken: 2n });
    stream.emit('error', refusal('NOT_LEADER'));
  };
  const results = await Promise.allSettled(['a', 'b'].map((topic) => client.schedule({ topic, delay: 0 })));
  assert.deepEqual(results.map((result) => (result.status === 'fulfilled' ? result.status : [result.reason.code, result.reason.reason])),
    ['fulfilled', ['UNAVAILABLE', '']]);
}));

for (const [how, end] of [
  ['OK', (stream: Frames) => stream.end()],
  ['CANCELLED', (stream: Frames) => fail(stream, status.CANCELLED)],
  ['UNAVAILABLE', (stream: Frames) => fail(stream, status.UNAVAILABLE)],
] as const) {
  test(`calls without an answer are UNAVAILABLE after ${how}`, limits, () => withClient(async (client) => {
    onFrame = end;
    await assert.rejects(client.get({ messageId: 'm' }), { code: 'UNAVAILABLE' });
  }));
}

for (const code of [status.UNIMPLEMENTED, status.RESOURCE_EXHAUSTED]) {
  test(`calls are calls of their own after ${status[code]}`, limits, () => withClient(async (client) => {
    onFrame = (stream) => void stream.emit('error', refusal('STREAM_LIMIT', code));
    for (let call = 0; call < 2; ++call) await client.schedule({ topic: 't', delay: 0 });
    assert.deepEqual([streams, unaryCalls], [1, 2]);
  }));
}

// Without the reason of a limit of streams, the server may have taken the call.
test('a stream that is dropped before its first answer may have begun its calls', limits, () => withClient(async (client) => {
  onFrame = (stream) => fail(stream, status.RESOURCE_EXHAUSTED);
  await assert.rejects(client.schedule({ topic: 't', delay: 0 }), { code: 'UNAVAILABLE' });
  assert.equal(unaryCalls, 0);
}));

test('a large request and separateCalls make calls of their own', limits, async () => {
  await withClient(async (client) => void (await client.schedule({ topic: 't', delay: 0, payload: Buffer.alloc(65 << 10) })));
  await withClient(async (client) => void (await client.schedule({ topic: 't', delay: 0 })), { separateCalls: true });
  assert.deepEqual([streams, unaryCalls], [0, 2]);
});

test('a call carries its trace context', limits, () => withClient(async (client) => {
  await client.get({ messageId: 'm' });
  assert.deepEqual([frames[0]![0]!.traceparent, frames[0]![0]!.tracestate], ['00-ab-cd-01', 'x=y']);
}, { traceContext: () => ({ traceparent: '00-ab-cd-01', tracestate: 'x=y' }) }));

test('close lets open calls end, and refuses later ones', limits, () => withClient(async (client) => {
  onFrame = (stream, calls) => {
    client.close();
    stream.write({ answers: calls.map(answerOf) });
  };
  assert.equal((await client.schedule({ topic: 't', delay: 0 })).message!.topic, 't');
  await assert.rejects(client.get({ messageId: 'm' }), { code: 'CANCELLED' });
}));
