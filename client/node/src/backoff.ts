// SPDX-License-Identifier: Apache-2.0

/** The lengths of the waits between tries, in milliseconds. */
export interface BackoffOptions {
  /** The bound of the first wait. Default: 100. */
  initial?: number;
  /** The longest wait, unless the server requests a longer one. Default: 5,000. */
  max?: number;
  /** The factor between successive bounds. Default: 2. */
  multiplier?: number;
}

/**
 * Exponential backoff with jitter. Each wait is drawn evenly from the upper half of its bound, so that clients that lost the same
 * server do not come back at the same time. The bound grows from `initial` to `max`.
 */
export class Backoff {
  readonly max: number;
  private readonly initial: number;
  private readonly multiplier: number;
  private bound: number;

  constructor(options: BackoffOptions = {}, private readonly random: () => number = Math.random) {
    this.initial = Math.max(options.initial ?? 100, 1);
    this.max = Math.max(options.max ?? 5_000, this.initial);
    this.multiplier = Math.max(options.multiplier ?? 2, 1);
    this.bound = this.initial;
  }

  /** The next wait. The delay that the server requests is added, because many clients got the same delay. */
  next(serverDelay = 0): number {
    const wait = this.bound * (0.5 + this.random() / 2);
    this.bound = Math.min(this.bound * this.multiplier, this.max);
    return Math.max(serverDelay, 0) + wait;
  }

  /** Starts again with the first wait. Call after a success. */
  reset(): void {
    this.bound = this.initial;
  }
}
