// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

func redisPeer(fsync, durability string) *peer {
	return &peer{
		name:       "Redis, AOF " + fsync,
		durability: durability,
		version:    []string{"redis-server", "--version"},
		create:     func(s *server) [][]string { return [][]string{{"mkdir", s.data()}} },
		serve: func(s *server) []string {
			return []string{"redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(s.ports[0]), "--dir", s.data(),
				"--save", "", "--appendonly", "yes", "--appendfsync", fsync}
		},
		open: func(address string, callMost time.Duration) (client, error) {
			return openRedis(redis.NewClient(&redis.Options{Addr: address, PoolSize: 64, MaxRetries: -1, ReadTimeout: callMost}), 0)
		},
	}
}

// openRedis makes a client. With a waitMost above 0, each write waits for a replica, and fails after that time.
func openRedis(conn *redis.Client, waitMost time.Duration) (client, error) {
	c := &redisClient{Client: conn, prefix: strconv.FormatInt(time.Now().UnixNano(), 36) + "-", waitMost: waitMost}
	err := redisCancel.Load(context.Background(), c).Err()
	if err == nil {
		err = c.write(redisCommand{"PING"})
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// redisClient keeps pending ids by due time in the sorted set `due`, leased ids by the end of the lease in `lease`, and
// payloads in the hash `body`.
type redisClient struct {
	*redis.Client
	prefix   string
	last     int64
	waitMost time.Duration
}

type redisCommand []interface{}

func (c *redisClient) close() { c.Close() }

// write makes one transaction of the commands.
func (c *redisClient) write(commands ...redisCommand) error {
	ctx, pipe := context.Background(), c.Pipeline()
	pipe.Do(ctx, "MULTI")
	for _, command := range commands {
		pipe.Do(ctx, command...)
	}
	answers := pipe.Do(ctx, "EXEC")
	if err := c.send(pipe); err != nil {
		return err
	}
	list, err := answers.Slice()
	for _, answer := range list {
		if failure, failed := answer.(error); failed {
			err = failure
		}
	}
	return err
}

// send sends the commands in one round trip. With replicas, a WAIT follows them, and send fails unless a replica has them.
func (c *redisClient) send(pipe redis.Pipeliner) error {
	var replicas *redis.Cmd
	if c.waitMost > 0 {
		replicas = pipe.Do(context.Background(), "WAIT", 1, c.waitMost.Milliseconds())
	}
	_, err := pipe.Exec(context.Background())
	if err == nil && replicas != nil && replicas.Val() == int64(0) {
		err = errors.New("no replica confirmed the write")
	}
	return err
}

func (c *redisClient) schedule(jobs []job) ([]string, error) {
	ids := make([]string, len(jobs))
	due, bodies := redisCommand{"ZADD", "due"}, redisCommand{"HSET", "body"}
	last := atomic.AddInt64(&c.last, int64(len(jobs)))
	for i, job := range jobs {
		ids[i] = c.prefix + strconv.FormatInt(last-int64(i), 36)
		due = append(due, job.due.UnixMilli(), ids[i])
		bodies = append(bodies, ids[i], job.payload)
	}
	return ids, c.write(due, bodies)
}

// A leased message is not in `due`, so it is not cancelled and keeps its body.
var redisCancel = redis.NewScript(redisCancelText)

const redisCancelText = `
local cancelled = 0
for _, id in ipairs(ARGV) do
  if redis.call('ZREM', KEYS[1], id) == 1 then
    redis.call('HDEL', KEYS[2], id)
    cancelled = cancelled + 1
  end
end
return cancelled`

func (c *redisClient) cancel(ids []string) error {
	words := make([]interface{}, len(ids))
	for i, id := range ids {
		words[i] = id
	}
	pipe := c.Pipeline()
	answer := redisCancel.EvalSha(context.Background(), pipe, []string{"due", "body"}, words...)
	err := c.send(pipe)
	if count, _ := answer.Int(); err == nil && count != len(ids) {
		err = fmt.Errorf("cancelled %d of %d", count, len(ids))
	}
	return err
}

// Returns ids and payloads, of ended leases first.
var redisTake = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local from = KEYS[2]
local ids = redis.call('ZRANGEBYSCORE', from, '-inf', now, 'LIMIT', 0, ARGV[1])
if #ids == 0 then
  from = KEYS[1]
  ids = redis.call('ZRANGEBYSCORE', from, '-inf', now, 'LIMIT', 0, ARGV[1])
end
if #ids == 0 then return {{}, {}} end
redis.call('ZREM', from, unpack(ids))
local leases = {}
for i, id in ipairs(ids) do
  leases[2 * i - 1] = now + ARGV[2]
  leases[2 * i] = id
end
redis.call('ZADD', KEYS[2], unpack(leases))
return {ids, redis.call('HMGET', KEYS[3], unpack(ids))}`)

func (c *redisClient) consume(ctx context.Context, sink *sink) error {
	return poll(ctx, 2, func() (int, error) {
		answer, err := redisTake.Run(context.Background(), c, []string{"due", "lease", "body"}, takeMost,
			lease.Milliseconds()).Slice()
		if err != nil {
			return 0, err
		}
		ids, bodies := answer[0].([]interface{}), answer[1].([]interface{})
		if len(ids) == 0 {
			return 0, nil
		}
		for _, body := range bodies {
			sink.delivered([]byte(body.(string)))
		}
		err = c.write(append(redisCommand{"ZREM", "lease"}, ids...), append(redisCommand{"HDEL", "body"}, ids...))
		if err == nil {
			sink.acked(len(ids))
		}
		return len(ids), err
	})
}
