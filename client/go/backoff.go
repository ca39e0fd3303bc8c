// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"math/rand"
	"time"
)

// boundMin is the least bound of a wait. A server that is down must not cost the client's machine a core.
const boundMin = 50 * time.Millisecond

// Backoff sets the lengths of waits before another try. The n-th wait is random, between a half and the whole of its
// bound, so that clients that lost the same server do not come back at the same time.
type Backoff struct {
	// Initial is the bound of the first wait: at least 50 ms, so that no wait is shorter than 25 ms. 0: 100 ms.
	Initial time.Duration
	// Max is the longest wait, unless the server requests a longer one. 0: 5 s.
	Max time.Duration
	// Multiplier is the factor between successive bounds, at least 1. 0: 2.
	Multiplier float64
}

func (b Backoff) withDefaults() Backoff {
	if b.Initial <= 0 {
		b.Initial = 100 * time.Millisecond
	}
	if b.Initial < boundMin {
		b.Initial = boundMin
	}
	if b.Max <= 0 {
		b.Max = 5 * time.Second
	}
	if b.Max < b.Initial {
		b.Max = b.Initial
	}
	if b.Multiplier == 0 {
		b.Multiplier = 2
	}
	if b.Multiplier < 1 {
		b.Multiplier = 1
	}
	return b
}

// waits is the state of one backoff.
type waits struct {
	options Backoff
	bound   time.Duration
}

func newWaits(options Backoff) *waits {
	options = options.withDefaults()
	return &waits{options: options, bound: options.Initial}
}

// next returns the next wait. It is at least serverDelay, the delay that the server requested.
func (w *waits) next(serverDelay time.Duration) time.Duration {
	wait := time.Duration(float64(w.bound) * (0.5 + rand.Float64()/2))
	if bound := float64(w.bound) * w.options.Multiplier; bound < float64(w.options.Max) {
		w.bound = time.Duration(bound)
	} else {
		w.bound = w.options.Max
	}
	if serverDelay > 0 {
		// The random part comes on top, because many clients got the same delay.
		return serverDelay + wait
	}
	return wait
}

// reset starts again with the first wait. Call it after a success.
func (w *waits) reset() { w.bound = w.options.Initial }
