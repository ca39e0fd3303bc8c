// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// onUnavailable says what a call does after Unavailable.
type onUnavailable int

const (
	// repeatCall makes the call again.
	repeatCall onUnavailable = iota
	// returnError returns, because a repeat could do harm or give a misleading answer.
	returnError
)

// extraMax bounds what a call adds to its timeout, so that the sum does not overflow.
const extraMax = 24 * time.Hour

// caller makes calls by the rules of Options.
type caller struct {
	options Options
	budget  *retryBudget
}

// call runs a method of a stub until it succeeds, fails with an error that forbids a repeat, or the time is over. The
// timeout is that of the options plus extra. It returns the answer and the number of tries, without those that a standby
// refused.
func call[Request, Response any](ctx context.Context, c caller, rule onUnavailable, extra time.Duration,
	method func(context.Context, *Request, ...grpc.CallOption) (*Response, error), request *Request) (*Response, int, error) {
	if extra > extraMax {
		extra = extraMax
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout+extra)
	defer cancel()
	deadline, _ := ctx.Deadline()
	waits := newWaits(c.options.Backoff)
	c.budget.onCall(time.Now())
	tries, paid := 1, false // paid: this try took a token of the budget
	for {
		response, err := method(ctx, request)
		if err == nil {
			if paid {
				c.budget.giveBack()
			}
			return response, tries, nil
		}
		failure := c.options.errorOf(ctx, err)
		standby := c.options.refusedByStandby(failure)
		limit := c.options.AttemptsMax
		if !standby && (failure.Code != codes.Unavailable || rule == returnError || (limit > 0 && tries >= limit)) {
			return nil, tries, failure
		}
		for paid = false; ; {
			wait := leaderPause
			if !standby {
				wait = waits.next(failure.RetryDelay)
			}
			if wait >= time.Until(deadline) {
				return nil, tries, failure
			}
			if !sleep(ctx, wait) {
				return nil, tries, errorOf(ctx, ctx.Err())
			}
			if standby {
				break
			}
			if paid = c.budget.take(time.Now()); paid {
				tries++
				break
			}
		}
	}
}

// sleep returns false if ctx is done before.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// simple is call for methods that may be repeated and whose callers do not need the number of tries.
func simple[Request, Response any](ctx context.Context, c caller,
	method func(context.Context, *Request, ...grpc.CallOption) (*Response, error), request *Request) (*Response, error) {
	response, _, err := call(ctx, c, repeatCall, 0, method, request)
	return response, err
}

// once is simple for methods that must not be repeated.
func once[Request, Response any](ctx context.Context, c caller,
	method func(context.Context, *Request, ...grpc.CallOption) (*Response, error), request *Request) (*Response, error) {
	response, _, err := call(ctx, c, returnError, 0, method, request)
	return response, err
}

// newID returns a random name of 128 bits, fit for a request id.
func newID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		// Without randomness two messages could get one id, and the second would be lost.
		panic("duetime: no random numbers: " + err.Error())
	}
	return hex.EncodeToString(id[:])
}
