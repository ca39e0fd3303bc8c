// SPDX-License-Identifier: Apache-2.0
//
// The driver of the conformance suite: tests/conformance/PROTOCOL.md.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

import { type CallOptions, type Calls, Client, DuetimeError, type List, type NewMessage, type ScheduleItemResult, type ScheduleStream } from '../src';
import { ADMIN_CALLS, rpcOf } from '../src/codec';
import { errorJson, fromJson, type Json, toJson } from './json';
import { Worker } from './worker';

// A request has the types of PROTOCOL.md, and those of the protos.
type Request = any;

const clients = new Map<string, Client>();
const streams = new Map<string, ScheduleStream>();
const workers = new Map<string, Worker>();

function print(line: Json): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function find<T>(map: Map<string, T>, name: string): T {
  const found = map.get(name);
  if (found === undefined) throw new Error(`unknown name: ${name}`);
  return found;
}

function fileOf(path: string | undefined): Buffer | undefined {
  return path === undefined ? undefined : readFileSync(path);
}

function openClient({ client, server, tls_ca: ca, tls_cert: cert, tls_key: key, token, timeout_ms: timeout }: Request): Json {
  const tls = ca || cert || key ? { ca: fileOf(ca), cert: fileOf(cert), key: fileOf(key) } : undefined;
  clients.set(client, new Client({ server, tls, token, timeout }));
  return {};
}

// ---- Unary calls: what the library returns, as the response of the RPC.

const CALLS: { [Name in keyof Calls]?: (client: Client, request: Request, options?: CallOptions) => Promise<object> } = {
  Schedule: (client, request, options) => client.schedule(request, options),
  Cancel: (client, request, options) => client.cancel(request, options),
  Reschedule: (client, request, options) => client.reschedule(request, options),
  Get: (client, request, options) => client.get(request, options),
  Explain: (client, request) => client.explain(request),
  Pull: async (client, request) => ({ deliveries: await client.pull(request) }),
  Settle: (client, request) => client.settle(request),
  CreateRecurrence: async (client, request) => ({ recurrence: await client.createRecurrence(request) }),
  GetRecurrence: async (client, { name }) => ({ recurrence: await client.getRecurrence(name) }),
  UpdateRecurrence: async (client, request) => ({ recurrence: await client.updateRecurrence(request) }),
  PauseRecurrence: async (client, { name }) => ({ recurrence: await client.pauseRecurrence(name) }),
  ResumeRecurrence: async (client, { name }) => ({ recurrence: await client.resumeRecurrence(name) }),
  DeleteRecurrence: (client, { name }) => client.deleteRecurrence(name),
  PreviewRecurrence: async (client, request) => ({ occurrences: await client.previewRecurrence(request) }),
};

async function call(name: keyof Calls, { client, request }: Request, options?: CallOptions): Promise<Json> {
  const rpc = rpcOf(name);
  return toJson(rpc.response.type, await CALLS[name]!(find(clients, client), fromJson(rpc.request.type, request), options));
}

const TOGETHER: Record<string, keyof Calls> = { schedule: 'Schedule', cancel: 'Cancel', reschedule: 'Reschedule', get: 'Get' };

async function callTogether({ client, group, calls }: Request): Promise<Json> {
  const outcomeOf = async ({ op, request, cancel_ms: cancelAfter, timeout_ms: timeout }: Request): Promise<Json> => {
    const signal = cancelAfter === undefined ? undefined : AbortSignal.timeout(cancelAfter);
    try {
      return { ok: await call(TOGETHER[op]!, { client, request }, { timeout, signal }) };
    } catch (error) {
      return { error: signal?.aborted && error === signal.reason ? { code: 'CANCELLED', message: `${error}` } : errorJson(error) };
    }
  };
  await Promise.all(calls.map(async (one: Request, number: number) =>
    print({ event: 'outcome', group, number, ...(await outcomeOf(one)) })));
  return {};
}

// ---- Batches

function resultJson(name: keyof Calls, result: object): Json {
  return result instanceof DuetimeError ? { error: errorJson(result) } : { ok: toJson(rpcOf(name).response.type, result) };
}

async function scheduleBatch({ client, request }: Request): Promise<Json> {
  const { messages }: Request = fromJson(rpcOf('ScheduleBatch').request.type, request);
  const results = await find(clients, client).scheduleBatch(messages ?? []);
  return { results: results.map((result) => resultJson('Schedule', result)) };
}

async function cancelBatch({ client, request }: Request): Promise<Json> {
  const { cancels }: Request = fromJson(rpcOf('CancelBatch').request.type, request);
  const results = await find(clients, client).cancelBatch(cancels ?? []);
  return { results: results.map((result) => resultJson('Cancel', result)) };
}

// ---- Lists

const LISTS: { [Name in keyof Calls]?: { field: string; open: (client: Client, request: Request) => List<object> } } = {
  List: { field: 'messages', open: (client, request) => client.list(request) },
  ListRecurrences: { field: 'recurrences', open: (client, request) => client.listRecurrences(request) },
};

async function list(name: keyof Calls, { client, request, limit = Infinity }: Request): Promise<Json> {
  const rpc = rpcOf(name);
  const { field, open } = LISTS[name]!;
  const items: object[] = [];
  for await (const item of open(find(clients, client), fromJson(rpc.request.type, request))) {
    items.push(item);
    if (items.length >= limit) break;
  }
  const json = toJson(rpc.response.type, { [field]: items });
  return { items: json[field] };
}

// ---- Streams of messages to schedule

const scheduleType = rpcOf('Schedule').request.type;

function openStream({ client, stream }: Request): Json {
  const onResult = (number: number, result: ScheduleItemResult): void =>
    print({ event: 'result', stream, number, ...resultJson('Schedule', result) });
  streams.set(stream, find(clients, client).scheduleStream({ onResult }));
  return {};
}

async function sendOnStream({ stream, messages }: Request): Promise<Json> {
  await find(streams, stream).send(messages.map((message: Json) => fromJson(scheduleType, message) as NewMessage));
  return {};
}

async function finishStream({ stream }: Request): Promise<Json> {
  const open = find(streams, stream);
  const error = await open.finish().then(() => null, errorJson);
  const unanswered = (await open.takeUnanswered()).map((message) => toJson(scheduleType, message));
  streams.delete(stream);
  return { answered: open.answered, unanswered, error };
}

// ---- Requests

const OPS: Record<string, (request: Request) => Json | Promise<Json>> = {
  hello: () => ({ language: 'node', lacks: [] }),
  client_open: openClient,
  client_close: ({ client }) => {
    find(clients, client).close();
    clients.delete(client);
    return {};
  },
  call_together: callTogether,
  schedule_batch: scheduleBatch,
  cancel_batch: cancelBatch,
  stream_open: openStream,
  stream_send: sendOnStream,
  stream_finish: finishStream,
  subscriber_start: (request) => {
    workers.set(request.subscriber, new Worker(find(clients, request.client), request, print));
    return {};
  },
  subscriber_finish: ({ subscriber, n, ...ending }) => {
    find(workers, subscriber).finish(n, ending);
    return {};
  },
  subscriber_counts: ({ subscriber }) => find(workers, subscriber).counts(),
  subscriber_stop: async ({ subscriber, handlers_ms: handlersTimeout, confirm_ms: confirmTimeout }) => ({
    clean: await find(workers, subscriber).subscriber.stop({ handlersTimeout, confirmTimeout }),
  }),
};

function opOf(name: string): string {
  return name.replace(/(?!^)[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
}
for (const { name, items } of ADMIN_CALLS) {
  const make = (client: any, request: Request): any => client[name[0]!.toLowerCase() + name.slice(1)](request);
  if (items === undefined) CALLS[name] = make;
  else LISTS[name] = { field: items, open: make };
}
for (const name of Object.keys(CALLS) as (keyof Calls)[]) OPS[opOf(name)] = (request) => call(name, request);
for (const name of Object.keys(LISTS) as (keyof Calls)[]) OPS[opOf(name)] = (request) => list(name, request);

async function answer(line: string): Promise<void> {
  const request: Request = JSON.parse(line);
  try {
    const op = OPS[request.op];
    if (op === undefined) throw new Error(`unknown op: ${request.op}`);
    print({ id: request.id, ok: await op(request) });
  } catch (error) {
    print({ id: request.id, error: errorJson(error) });
  }
}

async function end(): Promise<void> {
  for (const stream of streams.values()) stream.cancel();
  await Promise.all([...workers.values()].map(({ subscriber }) => subscriber.stop({ handlersTimeout: 1000, confirmTimeout: 1000 })));
  for (const client of clients.values()) client.close();
  process.exit(0);
}

createInterface({ input: process.stdin }).on('line', (line) => void answer(line)).on('close', () => void end());
