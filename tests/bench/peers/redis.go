// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
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
		open: func(address string) (client, error) {
			c := redis.NewClient(&redis.Options{Addr: address, PoolSize: 64, MaxRetries: -1, ReadTimeout: 30 * time.Second})
			if err := c.Ping(context.Background()).Err(); err != nil {
				c.Close()
				return nil, err
			}
			return &redisClient{Client: c, prefix: strconv.FormatInt(time.Now().UnixNano(), 36) + "-"}, nil
		},
	}
}

// redisClient keeps pending ids by due time in the sorted set `due`, leased ids by the end of the lease in `lease`, and
// payloads in the hash `body`.
type redisClient struct {
	*redis.Client
	prefix string
	last   int64
}

func (c *redisClient) close() { c.Close() }

func (c *redisClient) schedule(jobs []job) ([]string, error) {
	ids := make([]string, len(jobs))
	due := make([]redis.Z, len(jobs))
	bodies := make([]interface{}, 0, 2*len(jobs))
	last := atomic.AddInt64(&c.last, int64(len(jobs)))
	for i, job := range jobs {
		ids[i] = c.prefix + strconv.FormatInt(last-int64(i), 36)
		due[i] = redis.Z{Score: float64(job.due.UnixMilli()), Member: ids[i]}
		bodies = append(bodies, ids[i], job.payload)
	}
	ctx := context.Background()
	_, err := c.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ZAdd(ctx, "due", due...)
		pipe.HSet(ctx, "body", bodies...)
		return nil
	})
	return ids, err
}

// A leased message is not in `due`, so it is not cancelled and keeps its body.
var redisCancel = redis.NewScript(`
local cancelled = 0
for _, id in ipairs(ARGV) do
  if redis.call('ZREM', KEYS[1], id) == 1 then
    redis.call('HDEL', KEYS[2], id)
    cancelled = cancelled + 1
  end
end
return cancelled`)

func (c *redisClient) cancel(ids []string) error {
	words := make([]interface{}, len(ids))
	for i, id := range ids {
		words[i] = id
	}
	count, err := redisCancel.Run(context.Background(), c, []string{"due", "body"}, words...).Int()
	if err == nil && count != len(ids) {
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
		fields := make([]string, len(ids))
		for i, id := range ids {
			fields[i] = id.(string)
			sink.delivered([]byte(bodies[i].(string)))
		}
		_, err = c.TxPipelined(context.Background(), func(pipe redis.Pipeliner) error {
			pipe.ZRem(context.Background(), "lease", ids...)
			pipe.HDel(context.Background(), "body", fields...)
			return nil
		})
		if err == nil {
			sink.acked(len(ids))
		}
		return len(ids), err
	})
}
