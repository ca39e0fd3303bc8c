// SPDX-License-Identifier: Apache-2.0

// Package duetimetest starts servers with a test clock, to test one's own code.
//
//	server := duetimetest.New(t)
//	server.Clock.Advance(48 * time.Hour)
package duetimetest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	duetime "github.com/duetime/duetime/client/go"
	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// keeper ends the server and removes its directory ($0) when its pipe is closed: by the end of the test, or of its process,
// however that was. Signals of the terminal are for the test.
const keeper = `
trap '' HUP INT TERM
"$@" & server=$!
exec >/dev/null 2>&1
read -r _
kill -9 $server
wait $server
rm -rf "$0"
`

const (
	readyMax = 30 * time.Second
	poll     = 2 * time.Millisecond
)

// Start is where the clock of a server starts. The same in each run, so that a test has the same zone changes and weekdays.
var Start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Options of a server. The zero value is fine.
type Options struct {
	// Binary is the program duetimed. Empty: that of the environment variable DUETIMED, or on PATH. Nothing is downloaded.
	Binary string
	// At is where the clock starts. Zero: Start.
	At time.Time
}

// Server is a server of its own for a test: duetimed itself, over an empty directory. Its methods fail the test if a call fails,
// so call them on the test's goroutine.
type Server struct {
	// Address is host:port.
	Address string
	// Clock stands still, and moves when the test says so.
	Clock *Clock

	t       testing.TB
	control *duetime.Client
}

// New starts a server, which ends with the test. It fails the test if there is no program duetimed, or it does not start.
func New(t testing.TB, options ...Options) *Server {
	t.Helper()
	var chosen Options
	if len(options) > 0 {
		chosen = options[0]
	}
	address, stop, err := start(chosen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	server := &Server{Address: address, t: t}
	server.control = server.ClientWith(duetime.Options{Timeout: 11 * time.Minute}) // a move may take ten
	server.Clock = &Clock{t: t, control: server.control}
	return server
}

// start returns the address of a new server, and the function that ends it.
func start(options Options) (address string, stop func(), err error) {
	binary, err := find(options.Binary)
	if err != nil {
		return "", nil, err
	}
	if options.At.IsZero() {
		options.At = Start
	}
	folder, err := os.MkdirTemp("", "duetime-test-")
	if err != nil {
		return "", nil, err
	}
	command := exec.Command("sh", "-c", keeper, folder, binary, "--init", "--data-dir="+filepath.Join(folder, "data"),
		"--listen=127.0.0.1:0", "--metrics-listen=", "--disk-free-min-bytes=0", "--write-buffer-bytes=4MiB",
		"--test-clock="+options.At.UTC().Format(time.RFC3339Nano), "--test-clock-frozen")
	stdin, err := command.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stderr, err := command.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(folder))
	}
	stop = func() {
		_ = stdin.Close()
		_ = command.Wait()
	}
	ready := make(chan string, 1)
	var log strings.Builder // until it is ready
	go func() {
		defer close(ready)
		lines := bufio.NewReader(stderr)
		for line, err := lines.ReadString('\n'); err == nil; line, err = lines.ReadString('\n') {
			if match := readyLine.FindStringSubmatch(line); match != nil {
				ready <- match[1]
				break
			}
			log.WriteString(line)
		}
		_, _ = io.Copy(io.Discard, lines)
	}()
	select {
	case address = <-ready:
	case <-time.After(readyMax):
	}
	if address == "" {
		stop()
		<-ready // which is closed, so the log is complete
		return "", nil, &duetime.Error{Code: codes.FailedPrecondition, Message: binary + " did not start:\n" + log.String()}
	}
	return address, stop, nil
}

var readyLine = regexp.MustCompile(`\] ready: .* grpc=(\S+)`)

func find(name string) (string, error) {
	if name == "" {
		name = os.Getenv("DUETIMED")
	}
	if name == "" {
		name = "duetimed"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &duetime.Error{Code: codes.FailedPrecondition, Message: err.Error() + ": a test server needs duetimed, as " +
			"Options.Binary, in the environment variable DUETIMED, or on PATH"}
	}
	return path, nil
}

// Client returns a new client of the server. It is closed at the end of the test.
func (s *Server) Client() *duetime.Client { return s.ClientWith(duetime.Options{}) }

// ClientWith is Client with other options. Their Server is ignored.
func (s *Server) ClientWith(options duetime.Options) *duetime.Client {
	s.t.Helper()
	options.Server = s.Address
	client, err := duetime.New(options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Subscribe starts a subscriber, waits until the server has it, and stops it at the end of the test.
func (s *Server) Subscribe(options duetime.SubscriberOptions, handler duetime.Handler) *duetime.Subscriber {
	s.t.Helper()
	subscriber, err := s.Client().Subscribe(context.Background(), options, handler)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = subscriber.Stop(ctx)
	})
	s.AwaitSubscribers(options.Topic, 1)
	return subscriber
}

// AwaitSubscribers waits until the topic has so many subscribers, at most 10 s. A program's subscriber connects in the
// background; without it, a move of the clock hands out nothing.
func (s *Server) AwaitSubscribers(topic string, count int) {
	s.t.Helper()
	for end := time.Now().Add(timeout); ; time.Sleep(poll) {
		there, err := s.control.ListStreams(context.Background(), &pb.ListStreamsRequest{Topic: topic})
		if err != nil {
			s.t.Fatal(err)
		}
		if len(there.GetStreams()) >= count {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("the topic %s has %d subscribers, and not %d", topic, len(there.GetStreams()), count)
		}
	}
}

// Idle waits until subscribers have settled all that is due, at most 10 s. The clock stands still, but for a millisecond if
// just then something is due.
func (s *Server) Idle() {
	s.t.Helper()
	s.Clock.NextUntil(s.Clock.Now().Add(time.Millisecond))
}

// Deliveries returns what the server handed out during moves of the clock, and Idle, in order. What a subscriber got in between
// is not in it, and of one move the first 10,000.
func (s *Server) Deliveries(topic string) []*pb.HandOut {
	var found []*pb.HandOut
	for _, one := range s.Clock.handOuts {
		if one.GetTopic() == topic {
			found = append(found, one)
		}
	}
	return found
}
