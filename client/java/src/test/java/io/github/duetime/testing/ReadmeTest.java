// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.testing;

// README.md has this class.

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.duetime.client.*;
import io.github.duetime.client.Settlement;
import io.github.duetime.v1.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.extension.ExtendWith;

@EnabledIfEnvironmentVariable(named = "DUETIMED", matches = ".+")
@ExtendWith(TestServerExtension.class)
class ReadmeTest {
  @Test
  void anOrderTimesOutUnlessItIsPaid(TestServer server) {
    DuetimeClient client = server.client();
    List<String> timedOut = new CopyOnWriteArrayList<>();
    server.subscribe("orders", delivery -> timedOut.add(delivery.text()) ? Settlement.ack() : null);
    for (String key : List.of("paid", "unpaid")) {
      client.schedule(NewMessage.builder("orders").key(key).payload(key).after(Duration.ofHours(48)).build());
    }
    server.clock().advance(Duration.ofHours(47));
    client.cancel(Target.key("orders", "paid"));
    server.clock().advance(Duration.ofHours(1));
    assertEquals(List.of("unpaid"), timedOut);
  }

  @Test
  void aDigestComesAtNineOnTheNightOfTheChange() {
    try (TestServer server = TestServer.start(null, Instant.parse("2027-03-26T12:00:00Z"))) {
      server.client().admin().createRecurrence(Recurrence.newBuilder().setName("digest").setTopic("digests")
          .setSchedule(RecurrenceSchedule.newBuilder().setCron("0 9 * * *").setTimeZone("Europe/Berlin")).build());
      server.subscribe("digests", delivery -> Settlement.ack());
      server.clock().advance(Duration.ofDays(2));
      List<Long> hours = server.deliveries("digests").stream().map(one -> one.getTime().getSeconds() / 3600 % 24).toList();
      assertEquals(List.of(8L, 7L), hours); // 9:00 in winter, in summer
    }
  }

  @Test
  void aMailThatAlwaysFailsBecomesADeadLetter(TestServer server) {
    DuetimeClient client = server.client();
    client.admin().createTopic(Topic.newBuilder().setName("mails").build());
    client.admin().createSubscription(Subscription.newBuilder().setTopic("mails").setName("default")
        .setSettings(SubscriptionSettings.newBuilder().setDeadLetterTopic("failed")
            .setRetry(RetryPolicy.newBuilder().setMaxAttempts(3))).build());
    server.subscribe("mails", delivery -> Settlement.nack("no such address"));
    client.schedule(NewMessage.builder("mails").after(Duration.ofMinutes(5)).build());
    assertEquals(1, server.clock().advance(Duration.ofHours(1)).getDeadLettered());
    assertEquals(List.of(1, 2, 3), server.deliveries("mails").stream().map(HandOut::getAttempt).toList());
  }
}
