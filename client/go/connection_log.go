// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"sync"
	"time"
)

const (
	// For how long a failure is not logged again: 1 minute, then 2, 4 ... A connection that lasts for quietMin starts anew.
	quietMin = time.Minute
	quietMax = time.Hour
	// A subscriber that gets neither a stream nor an error for this long says so. In a cell, a stream waits for a member
	// that leads.
	overdueAfter = 5 * time.Second
)

// connectionLog decides what a subscriber logs of its connection: each change once, and then ever more rarely. It has no
// clock: the caller passes the time. It is safe for concurrent use.
type connectionLog struct {
	mutex sync.Mutex
	// When the stream opened. Zero: none is open.
	opened time.Time
	// A stream has been open before.
	known bool
	// The last line in the log is about a failure.
	failing bool
	quiet   time.Duration
	// No line about a failure before this time.
	quietUntil time.Time
}

// onOpened: the server has opened a stream. It returns true if the log should say so, and whether it is open again.
func (l *connectionLog) onOpened(now time.Time) (logs, again bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	logs, again = l.failing || !l.known, l.failing || l.known
	l.opened, l.known, l.failing = now, true, false
	return logs, again
}

// onFailed: the stream has ended, or was not opened. It returns true if the log should say so, and whether the stream was
// open.
func (l *connectionLog) onFailed(now time.Time) (logs, wasOpen bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	wasOpen = !l.opened.IsZero()
	if wasOpen && now.Sub(l.opened) >= quietMin {
		l.quiet, l.quietUntil = 0, time.Time{}
	}
	l.opened = time.Time{}
	return l.fail(now), wasOpen
}

// onOverdue: overdueAfter has passed. It returns true if the log should say so.
func (l *connectionLog) onOverdue(now time.Time) (logs bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.opened.IsZero() && l.fail(now)
}

func (l *connectionLog) fail(now time.Time) (logs bool) {
	if now.Before(l.quietUntil) {
		return false
	}
	l.quiet *= 2
	if l.quiet < quietMin {
		l.quiet = quietMin
	}
	if l.quiet > quietMax {
		l.quiet = quietMax
	}
	l.quietUntil, l.failing = now.Add(l.quiet), true
	return true
}
