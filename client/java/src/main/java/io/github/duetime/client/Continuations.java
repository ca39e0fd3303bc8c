// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Runs what programs attach to the futures of calls. One task may wait for another one, so a task that blocks must not hold
 * up those behind it. Short tasks share a few threads. Thread-safe.
 *
 * <p>While tasks wait, one thread is always on its way to take the next one.
 */
final class Continuations implements Executor {
  static final Continuations SHARED = new Continuations();

  // Idle threads end after a minute.
  private final Executor threads = Executors.newCachedThreadPool(task -> {
    Thread thread = new Thread(task, "duetime-continuations");
    thread.setDaemon(true);
    return thread;
  });
  private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
  // A thread was woken and has not taken a task yet.
  private final AtomicBoolean waking = new AtomicBoolean();

  private Continuations() {}

  @Override
  public void execute(Runnable task) {
    tasks.add(task);
    wake();
  }

  private void wake() {
    if (waking.compareAndSet(false, true)) threads.execute(this::work);
  }

  private void work() {
    waking.set(false);
    for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
      // The task may block.
      if (!tasks.isEmpty()) wake();
      Log.guard("a continuation", task);
    }
  }
}
