// SPDX-License-Identifier: Apache-2.0
//
// A client in a cluster, and in a worker thread.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';

import { Server, ServerCredentials, type ServiceDefinition } from '@grpc/grpc-js';

import { Client } from '../src';
import { rpcOf } from '../src/codec';

const limits = { timeout: 30_000 };

test('a client that was made before cluster.fork works in both processes', limits, async () => {
  const { path: method, request, response } = rpcOf('Schedule');
  const definition = {
    path: method, requestStream: false, responseStream: false,
    requestSerialize: (value: object) => request.encode(value), requestDeserialize: (bytes: Buffer) => request.decode(bytes),
    responseSerialize: (value: object) => response.encode(value), responseDeserialize: (bytes: Buffer) => response.decode(bytes),
  };
  let calls = 0;
  const server = new Server();
  server.addService({ Schedule: definition } as ServiceDefinition, {
    Schedule: (_: unknown, answer: (error: null, response: object) => void) => {
      ++calls;
      answer(null, {});
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound)));
  });
  const address = `127.0.0.1:${port}`;
  const program = path.join(__dirname, 'cluster_program.js');
  const child = spawn(process.execPath, [program, address], { stdio: ['ignore', 'inherit', 'inherit'] });
  assert.deepEqual(await once(child, 'exit'), [0, null]);
  assert.equal(calls, 3);
  server.forceShutdown();
});

test('a client does not pass into a worker thread: an error says so at once', () => {
  class Quiet {
    info(): void {}
    warn(): void {}
    error(): void {}
  }
  for (const logger of [undefined, new Quiet()]) {
    const client = new Client({ server: '127.0.0.1:1', logger });
    assert.throws(() => new Worker('', { eval: true, workerData: client }), { name: 'DataCloneError' });
    client.close();
  }
});
