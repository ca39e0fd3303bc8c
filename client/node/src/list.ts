// SPDX-License-Identifier: Apache-2.0

import { DuetimeError } from './errors';

/** One page of a list. */
export interface Page<Item> {
  items: Item[];
  /** The `pageToken` of the next page. Empty: this is the last page. */
  nextPageToken: string;
}

/**
 * The items of a list, read page by page as they are needed.
 *
 *     for await (const message of client.list({ topic: 'orders' })) ...
 *     for await (const page of client.list({ topic: 'orders' }).pages()) ...
 *
 * A page may be empty although others follow. Changes between two pages: see the comments of the RPC in the protos.
 */
export class List<Item> implements AsyncIterable<Item> {
  constructor(private readonly fetch: (pageToken: string) => Promise<Page<Item>>, private readonly firstToken: string) {}

  async *pages(): AsyncGenerator<Page<Item>, void, void> {
    let token = this.firstToken;
    do {
      const page = await this.fetch(token);
      if (page.nextPageToken !== '' && page.nextPageToken === token) {
        // Asking for the same page would never end.
        throw new DuetimeError('INTERNAL', 'the server returned the same page token twice');
      }
      yield page;
      token = page.nextPageToken;
    } while (token !== '');
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, void> {
    for await (const page of this.pages()) yield* page.items;
  }
}
