// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"fmt"
	"testing"
	"time"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// A lease of 30 s is looked at every 10 s.
func TestLeasesOfWaitingAndRunningDeliveries(t *testing.T) {
	const never = -1
	for _, c := range []struct {
		name    string
		keepMax time.Duration
		// In seconds.
		begun     int
		extended  []int
		givenBack int
	}{
		{"waits", 60 * time.Second, never, []int{10, 20, 30, 40}, 50},
		{"waits without extensions", -1, never, nil, 20},
		{"waits for less than a third of a lease", 5 * time.Second, never, nil, 20},
		{"runs", 60 * time.Second, 0, []int{10, 20, 30, 40, 50}, never},
		{"begins after a wait", 60 * time.Second, 35, []int{10, 20, 30, 40, 50, 60, 70, 80, 90}, never},
		{"runs without extensions", -1, 0, nil, never},
	} {
		start := time.Now()
		k := newLeaseKeeper(c.keepMax)
		k.start(30 * time.Second)
		l := &k.add(deliveries(1), 1, start).leases[0]
		var extended []int
		givenBack := never
		for second := 0; second <= 120; second += 5 {
			now := start.Add(time.Duration(second) * time.Second)
			if second == c.begun {
				k.begin(l, now)
			}
			request := &pb.SubscribeRequest{}
			if late := k.collect(now, 100, request); len(late) > 0 {
				givenBack = second
				k.release(late[0])
			}
			if len(request.Settlements) > 0 {
				extended = append(extended, second)
			}
		}
		if fmt.Sprint(extended) != fmt.Sprint(c.extended) || givenBack != c.givenBack {
			t.Errorf("%s: extended at %v, given back at %d", c.name, extended, givenBack)
		}
	}
}

// Other requests of a busy writer must not give a delivery back earlier.
func TestWithoutExtensionsADeliveryWaitsForTwoThirdsOfItsLease(t *testing.T) {
	// With less than a third of a lease, no extension is ever due.
	for _, keepMax := range []time.Duration{-1, 0, 5 * time.Second, 10 * time.Second} {
		start := time.Now()
		k := newLeaseKeeper(keepMax)
		k.start(30 * time.Second)
		frame := k.add(deliveries(2), 1, start)
		k.begin(&frame.leases[0], start)
		var late []*lease
		second := 0
		for len(late) == 0 && second < 20 {
			second++
			late = k.collect(start.Add(time.Duration(second)*time.Second), 100, &pb.SubscribeRequest{})
		}
		if len(late) != 1 || late[0] != &frame.leases[1] || second != 20 {
			t.Errorf("keepMax %v: %d deliveries are given back after %d s", keepMax, len(late), second)
		}
	}
}

func TestNoExtensionOfASettledOrLostLease(t *testing.T) {
	start := time.Now()
	k := newLeaseKeeper(time.Hour)
	k.start(30 * time.Second)
	frame := k.add(deliveries(3), 1, start)
	for i := range frame.leases {
		k.begin(&frame.leases[i], start)
	}
	extended := func(second int) int {
		request := &pb.SubscribeRequest{}
		k.collect(start.Add(time.Duration(second)*time.Second), 100, request)
		return len(request.Settlements)
	}
	if count := extended(10); count != 3 {
		t.Fatalf("%d leases extended after 10 s", count)
	}
	k.release(&frame.leases[0])
	k.onBegun("token1")
	if known, lost := k.onRefused("token1"); !known || !lost {
		t.Fatal("the refusal of an extension is not known")
	}
	if known, _ := k.onRefused("token1"); known {
		t.Fatal("the refusal of an extension is known twice")
	}
	if count := extended(20); count != 1 {
		t.Fatalf("%d leases extended after a settlement and a loss", count)
	}
}

// A server that is slow to answer is asked again after another third of the lease.
func TestEachRefusalOfAnExtensionIsOneOfAnExtension(t *testing.T) {
	start := time.Now()
	k := newLeaseKeeper(time.Hour)
	k.start(30 * time.Second)
	k.begin(&k.add(deliveries(1), 1, start).leases[0], start)
	for _, second := range []int{10, 20} {
		k.collect(start.Add(time.Duration(second)*time.Second), 100, &pb.SubscribeRequest{})
	}
	k.onBegun("token0")
	for _, want := range []bool{true, true, false} {
		if known, _ := k.onRefused("token0"); known != want {
			t.Fatalf("known: %v, not %v", known, want)
		}
	}
}

func TestWhenABeginIsReported(t *testing.T) {
	for _, c := range []struct {
		name   string
		after  time.Duration
		along  bool // another request is sent anyway
		change func(k *leaseKeeper, l *lease)
		room   int
		// Reports in the first request, and in the next one, which has room.
		reports, later int
	}{
		{"young", 99 * time.Millisecond, false, nil, 1, 0, 0},
		{"old", 100 * time.Millisecond, false, nil, 1, 1, 0},
		{"young, in another request", 9 * time.Millisecond, true, nil, 1, 0, 0},
		{"old enough for another request", 10 * time.Millisecond, true, nil, 1, 1, 0},
		{"no room", time.Second, false, nil, 0, 0, 1},
		{"settled", time.Second, false, func(k *leaseKeeper, l *lease) { k.release(l) }, 1, 0, 0},
		{"lost", time.Second, false, func(_ *leaseKeeper, l *lease) { l.lost = true }, 1, 0, 0},
		{"to be confirmed", 0, false, nil, 1, 1, 0},
		{"to be confirmed, without room", 0, false, nil, 0, 0, 1},
	} {
		start := time.Now()
		k := newLeaseKeeper(time.Hour)
		k.start(30 * time.Second)
		l := &k.add(deliveries(1), 1, start).leases[0]
		l.delivery.ConfirmBegun = c.after == 0
		if !k.begin(l, start) {
			t.Errorf("%s: the writer would sleep on", c.name)
		}
		if c.change != nil {
			c.change(&k, l)
		}
		collect := func(room int) int {
			request := &pb.SubscribeRequest{NoMoreDeliveries: c.along}
			k.collect(start.Add(c.after), room, request)
			return len(request.Begun)
		}
		if count := collect(c.room); count != c.reports {
			t.Errorf("%s: %d reports", c.name, count)
		}
		if count := collect(1); count != c.later {
			t.Errorf("%s: %d reports later", c.name, count)
		}
	}
}
