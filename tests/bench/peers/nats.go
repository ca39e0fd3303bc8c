// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

func natsPeer(program string) *peer {
	return &peer{
		name:          "NATS JetStream, sync always",
		durability:    "synced before OK",
		version:       []string{program, "--version"},
		noBatchCancel: true,
		serve: func(s *server) []string {
			file := filepath.Join(s.folder, "nats.conf")
			config := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always, max_file_store: 64GB }\n",
				s.at(0), s.data())
			_ = os.WriteFile(file, []byte(config), 0o644)
			return []string{program, "--config", file}
		},
		open: func(address string, callMost time.Duration) (client, error) { return openNATS(address, 1, callMost) },
	}
}

func openNATS(addresses string, copies int, callMost time.Duration) (client, error) {
	options, openMost := []nats.Option{nats.MaxReconnects(0)}, callMost
	if copies > 1 {
		// Without a leader there is no answer.
		openMost = time.Second
		options = []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0)}
	}
	conn, err := nats.Connect(addresses, options...)
	if err != nil {
		return nil, err
	}
	js, err := conn.JetStream(nats.PublishAsyncMaxPending(16*takeMost), nats.MaxWait(callMost))
	if err == nil {
		// The library of this version does not know allow_msg_schedules.
		request := fmt.Sprintf(`{"name": "jobs", "subjects": ["at.>", "due"], "retention": "workqueue", "storage": "file",
			"num_replicas": %d, "allow_msg_schedules": true}`, copies)
		var answer *nats.Msg
		answer, err = conn.Request("$JS.API.STREAM.CREATE.jobs", []byte(request), openMost)
		if err == nil && strings.Contains(string(answer.Data), `"error"`) {
			err = errors.New(string(answer.Data))
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsClient{conn: conn, js: js, callMost: callMost, prefix: "at." + strconv.FormatInt(time.Now().UnixNano(), 36) + "."}, nil
}

// natsClient gives each message a subject of its own, because a schedule replaces the one before on its subject.
type natsClient struct {
	conn     *nats.Conn
	js       nats.JetStreamContext
	callMost time.Duration
	prefix   string
	last     int64
}

func (c *natsClient) close() { c.conn.Close() }

func (c *natsClient) schedule(jobs []job) ([]string, error) {
	last := atomic.AddInt64(&c.last, int64(len(jobs)))
	futures := make([]nats.PubAckFuture, len(jobs))
	for i, job := range jobs {
		message := nats.NewMsg(c.prefix + strconv.FormatInt(last-int64(i), 36))
		message.Data = job.payload
		message.Header.Set("Nats-Schedule", "@at "+job.due.UTC().Format(time.RFC3339Nano))
		message.Header.Set("Nats-Schedule-Target", "due")
		var err error
		if futures[i], err = c.js.PublishMsgAsync(message); err != nil {
			return nil, err
		}
	}
	ids := make([]string, len(jobs))
	late := time.After(c.callMost)
	for i, future := range futures {
		select {
		case ack := <-future.Ok():
			ids[i] = strconv.FormatUint(ack.Sequence, 10)
		case err := <-future.Err():
			return nil, err
		case <-late:
			return nil, nats.ErrTimeout
		}
	}
	return ids, nil
}

func (c *natsClient) cancel(ids []string) error {
	sequence, _ := strconv.ParseUint(ids[0], 10, 64)
	return c.js.DeleteMsg("jobs", sequence)
}

// consume reads confirmed acks from the consumer's ack floor: an ack has no answer of its own unless each waits for it.
func (c *natsClient) consume(ctx context.Context, sink *sink) error {
	subscription, err := c.js.PullSubscribe("due", "workers", nats.AckWait(lease), nats.MaxAckPending(10*takeMost))
	if err != nil {
		return err
	}
	info, err := subscription.ConsumerInfo()
	for err == nil && ctx.Err() == nil {
		var messages []*nats.Msg
		messages, err = subscription.Fetch(takeMost, nats.MaxWait(50*time.Millisecond))
		if err != nil && !errors.Is(err, nats.ErrTimeout) {
			return err
		}
		for _, message := range messages {
			sink.delivered(message.Data)
			_ = message.Ack()
		}
		floor := info.AckFloor.Consumer
		if info, err = subscription.ConsumerInfo(); err == nil {
			sink.acked(int(info.AckFloor.Consumer - floor))
		}
	}
	return err
}
