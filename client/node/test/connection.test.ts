// SPDX-License-Identifier: Apache-2.0
//
// What a call says if it cannot reach the server.

import assert from 'node:assert/strict';
import { createServer, type Server as TcpServer } from 'node:net';
import { test } from 'node:test';

import { Server, ServerCredentials } from '@grpc/grpc-js';

import { Client, type ClientOptions } from '../src';

const limits = { timeout: 15_000 };

async function errorOf(options: ClientOptions): Promise<string> {
  const client = new Client({ triesMax: 1, ...options });
  const error = await client.serverInfo().catch((caught: Error) => caught);
  client.close();
  return (error as Error).message;
}

// Accepts connections, and answers each with these bytes, or ends or resets it without an answer.
async function listen(answer: Buffer, reset = false): Promise<{ server: TcpServer; address: string }> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    if (reset) socket.once('data', () => socket.resetAndDestroy());
    else if (answer.length > 0) socket.write(answer);
    else socket.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, address: `127.0.0.1:${(server.address() as { port: number }).port}` };
}

test('an error names the address and the cause', limits, async () => {
  const { server, address } = await listen(Buffer.alloc(0));
  await new Promise((resolve) => server.close(resolve));
  assert.equal(await errorOf({ server: address }), `${address}: connect ECONNREFUSED ${address}`);
  assert.equal(await errorOf({ server: 'unix:/no-such.sock' }), 'unix:/no-such.sock: connect ENOENT /no-such.sock');
  assert.match(await errorOf({ server: 'nohost.invalid:7788' }), /nohost.invalid:7788/);
});

test('an error says that one side alone uses TLS', limits, async () => {
  const closed = 'the server closed the connection before it answered, as a server with TLS does; this client uses no TLS';
  for (const [answer, tls, text] of [
    ['', false, closed],
    ['reset', false, closed],
    ['485454502f312e312034303020426164', false, 'the answer of the server is no HTTP/2; perhaps it uses TLS, and this client does not'],
    ['000000040000000000', true, 'this client uses TLS, and the server does not'],
  ] as const) {
    const { server, address } = await listen(Buffer.from(answer, 'hex'), answer === 'reset');
    assert.equal(await errorOf({ server: address, tls: tls ? {} : undefined }), `${address}: ${text}`);
    server.close();
  }
  const plain = new Server();
  const port = await new Promise<number>((resolve, reject) => {
    plain.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound)));
  });
  const address = `127.0.0.1:${port}`;
  assert.equal(await errorOf({ server: address, tls: {} }), `${address}: this client uses TLS, and the server does not`);
  plain.forceShutdown();
});

test('a cell without a leader names why each member does not lead', limits, async () => {
  const text = await errorOf({ server: '127.0.0.1:1,127.0.0.1:2', timeout: 300 });
  assert.match(text, /no member leads: 127.0.0.1:1: connect ECONNREFUSED .*; 127.0.0.1:2: connect ECONNREFUSED/);
});
