// SPDX-License-Identifier: Apache-2.0

package duetime_test

import (
	"context"
	"fmt"
	"log"
	"time"

	duetime "github.com/duetime/duetime/client/go"
)

// The example needs a server on this machine, so `go test` only compiles it.
func Example() {
	ctx := context.Background()
	client, err := duetime.New(duetime.Options{}) // 127.0.0.1:7788
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	accepted, err := client.Schedule(ctx, duetime.Message{
		Topic:      "orders",
		Payload:    []byte("remind 17"),
		When:       duetime.After(time.Second),
		Key:        "order-17",
		OnConflict: duetime.ConflictReplace,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("scheduled", accepted.Message.Id, accepted.Outcome)

	// Each beat of a heartbeat pushes the alarm back.
	_, err = client.Schedule(ctx, duetime.Message{
		Topic:      "alarms",
		Key:        "host-7",
		OnConflict: duetime.ConflictPushBack,
		When:       duetime.After(time.Minute),
	})
	if err != nil {
		log.Fatal(err)
	}

	received := make(chan struct{}, 1)
	options := duetime.SubscriberOptions{Topic: "orders", Handlers: 8}
	subscriber, err := client.Subscribe(ctx, options, func(ctx context.Context, delivery *duetime.Delivery) duetime.Settlement {
		fmt.Println("received", string(delivery.Payload), "attempt", delivery.Attempt)
		received <- struct{}{}
		return duetime.Ack()
	})
	if err != nil {
		log.Fatal(err)
	}
	<-received
	stopping, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := subscriber.Stop(stopping); err != nil {
		log.Fatal(err)
	}
}
