// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	duetime "github.com/duetime/duetime/client/go"
	pb "github.com/duetime/duetime/client/go/duetimepb"
)

const topic = "peers"

func duetimePeer(program string) *peer {
	return &peer{
		name:       "duetime",
		durability: "synced before OK",
		version:    []string{program, "--version"},
		serve: func(s *server) []string {
			return []string{program, "--data-dir", s.data(), "--init", "--listen", s.at(0), "--metrics-listen", ""}
		},
		open: openDuetime,
	}
}

func openDuetime(addresses string, callMost time.Duration) (client, error) {
	c, err := duetime.New(duetime.Options{Server: addresses, Timeout: callMost, AttemptsMax: 1})
	if err != nil {
		return nil, err
	}
	// Calls to a cell wait for a leader, while the pauses between attempts to connect grow.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// Both return what exists already.
	_, err = c.CreateTopic(ctx, &pb.CreateTopicRequest{Topic: &pb.Topic{Name: topic}})
	if err == nil {
		_, err = c.CreateSubscription(ctx, &pb.CreateSubscriptionRequest{Subscription: &pb.Subscription{Topic: topic, Name: "default"}})
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &duetimeClient{c}, nil
}

type duetimeClient struct{ *duetime.Client }

func (c *duetimeClient) close() { c.Close() }

// schedule makes its calls without request ids, because no other peer recognises a repeat.
func (c *duetimeClient) schedule(jobs []job) ([]string, error) {
	never := duetime.WithRepeat(duetime.RepeatNever)
	messages := make([]duetime.Message, len(jobs))
	for i, job := range jobs {
		messages[i] = duetime.Message{Topic: topic, Payload: job.payload, When: duetime.At(job.due)}
	}
	if len(jobs) == 1 {
		answer, err := c.Schedule(context.Background(), messages[0], never)
		return []string{answer.GetMessage().GetId()}, err
	}
	results, err := c.ScheduleBatch(context.Background(), messages, never)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(results))
	for i, result := range results {
		if result.Err != nil {
			return nil, result.Err
		}
		ids[i] = result.Response.Message.Id
	}
	return ids, nil
}

func (c *duetimeClient) cancel(ids []string) error {
	var results []duetime.CancelResult
	if len(ids) == 1 {
		result, err := c.Cancel(context.Background(), duetime.ByID(ids[0]))
		if err != nil {
			return err
		}
		results = []duetime.CancelResult{*result}
	} else {
		targets := make([]duetime.Target, len(ids))
		for i, id := range ids {
			targets[i] = duetime.ByID(id)
		}
		var err error
		if results, err = c.CancelBatch(context.Background(), targets); err != nil {
			return err
		}
	}
	for _, result := range results {
		if result.Err != nil || result.Outcome != pb.CancelResponse_OUTCOME_CANCELLED {
			return fmt.Errorf("not cancelled: %v %v", result.CancelResponse, result.Err)
		}
	}
	return nil
}

func (c *duetimeClient) consume(ctx context.Context, sink *sink) error {
	options := duetime.SubscriberOptions{Topic: topic, MaxOutstandingMessages: 10 * takeMost, Lease: lease}
	subscriber, err := c.Subscribe(context.Background(), options, func(_ context.Context, d *duetime.Delivery) duetime.Settlement {
		sink.delivered(d.Payload)
		return duetime.Ack()
	})
	if err != nil {
		return err
	}
	for acked := int64(0); ctx.Err() == nil && subscriber.Err() == nil; time.Sleep(time.Millisecond) {
		now := subscriber.Counts().Acked
		sink.acked(int(now - acked))
		acked = now
	}
	if err := subscriber.Err(); err != nil {
		return err
	}
	stop, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return subscriber.Stop(stop)
}
