// SPDX-License-Identifier: Apache-2.0

// Marketing-push sends a push notification to many users at a chosen time and pace. The README beside this file explains it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	duetime "github.com/duetime/duetime/client/go"
	pb "github.com/duetime/duetime/client/go/duetimepb"
)

const (
	topic = "pushes"
	frame = 1000
)

// setPace limits the deliveries of the topic, so that the push provider is not flooded. The limit is for all senders together,
// and an operator can change it during the campaign: duetime topic rate pushes 500.
func setPace(ctx context.Context, client *duetime.Client, perSecond int64) error {
	want := &pb.Topic{Name: topic, Settings: &pb.TopicSettings{
		Rate: &pb.DeliveryRate{MessagesPerSecond: perSecond, Burst: perSecond/10 + 1}}}
	_, err := client.CreateTopic(ctx, &pb.CreateTopicRequest{Topic: want})
	var failure *duetime.Error
	if errors.As(err, &failure) && failure.Code == codes.AlreadyExists {
		_, err = client.UpdateTopic(ctx, &pb.UpdateTopicRequest{
			Topic: want, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"settings.rate"}}})
	}
	return err
}

type tally struct{ created, existed, refused int }

// plan schedules the campaign's push to each user. After a crash or an error, run it again: pushes that exist stay as they are.
func plan(ctx context.Context, client *duetime.Client, campaign string, users int, at time.Time) (tally, error) {
	var counts tally
	// A stream, because one call per user would wait for the disk 100,000 times.
	stream, err := client.OpenScheduleStream(ctx, duetime.ScheduleStreamOptions{}, func(user int64, result duetime.ScheduleResult) {
		switch {
		case result.Err != nil:
			log.Printf("user %d: %v", user, result.Err)
			counts.refused++
		case result.Response.Outcome == pb.ScheduleOutcome_SCHEDULE_OUTCOME_UNCHANGED:
			counts.existed++
		default:
			counts.created++
		}
	})
	if err != nil {
		return counts, err
	}
	for user := 0; user < users; {
		messages := make([]duetime.Message, 0, frame)
		for ; user < users && len(messages) < frame; user++ {
			messages = append(messages, push(campaign, user, at))
		}
		if err := stream.Send(messages...); err != nil {
			return counts, err
		}
	}
	err = stream.Finish()
	return counts, err
}

func push(campaign string, user int, at time.Time) duetime.Message {
	return duetime.Message{
		Topic:   topic,
		Payload: []byte(fmt.Sprintf(`{"user": %d, "text": "Lunch for two at half the price"}`, user)),
		When:    duetime.At(at),
		// One push per campaign and user, in however many runs of this program, also after the push was sent. A request id
		// would recognise repeats only within an hour.
		Key:        fmt.Sprintf("%s/user-%d", campaign, user),
		OnConflict: duetime.ConflictOnce,
		// To stop the campaign: duetime bulk cancel pushes --label campaign=lunch
		Labels: map[string]string{"campaign": campaign},
		// After lunch, the push is of no use.
		TTL:        2 * time.Hour,
		LatePolicy: duetime.LateDrop,
	}
}

// send delivers due pushes until ctx is done, and returns their number. Run several senders to share the work.
func send(ctx context.Context, client *duetime.Client) (int64, error) {
	var sent atomic.Int64
	subscriber, err := client.Subscribe(context.Background(), duetime.SubscriberOptions{Topic: topic, Handlers: 64},
		func(ctx context.Context, delivery *duetime.Delivery) duetime.Settlement {
			// Here a service calls its push provider, with delivery.MessageId as idempotency key. An error nacks.
			err := ctx.Err()
			if err == nil && sent.Add(1)%10_000 == 0 {
				fmt.Printf("sent %d\n", sent.Load())
			}
			return duetime.FromError(err)
		})
	if err != nil {
		return 0, err
	}
	<-ctx.Done()
	// Gives back what no handler has begun.
	stopping, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = subscriber.Stop(stopping)
	return sent.Load(), err
}

func run(ctx context.Context) error {
	campaign := flag.String("campaign", "lunch", "name of the campaign")
	users := flag.Int("users", 100_000, "number of users")
	at := flag.String("at", "", "time of the campaign in RFC 3339, for example 2026-11-24T11:00:00Z (required to plan)")
	rate := flag.Int64("rate", 1000, "pushes per second")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "marketing-push [flags] plan | send")
		flag.PrintDefaults()
	}
	flag.Parse()

	client, err := duetime.New(duetime.Options{Server: os.Getenv("DUETIME_SERVER")})
	if err != nil {
		return err
	}
	defer client.Close()
	switch flag.Arg(0) {
	case "plan":
		// A fixed time, so that a second run schedules the same content.
		moment, err := time.Parse(time.RFC3339, *at)
		if err != nil {
			return fmt.Errorf("-at: %w", err)
		}
		// Before the first push, which may be due at once.
		if err := setPace(ctx, client, *rate); err != nil {
			return err
		}
		counts, err := plan(ctx, client, *campaign, *users, moment)
		fmt.Printf("%d pushes scheduled, %d existed, %d refused\n", counts.created, counts.existed, counts.refused)
		if err != nil {
			return fmt.Errorf("run it again: %w", err)
		}
		return nil
	case "send":
		sent, err := send(ctx, client)
		fmt.Printf("stopped after %d pushes\n", sent)
		return err
	}
	flag.Usage()
	return errors.New("which command?")
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
