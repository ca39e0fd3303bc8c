// SPDX-License-Identifier: Apache-2.0

// Retry-queue delivers webhooks to an endpoint that fails at times. The README beside this file explains it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	duetime "github.com/duetime/duetime/client/go"
	pb "github.com/duetime/duetime/client/go/duetimepb"
)

const (
	topic        = "webhooks"
	subscription = "sender"
	deadLetters  = "webhooks.dlq" // the default name
)

// configure sets the retry policy, which belongs to the subscription, so that it is the same for all workers.
func configure(ctx context.Context, client *duetime.Client, minBackoff time.Duration, maxAttempts int) error {
	want := &pb.Subscription{Topic: topic, Name: subscription, Settings: &pb.SubscriptionSettings{Retry: &pb.RetryPolicy{
		MinBackoff:  durationpb.New(minBackoff),
		MaxBackoff:  durationpb.New(time.Hour),
		Multiplier:  2,
		Jitter:      proto.Float64(0.2), // so that webhooks that failed together do not come again together
		MaxAttempts: int32(maxAttempts),
	}}}
	_, err := client.CreateSubscription(ctx, &pb.CreateSubscriptionRequest{Subscription: want})
	var failure *duetime.Error
	if errors.As(err, &failure) && failure.Code == codes.AlreadyExists { // with another policy
		_, err = client.UpdateSubscription(ctx, &pb.UpdateSubscriptionRequest{
			Subscription: want, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"settings.retry"}}})
	}
	return err
}

// deliver makes one attempt, and says what shall happen to the webhook.
func deliver(ctx context.Context, url string, delivery *duetime.Delivery) duetime.Settlement {
	response, err := post(ctx, url, delivery)
	if err != nil {
		fmt.Printf("%s: attempt %d: %v\n", delivery.Payload, delivery.Attempt, err)
		return duetime.Nack(err.Error()) // again, by the retry policy
	}
	response.Body.Close()
	fmt.Printf("%s: attempt %d: %s\n", delivery.Payload, delivery.Attempt, response.Status)
	switch code := response.StatusCode; {
	case code < 300:
		return duetime.Ack()
	case code == http.StatusTooManyRequests || code >= 500:
		// The receiver knows best when to try again. The attempt counts all the same.
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
			return duetime.NackAfter(time.Duration(seconds)*time.Second, response.Status)
		}
		return duetime.Nack(response.Status)
	default:
		// The request itself is wrong: more attempts would get the same answer.
		return duetime.DeadLetter(response.Status)
	}
}

func post(ctx context.Context, url string, delivery *duetime.Delivery) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(delivery.Payload))
	if err != nil {
		return nil, err
	}
	// A message can come more than once. Its id is the same each time, so the receiver can recognise a repeat.
	request.Header.Set("Idempotency-Key", delivery.MessageId)
	return http.DefaultClient.Do(request)
}

// work delivers webhooks until ctx is done.
func work(ctx context.Context, client *duetime.Client, url string) error {
	subscriber, err := client.Subscribe(context.Background(),
		duetime.SubscriberOptions{Topic: topic, Subscription: subscription, Handlers: 16},
		func(ctx context.Context, delivery *duetime.Delivery) duetime.Settlement {
			return deliver(ctx, url, delivery)
		})
	if err != nil {
		return err
	}
	fmt.Println("working")
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	return subscriber.Stop(stopping)
}

// printDeadLetters prints the webhooks that failed, and why.
func printDeadLetters(ctx context.Context, client *duetime.Client) error {
	list := client.List(&pb.ListRequest{Topic: deadLetters})
	for list.Next(ctx) {
		origin := list.Item().DeadLetter
		fmt.Printf("%s: %d attempts, %s: %s\n", list.Item().Id, origin.Attempts, origin.Reason, origin.ReasonText)
	}
	return list.Err()
}

// redrive sends all dead letters back to their topic, with fresh attempts, and waits until that is done.
func redrive(ctx context.Context, client *duetime.Client) (int64, error) {
	started, err := client.StartBulk(ctx, &pb.StartBulkRequest{Topic: deadLetters, Action: pb.BulkAction_BULK_ACTION_REDRIVE})
	operation := started.GetOperation()
	for err == nil && operation.State == pb.Operation_STATE_RUNNING {
		time.Sleep(100 * time.Millisecond)
		var got *pb.GetOperationResponse
		got, err = client.GetOperation(ctx, &pb.GetOperationRequest{Name: operation.Name})
		operation = got.GetOperation()
	}
	return operation.GetChanged(), err
}

func run(ctx context.Context) error {
	url := flag.String("url", "http://127.0.0.1:8080/", "the endpoint that gets the webhooks")
	minBackoff := flag.Duration("min-backoff", 5*time.Second, "delay after the first failed attempt; later ones double it")
	maxAttempts := flag.Int("max-attempts", 8, "failed attempts after which a webhook becomes a dead letter")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "retry-queue [flags] work | send TEXT | dead | redrive")
		flag.PrintDefaults()
	}
	flag.Parse()

	client, err := duetime.New(duetime.Options{Server: os.Getenv("DUETIME_SERVER")})
	if err != nil {
		return err
	}
	defer client.Close()
	switch flag.Arg(0) {
	case "work":
		if err := configure(ctx, client, *minBackoff, *maxAttempts); err != nil {
			return err
		}
		return work(ctx, client, *url)
	case "send":
		// Due at once. On disk when the call returns, so the caller need not wait for the endpoint.
		_, err := client.Schedule(ctx, duetime.Message{Topic: topic, Payload: []byte(flag.Arg(1)), When: duetime.After(0)})
		return err
	case "dead":
		return printDeadLetters(ctx, client)
	case "redrive":
		count, err := redrive(ctx, client)
		fmt.Printf("sent back %d webhooks\n", count)
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
