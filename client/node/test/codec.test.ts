// SPDX-License-Identifier: Apache-2.0

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { codecOfName, rpcOf } from '../src/codec';
import type { Recurrence } from '../src';
import protos from '../src/protos.json';

test('a message survives the way to bytes and back', () => {
  const codec = codecOfName<Recurrence>('duetime.v1.Recurrence');
  const recurrence = {
    name: 'r',
    template: { payload: Buffer.from([0, 255]), labels: { 'a': 'ß' }, ttl: 1.5 },
    schedule: { interval: 90_250, startTime: new Date('1969-12-31T23:59:59.250Z'), maxCount: 9_007_199_254_740_993n },
    overlap: 'OVERLAP_SKIP',
  };
  const { name, template, schedule, overlap, misfire } = codec.decode(codec.encode(recurrence));
  assert.deepEqual({ name, overlap, misfire }, { name: 'r', overlap: 'OVERLAP_SKIP', misfire: 'MISFIRE_UNSPECIFIED' });
  assert.deepEqual(template, { ...recurrence.template, attributes: {}, orderingKey: '', latePolicy: 'LATE_POLICY_UNSPECIFIED' });
  assert.deepEqual(schedule, { ...recurrence.schedule, timeZone: '' });
});

test('a duration is rounded up to nanoseconds, so that no message is early', () => {
  const { request } = rpcOf('Schedule');
  const delay = (value: number): unknown => request.toWire({ delay: value }, 'request').delay;
  assert.deepEqual(delay(0.1234561), { seconds: 0, nanos: 123_457 });
  assert.deepEqual(delay(1999.9999999), { seconds: 2, nanos: 0 });
  assert.deepEqual(delay(-1500), { seconds: -1, nanos: -500_000_000 });
  assert.deepEqual(delay(Infinity), { seconds: '9223372036854775807', nanos: 0 });
});

test('a wrong value is a TypeError that names the field', () => {
  const { request } = rpcOf('ScheduleBatch');
  const wrong: [object, RegExp][] = [
    [{ topics: 't' }, /ScheduleRequest has no field topics/],
    [{ delay: '1s' }, /messages\[0\]\.delay is no number of milliseconds/],
    [{ deliverTime: new Date(NaN) }, /deliverTime is no valid Date/],
    [{ onConflict: 'REPLACE' }, /onConflict is no value of OnConflict: REPLACE/],
    [{ labels: { a: 1 } }, /labels\.a is no string/],
  ];
  for (const [message, error] of wrong) assert.throws(() => request.encode({ messages: [message] }), { name: 'TypeError', message: error });
});

test('each method says whether it may be repeated', () => {
  const names = ['Messages', 'Admin'].flatMap((name) => Object.keys(protos.nested.duetime.nested.v1.nested[name as 'Admin'].methods));
  assert.ok(names.length > 40);
  for (const name of names) assert.match(rpcOf(name as 'Get').repeat, /^CALL_REPEAT_(READ|SAFE|IF_NAMED|WITHOUT_ETAG|ONCE)$/, name);
});
