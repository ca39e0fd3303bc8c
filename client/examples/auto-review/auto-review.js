// SPDX-License-Identifier: Apache-2.0
//
// Writes an automatic review 48 hours after delivery, unless the buyer writes one. The README beside this file explains it.
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { Client } from 'duetime';

const TOPIC = 'auto-reviews';
const HOUR = 3_600_000;

/** The time for the buyer's own review, in milliseconds. */
const { values } = parseArgs({ options: { 'after-ms': { type: 'string', default: String(48 * HOUR) } } });
const client = new Client({ server: process.env.DUETIME_SERVER ?? '127.0.0.1:7788' });

// Stands for the table of reviews: order -> { stars, automatic }.
const reviews = new Map();

const keyOf = (order) => ({ topic: TOPIC, key: `review-${order}` });

/** The parcel has arrived. Couriers report that twice at times; the second report changes nothing. */
async function delivered(order) {
  const { outcome, message } = await client.schedule({
    ...keyOf(order),
    payload: order,
    delay: Number(values['after-ms']),
    // The same content, which includes the delay, keeps the first message and its time, also after the review.
    onConflict: 'ON_CONFLICT_ONCE',
  });
  const again = outcome === 'SCHEDULE_OUTCOME_UNCHANGED' ? ' (was reported before)' : '';
  console.log(`order ${order}: automatic review at ${message.deliverTime.toISOString()}${again}`);
}

/** The buyer writes a review, which also replaces an automatic one. */
async function review(order, stars) {
  // First the review, then the cancel: after a crash between the two, the handler below finds the review.
  reviews.set(order, { stars, automatic: false });
  const { outcome } = await client.cancel({ key: keyOf(order) });
  // CANCELLED says that the automatic review was never delivered to any handler, and never will be.
  const late = outcome === 'OUTCOME_CANCELLED' ? '' : `; the automatic review was not cancelled: ${outcome}`;
  console.log(`order ${order}: ${stars} stars by the buyer${late}`);
}

/** Handles a message that is due. If it throws, duetime delivers the message again. */
async function reviewAutomatically(delivery) {
  const order = delivery.payload.toString();
  // In a database: INSERT INTO reviews ... ON CONFLICT (order_id) DO NOTHING. So a repeat of the delivery changes nothing, and
  // the buyer's review stays.
  if (reviews.has(order)) return;
  reviews.set(order, { stars: 5, automatic: true });
  console.log(`order ${order}: 5 stars, automatically`);
}

const subscriber = client.subscribe({ topic: TOPIC, handlers: 8 }, reviewAutomatically);
console.log('type: delivered ORDER, or: review ORDER STARS; Ctrl-D ends');
for await (const line of createInterface({ input: process.stdin })) {
  const [command, order, stars] = line.trim().split(/\s+/);
  if (command === 'delivered' && order) await delivered(order);
  if (command === 'review' && stars) await review(order, Number(stars));
}
await subscriber.stop();
client.close();
