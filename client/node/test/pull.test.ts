// SPDX-License-Identifier: Apache-2.0
//
// Pulls that wait, at a server that allows one open call on a connection.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Server, ServerCredentials, type ServiceDefinition } from '@grpc/grpc-js';

import { type Calls, Client } from '../src';
import { rpcOf } from '../src/codec';

function serve(server: Server, name: keyof Calls, handler: (call: any, answer: any) => void): void {
  const { path, request, response } = rpcOf(name);
  const method = {
    path, requestStream: false, responseStream: false,
    requestSerialize: (value: object) => request.encode(value), requestDeserialize: (bytes: Buffer) => request.decode(bytes),
    responseSerialize: (value: object) => response.encode(value), responseDeserialize: (bytes: Buffer) => response.decode(bytes),
  };
  server.addService({ [name]: method } as ServiceDefinition, { [name]: handler });
}

test('no call waits behind a pull that waits', { timeout: 15_000 }, async () => {
  const server = new Server({ 'grpc.max_concurrent_streams': 1 });
  const peers = new Set<string>();
  let open = (): void => undefined;
  serve(server, 'Pull', (call, answer) => {
    peers.add(call.getPeer());
    open = () => answer(null, { deliveries: [{ messageId: 'm' }] });
    if (!call.request.wait) open();
  });
  serve(server, 'Schedule', (call, answer) => {
    peers.add(call.getPeer());
    answer(null, {});
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound)));
  });
  const client = new Client({ server: `127.0.0.1:${port}` });
  await client.schedule({ topic: 't', delay: 0 }, { timeout: 5_000 });
  await client.pull({ topic: 't' });
  assert.equal(peers.size, 1, 'a pull that does not wait needs no connection of its own');
  const pull = client.pull({ topic: 't', wait: 10_000 });
  for (let i = 0; i < 200 && peers.size < 2; ++i) await sleep(5);
  await client.schedule({ topic: 't', delay: 0 }, { timeout: 2_000 });
  open();
  assert.equal((await pull)[0]!.messageId, 'm');
  client.close();
  const other = new Client({ server: '127.0.0.1:1' });
  other.close();
  for (const wait of [0, 1_000]) await assert.rejects(other.pull({ topic: 't', wait }));
  server.forceShutdown();
});
