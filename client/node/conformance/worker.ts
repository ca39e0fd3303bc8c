// SPDX-License-Identifier: Apache-2.0

import { setTimeout as sleep } from 'node:timers/promises';

import { type Client, type Delivery, Settlement, type Subscriber } from '../src';
import { rpcOf } from '../src/codec';
import { errorJson, type Json, snake, toJson } from './json';

interface SettlementJson {
  kind: string;
  reason?: string;
  delay_ms?: number;
}

function settlementOf({ kind, reason, delay_ms: delay }: SettlementJson): Settlement {
  switch (kind) {
    case 'ack':
      return Settlement.ack();
    case 'nack':
      return Settlement.nack({ reason, delay });
    case 'dead_letter':
      return Settlement.deadLetter(reason);
    case 'release':
      return Settlement.release(delay);
    case 'leave':
      return Settlement.leave();
    case 'raise':
      throw new Error(reason);
    default:
      throw new Error(`unknown settlement: ${kind}`);
  }
}

const deliveryType = rpcOf('Pull').response.type.lookupType('duetime.v1.Delivery');

/** A subscriber of the library, whose handlers wait for the runner. */
export class Worker {
  readonly subscriber: Subscriber;
  private deliveries = 0;
  private readonly waiting = new Map<number, (settlement: SettlementJson) => void>();

  // The request has the types of PROTOCOL.md.
  constructor(client: Client, private readonly request: any, private readonly print: (event: Json) => void) {
    const options = {
      topic: request.topic,
      subscription: request.subscription,
      clientId: request.client_id,
      maxOutstandingMessages: request.max_outstanding_messages,
      maxOutstandingBytes: request.max_outstanding_bytes,
      lease: request.lease_ms,
      extendMax: request.extend_max_ms,
      handlers: request.handlers,
      silenceMax: request.silence_max_ms,
      backoff: { initial: request.backoff_initial_ms, max: request.backoff_max_ms },
    };
    this.subscriber = client.subscribe(options, (delivery) => this.handle(delivery));
    void this.subscriber.ended.then((error) => {
      if (error !== undefined) print({ event: 'ended', subscriber: request.subscriber, error: errorJson(error) });
    });
  }

  finish(n: number, settlement: SettlementJson): void {
    this.waiting.get(n)?.(settlement);
    this.waiting.delete(n);
  }

  counts(): Json {
    const counts = Object.entries(this.subscriber.counts);
    return Object.fromEntries(counts.map(([name, value]) => [snake(name), value]));
  }

  private async handle(delivery: Delivery): Promise<Settlement> {
    if (this.request.exit_on !== undefined && delivery.payload.toString() === this.request.exit_on) process.exit(3);
    const n = ++this.deliveries;
    const finished = new Promise<SettlementJson>((resolve) => this.waiting.set(n, resolve));
    this.print({ event: 'delivery', subscriber: this.request.subscriber, n, delivery: toJson(deliveryType, delivery) });
    if (this.request.mode !== 'ack') return settlementOf(await finished);
    if (this.request.handler_ms) await sleep(this.request.handler_ms);
    return Settlement.ack();
  }
}
