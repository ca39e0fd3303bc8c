// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestRetryBudget(t *testing.T) {
	for name, c := range map[string]struct {
		// Tokens that are taken at the start, without success.
		taken   int
		seconds float64
		calls   int
		// Repeats that succeed.
		given int
		want  int
	}{
		"the start":                {want: 100},
		"empty":                    {taken: 100, want: 0},
		"a call adds a tenth":      {taken: 100, calls: 25, want: 2},
		"a second adds one":        {taken: 100, seconds: 3.5, want: 3},
		"a success gives two back": {taken: 100, given: 2, want: 4},
		"never more than the most": {taken: 1, seconds: 1000, calls: 1000, given: 1, want: 100},
		"time that steps back":     {taken: 99, seconds: -5, want: 1},
	} {
		start := time.Now()
		b := newRetryBudget(start)
		for i := 0; i < c.taken; i++ {
			if !b.take(start) {
				t.Fatalf("%s: token %d is missing", name, i)
			}
		}
		now := start.Add(time.Duration(c.seconds * float64(time.Second)))
		for i := 0; i < c.calls; i++ {
			b.onCall(now)
		}
		for i := 0; i < c.given; i++ {
			b.giveBack()
		}
		tokens := 0
		for b.take(now) {
			tokens++
		}
		if tokens != c.want {
			t.Errorf("%s: %d tokens, not %d", name, tokens, c.want)
		}
	}
}

// A restart of a server takes longer than a few tries.
func TestACallIsRepeatedUntilItsDeadline(t *testing.T) {
	fake := &fakeServer{failures: 10}
	client := fake.start(t)
	if _, err := client.Schedule(context.Background(), Message{Topic: "t"}); err != nil || len(fake.scheduled) != 11 {
		t.Fatalf("%v after %d tries", err, len(fake.scheduled))
	}
	fake.failures, fake.scheduled = 10, nil
	client.options.AttemptsMax = 4
	_, err := client.Schedule(context.Background(), Message{Topic: "t"})
	if status.Code(err) != codes.Unavailable || len(fake.scheduled) != 4 {
		t.Fatalf("%v after %d tries", err, len(fake.scheduled))
	}
}

func TestARepeatNeedsAToken(t *testing.T) {
	fake := &fakeServer{failures: 1000}
	client := fake.start(t)
	client.options.Timeout = 400 * time.Millisecond
	client.budget.tokens = 0.1
	_, err := client.Schedule(context.Background(), Message{Topic: "t"})
	if status.Code(err) != codes.Unavailable || len(fake.scheduled) != 1 {
		t.Fatalf("without a token: %v after %d tries", err, len(fake.scheduled))
	}
	client.options.Timeout = 10 * time.Second
	client.budget.tokens = 1
	for i := 0; i < 2; i++ {
		fake.failures, fake.scheduled = 1, nil
		if _, err := client.Schedule(context.Background(), Message{Topic: "t"}); err != nil || len(fake.scheduled) != 2 {
			t.Fatalf("%v after %d tries", err, len(fake.scheduled))
		}
		if tokens := client.budget.tokens; tokens < 1 {
			t.Fatalf("%v tokens after a repeat that succeeded", tokens)
		}
	}
	// Nor does an error that ends the call cost a token.
	client.budget.tokens = 1
	for i := 0; i < 2; i++ {
		fake.failures, fake.scheduled, fake.refusal = 1, nil, status.Error(codes.NotFound, "none")
		if _, err := client.Schedule(context.Background(), Message{Topic: "t"}); status.Code(err) != codes.NotFound {
			t.Fatalf("%v after %d tries", err, len(fake.scheduled))
		}
	}
	fake.refusal = nil
	// A call that finds no token goes on when there is one.
	fake.failures, fake.scheduled = 1, nil
	client.budget.tokens = 0
	time.AfterFunc(100*time.Millisecond, client.budget.giveBack)
	if _, err := client.Schedule(context.Background(), Message{Topic: "t"}); err != nil || len(fake.scheduled) != 2 {
		t.Fatalf("%v after %d tries", err, len(fake.scheduled))
	}
}

func TestTheLastTriesAreBeforeTheDeadline(t *testing.T) {
	fake := &fakeServer{failures: 2}
	client := fake.start(t)
	client.options.Timeout = time.Second
	client.options.Backoff = Backoff{Initial: time.Hour, Max: time.Hour}
	if _, err := client.Schedule(context.Background(), Message{Topic: "t"}); err != nil || len(fake.scheduled) != 3 {
		t.Errorf("%v after %d tries", err, len(fake.scheduled))
	}
}
