// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// oneCall is one of the calls of call_together.
type oneCall struct {
	Op        string          `json:"op"`
	Request   json.RawMessage `json:"request"`
	CancelMs  *int64          `json:"cancel_ms"`
	TimeoutMs *int64          `json:"timeout_ms"`
}

// outcome makes the call, and returns its answer or its error.
func (c *oneCall) outcome(d *driver, client string) object {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if c.CancelMs != nil {
		defer time.AfterFunc(millis(c.CancelMs, 0), cancel).Stop()
	}
	if c.TimeoutMs != nil {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, millis(c.TimeoutMs, 0))
		defer end()
	}
	ok, err := d.ops[c.Op](&request{Client: client, Body: c.Request, ctx: ctx})
	if err != nil {
		return object{"error": errorJSON(err)}
	}
	return object{"ok": ok}
}

func (d *driver) addTogether() {
	d.ops["call_together"] = func(r *request) (any, error) {
		var fields struct {
			Group string    `json:"group"`
			Calls []oneCall `json:"calls"`
		}
		if err := r.read(&fields); err != nil {
			return nil, err
		}
		var running sync.WaitGroup
		begin := make(chan struct{})
		for i := range fields.Calls {
			running.Add(1)
			go func(number int) {
				defer running.Done()
				<-begin
				line := fields.Calls[number].outcome(d, r.Client)
				line["event"], line["group"], line["number"] = "outcome", fields.Group, number
				emit(line)
			}(i)
		}
		close(begin)
		running.Wait()
		return object{}, nil
	}
}
