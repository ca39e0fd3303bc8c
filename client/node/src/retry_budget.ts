// SPDX-License-Identifier: Apache-2.0

// In milliseconds, because each second adds a token.
const TOKEN = 1_000;
const TOKENS_MAX = 100 * TOKEN;
const PER_CALL = TOKEN / 10;

/**
 * Bounds the repeats of one client, so that many clients do not overload a server that fails. Each repeat takes a token. It returns the
 * token if the server answers, also with an error that ends the call, so that after a restart all waiting calls may repeat at once. The
 * caller passes the time. Internal to the library.
 */
export class RetryBudget {
  private tokens = TOKENS_MAX;

  constructor(private filledAt: number) {}

  /** A call makes its first try. */
  onCall(): void {
    this.add(PER_CALL);
  }

  /** Takes a token for a repeat. Returns false if there is none. */
  take(now: number): boolean {
    this.add(Math.max(now - this.filledAt, 0));
    this.filledAt = Math.max(now, this.filledAt);
    if (this.tokens < TOKEN) return false;
    this.tokens -= TOKEN;
    return true;
  }

  /** The server answered the repeat, so its token comes back, with one more. */
  giveBack(): void {
    this.add(2 * TOKEN);
  }

  private add(more: number): void {
    this.tokens = Math.min(this.tokens + more, TOKENS_MAX);
  }
}
