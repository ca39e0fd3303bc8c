// SPDX-License-Identifier: Apache-2.0

import type { Input } from './input';
import type { Settlement as SettlementMessage } from './types';

/** How a handler settles a delivery. `Settlement.ack()` and the other functions make one. */
export type Settlement =
  | { readonly kind: 'ack' | 'leave' }
  | { readonly kind: 'nack'; readonly delay?: number; readonly reason?: string }
  | { readonly kind: 'deadLetter'; readonly reason?: string }
  | { readonly kind: 'release'; readonly delay?: number };

export const Settlement = {
  /** The message is done. */
  ack: (): Settlement => ({ kind: 'ack' }),
  /**
   * Delivers the message again, by the retry policy of the subscription, or after `delay` milliseconds. The server keeps the reason
   * with the dead letter, if the message becomes one now. The library cuts a reason to 255 bytes.
   */
  nack: (options: { reason?: string; delay?: number } = {}): Settlement => ({ kind: 'nack', ...options }),
  /** Never delivers the message again, and keeps it as a dead letter. */
  deadLetter: (reason?: string): Settlement => ({ kind: 'deadLetter', reason }),
  /** Gives the message back as if the handler had not got it, and delivers it again after `delay` milliseconds (default: 0). */
  release: (delay?: number): Settlement => ({ kind: 'release', delay }),
  /** Settles nothing. The message keeps its lease and its credit until the lease or the stream ends. */
  leave: (): Settlement => ({ kind: 'leave' }),
};

const REASON_BYTES_MAX = 255;

/** Cuts a reason, at the boundary of a character, to what the server accepts. It ends a stream that sends a longer one. */
export function fittingReason(reason: string): string {
  const bytes = Buffer.from(reason);
  let end = Math.min(bytes.length, REASON_BYTES_MAX);
  while (end < bytes.length && end > 0 && (bytes[end]! & 0xc0) === 0x80) --end;
  return bytes.toString('utf8', 0, end);
}

/** Makes the message of the protos. Not for 'leave', which settles nothing. */
export function messageOf(leaseToken: string, settlement: Settlement): Input<SettlementMessage> {
  switch (settlement.kind) {
    case 'nack':
      return { leaseToken, nack: { delay: settlement.delay, reason: fittingReason(settlement.reason ?? '') } };
    case 'deadLetter':
      return { leaseToken, deadLetter: { reason: fittingReason(settlement.reason ?? '') } };
    case 'release':
      return { leaseToken, release: { delay: settlement.delay } };
    default:
      return { leaseToken };
  }
}

/** What a handler returned. Nothing means ack. Throws a TypeError for any other value that is no settlement. */
export function checkSettlement(value: unknown): Settlement {
  if (value === undefined) return Settlement.ack();
  const { kind, delay, reason } = (value ?? {}) as { kind?: unknown; delay?: unknown; reason?: unknown };
  const known = ['ack', 'nack', 'deadLetter', 'release', 'leave'].includes(kind as string);
  const delayFits = delay === undefined || (typeof delay === 'number' && !Number.isNaN(delay));
  if (known && delayFits && (reason === undefined || typeof reason === 'string')) return value as Settlement;
  throw new TypeError('the handler returned no settlement');
}

/**
 * What a handler of `count` deliveries returned: one settlement for each. Nothing means ack. Throws a TypeError for any other value, or
 * another number of settlements.
 */
export function checkSettlements(value: unknown, count: number): Settlement | Settlement[] {
  if (value === undefined) return Settlement.ack();
  if (!Array.isArray(value)) throw new TypeError('the handler returned no list of settlements');
  if (value.length === 0) return Settlement.ack();
  if (value.length !== count) throw new TypeError(`the handler returned ${value.length} settlements for ${count} deliveries`);
  // A hole of the list is no settlement.
  return Array.from(value, (settlement) => checkSettlement(settlement ?? null));
}
