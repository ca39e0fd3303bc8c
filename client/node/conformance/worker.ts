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

/** How a handler ends. Only a batch has `settlements`. */
interface Ending {
  settlement?: SettlementJson;
  settlements?: SettlementJson[];
}

const deliveryType = rpcOf('Pull').response.type.lookupType('duetime.v1.Delivery');

/** A subscriber of the library, whose handlers wait for the runner. */
export class Worker {
  readonly subscriber: Subscriber;
  private calls = 0;
  private readonly waiting = new Map<number, (ending: Ending) => void>();

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
      batchMax: request.batch,
      silenceMax: request.silence_max_ms,
      backoff: { initial: request.backoff_initial_ms, max: request.backoff_max_ms },
    };
    this.subscriber = request.batch === undefined
      ? client.subscribe(options, (delivery) => this.handle(delivery))
      : client.subscribeBatch(options, (deliveries) => this.handleBatch(deliveries));
    void this.subscriber.ended.then((error) => {
      if (error !== undefined) print({ event: 'ended', subscriber: request.subscriber, error: errorJson(error) });
    });
  }

  finish(n: number, ending: Ending): void {
    this.waiting.get(n)?.(ending);
    this.waiting.delete(n);
  }

  counts(): Json {
    const counts = Object.entries(this.subscriber.counts);
    return Object.fromEntries(counts.map(([name, value]) => [snake(name), value]));
  }

  private async handle(delivery: Delivery): Promise<Settlement | void> {
    const ending = await this.wait([delivery], { event: 'delivery', delivery: toJson(deliveryType, delivery) });
    return ending && settlementOf(ending.settlement!);
  }

  private async handleBatch(deliveries: Delivery[]): Promise<Settlement[] | void> {
    const list = deliveries.map((delivery) => toJson(deliveryType, delivery));
    const ending = await this.wait(deliveries, { event: 'batch', deliveries: list });
    return ending && (ending.settlements ?? deliveries.map(() => ending.settlement!)).map(settlementOf);
  }

  // Prints the event of a call, and waits for its end. Absent: the mode is "ack".
  private async wait(deliveries: Delivery[], event: Json): Promise<Ending | undefined> {
    const { exit_on: exitOn, subscriber, mode, handler_ms: handlerMs } = this.request;
    if (deliveries.some(({ payload }) => payload.toString() === exitOn)) process.exit(3);
    const n = ++this.calls;
    const finished = new Promise<Ending>((resolve) => this.waiting.set(n, resolve));
    this.print({ ...event, subscriber, n });
    if (mode !== 'ack') return finished;
    if (handlerMs) await sleep(handlerMs);
    return undefined;
  }
}
