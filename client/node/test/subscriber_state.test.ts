// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Settlement, type SubscribeRequest, type SubscribeResponse } from '../src';
import { rpcOf } from '../src/codec';
import { SubscriberState } from '../src/subscriber_state';
import type { Settlement as WireSettlement } from '../src/types';

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

function actionOf({ leaseToken, ...actions }: WireSettlement): string {
  return Object.keys(actions).join() || 'ack';
}

// The leases with this action.
function tokens(request: SubscribeRequest | undefined, action: string): string[] {
  const settlements = request?.settlements ?? [];
  return settlements.filter((settlement) => actionOf(settlement) === action).map(({ leaseToken }) => leaseToken);
}

// Leases that ended at the server give the credit back, so the subscriber may hold more deliveries than the credit, and settle all of
// them. The server ends a stream that sends too much at once.
test('a request holds no more settlements and reports than the credit, and no lease twice', () => {
  const state = started(8, 3, 8);
  const settlements = [Settlement.ack(), Settlement.nack(), Settlement.deadLetter('bad'), Settlement.release(), Settlement.ack()];
  for (const settlement of settlements) state.settle(state.takeWork(0)!, settlement);
  state.takeWork(0);
  const requests: string[] = [];
  for (let request = takeRequest(state, LEASE / 3); request !== undefined; request = takeRequest(state, LEASE / 3)) {
    const settlements = request.settlements.map((settlement) => `${actionOf(settlement)} ${settlement.leaseToken}`);
    requests.push([...settlements, ...request.begun.map((token) => `begun ${token}`)].join(', '));
  }
  // In the order of the handlers. No lease that is settled is extended.
  assert.deepEqual(requests, ['extend t5, extend t6, extend t7', 'ack t0, nack t1, deadLetter t2', 'release t3, ack t4, begun t5']);
});

test('a settlement has the action of its kind, with its delay and its reason', () => {
  for (const [settlement, message] of [
    [Settlement.ack(), {}],
    [Settlement.nack(), { nack: { reason: '' } }],
    [Settlement.nack({ delay: 0, reason: 'r' }), { nack: { delay: 0, reason: 'r' } }],
    [Settlement.nack({ reason: 'x'.repeat(256) }), { nack: { reason: 'x'.repeat(255) } }],
    [Settlement.deadLetter(), { deadLetter: { reason: '' } }],
    [Settlement.deadLetter('x'.repeat(256)), { deadLetter: { reason: 'x'.repeat(255) } }],
    [Settlement.release(), { release: {} }],
    [Settlement.release(500), { release: { delay: 500 } }],
  ] as const) {
    const state = started(1, 1, 1);
    state.settle(state.takeWork(0)!, settlement);
    const codec = rpcOf('Subscribe').request;
    assert.deepEqual(codec.decode(codec.encode(takeRequest(state, 0)!)).settlements, [{ leaseToken: 't0', ...message }]);
  }
});

test('a stop releases what no handler has, and is clean when all is confirmed', () => {
  const state = started(1, 10, 3);
  const work = state.takeWork(0)!;
  state.requestStop();
  assert.equal(state.takeWork(0), undefined);
  const request = takeRequest(state, 0)!;
  assert.equal(request.noMoreDeliveries, true);
  assert.deepEqual(tokens(request, 'release'), ['t1', 't2']);
  state.settle(work, Settlement.ack());
  assert.deepEqual(tokens(takeRequest(state, 0), 'ack'), ['t0']);
  state.onResponse(response({ settled: ['t1', 't2'] }), 0);
  assert.equal(state.answered, false);
  state.onResponse(response({ settled: ['t0'] }), 0);
  assert.ok(state.answered && state.clean);
  assert.deepEqual([state.counts.acked, state.counts.released, state.counts.skipped], [1, 0, 2]);
});

test('the settlement of a delivery of an earlier stream is lost', () => {
  const state = started(2, 10, 2);
  const works = [0, 1].map(() => state.takeWork(0)!);
  state.settle(works[0]!, Settlement.ack());
  state.endStream();
  state.beginStream();
  state.settle(works[1]!, Settlement.ack());
  assert.equal(takeRequest(state, 0), undefined);
  assert.equal(state.counts.lost, 2);
});

function refusals(...leaseTokens: string[]): object[] {
  return leaseTokens.map((leaseToken) => ({ leaseToken, reason: 'REASON_LEASE_LOST' }));
}

function lost(token: string): SubscribeResponse {
  return response({ refused: refusals(token) });
}

// A stream with `count` deliveries that arrived at 0.
function withExtendMax(extendMax: number, count: number, onLeaseLost: (token: string) => void = () => undefined): SubscriberState {
  const state = new SubscriberState(1, extendMax, onLeaseLost);
  state.beginStream();
  state.onResponse(response({ started: { leaseDuration: LEASE }, deliveries: deliveries(count) }), 0);
  return state;
}

test('the lease of a running handler is extended at each third until it is settled, lost, or the handler has run for too long', () => {
  const state = new SubscriberState(3, 2.5 * LEASE / 3, () => undefined);
  state.beginStream();
  state.onResponse(response({ started: { leaseDuration: LEASE }, deliveries: deliveries(3) }), 0);
  const works = [0, 0, 500].map((now) => state.takeWork(now)!);
  const extendedAt = (now: number): string[] => tokens(takeRequest(state, now), 'extend');
  assert.deepEqual(extendedAt(LEASE / 6), []);
  assert.deepEqual(extendedAt(LEASE / 3), ['t0', 't1', 't2']);
  state.onResponse(response({ begun: ['t0', 't2'], extended: ['t0', 't2'], refused: refusals('t1', 't1') }), LEASE / 3);
  assert.equal(state.nextRequest(), 2 * LEASE / 3);
  state.settle(works[0]!, Settlement.leave());
  assert.deepEqual(extendedAt(2 * LEASE / 3), ['t2']);
  assert.deepEqual(extendedAt(LEASE), []);
  state.onResponse(response({ extended: ['t2'] }), LEASE);
  assert.deepEqual([state.counts.extended, state.counts.leasesLost, state.counts.left], [3, 1, 1]);
});

test('a waiting delivery is given back in time, and extendMax counts anew when its handler begins', () => {
  const third = LEASE / 3;
  // For each extendMax: at which thirds of the lease a delivery is extended, and when it is given back, while it waits and while it runs.
  for (const [extendMax, waiting, running] of [
    [0, 'give back at 2', ''],
    [100, 'give back at 2', ''],
    [1.5 * third, 'give back at 1', '1'],
    [3.5 * third, '1,2,give back at 3', '1,2,3'],
  ] as const) {
    for (const runs of [false, true]) {
      const state = withExtendMax(extendMax, 1);
      if (runs) state.takeWork(1);
      const events: unknown[] = [];
      for (let step = 1; step <= 5; ++step) {
        const early = takeRequest(state, step * third - 251);
        assert.deepEqual(early?.settlements ?? [], [], `before ${step}, extendMax ${extendMax}`);
        const request = takeRequest(state, step * third);
        if (tokens(request, 'extend').length > 0) events.push(step);
        if (tokens(request, 'release').length > 0) events.push(`give back at ${step}`);
      }
      assert.equal(events.join(), runs ? running : waiting, `extendMax ${extendMax}, ${runs ? 'running' : 'waiting'}`);
      assert.equal(state.counts.skipped, runs ? 0 : 1);
      if (!runs) assert.equal(state.takeWork(5 * third), undefined);
      state.onResponse(response({ settled: runs ? [] : ['t0'] }), LEASE);
      assert.deepEqual([state.answered, state.counts.released], [true, 0]);
    }
  }
});

test('a stream that drains does not end before all releases are sent', () => {
  const state = withExtendMax(0, 2);
  // The credit is smaller than what waits.
  state.onResponse(response({ started: { leaseDuration: LEASE, maxOutstandingMessages: 1 }, drain: {} }), 0);
  assert.deepEqual(tokens(takeRequest(state, 2 * LEASE / 3), 'release'), ['t0']);
  assert.equal(state.drained, false);
  assert.deepEqual(tokens(takeRequest(state, 2 * LEASE / 3), 'release'), ['t1']);
  assert.equal(state.drained, true);
});

test('extendMax counts from the begin of the handler', () => {
  const state = withExtendMax(1.5 * LEASE / 3, 1);
  state.takeWork(900);
  assert.deepEqual(tokens(takeRequest(state, 1_000), 'extend'), ['t0']);
  assert.deepEqual(tokens(takeRequest(state, 2_000), 'extend'), ['t0']);
  assert.equal(takeRequest(state, 3_000), undefined);
});

test('a delivery whose lease is lost while it waits is not handled', () => {
  const refused = withExtendMax(3_600_000, 2);
  assert.deepEqual(tokens(takeRequest(refused, 1_000), 'extend'), ['t0', 't1']);
  refused.onResponse(lost('t0'), 1_000);
  const ended = withExtendMax(3_600_000, 2);
  ended.takeWork(0);
  ended.onResponse(response({ deliveries: [{ leaseToken: 'later' }] }), LEASE / 2);
  ended.running = 0;
  for (const [state, now, next, missed] of [[refused, 1_001, 't1', 1], [ended, LEASE, 'later', 1]] as const) {
    assert.equal(state.takeWork(now)!.deliveries[0]!.leaseToken, next);
    assert.deepEqual([state.counts.skipped, state.counts.leasesLost], [missed, missed]);
  }
});

test('a handler is reported once: after 10 ms with another request, after 100 ms alone, and not when it has returned', () => {
  for (const [now, other, begun] of [
    [9, true, []], [10, true, ['t0']], [99, false, undefined], [100, false, ['t0', 't1']], [90, true, ['t0']], [95, true, ['t0', 't1']],
  ] as const) {
    const state = started(4, 10, 3);
    const works = (other ? [0, 85, 0] : [0, 85]).map((at) => state.takeWork(at)!);
    assert.equal(state.nextRequest(), 100);
    if (other) state.settle(works[2]!, Settlement.ack());
    const request = takeRequest(state, now);
    assert.deepEqual(request?.begun, begun, `at ${now}`);
    if (request === undefined) continue;
    state.settle(works[0]!, Settlement.ack());
    const later = takeRequest(state, 500)!;
    assert.deepEqual(later.begun, begun!.length < 2 ? ['t1'] : [], `later than ${now}`);
  }
});

test('a delivery that its handler leaves is reported at once, and once', () => {
  for (const stops of [false, true]) {
    const state = started(4, 10, 1);
    state.settle(state.takeWork(0)!, Settlement.leave());
    if (stops) state.requestStop();
    assert.deepEqual([0, 200].map((now) => takeRequest(state, now)?.begun), [['t0'], undefined]);
  }
});

test('reports count against the room of a request', () => {
  const state = started(8, 3, 8);
  const works = Array.from({ length: 8 }, () => state.takeWork(0)!);
  assert.deepEqual(takeRequest(state, 100)!.begun, ['t0', 't1', 't2']);
  state.settle(works[7]!, Settlement.ack());
  assert.deepEqual([1, 2].map(() => takeRequest(state, 100)!.begun), [['t3', 't4'], ['t5', 't6']]);
  assert.equal(takeRequest(state, 100), undefined);
});

test('a refused report is a lost lease, also when an extension or a settlement follows it', () => {
  for (const [extended, settled] of [[false, false], [true, false], [true, true], [false, true]]) {
    const aborted: string[] = [];
    const state = withExtendMax(3_600_000, 1, (token) => aborted.push(token));
    const work = state.takeWork(0)!;
    const request = takeRequest(state, extended ? 1_000 : 100)!;
    assert.deepEqual([request.begun, tokens(request, 'extend')], [['t0'], extended ? ['t0'] : []]);
    if (settled) {
      state.settle(work, Settlement.ack());
      takeRequest(state, 1_001);
    }
    for (let left = 1 + Number(extended) + Number(settled); left > 0; --left) state.onResponse(lost('t0'), 1_002);
    assert.deepEqual([state.counts.leasesLost, state.counts.refused, aborted], [1, settled ? 1 : 0, ['t0']]);
    assert.equal(takeRequest(state, 2_000), undefined);
    assert.ok(state.answered);
  }
});

test('reports that an older server does not answer are forgotten', () => {
  const state = withExtendMax(3_600_000, 2);
  for (const answer of [response({ settled: ['t0'] }), lost('t1')]) {
    const work = state.takeWork(0)!;
    takeRequest(state, 500);
    state.settle(work, Settlement.ack());
    takeRequest(state, 500);
    state.onResponse(answer, 500);
    assert.ok(state.answered);
  }
  assert.deepEqual([state.counts.acked, state.counts.refused, state.counts.leasesLost], [1, 1, 0]);
  state.requestStop();
  assert.ok(state.answered && state.clean);
});

test('a handler is called after the confirmation, if the delivery asks for it', () => {
  const begin = (): SubscriberState => {
    const state = new SubscriberState(1, 3_600_000, () => undefined);
    state.beginStream();
    const asks = { leaseToken: 'asks', confirmBegun: true };
    state.onResponse(response({ started: { leaseDuration: LEASE }, deliveries: [asks, { leaseToken: 'next' }] }), 0);
    assert.equal(state.takeWork(0), undefined);
    assert.deepEqual(takeRequest(state, 0)!.begun, ['asks']);
    assert.deepEqual(tokens(takeRequest(state, 1_000), 'extend'), ['asks', 'next']);
    state.onResponse(response({ extended: ['asks', 'next'] }), 1_000);
    assert.equal(state.takeWork(1_000), undefined, 'the slot waits');
    return state;
  };
  const next = (state: SubscriberState): string | undefined => state.takeWork(1_001)?.deliveries[0]!.leaseToken;

  const confirmed = begin();
  confirmed.onResponse(response({ begun: ['asks'] }), 1_000);
  assert.equal(next(confirmed), 'asks');
  assert.deepEqual(takeRequest(confirmed, 1_500), undefined, 'it is reported once');
  const refused = begin();
  refused.onResponse(lost('asks'), 1_000);
  assert.deepEqual([refused.counts.skipped, refused.counts.leasesLost, next(refused)], [1, 1, 'next']);
  const broken = begin();
  broken.endStream();
  assert.deepEqual([broken.counts.skipped, broken.running, next(broken)], [2, 0, undefined]);
  const stopped = begin();
  stopped.requestStop();
  assert.deepEqual([tokens(takeRequest(stopped, 1_000), 'release'), stopped.running], [['asks', 'next'], 0]);
  stopped.onResponse(response({ begun: ['asks'], settled: ['asks', 'next'] }), 1_000);
  assert.deepEqual([next(stopped), stopped.answered, stopped.clean], [undefined, true, true]);
});
