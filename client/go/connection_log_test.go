// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"testing"
	"time"
)

func TestConnectionLogSaysEachChangeOnceAndThenMoreRarely(t *testing.T) {
	const opened, failed, overdue = "opened", "failed", "overdue"
	for name, events := range map[string][]struct {
		second int
		event  string
		logs   bool
	}{
		"a server that is well":     {{0, opened, true}, {1, opened, false}},
		"a server that was away":    {{0, failed, true}, {1, failed, false}, {2, opened, true}},
		"a restart":                 {{0, opened, true}, {100, failed, true}, {101, opened, true}},
		"away for long":             {{0, failed, true}, {59, failed, false}, {60, failed, true}, {179, failed, false}, {180, failed, true}},
		"comes and goes":            {{0, opened, true}, {1, failed, true}, {2, opened, true}, {3, failed, false}, {4, opened, false}, {61, failed, true}, {62, opened, true}},
		"two restarts a day apart":  {{0, failed, true}, {1, opened, true}, {90000, failed, true}, {90001, opened, true}, {90002, failed, false}},
		"at most an hour of quiet":  {{0, failed, true}, {100, failed, true}, {1000, failed, true}, {3000, failed, true}, {6000, failed, true}, {9000, failed, true}, {13000, failed, true}, {16599, failed, false}, {16600, failed, true}},
		"neither stream nor error":  {{5, overdue, true}, {10, overdue, false}, {11, opened, true}},
		"overdue, but it is opened": {{1, opened, true}, {5, overdue, false}},
	} {
		start := time.Now()
		var l connectionLog
		for _, e := range events {
			now := start.Add(time.Duration(e.second) * time.Second)
			var logs bool
			switch e.event {
			case opened:
				logs, _ = l.onOpened(now)
			case failed:
				logs, _ = l.onFailed(now)
			case overdue:
				logs = l.onOverdue(now)
			}
			if logs != e.logs {
				t.Errorf("%s, %s after %d s: logged: %v", name, e.event, e.second, logs)
			}
		}
	}
}
