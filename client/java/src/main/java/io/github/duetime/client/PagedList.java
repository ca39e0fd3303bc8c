// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * A list on the server, which its iterators read page by page as needed. Each iterator begins again, holds one page, and
 * throws {@link DuetimeException}; after an error the next call continues where the iterator stopped. The protos say what
 * a list shows of changes between two pages. An iterator is for one thread.
 *
 * @param <T> the type of the items
 */
public final class PagedList<T> implements Iterable<T> {
  /** One page, and the token of the next one, which is empty after the last page. */
  record Page<T>(List<T> items, String nextToken) {}

  private final Function<String, Page<T>> fetch;

  /** Reads the page with the token that {@code fetch} gets; empty for the first page. */
  PagedList(Function<String, Page<T>> fetch) {
    this.fetch = fetch;
  }

  @Override
  public Iterator<T> iterator() {
    return new Items();
  }

  /** Returns a stream of the items, which reads pages as needed. */
  public Stream<T> stream() {
    return StreamSupport.stream(spliterator(), false);
  }

  private final class Items implements Iterator<T> {
    private Iterator<T> page = List.<T>of().iterator();
    private String token = "";
    private boolean ended;

    @Override
    public boolean hasNext() {
      // A page may be empty although others follow.
      while (!page.hasNext() && !ended) {
        Page<T> next = fetch.apply(token);
        // To ask for the same page again would never end.
        if (!next.nextToken.isEmpty() && next.nextToken.equals(token)) {
          throw DuetimeException.of(io.grpc.Status.Code.INTERNAL, "the server returned the same page token twice");
        }
        page = next.items.iterator();
        token = next.nextToken;
        ended = token.isEmpty();
      }
      return page.hasNext();
    }

    @Override
    public T next() {
      if (!hasNext()) throw new NoSuchElementException();
      return page.next();
    }
  }
}
