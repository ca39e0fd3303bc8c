// SPDX-License-Identifier: Apache-2.0

package duetimetest_test

// README.md has the tests of this file.

import (
	"context"
	"testing"
	"time"

	duetime "github.com/duetime/duetime/client/go"
	pb "github.com/duetime/duetime/client/go/duetimepb"
	"github.com/duetime/duetime/client/go/duetimetest"
)

func TestAnOrderTimesOutUnlessItIsPaid(t *testing.T) {
	server, ctx := duetimetest.New(t), context.Background()
	client := server.Client()
	server.Subscribe(duetime.SubscriberOptions{Topic: "orders"}, ack)
	for _, key := range []string{"paid", "unpaid"} {
		message := duetime.Message{Topic: "orders", Key: key, When: duetime.After(48 * time.Hour)}
		if _, err := client.Schedule(ctx, message); err != nil {
			t.Fatal(err)
		}
	}
	server.Clock.Advance(47 * time.Hour)
	if _, err := client.Cancel(ctx, duetime.ByKey("orders", "paid")); err != nil {
		t.Fatal(err)
	}
	if advanced := server.Clock.Advance(time.Hour); advanced.Acked != 1 {
		t.Fatal(advanced)
	}
}

func TestADigestComesAtNineOnTheNightOfTheChange(t *testing.T) {
	server := duetimetest.New(t, duetimetest.Options{At: time.Date(2027, 3, 26, 12, 0, 0, 0, time.UTC)})
	nine := &pb.RecurrenceSchedule{Rule: &pb.RecurrenceSchedule_Cron{Cron: "0 9 * * *"}, TimeZone: "Europe/Berlin"}
	request := &pb.CreateRecurrenceRequest{Recurrence: &pb.Recurrence{Name: "digest", Topic: "digests", Schedule: nine}}
	if _, err := server.Client().CreateRecurrence(context.Background(), request); err != nil {
		t.Fatal(err)
	}
	server.Subscribe(duetime.SubscriberOptions{Topic: "digests"}, ack)
	server.Clock.Advance(48 * time.Hour)
	got := server.Deliveries("digests") // at 9:00 in winter, and in summer
	if len(got) != 2 || got[0].Time.AsTime().Hour() != 8 || got[1].Time.AsTime().Hour() != 7 {
		t.Fatal(got)
	}
}

func TestAMailThatAlwaysFailsBecomesADeadLetter(t *testing.T) {
	server, ctx := duetimetest.New(t), context.Background()
	client := server.Client()
	_, err := client.CreateTopic(ctx, &pb.CreateTopicRequest{Topic: &pb.Topic{Name: "mails"}})
	if err != nil {
		t.Fatal(err)
	}
	settings := &pb.SubscriptionSettings{Retry: &pb.RetryPolicy{MaxAttempts: 3}, DeadLetterTopic: "failed"}
	subscription := &pb.Subscription{Topic: "mails", Name: "default", Settings: settings}
	if _, err := client.CreateSubscription(ctx, &pb.CreateSubscriptionRequest{Subscription: subscription}); err != nil {
		t.Fatal(err)
	}
	server.Subscribe(duetime.SubscriberOptions{Topic: "mails"}, fail)
	if _, err := client.Schedule(ctx, duetime.Message{Topic: "mails", When: duetime.After(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	if advanced := server.Clock.Advance(time.Hour); advanced.DeadLettered != 1 || len(server.Deliveries("mails")) != 3 {
		t.Fatal(advanced)
	}
}

func ack(context.Context, *duetime.Delivery) duetime.Settlement { return duetime.Ack() }

func fail(context.Context, *duetime.Delivery) duetime.Settlement {
	return duetime.Nack("no such address")
}
