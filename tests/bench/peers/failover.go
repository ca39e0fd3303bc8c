// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"time"
)

const (
	failoverWorkers = 4
	failoverBefore  = 2 * time.Second // of calls before the kill
	failoverAfter   = 20 * time.Second
	failoverCall    = 500 * time.Millisecond // after which a call has failed
	failoverLost    = lease + 5*time.Second  // without a new delivery, after which nobody waits for the missing messages
)

var replicatedHead = fmt.Sprintf("All copies of a peer are on this machine. The leading process is killed while %d workers schedule single "+
	"messages, from %s before to %s after it. A call fails after %s; 50 ms later the worker calls again. A process dies, not a machine. In a "+
	"cell it is the leading member: the brokers, which hold the copies, go on. Redis's sentinels find a dead master after 1 s.",
	failoverWorkers, failoverBefore, failoverAfter, failoverCall)

// tries are calls that schedule one message each. The index of a call is the number of its message.
type tries struct {
	mutex    sync.Mutex
	accepted []bool
	times    []time.Time // when calls succeeded
}

func (t *tries) begin() (number int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.accepted = append(t.accepted, false)
	return len(t.accepted) - 1
}

func (t *tries) succeeded(number int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.accepted[number] = true
	t.times = append(t.times, time.Now())
}

// missing returns how many accepted messages have not come.
func (t *tries) missing(sink *sink) int {
	sink.mutex.Lock()
	defer sink.mutex.Unlock()
	count := 0
	for number, accepted := range t.accepted {
		if accepted && !sink.seen[number] {
			count++
		}
	}
	return count
}

// longestGap returns the longest time without a success that ended after the kill.
func longestGap(times []time.Time, began, kill, end time.Time) time.Duration {
	var longest time.Duration
	last := began
	for _, now := range append(append([]time.Time(nil), times...), end) {
		if gap := now.Sub(last); now.After(kill) && gap > longest {
			longest = gap
		}
		last = now
	}
	return longest
}

// failover kills the leading process while messages are accepted, measures the longest time in which none is, and counts accepted messages that
// do not come. All are due at one moment after that. The message of a call that failed may come or not.
func (l *life) failover() error {
	if l.peer.leader == nil {
		return nil
	}
	l.phase++
	if err := l.open(failoverCall); err != nil {
		return err
	}
	began := time.Now()
	end := began.Add(failoverBefore + failoverAfter)
	calls := &tries{}
	ended := make(chan bool)
	go func() {
		_, _ = each(failoverWorkers, time.Until(end), func(random *rand.Rand) (int, error) {
			number := calls.begin()
			if _, err := l.client.schedule([]job{newJob(random, end.Add(3*time.Second), l.phase, number)}); err == nil {
				calls.succeeded(number)
				time.Sleep(5 * time.Millisecond)
			} else {
				time.Sleep(50 * time.Millisecond)
			}
			return 1, nil
		}, l.random)
		close(ended)
	}()
	time.Sleep(failoverBefore)
	leader, err := l.peer.leader(l.server, l.client)
	kill := time.Now()
	if err == nil {
		err = l.server.killOne(leader)
	}
	<-ended
	if err != nil {
		return err
	}
	l.results["failover accepted"] = float64(len(calls.times))
	l.results["failover ms"] = longestGap(calls.times, began, kill, end).Seconds() * 1e3
	if err := l.open(callMost); err != nil {
		return err
	}
	return l.consumeAccepted(calls)
}

// consumeAccepted consumes until all accepted messages have come, or no more of them come.
func (l *life) consumeAccepted(calls *tries) error {
	sink := newSink(l.phase, len(calls.accepted))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- l.client.consume(ctx, sink) }()
	last, since := calls.missing(sink), time.Now()
	for missing := last; missing > 0 && time.Since(since) < failoverLost; missing = calls.missing(sink) {
		if missing < last {
			last, since = missing, time.Now()
		}
		select {
		case err := <-ended:
			l.results["lost after failover"] = float64(missing)
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
	l.results["lost after failover"] = float64(calls.missing(sink))
	stop()
	return <-ended
}
