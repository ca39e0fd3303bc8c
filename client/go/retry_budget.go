// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"sync"
	"time"
)

// The tokens of a retryBudget: at most, at the start, and what adds to them.
const (
	budgetMax       = 100
	budgetPerCall   = 0.1
	budgetPerSecond = 1
)

// retryBudget bounds the repeats of a client's calls, so that many clients do not keep a server down that is in trouble.
// Each repeat takes a token. A repeat that the server answers, also with an error that ends the call, gives its token back,
// because only repeats in vain are a load that helps nobody. It has no clock: the caller passes the time. It is safe for concurrent use.
type retryBudget struct {
	mutex  sync.Mutex
	tokens float64
	// The time that tokens is of.
	at time.Time
}

func newRetryBudget(now time.Time) *retryBudget { return &retryBudget{tokens: budgetMax, at: now} }

// onCall adds the share of a call. Call it before the first try.
func (b *retryBudget) onCall(now time.Time) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.fill(now)
	b.add(budgetPerCall)
}

// take takes a token for a repeat. It returns false if there is none.
func (b *retryBudget) take(now time.Time) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.fill(now)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// giveBack gives two tokens back, after a repeat that the server has answered: its own, and one more, so that after a
// restart the calls that wait come through at a doubling pace.
func (b *retryBudget) giveBack() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.add(2)
}

func (b *retryBudget) fill(now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.add(passed.Seconds() * budgetPerSecond)
		b.at = now
	}
}

func (b *retryBudget) add(tokens float64) {
	b.tokens += tokens
	if b.tokens > budgetMax {
		b.tokens = budgetMax
	}
}
