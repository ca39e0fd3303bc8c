// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	duetime "github.com/duetime/duetime/client/go"
)

// workerRequest is the fields of the ops of subscribers.
type workerRequest struct {
	Subscriber             string  `json:"subscriber"`
	Topic                  string  `json:"topic"`
	Subscription           string  `json:"subscription"`
	ClientID               string  `json:"client_id"`
	MaxOutstandingMessages int32   `json:"max_outstanding_messages"`
	MaxOutstandingBytes    int64   `json:"max_outstanding_bytes"`
	LeaseMs                *int64  `json:"lease_ms"`
	ExtendMaxMs            *int64  `json:"extend_max_ms"`
	Handlers               int     `json:"handlers"`
	Batch                  int     `json:"batch"`
	SilenceMaxMs           *int64  `json:"silence_max_ms"`
	BackoffInitialMs       *int64  `json:"backoff_initial_ms"`
	BackoffMaxMs           *int64  `json:"backoff_max_ms"`
	Mode                   string  `json:"mode"`
	HandlerMs              *int64  `json:"handler_ms"`
	ExitOn                 *string `json:"exit_on"`
	N                      int64   `json:"n"`
	ending
	HandlersMs *int64 `json:"handlers_ms"`
	ConfirmMs  *int64 `json:"confirm_ms"`
}

// ending is how a handler ends. Settlements is for batches only, and nil if all messages get Settlement.
type ending struct {
	Settlement  settlement   `json:"settlement"`
	Settlements []settlement `json:"settlements"`
}

type settlement struct {
	Kind    string `json:"kind"`
	Reason  string `json:"reason"`
	DelayMs *int64 `json:"delay_ms"`
}

// end returns the settlement of the library, or panics as a handler that fails.
func (s settlement) end() duetime.Settlement {
	delay := millis(s.DelayMs, 0)
	switch s.Kind {
	case "ack":
		return duetime.Ack()
	case "nack":
		if s.DelayMs != nil {
			return duetime.NackAfter(delay, s.Reason)
		}
		return duetime.Nack(s.Reason)
	case "dead_letter":
		return duetime.DeadLetter(s.Reason)
	case "release":
		if s.DelayMs != nil {
			return duetime.ReleaseAfter(delay)
		}
		return duetime.Release()
	case "raise":
		panic(s.Reason)
	}
	return duetime.Leave()
}

// worker is one subscriber.
type worker struct {
	name       string
	manual     bool
	handlerFor time.Duration
	exitOn     *string
	subscriber *duetime.Subscriber
	// Closed when the driver ends.
	closed chan struct{}

	mutex sync.Mutex
	calls int64
	// Where a call of the handler waits for its end.
	endings map[int64]chan ending
}

func startWorker(client *duetime.Client, fields workerRequest) (*worker, error) {
	w := &worker{
		name:       fields.Subscriber,
		manual:     fields.Mode != "ack",
		handlerFor: millis(fields.HandlerMs, 0),
		exitOn:     fields.ExitOn,
		closed:     make(chan struct{}),
		endings:    map[int64]chan ending{},
	}
	options := duetime.SubscriberOptions{
		Topic:                  fields.Topic,
		Subscription:           fields.Subscription,
		ClientID:               fields.ClientID,
		MaxOutstandingMessages: fields.MaxOutstandingMessages,
		MaxOutstandingBytes:    fields.MaxOutstandingBytes,
		Lease:                  millis(fields.LeaseMs, 0),
		ExtendMax:              millis(fields.ExtendMaxMs, 0),
		Handlers:               fields.Handlers,
		BatchMax:               fields.Batch,
		Backoff:                duetime.Backoff{Initial: millis(fields.BackoffInitialMs, 0), Max: millis(fields.BackoffMaxMs, 0)},
		SilenceMax:             millis(fields.SilenceMaxMs, 0),
	}
	if fields.ExtendMaxMs != nil && *fields.ExtendMaxMs == 0 {
		options.ExtendMax = -1
	}
	var subscriber *duetime.Subscriber
	var err error
	if fields.Batch > 0 {
		subscriber, err = client.SubscribeBatch(context.Background(), options, w.handleBatch)
	} else {
		subscriber, err = client.Subscribe(context.Background(), options, w.handle)
	}
	if err != nil {
		return nil, err
	}
	w.subscriber = subscriber
	go func() {
		<-subscriber.Done()
		if err := subscriber.Err(); err != nil {
			emit(object{"event": "ended", "subscriber": w.name, "error": errorJSON(err)})
		}
	}()
	return w, nil
}

// waiting returns where call n gets its end.
func (w *worker) waiting(n int64) chan ending {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.endings[n] == nil {
		w.endings[n] = make(chan ending, 1)
	}
	return w.endings[n]
}

// wait prints the event of a call, and waits for its end.
func (w *worker) wait(event object, deliveries ...*duetime.Delivery) ending {
	for _, delivery := range deliveries {
		if w.exitOn != nil && string(delivery.Payload) == *w.exitOn {
			os.Exit(3)
		}
	}
	w.mutex.Lock()
	w.calls++
	n := w.calls
	w.mutex.Unlock()
	event["subscriber"], event["n"] = w.name, n
	emit(event)
	if !w.manual {
		time.Sleep(w.handlerFor)
		return ending{Settlement: settlement{Kind: "ack"}, Settlements: []settlement{}}
	}
	select {
	case end := <-w.waiting(n):
		return end
	case <-w.closed:
		return ending{Settlement: settlement{Kind: "leave"}}
	}
}

func (w *worker) handle(_ context.Context, delivery *duetime.Delivery) duetime.Settlement {
	return w.wait(object{"event": "delivery", "delivery": toJSON(delivery)}, delivery).Settlement.end()
}

func (w *worker) handleBatch(_ context.Context, deliveries []*duetime.Delivery) []duetime.Settlement {
	var list []any
	for _, delivery := range deliveries {
		list = append(list, toJSON(delivery))
	}
	end := w.wait(object{"event": "batch", "deliveries": list}, deliveries...)
	if end.Settlements == nil {
		for range deliveries {
			end.Settlements = append(end.Settlements, end.Settlement)
		}
	}
	var settlements []duetime.Settlement
	for _, s := range end.Settlements {
		settlements = append(settlements, s.end())
	}
	return settlements
}

func (w *worker) finish(n int64, end ending) error {
	all := end.Settlements
	if all == nil {
		all = []settlement{end.Settlement}
	}
	for _, s := range all {
		switch s.Kind {
		case "ack", "nack", "dead_letter", "release", "leave", "raise":
		default:
			return fmt.Errorf("unknown settlement: %q", s.Kind)
		}
	}
	select {
	case w.waiting(n) <- end:
	default:
	}
	return nil
}

func (w *worker) stop(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return w.subscriber.Stop(ctx) == nil
}

// close is called once, when the driver ends.
func (w *worker) close() {
	close(w.closed)
	w.stop(2 * time.Second)
}

func (w *worker) counts() object {
	c := w.subscriber.Counts()
	return object{
		"delivered": c.Delivered, "acked": c.Acked, "nacked": c.Nacked, "dead_lettered": c.DeadLettered,
		"released": c.Released, "left": c.Left, "refused": c.Refused, "lost": c.Lost, "skipped": c.Skipped,
		"streams": c.Streams, "settle_requests": c.SettleRequests, "extended": c.Extended, "leases_lost": c.LeasesLost,
	}
}

func (d *driver) addWorkers() {
	d.ops["subscriber_start"] = func(r *request) (any, error) {
		var fields workerRequest
		if err := r.read(&fields); err != nil {
			return nil, err
		}
		client, err := d.clients.find(r.Client)
		if err != nil {
			return nil, err
		}
		w, err := startWorker(client, fields)
		if err != nil {
			return nil, err
		}
		d.workers.put(fields.Subscriber, w)
		return object{}, nil
	}
	add := func(op string, run func(*worker, workerRequest) (any, error)) {
		d.ops[op] = func(r *request) (any, error) {
			var fields workerRequest
			if err := r.read(&fields); err != nil {
				return nil, err
			}
			w, err := d.workers.find(fields.Subscriber)
			if err != nil {
				return nil, err
			}
			return run(w, fields)
		}
	}
	add("subscriber_finish", func(w *worker, fields workerRequest) (any, error) {
		return object{}, w.finish(fields.N, fields.ending)
	})
	add("subscriber_counts", func(w *worker, _ workerRequest) (any, error) { return w.counts(), nil })
	add("subscriber_stop", func(w *worker, fields workerRequest) (any, error) {
		limit := millis(fields.HandlersMs, time.Hour) + millis(fields.ConfirmMs, 5*time.Second)
		return object{"clean": w.stop(limit)}, nil
	})
}
