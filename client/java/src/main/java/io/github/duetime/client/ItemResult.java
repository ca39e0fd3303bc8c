// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import java.util.Optional;
import java.util.function.Function;

/**
 * The result of one item of a batch or stream: a value, or the error with which the server refused the item.
 *
 * @param <T> the type of the value
 */
public final class ItemResult<T> {
  private final T value;
  private final DuetimeException error;

  private ItemResult(T value, DuetimeException error) {
    this.value = value;
    this.error = error;
  }

  static <T> ItemResult<T> of(T value) {
    return new ItemResult<>(value, null);
  }

  static <T> ItemResult<T> failed(DuetimeException error) {
    return new ItemResult<>(null, error);
  }

  /** Returns true if there is a value. */
  public boolean isOk() {
    return error == null;
  }

  /** Returns the value, or throws the error. */
  public T get() {
    if (error != null) throw error.here();
    return value;
  }

  /** Returns the error; empty if there is a value. */
  public Optional<DuetimeException> error() {
    return Optional.ofNullable(error);
  }

  /** Returns what the first function makes of the value, or the second one of the error. */
  public <R> R fold(Function<? super T, ? extends R> onValue, Function<? super DuetimeException, ? extends R> onError) {
    return error == null ? onValue.apply(value) : onError.apply(error);
  }
}
