// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Settlement, type SubscribeRequest, type SubscribeResponse } from '../src';
import { rpcOf } from '../src/codec';
import { SubscriberState } from '../src/subscriber_state';

const LEASE = 3_000;

function response(fields: object): SubscribeResponse {
  const codec = rpcOf('Subscribe').response;
  return codec.decode(codec.encode(fields));
}

function deliveries(count: number): { leaseToken: string }[] {
  return Array.from({ length: count }, (_, index) => ({ leaseToken: `t${index}` }));
}

function started(handlers: number, credit: number, count: number): SubscriberState {
  const state = new SubscriberState(handlers, 3_600_000, () => undefined);
  state.beginStream();
  const fields = { started: { maxOutstandingMessages: credit, leaseDuration: LEASE }, deliveries: deliveries(count) };
  state.onResponse(response(fields), 0);
  return state;
}

function takeRequest(state: SubscriberState, now: number): SubscribeRequest | undefined {
  return state.takeRequest(now) as SubscribeRequest | undefined;
}

// Leases that ended at the server give the credit back, so the subscriber may hold more deliveries than the credit, and settle all of
// them. The server ends a stream that sends too much at once.
test('a request holds no more than the credit', () => {
  const state = started(8, 3, 8);
  const settlements = [Settlement.ack(), Settlement.nack(), Settlement.deadLetter('bad'), Settlement.release(), Settlement.ack()];
  for (const settlement of settlements) state.settle(state.takeWork()!, settlement);
  const settled = [];
  const extended = [];
  for (let request = takeRequest(state, LEASE / 3); request !== undefined; request = takeRequest(state, LEASE / 3)) {
    const { ack, nack, release, deadLetter, extend } = request;
    const inRequest = [...ack, ...[...nack, ...release, ...deadLetter].map(({ leaseToken }) => leaseToken)];
    assert.ok(inRequest.length + extend.length <= 3, `${inRequest.length} settlements and ${extend.length} extensions`);
    settled.push(...inRequest);
    extended.push(...extend.map(({ leaseToken }) => leaseToken));
  }
  assert.deepEqual(settled.sort(), ['t0', 't1', 't2', 't3', 't4']);
  assert.deepEqual(extended, ['t5', 't6', 't7']);
});

test('a stop releases what no handler has, and is clean when all is confirmed', () => {
  const state = started(1, 10, 3);
  const work = state.takeWork()!;
  state.requestStop();
  assert.equal(state.takeWork(), undefined);
  const request = takeRequest(state, 0)!;
  assert.equal(request.noMoreDeliveries, true);
  assert.deepEqual(request.release.map(({ leaseToken }) => leaseToken), ['t1', 't2']);
  state.settle(work, Settlement.ack());
  assert.deepEqual(takeRequest(state, 0)!.ack, ['t0']);
  state.onResponse(response({ settled: ['t1', 't2'] }), 0);
  assert.equal(state.answered, false);
  state.onResponse(response({ settled: ['t0'] }), 0);
  assert.ok(state.answered && state.clean);
  assert.deepEqual([state.counts.acked, state.counts.released, state.counts.skipped], [1, 0, 2]);
});

test('the settlement of a delivery of an earlier stream is lost', () => {
  const state = started(1, 10, 1);
  const work = state.takeWork()!;
  state.endStream();
  state.beginStream();
  state.settle(work, Settlement.ack());
  assert.equal(takeRequest(state, 0), undefined);
  assert.equal(state.counts.lost, 1);
});

test('a lease is extended at each third until it is settled, lost, or too old', () => {
  const state = new SubscriberState(3, 2.5 * LEASE / 3, () => undefined);
  state.beginStream();
  state.onResponse(response({ started: { leaseDuration: LEASE }, deliveries: deliveries(3) }), 0);
  const extendedAt = (now: number): string[] => (takeRequest(state, now)?.extend ?? []).map(({ leaseToken }) => leaseToken);
  assert.deepEqual(extendedAt(LEASE / 6), []);
  assert.equal(state.nextExtension(), LEASE / 3);
  assert.deepEqual(extendedAt(LEASE / 3), ['t0', 't1', 't2']);
  state.onResponse(response({ extended: ['t0', 't2'], refused: [{ leaseToken: 't1', reason: 'REASON_LEASE_LOST' }] }), LEASE / 3);
  state.settle(state.takeWork()!, Settlement.leave());
  assert.deepEqual(extendedAt(2 * LEASE / 3), ['t2']);
  assert.deepEqual(extendedAt(LEASE), []);
  assert.deepEqual([state.counts.extended, state.counts.leasesLost, state.counts.left], [2, 1, 1]);
});
