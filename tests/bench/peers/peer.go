// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"math/rand"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// lease is how long a consumer may hold a message. No message needs it twice here.
const lease = 30 * time.Second

// takeMost is how many messages a consumer takes at once; pollEvery is how long a consumer waits when a peer that must be
// asked had none.
const (
	takeMost  = 1000
	pollEvery = 5 * time.Millisecond
)

// peer is a server that can hold messages until they are due.
type peer struct {
	name string
	// durability says where a message is when the peer answers OK.
	durability string
	version    []string
	// asUser: see server.command.
	asUser string
	// members is how many servers clients know, by the first of the ports; one if 0.
	members int
	// create returns the commands that make a new data directory.
	create func(s *server) [][]string
	// serve returns the command of the server.
	serve func(s *server) []string
	// open connects, and returns an error while the server is not ready. It creates the table, stream or topic if needed.
	// A call may take callMost, if the peer has several copies.
	open func(addresses string, callMost time.Duration) (client, error)
	// leader returns a text that only the command line of the leading process has. nil: there is one copy.
	leader func(s *server, c client) (string, error)
	// noBatchCancel: the peer cancels one message at a time.
	noBatchCancel bool
}

// client does what an application does. All but close may be called concurrently.
type client interface {
	// schedule returns the ids of the accepted messages.
	schedule(jobs []job) ([]string, error)
	// cancel fails if a message was not pending.
	cancel(ids []string) error
	// consume delivers and acknowledges due messages until ctx is done.
	consume(ctx context.Context, sink *sink) error
	close()
}

// job is a message: 8 bytes of due time in ms, 4 of the phase, 4 of its number in the phase, and filling.
type job struct {
	due     time.Time
	payload []byte
}

const payloadBytes = 128

// newJob makes a message. Half of its payload is random.
func newJob(random *rand.Rand, due time.Time, phase, number int) job {
	payload := make([]byte, payloadBytes)
	copy(payload[payloadBytes/2:], strings.Repeat("the order is ", payloadBytes))
	random.Read(payload[16 : payloadBytes/2])
	// Whole milliseconds, rounded up: the resolution of duetime and Redis.
	due = due.Truncate(time.Millisecond).Add(time.Millisecond)
	binary.BigEndian.PutUint64(payload, uint64(due.UnixMilli()))
	binary.BigEndian.PutUint32(payload[8:], uint32(phase))
	binary.BigEndian.PutUint32(payload[12:], uint32(number))
	return job{due, payload}
}

// sink judges what is delivered in one phase.
type sink struct {
	phase    uint32
	expected int
	acks     int64

	mutex    sync.Mutex
	seen     []bool
	distinct int
	repeats  int
	early    int
	lateness []float64 // in ms, of the first delivery of each message
}

func newSink(phase, expected int) *sink {
	return &sink{phase: uint32(phase), expected: expected, seen: make([]bool, expected)}
}

func (s *sink) delivered(payload []byte) {
	late := float64(time.Now().UnixNano())/1e6 - float64(binary.BigEndian.Uint64(payload))
	number := int(binary.BigEndian.Uint32(payload[12:]))
	if binary.BigEndian.Uint32(payload[8:]) != s.phase || number >= s.expected {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.seen[number] {
		s.repeats++
		return
	}
	s.seen[number] = true
	s.distinct++
	if late < 0 {
		s.early++
	}
	s.lateness = append(s.lateness, late)
}

// acked counts acknowledgements that the peer has confirmed.
func (s *sink) acked(n int) { atomic.AddInt64(&s.acks, int64(n)) }

func (s *sink) complete() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.distinct == s.expected && atomic.LoadInt64(&s.acks) >= int64(s.expected)
}

// poll calls take, which returns how many messages it handled, until ctx is done. It waits after an empty answer.
func poll(ctx context.Context, workers int, take func() (int, error)) error {
	errs := make(chan error, workers)
	for i := 0; i < workers; i++ {
		go func() {
			for ctx.Err() == nil {
				count, err := take()
				if err != nil && ctx.Err() == nil {
					errs <- err
					return
				}
				if count == 0 {
					time.Sleep(pollEvery)
				}
			}
			errs <- nil
		}()
	}
	var first error
	for i := 0; i < workers; i++ {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// versionOf returns the first line that the peer prints about its version; empty if it is not installed.
func versionOf(p *peer) string {
	text, err := exec.Command(p.version[0], p.version[1:]...).CombinedOutput()
	if err != nil {
		return ""
	}
	return strings.SplitN(strings.TrimSpace(string(text)), "\n", 2)[0]
}
