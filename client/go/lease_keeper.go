// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"container/list"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

const (
	// A handler that has run for this long is reported as begun in a request of its own.
	reportAfter = 100 * time.Millisecond
	// A handler that has run for this long is reported in any request that is sent anyway. Faster handlers cost no report.
	reportAlongAfter = 10 * time.Millisecond
)

// lease is one delivery and what the subscriber knows of its lease.
type lease struct {
	// nil once the delivery is settled or skipped, so that its payload can be freed before those of its frame.
	delivery *pb.Delivery
	frame    *leaseFrame
	// The number of the stream that brought the delivery.
	stream uint64
	// When the last extension was sent, after the delivery came; 0 if none. The lease lasts from then on.
	renewed time.Duration
	// How long after the delivery came a handler got it; only if it is running.
	begun   time.Duration
	running bool
	// The begin of the handler is reported.
	reported bool
	// The server has confirmed that the handler begins.
	confirmed bool
	// The server refused to extend the lease, or to take the report of its begin.
	lost bool
	// How many extensions are requested and not answered.
	asked int32
	// The handler's call that has the delivery. nil before the call begins, and after it has ended.
	call *handlerCall
}

// age returns how long ago the delivery came.
func (l *lease) age(now time.Time) time.Duration { return now.Sub(l.frame.received) }

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
// a lost request or a slow server does not end it. This stops when the delivery is settled, its lease is lost, or its
// handler has run for keepMax. A delivery that waits for a handler is given back before keepMax has passed since it came.
//
// It also decides when to report that a handler has begun.
//
// It has no clock, no goroutine and no lock: the caller passes the time.
type leaseKeeper struct {
	// 0 or less: no lease is extended.
	keepMax time.Duration
	// A third of a lease. 0: the length of the leases is unknown, and no lease is extended.
	interval time.Duration
	duration time.Duration
	// The frames with unsettled deliveries, ordered by extendAt, because each is appended with the same distance from
	// now.
	frames list.List
	// Handlers that have begun and are not reported, in the order of their begin. Some of them are settled.
	unreported []*lease
	// Deliveries whose begin the server must confirm, and that are not reported.
	unconfirmed []*lease
	// Leases whose extension is requested and not answered, by token.
	asked map[string]*lease
	// Leases whose report is not answered, by token. The server answers a report before the settlement of its lease.
	reported map[string]*lease
	// The server is older, and answers no report. Nothing more is reported.
	noReports bool
}

func newLeaseKeeper(keepMax time.Duration) leaseKeeper {
	return leaseKeeper{keepMax: keepMax, asked: make(map[string]*lease), reported: make(map[string]*lease)}
}

// start: the server opened a stream with leases of this length.
func (k *leaseKeeper) start(duration time.Duration) {
	if duration > 0 {
		k.duration, k.interval = duration, duration/3
	}
}

// clear: the stream and its leases have ended.
func (k *leaseKeeper) clear() {
	for element := k.frames.Front(); element != nil; element = element.Next() {
		element.Value.(*leaseFrame).place = nil
	}
	*k = newLeaseKeeper(k.keepMax)
}

// add makes unsettled leases of the deliveries of one response.
func (k *leaseKeeper) add(deliveries []*pb.Delivery, stream uint64, now time.Time) *leaseFrame {
	frame := &leaseFrame{leases: make([]lease, len(deliveries)), heldCount: len(deliveries), received: now}
	for i, delivery := range deliveries {
		frame.leases[i] = lease{delivery: delivery, frame: frame, stream: stream}
	}
	switch {
	case k.extends():
		k.append(frame, now.Add(k.interval))
	case k.interval > 0:
		// What waits for so long is given back.
		k.append(frame, now.Add(2*k.interval))
	}
	return frame
}

func (k *leaseKeeper) append(frame *leaseFrame, extendAt time.Time) {
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

// ended returns true if the lease is over by this machine's clock.
func (k *leaseKeeper) ended(l *lease, now time.Time) bool {
	return k.duration > 0 && l.age(now)-l.renewed >= k.duration
}

// begin: a handler gets the delivery; first, the server must confirm it if the delivery says so. It returns true if
// nextCollect is now earlier than it was.
func (k *leaseKeeper) begin(l *lease, now time.Time) (earlier bool) {
	l.running, l.begun = true, l.age(now)
	if k.noReports {
		return false
	}
	if l.delivery.ConfirmBegun {
		k.unconfirmed = append(k.unconfirmed, l)
		return true
	}
	k.unreported = append(k.unreported, l)
	return len(k.unreported) == 1
}

// collect adds to the request what is due at now: leases to extend, and reports. It adds at most room of them. The
// others stay due. It returns the deliveries that have waited too long for a handler.
func (k *leaseKeeper) collect(now time.Time, room int, request *pb.SubscribeRequest) (late []*lease) {
	late, room = k.collectExtensions(now, room, request)
	k.unconfirmed, room = k.report(k.unconfirmed, now, 0, room, request)
	after := reportAfter
	if !isEmpty(request) {
		after = reportAlongAfter
	}
	k.unreported, _ = k.report(k.unreported, now, after, room, request)
	return late
}

func isEmpty(request *pb.SubscribeRequest) bool {
	return !request.NoMoreDeliveries && len(request.Settlements)+len(request.Begun) == 0
}

// collectExtensions also takes the leases that are due soon after, so that frames that arrived close together share a
// request. It returns the room left.
func (k *leaseKeeper) collectExtensions(now time.Time, room int, request *pb.SubscribeRequest) (late []*lease, left int) {
	until := now
	if k.extends() {
		until = now.Add(k.interval / 4)
	}
	// The loop ends because each frame moves to the end with a later time.
	for element := k.frames.Front(); element != nil; element = k.frames.Front() {
		frame := element.Value.(*leaseFrame)
		if frame.extendAt.After(until) {
			break
		}
		for ; frame.extendFrom < len(frame.leases); frame.extendFrom++ {
			l := &frame.leases[frame.extendFrom]
			if l.delivery == nil || l.lost {
				continue
			}
			if !l.running && !k.mayWait(frame, now) {
				late = append(late, l)
				continue
			}
			if l.running && l.age(now)-l.begun >= k.keepMax {
				continue
			}
			if room == 0 {
				return late, 0
			}
			room--
			l.renewed = l.age(now)
			token := l.delivery.LeaseToken
			extend := &pb.ExtendLease{Duration: durationpb.New(k.duration)}
			request.Settlements = append(request.Settlements,
				&pb.Settlement{LeaseToken: token, Action: &pb.Settlement_Extend{Extend: extend}})
			k.asked[token] = l
			l.asked++
		}
		k.remove(frame)
		if k.extends() {
			k.append(frame, now.Add(k.interval))
		}
	}
	return late, room
}

// extends returns false if no lease is extended: extensions are off, or would end before the first of them is due.
func (k *leaseKeeper) extends() bool { return k.interval > 0 && k.interval < k.keepMax }

// mayWait returns true if the deliveries of the frame may wait for a handler until the next third of their leases has
// passed.
func (k *leaseKeeper) mayWait(frame *leaseFrame, now time.Time) bool {
	return now.Sub(frame.received)+k.interval < k.keepMax
}

// report adds the reports of the leases that began `after` before now. It returns the leases that stay unreported, and
// the room left. The last lease stays although it is settled, so that the next handler need not wake the writer.
func (k *leaseKeeper) report(begun []*lease, now time.Time, after time.Duration, room int,
	request *pb.SubscribeRequest) (rest []*lease, left int) {
	done := 0
	for _, l := range begun {
		ended := l.delivery == nil || l.lost
		if l.age(now)-l.begun < after && (!ended || done == len(begun)-1) {
			break
		}
		if !ended {
			if room == 0 {
				break
			}
			room--
			request.Begun = append(request.Begun, l.delivery.LeaseToken)
			k.onReport(l)
		}
		done++
	}
	if done == 0 {
		return begun, room
	}
	count := copy(begun, begun[done:])
	for i := count; i < len(begun); i++ {
		begun[i] = nil
	}
	return begun[:count], room
}

// onReport: a request reports that the handler has begun. Call it before release.
func (k *leaseKeeper) onReport(l *lease) {
	l.reported = true
	k.reported[l.delivery.LeaseToken] = l
}

// nextCollect returns when to call collect next, as of now. No frame that is added later is due before this time. False:
// nothing will be due.
func (k *leaseKeeper) nextCollect(now time.Time) (next time.Time, ok bool) {
	if k.interval > 0 {
		next, ok = now.Add(k.interval), true
	}
	if front := k.frames.Front(); front != nil {
		next, ok = front.Value.(*leaseFrame).extendAt, true
	}
	if len(k.unreported) > 0 {
		first := k.unreported[0]
		if at := first.frame.received.Add(first.begun + reportAfter); !ok || at.Before(next) {
			next, ok = at, true
		}
	}
	return next, ok
}

// onExtended: the server extended the lease.
func (k *leaseKeeper) onExtended(token string) {
	if l := k.asked[token]; l != nil {
		k.onAnswer(l, token)
	}
}

// onAnswer: the server answered one of the requests to extend the lease.
func (k *leaseKeeper) onAnswer(l *lease, token string) {
	if l.asked--; l.asked == 0 {
		delete(k.asked, token)
	}
}

// onSettled: the server confirmed a settlement.
func (k *leaseKeeper) onSettled(token string) {
	if k.reported[token] != nil {
		k.noReports, k.unreported, k.reported = true, nil, nil
	}
}

// onBegun: the server confirmed the report. It returns true if the delivery waits for that.
func (k *leaseKeeper) onBegun(token string) (waits bool) {
	l := k.reported[token]
	delete(k.reported, token)
	if l == nil || l.delivery == nil || !l.delivery.ConfirmBegun {
		return false
	}
	l.confirmed = true
	return true
}

// onRefused: the server refused a request for this lease. known is true if the server refused an extension or a report,
// and lost if the subscriber learns from it that the lease has ended. Neither is requested again.
func (k *leaseKeeper) onRefused(token string) (known, lost bool) {
	// The server takes the reports of a request before its extensions.
	l := k.reported[token]
	if l != nil {
		delete(k.reported, token)
	} else if l = k.asked[token]; l != nil {
		k.onAnswer(l, token)
	} else {
		return false, false
	}
	lost = !l.lost
	l.lost = true
	if lost && l.call != nil {
		l.call.onLost()
	}
	return true, lost
}
