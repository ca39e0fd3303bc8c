// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.grpc.Context;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** Makes many calls at once, each on a thread of its own. */
final class Together {
  private final Calls calls;

  Together(Calls calls) {
    this.calls = calls;
  }

  JsonObject run(JsonObject request) {
    JsonArray all = request.getAsJsonArray("calls");
    CountDownLatch begin = new CountDownLatch(all.size());
    ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    List<Thread> callers = new ArrayList<>();
    for (int i = 0; i < all.size(); i++) {
      int number = i;
      JsonObject call = all.get(i).getAsJsonObject();
      call.add("client", request.get("client"));
      Thread caller = new Thread(() -> {
        begin.countDown();
        await(begin::await);
        JsonObject event = outcome(call, timer);
        event.addProperty("event", "outcome");
        event.add("group", request.get("group"));
        event.addProperty("number", number);
        Wire.print(event);
      });
      callers.add(caller);
      caller.start();
    }
    for (Thread caller : callers) await(caller::join);
    timer.shutdownNow();
    return new JsonObject();
  }

  /** An interrupt cancels a call, and the deadline of gRPC's context is that of the calls in it. */
  private JsonObject outcome(JsonObject call, ScheduledExecutorService timer) {
    Duration cancel = Wire.millis(call, "cancel_ms", null);
    if (cancel != null) timer.schedule(Thread.currentThread()::interrupt, cancel.toMillis(), TimeUnit.MILLISECONDS);
    Duration timeout = Wire.millis(call, "timeout_ms", null);
    if (timeout == null) return calls.outcome(call);
    JsonObject[] outcome = new JsonObject[1];
    Context.current().withDeadlineAfter(timeout.toMillis(), TimeUnit.MILLISECONDS, timer)
        .run(() -> outcome[0] = calls.outcome(call));
    return outcome[0];
  }

  private interface Wait {
    void run() throws InterruptedException;
  }

  private static void await(Wait wait) {
    try {
      wait.run();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
