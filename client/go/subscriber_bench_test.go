// SPDX-License-Identifier: Apache-2.0

//go:build unix

package duetime_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	duetime "github.com/duetime/duetime/client/go"
)

// BenchmarkSubscriber drains messages of 128 bytes from the server at DUETIME_SERVER, by one handler of one message, by 500
// such handlers, and by a handler of up to 500 messages. It prints the CPU time of this process for each message:
//
//	DUETIME_SERVER=127.0.0.1:7788 go test -run - -bench Subscriber -benchtime 200000x -count 3
func BenchmarkSubscriber(b *testing.B) {
	server := os.Getenv("DUETIME_SERVER")
	if server == "" {
		b.Skip("DUETIME_SERVER is not set")
	}
	client, err := duetime.New(duetime.Options{Server: server, Timeout: time.Minute, Logger: log.New(io.Discard, "", 0)})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	for _, c := range []struct {
		name     string
		most     int
		handlers int
	}{{"single", 1, 1}, {"single500", 1, 500}, {"batch", 500, 1}} {
		b.Run(c.name, func(b *testing.B) {
			topic := fmt.Sprintf("bench.%d", time.Now().UnixNano())
			fill(b, client, topic)
			options := duetime.SubscriberOptions{Topic: topic, MaxOutstandingMessages: 10_000, Handlers: c.handlers, BatchMax: c.most}
			rest, calls := int64(b.N), int64(0)
			done := make(chan struct{})
			count := func(deliveries int) {
				atomic.AddInt64(&calls, 1)
				if atomic.AddInt64(&rest, -int64(deliveries)) == 0 {
					close(done)
				}
			}
			runtime.GC()
			before := cpu(b)
			b.ResetTimer()
			var subscriber *duetime.Subscriber
			if c.most == 1 {
				subscriber, err = client.Subscribe(context.Background(), options,
					func(context.Context, *duetime.Delivery) duetime.Settlement {
						count(1)
						return duetime.Ack()
					})
			} else {
				subscriber, err = client.SubscribeBatch(context.Background(), options,
					func(_ context.Context, deliveries []*duetime.Delivery) []duetime.Settlement {
						count(len(deliveries))
						return nil
					})
			}
			if err != nil {
				b.Fatal(err)
			}
			<-done
			err := subscriber.Stop(context.Background())
			if err != nil || subscriber.Counts().Acked != int64(b.N) {
				b.Fatalf("%v, %+v", err, subscriber.Counts())
			}
			b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(b.N)/float64(calls), "messages/call")
		})
	}
}

// fill schedules b.N messages, which are due at once.
func fill(b *testing.B, client *duetime.Client, topic string) {
	message := duetime.Message{Topic: topic, Payload: make([]byte, 128), When: duetime.After(0)}
	for rest := b.N; rest > 0; {
		batch := []duetime.Message{}
		for len(batch) < rest && len(batch) < 1000 {
			batch = append(batch, message)
		}
		if _, err := client.ScheduleBatch(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		rest -= len(batch)
	}
}

// cpu returns the CPU time of this process.
func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
