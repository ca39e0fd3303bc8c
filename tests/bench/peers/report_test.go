// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	values := make([]float64, 1000)
	for i := range values {
		values[i] = float64(1000 - i)
	}
	for percent, want := range map[float64]float64{0: 1, 50: 500, 99: 990, 99.9: 999, 100: 1000} {
		if got := percentile(values, percent); got != want {
			t.Errorf("p%g is %g, not %g", percent, got, want)
		}
	}
	if !math.IsNaN(percentile(nil, 50)) {
		t.Error("a percentile of nothing is a number")
	}
}

func TestMedian(t *testing.T) {
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("the median of 9, 1, 5 is %g", got)
	}
	if got := median([]float64{4, 1, 2, 100}); got != 3 {
		t.Errorf("the median of 4, 1, 2, 100 is %g", got)
	}
	if !math.IsNaN(median(nil)) {
		t.Error("a median of nothing is a number")
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{0.126: "0.13", 12.34: "12.3", 567.8: "568", 999.6: "1,000", 1234567: "1,230,000",
		-1234: "-1,230", 64949: "64,900", math.NaN(): "-"} {
		if got := number(value); got != want {
			t.Errorf("%g is printed as %q, not %q", value, got, want)
		}
	}
}

// The figures of the peer that failed are missing, those of the other are medians.
func TestReport(t *testing.T) {
	one := &row{Peer: "duetime", Durability: "synced", Version: "1", Runs: []map[string]float64{
		{"accept x1": 100, "burst p50 ms": 1, "repeats": 2}, {"accept x1": 300, "burst p50 ms": math.NaN(), "repeats": 0},
		{"accept x1": 200, "repeats": 0}}}
	two := &row{Peer: "a < b", Durability: "none", Errors: []string{"it broke"}}
	rows := []*row{one, two}
	for _, row := range rows {
		row.summarize()
	}
	folder := t.TempDir()
	if err := write(folder, []string{"the machine"}, sizes{Seconds: 3}, rows); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page := read("results.md")
	for _, want := range []string{"the machine", "| duetime | synced | 1 |", "| duetime | 200 | - |", "| a < b | - | - |", "a < b failed: it broke"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	var figures struct {
		Peers []row
		Sizes sizes
	}
	if err := json.Unmarshal([]byte(read("results.json")), &figures); err != nil {
		t.Fatal(err)
	}
	if figures.Sizes.Seconds != 3 || len(figures.Peers) != 2 || figures.Peers[0].Medians["accept x1"] != 200 ||
		figures.Peers[0].Medians["repeats"] != 2 {
		t.Errorf("the figures are %+v", figures)
	}
	for decoder := xml.NewDecoder(strings.NewReader(read("results.svg"))); ; {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestLongestGapEndsAfterTheKill(t *testing.T) {
	began := time.Now()
	at := func(seconds ...int) []time.Time {
		var times []time.Time
		for _, second := range seconds {
			times = append(times, began.Add(time.Duration(second)*time.Second))
		}
		return times
	}
	for want, times := range map[int][]time.Time{4: at(9, 10, 12, 16), 7: at(1, 5, 6, 11, 12, 13), 12: at(12), 15: at(5), 20: nil} {
		if got := longestGap(times, began, at(10)[0], at(20)[0]); got != time.Duration(want)*time.Second {
			t.Errorf("the longest gap of %v is %s, not %d s", times, got, want)
		}
	}
}

func TestMissingCountsAcceptedMessagesThatDidNotCome(t *testing.T) {
	calls := &tries{}
	for i := 0; i < 3; i++ {
		calls.begin()
	}
	calls.succeeded(0)
	calls.succeeded(2)
	s := newSink(7, 3)
	s.delivered(newJob(rand.New(rand.NewSource(1)), time.Now(), 7, 2).payload)
	if got := calls.missing(s); got != 1 {
		t.Errorf("%d are missing", got)
	}
}

func TestSinkCountsEachMessageOnce(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	s := newSink(7, 2)
	past := newJob(random, time.Now().Add(-time.Second), 7, 0)
	for _, payload := range [][]byte{past.payload, past.payload,
		newJob(random, time.Now(), 6, 1).payload, newJob(random, time.Now(), 7, 2).payload} {
		s.delivered(payload)
	}
	s.acked(2)
	if s.distinct != 1 || s.repeats != 1 || s.early != 0 || s.complete() {
		t.Errorf("after one message: %+v", s)
	}
	s.delivered(newJob(random, time.Now().Add(time.Hour), 7, 1).payload)
	if s.early != 1 || !s.complete() || len(s.lateness) != 2 || s.lateness[0] < 900 {
		t.Errorf("after both messages: %+v", s)
	}
}
