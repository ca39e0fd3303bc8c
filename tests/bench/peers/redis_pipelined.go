// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// redisPipelinedPeer is Redis with a client that sends the calls of all callers on one connection, as they come, without
// waiting for answers. It makes accepts and cancels; the other client consumes.
func redisPipelinedPeer() *peer {
	p := redisPeer("always", "synced before OK")
	p.name = "Redis, AOF always, pipelined"
	open := p.open
	p.open = func(address string, callMost time.Duration) (client, error) {
		c, err := open(address, callMost)
		if err != nil {
			return nil, err
		}
		shared, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true,
			AlwaysPipelining: true, ConnWriteTimeout: connectionMost(callMost)})
		if err != nil {
			c.close()
			return nil, err
		}
		return &redisPipelinedClient{c.(*redisClient), shared}, nil
	}
	return p
}

type redisPipelinedClient struct {
	*redisClient
	shared rueidis.Client
}

func (c *redisPipelinedClient) close() {
	c.shared.Close()
	c.redisClient.close()
}

// A transaction would need a connection of its own.
var redisAccept = rueidis.NewLuaScript(`
for i = 1, #ARGV, 3 do
  redis.call('ZADD', KEYS[1], ARGV[i], ARGV[i + 1])
  redis.call('HSET', KEYS[2], ARGV[i + 1], ARGV[i + 2])
end
return #ARGV / 3`)

var redisCancelShared = rueidis.NewLuaScript(redisCancelText)

func (c *redisPipelinedClient) schedule(jobs []job) ([]string, error) {
	ids, words := make([]string, len(jobs)), make([]string, 0, 3*len(jobs))
	last := atomic.AddInt64(&c.last, int64(len(jobs)))
	for i, job := range jobs {
		ids[i] = c.prefix + strconv.FormatInt(last-int64(i), 36)
		words = append(words, strconv.FormatInt(job.due.UnixMilli(), 10), ids[i], string(job.payload))
	}
	return ids, c.run(redisAccept, words, len(jobs))
}

func (c *redisPipelinedClient) cancel(ids []string) error {
	return c.run(redisCancelShared, ids, len(ids))
}

func (c *redisPipelinedClient) run(script *rueidis.Lua, words []string, want int) error {
	count, err := script.Exec(context.Background(), c.shared, []string{"due", "body"}, words).AsInt64()
	if err == nil && count != int64(want) {
		err = fmt.Errorf("changed %d of %d", count, want)
	}
	return err
}

// connectionMost is how long the shared connection may be silent.
func connectionMost(callMost time.Duration) time.Duration {
	if callMost > 10*time.Second {
		return callMost
	}
	return 10 * time.Second
}
