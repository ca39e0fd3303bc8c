// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.duetime.v1.AdminGrpc;
import io.github.duetime.v1.CallRepeat;
import io.github.duetime.v1.MessagesGrpc;
import io.github.duetime.v1.PullRequest;
import io.github.duetime.v1.RescheduleRequest;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class RetryBudgetTest {
  private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

  /** Takes all tokens. Returns how many there were. */
  private static int drain(RetryBudget budget, long now) {
    int tokens = 0;
    while (budget.take(now)) tokens++;
    return tokens;
  }

  @Test
  void holdsWhatCallsAndTimeAdd() {
    record Case(int calls, int givenBack, double seconds, int tokens) {}
    for (Case of : new Case[] {
        new Case(0, 0, 0, 0), new Case(9, 0, 0, 0), new Case(10, 0, 0, 1), new Case(25, 0, 0, 2), new Case(0, 0, 0.99, 0),
        new Case(0, 0, 1, 1), new Case(5, 0, 0.5, 1), new Case(0, 3, 0, 6), new Case(10, 1, 7.5, 10), new Case(0, 0, -5, 0),
        new Case(2_000, 0, 0, 100), new Case(0, 200, 0, 100), new Case(0, 0, 1e6, 100), new Case(600, 60, 60, 100)}) {
      // The clock of Java may begin anywhere.
      for (long begin : new long[] {0, -SECOND / 2, Long.MAX_VALUE - SECOND / 2}) {
        RetryBudget budget = new RetryBudget(begin);
        assertEquals(100, drain(budget, begin));
        for (int i = 0; i < of.calls; i++) budget.onCall();
        for (int i = 0; i < of.givenBack; i++) budget.giveBack();
        assertEquals(of.tokens, drain(budget, begin + (long) (of.seconds * SECOND)), of + " from " + begin);
      }
    }
  }

  @Test
  void aFullBudgetTakesNoMore() {
    RetryBudget budget = new RetryBudget(0);
    budget.onCall();
    budget.giveBack();
    assertEquals(100, drain(budget, 3600 * SECOND));
  }

  @Test
  void eachMethodSaysWhetherItMayBeRepeated() {
    for (io.grpc.ServiceDescriptor service : new io.grpc.ServiceDescriptor[] {
        MessagesGrpc.getServiceDescriptor(), AdminGrpc.getServiceDescriptor()}) {
      for (io.grpc.MethodDescriptor<?, ?> method : service.getMethods()) {
        assertNotEquals(CallRepeat.CALL_REPEAT_UNSPECIFIED, Caller.repeatOf(method), method.getFullMethodName());
      }
    }
    RescheduleRequest plain = RescheduleRequest.getDefaultInstance();
    assertTrue(Caller.mayRepeat(MessagesGrpc.getRescheduleMethod(), plain));
    assertFalse(Caller.mayRepeat(MessagesGrpc.getRescheduleMethod(), plain.toBuilder().setEtag("e").build()));
    assertFalse(Caller.mayRepeat(MessagesGrpc.getPullMethod(), PullRequest.getDefaultInstance()));
  }
}
