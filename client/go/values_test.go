// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

func TestIteratorContinuesAfterAnError(t *testing.T) {
	pages := map[string][]int{"": {1, 2}, "b": {}, "c": {3}}
	next := map[string]string{"": "b", "b": "c", "c": ""}
	fails := true
	list := &Iterator[int]{fetch: func(_ context.Context, token string) ([]int, string, error) {
		if token == "b" && fails {
			fails = false
			return nil, "", errors.New("broken")
		}
		return pages[token], next[token], nil
	}}
	var got []int
	for list.Next(context.Background()) || list.Err() != nil {
		if list.Err() == nil {
			got = append(got, list.Item())
		}
	}
	if len(got) != 3 || got[2] != 3 || fails {
		t.Fatal(got)
	}
}

func TestReasonsFit(t *testing.T) {
	for _, reason := range []string{"short", strings.Repeat("x", 300), strings.Repeat("ß", 200), "\xff" + strings.Repeat("€", 100)} {
		fitting := fittingReason(reason)
		if len(fitting) > 255 || len(fitting) < 5 || !utf8.ValidString(fitting) {
			t.Errorf("%q became %q", reason, fitting)
		}
	}
}

func TestTheActionsOfSettlements(t *testing.T) {
	second := durationpb.New(time.Second)
	for _, c := range []struct {
		settlement Settlement
		want       *pb.Settlement
	}{
		{Ack(), &pb.Settlement{}},
		{FromError(nil), &pb.Settlement{}},
		{Nack("r"), &pb.Settlement{Action: &pb.Settlement_Nack{Nack: &pb.Nack{Reason: "r"}}}},
		{FromError(errors.New("r")), &pb.Settlement{Action: &pb.Settlement_Nack{Nack: &pb.Nack{Reason: "r"}}}},
		{NackAfter(time.Second, "r"), &pb.Settlement{Action: &pb.Settlement_Nack{Nack: &pb.Nack{Delay: second, Reason: "r"}}}},
		{DeadLetter("r"), &pb.Settlement{Action: &pb.Settlement_DeadLetter{DeadLetter: &pb.DeadLetterLease{Reason: "r"}}}},
		{Release(), &pb.Settlement{Action: &pb.Settlement_Release{Release: &pb.ReleaseLease{}}}},
		{ReleaseAfter(time.Second), &pb.Settlement{Action: &pb.Settlement_Release{Release: &pb.ReleaseLease{Delay: second}}}},
	} {
		c.want.LeaseToken = "token"
		got := &pb.Settlement{}
		if c.settlement.fill(got, "token"); !proto.Equal(got, c.want) {
			t.Errorf("%v, not %v", got, c.want)
		}
	}
}

func TestMessageTimes(t *testing.T) {
	moment := time.Date(2030, 7, 1, 7, 0, 0, 0, time.UTC)
	request := Message{When: At(moment), TTL: time.Minute, ExpireTime: moment.Add(time.Hour)}.Proto()
	if !request.GetDeliverTime().AsTime().Equal(moment) || request.GetTtl() != nil || request.GetExpireTime() == nil {
		t.Fatalf("%v", request)
	}
	if when := (Message{}).Proto().GetWhen(); when != nil {
		t.Fatalf("a message without a time has the time %v", when)
	}
	moved := &pb.RescheduleRequest{}
	Local{Time: "2030-07-01T09:00", Zone: "Europe/Berlin"}.setReschedule(moved)
	if moved.GetCivilTime().GetTimeZone() != "Europe/Berlin" {
		t.Fatalf("%v", moved)
	}
}

func TestWaits(t *testing.T) {
	w := newWaits(Backoff{Initial: 100 * time.Millisecond, Max: 150 * time.Millisecond})
	for _, bound := range []time.Duration{100, 150, 150} {
		bound *= time.Millisecond
		if wait := w.next(0); wait < bound/2 || wait > bound {
			t.Errorf("a wait of %v with the bound %v", wait, bound)
		}
	}
	if wait := w.next(time.Second); wait < time.Second {
		t.Errorf("a wait of %v, and the server requested 1 s", wait)
	}
}

func TestWaitsHaveAFloor(t *testing.T) {
	for _, options := range []Backoff{{}, {Initial: 1, Max: 1}, {Initial: -1, Max: -1, Multiplier: -1}, {Max: 1, Multiplier: 0.001}} {
		w := newWaits(options)
		for range [10]int{} {
			if wait := w.next(0); wait < 25*time.Millisecond {
				t.Errorf("%+v: a wait of %v", options, wait)
			}
		}
	}
}

func TestATokenMustFitIntoAHeader(t *testing.T) {
	for token, fits := range map[string]bool{"a.b-c_d=": true, "t\n": false, "é": false} {
		client, err := New(Options{Server: "127.0.0.1:1", TLS: &tls.Config{}, Token: token})
		if (err == nil) != fits {
			t.Errorf("%q: %v", token, err)
		}
		if err == nil {
			_ = client.Close()
		}
	}
}
