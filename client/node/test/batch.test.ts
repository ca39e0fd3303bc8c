// SPDX-License-Identifier: Apache-2.0
//
// Handlers of several deliveries. tests/conformance has the rest.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { type Delivery, Settlement, type SubscribeRequest, type SubscribeResponse } from '../src';
import { rpcOf } from '../src/codec';
import { checkSettlements } from '../src/settlement';
import { SubscriberState } from '../src/subscriber_state';

function receive(state: SubscriberState, fields: object): void {
  const codec = rpcOf('Subscribe').response;
  state.onResponse(codec.decode(codec.encode(fields)) as SubscribeResponse, 0);
}

function started(batchMax: number, deliveries: object[]): SubscriberState {
  const state = new SubscriberState(1, 3_600_000, () => undefined, batchMax);
  state.beginStream();
  receive(state, { started: { maxOutstandingMessages: 100, leaseDuration: 3_000 }, deliveries });
  return state;
}

const [t0, t1, t2] = ['t0', 't1', 't2'].map((leaseToken) => ({ leaseToken }));

const tokensOf = (deliveries: Delivery[] | undefined): string[] | undefined => deliveries?.map(({ leaseToken }) => leaseToken);

test('a batch is what waits, and its settlements share a request', () => {
  const state = started(2, [t0!, t1!, t2!]);
  const batch = state.takeWork(0)!;
  assert.deepEqual(tokensOf(batch.deliveries), ['t0', 't1']);
  assert.equal(state.takeWork(0), undefined, 'the handler runs');
  state.settle(batch, [Settlement.ack(), Settlement.nack({ reason: 'n' })]);
  const { settlements } = state.takeRequest(0) as SubscribeRequest;
  assert.deepEqual(settlements.map(({ leaseToken, nack }) => [leaseToken, nack?.reason]), [['t0', undefined], ['t1', 'n']]);
  assert.deepEqual(tokensOf(state.takeWork(0)?.deliveries), ['t2']);
});

test('a batch has no delivery whose lease has ended, and a delivery to confirm is alone', () => {
  const state = started(10, [t0!, { ...t1, confirmBegun: true }, t2!]);
  assert.deepEqual(tokensOf(state.takeWork(0)?.deliveries), ['t0']);
  assert.equal(started(10, [t0!, t1!]).takeWork(3_000), undefined);
  const lost = started(10, [t0!, t1!]);
  lost.takeRequest(1_000);
  receive(lost, { refused: [{ leaseToken: 't0' }] });
  assert.deepEqual(tokensOf(lost.takeWork(1_000)?.deliveries), ['t1']);
});

test('a handler returns one settlement for each delivery, or nothing', () => {
  const { ack, nack } = Settlement;
  for (const all of [undefined, []]) assert.deepEqual(checkSettlements(all, 2), ack());
  assert.deepEqual(checkSettlements([ack(), nack()], 2), [ack(), nack()]);
  assert.throws(() => checkSettlements([ack()], 2), { message: 'the handler returned 1 settlements for 2 deliveries' });
  for (const wrong of [null, ack(), 'ack', [ack(), undefined], Array(2)]) assert.throws(() => checkSettlements(wrong, 2), TypeError);
});

// The program of the README runs here without a server.
test('the handler of the README settles each delivery', async () => {
  const readme = readFileSync(join(__dirname, '../../README.md'), 'utf8');
  const code = /```js\n(async function insertAll.*?)```/s.exec(readme)![1];
  const inserted: unknown[] = [];
  const client = { subscribeBatch: (options: { batchMax: number }, handler: unknown) => [options.batchMax, handler] };
  const database = { insert: async (rows: string[]) => void inserted.push(...rows) };
  const [most, handler] = new Function('client', 'database', 'Settlement', `${code}; return subscriber`)(client, database, Settlement);
  assert.equal(most, 500);
  assert.deepEqual(await handler(['{"a":1}', 'no JSON'].map((payload) => ({ payload: Buffer.from(payload) }))),
    [Settlement.ack(), Settlement.deadLetter('no JSON')]);
  assert.deepEqual(inserted, [{ a: 1 }]);
});
