// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"testing"
	"time"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

func TestLeaseKeeper(t *testing.T) {
	begin := time.Now()
	k := leaseKeeper{keepMax: 60 * time.Second}
	k.start(30 * time.Second)
	frame := k.add(deliveries(3), 1, begin)
	extended := func(second int) int {
		request := &pb.SubscribeRequest{}
		k.collect(begin.Add(time.Duration(second)*time.Second), 100, request)
		return len(request.Extend)
	}
	if next, ok := k.nextCollect(begin); !ok || next != begin.Add(10*time.Second) {
		t.Fatalf("the first extension is due at %v, %v", next, ok)
	}
	if count := extended(5); count != 0 {
		t.Fatalf("%d leases extended after 5 s", count)
	}
	if count := extended(10); count != 3 {
		t.Fatalf("%d leases extended after 10 s", count)
	}
	k.release(&frame.leases[0])
	if !k.onRefused("token1") || k.onRefused("token1") {
		t.Fatal("the refusal of an extension is known once")
	}
	if count := extended(20); count != 1 {
		t.Fatalf("%d leases extended after a settlement and a loss", count)
	}
	for second := 30; second < 60; second += 10 {
		extended(second)
	}
	if count := extended(60); count != 0 {
		t.Fatalf("%d leases extended after keepMax", count)
	}
}
