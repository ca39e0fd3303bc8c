// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"container/list"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// lease is one delivery and what the subscriber knows of its lease.
type lease struct {
	// nil once the delivery is settled or skipped, so that its payload can be freed before those of its frame.
	delivery *pb.Delivery
	frame    *leaseFrame
	// The number of the stream that brought the delivery.
	stream uint64
	// The server refused to extend the lease.
	lost bool
	// Ends the context of the handler. nil until a handler gets the delivery.
	cancel context.CancelFunc
}

// leaseFrame is the deliveries of one response.
type leaseFrame struct {
	leases []lease
	// How many of them are not settled and not skipped.
	heldCount int
	received  time.Time
	extendAt  time.Time
	// The leases before this one are already in a request for this extension.
	extendFrom int
	// The place in the keeper's list; nil if the frame is not there.
	place *list.Element
}

// leaseKeeper decides when to extend the leases of unsettled deliveries: whenever a third of a lease has passed, so that
// a lost request or a slow server does not end it. This stops when the delivery is settled, its lease is lost, or
// keepMax has passed since it arrived.
//
// It has no clock, no goroutine and no lock: the caller passes the time.
type leaseKeeper struct {
	// 0 or less: no lease is extended.
	keepMax time.Duration
	// 0: no lease of this stream is extended.
	interval time.Duration
	duration time.Duration
	// The frames with unsettled deliveries, ordered by extendAt, because each is appended with the same distance from
	// now.
	frames list.List
	// Leases whose extension is requested and not answered, by token.
	asked map[string]*lease
}

// start: the server opened a stream with leases of this length.
func (k *leaseKeeper) start(duration time.Duration) {
	k.duration, k.interval = duration, duration/3
	if k.interval >= k.keepMax || k.interval < 0 {
		k.interval = 0
	}
}

// clear: the stream and its leases have ended.
func (k *leaseKeeper) clear() {
	for element := k.frames.Front(); element != nil; element = element.Next() {
		element.Value.(*leaseFrame).place = nil
	}
	k.frames.Init()
	k.asked = nil
	k.interval = 0
}

// add makes unsettled leases of the deliveries of one response.
func (k *leaseKeeper) add(deliveries []*pb.Delivery, stream uint64, now time.Time) *leaseFrame {
	frame := &leaseFrame{leases: make([]lease, len(deliveries)), heldCount: len(deliveries), received: now}
	for i, delivery := range deliveries {
		frame.leases[i] = lease{delivery: delivery, frame: frame, stream: stream}
	}
	if k.interval > 0 {
		k.append(frame, now.Add(k.interval))
	}
	return frame
}

func (k *leaseKeeper) append(frame *leaseFrame, extendAt time.Time) {
	if !extendAt.Before(frame.received.Add(k.keepMax)) {
		return
	}
	frame.extendAt, frame.extendFrom = extendAt, 0
	frame.place = k.frames.PushBack(frame)
}

func (k *leaseKeeper) remove(frame *leaseFrame) {
	if frame.place != nil {
		k.frames.Remove(frame.place)
		frame.place = nil
	}
}

// release: a delivery is settled or will not be handled. Its lease is no longer extended. It returns the lease's token.
// Call it once for each lease.
func (k *leaseKeeper) release(l *lease) (token string) {
	token = l.delivery.LeaseToken
	l.delivery = nil
	l.frame.heldCount--
	if l.frame.heldCount == 0 {
		k.remove(l.frame)
	}
	return token
}

// collect adds the leases to extend at now to the request, together with those that are due soon after, so that frames
// that arrived close together share a request. It adds at most room leases. The others stay due.
func (k *leaseKeeper) collect(now time.Time, room int, request *pb.SubscribeRequest) {
	until := now.Add(k.interval / 4)
	// The loop ends because each frame moves to the end with a later time.
	for element := k.frames.Front(); element != nil; element = k.frames.Front() {
		frame := element.Value.(*leaseFrame)
		if frame.extendAt.After(until) {
			return
		}
		for ; frame.extendFrom < len(frame.leases); frame.extendFrom++ {
			l := &frame.leases[frame.extendFrom]
			if l.delivery == nil || l.lost {
				continue
			}
			if room == 0 {
				return
			}
			room--
			token := l.delivery.LeaseToken
			request.Extend = append(request.Extend, &pb.ExtendLease{LeaseToken: token, Duration: durationpb.New(k.duration)})
			if k.asked == nil {
				k.asked = make(map[string]*lease)
			}
			k.asked[token] = l
		}
		k.remove(frame)
		k.append(frame, now.Add(k.interval))
	}
}

// nextCollect returns when to call collect next, as of now. No frame that is added later is due before this time. False:
// no lease of this stream is extended.
func (k *leaseKeeper) nextCollect(now time.Time) (time.Time, bool) {
	if k.interval == 0 {
		return time.Time{}, false
	}
	if front := k.frames.Front(); front != nil {
		return front.Value.(*leaseFrame).extendAt, true
	}
	return now.Add(k.interval), true
}

// onExtended: the server extended the lease.
func (k *leaseKeeper) onExtended(token string) { delete(k.asked, token) }

// onRefused: the server refused a request for this lease. It returns true if the server refused an extension, which is
// then not requested again.
func (k *leaseKeeper) onRefused(token string) bool {
	l := k.asked[token]
	if l == nil {
		return false
	}
	delete(k.asked, token)
	l.lost = true
	if l.cancel != nil {
		l.cancel()
	}
	return true
}
