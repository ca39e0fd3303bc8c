// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"math"
	"sync"
	"time"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// subscriberState connects the goroutines of a subscriber: deliveries wait here for handlers, settlements wait here for
// the writer. It makes no network calls and owns no goroutine.
//
// Invariants: (1) every queued delivery belongs to the open stream; (2) unconfirmed settlements are in outgoing, or were
// sent on the open stream and are not answered yet; (3) the lease of a settled delivery is not extended, so a request
// holds no token twice, except a report beside the extension or settlement of its lease.
type subscriberState struct {
	// Wakes the writer. Holds one signal.
	writeReady chan struct{}

	// Guards all that follows.
	mutex sync.Mutex
	// Wakes handlers.
	workReady *sync.Cond
	// Closed and replaced by every other change that a goroutine may wait for.
	changed chan struct{}

	stream uint64
	// Ends with the stream. Parent of the contexts of handlers.
	streamCtx  context.Context
	streamOpen bool
	readEnded  bool
	draining   bool
	lastFrame  time.Time
	queue      []*lease
	// The leases of queued deliveries and of deliveries that a handler works on.
	leases leaseKeeper
	// Handlers that run, or wait for the server's confirmation.
	busy     int
	outgoing pb.SubscribeRequest
	// The most settlements, with extensions, and reports in one request: the stream's credit. The server ends a stream
	// that exceeds a limit, and no credit is greater than this limit. Unsettled deliveries may be more than the credit,
	// because the server no longer counts those whose leases have ended.
	requestMax  int
	unconfirmed int64
	// The unconfirmed settlements that are not acks, by lease token.
	notAcks map[string]settlementKind
	// The releases of skipped deliveries that are not confirmed.
	skipped map[string]struct{}

	stopping       bool
	lostBeforeStop int64
	counts         Counts
}

func newSubscriberState(extendMax time.Duration) *subscriberState {
	s := &subscriberState{
		writeReady: make(chan struct{}, 1),
		changed:    make(chan struct{}),
		requestMax: math.MaxInt,
		leases:     newLeaseKeeper(extendMax),
		notAcks:    make(map[string]settlementKind),
		skipped:    make(map[string]struct{}),
	}
	s.workReady = sync.NewCond(&s.mutex)
	return s
}

// wakeWriter may be called with or without the lock.
func (s *subscriberState) wakeWriter() {
	select {
	case s.writeReady <- struct{}{}:
	default:
	}
}

// notify wakes those who wait for changed. The caller holds the lock.
func (s *subscriberState) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait releases the lock until the next change. It returns false if the time or the context ended first.
func (s *subscriberState) wait(ctx context.Context, timeout time.Duration) bool {
	changed := s.changed
	s.mutex.Unlock()
	defer s.mutex.Lock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

// forever is longer than any wait. The context ends the wait.
const forever = 365 * 24 * time.Hour

// ---- The connection's goroutine

// beginStream: a new stream is about to open. ctx ends with it.
func (s *subscriberState) beginStream(ctx context.Context) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.stream++
	s.streamCtx = ctx
	s.streamOpen, s.readEnded, s.draining = true, false, false
	s.lastFrame = time.Now()
}

// endStream: the stream has ended. Drops its deliveries and settlements.
func (s *subscriberState) endStream() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.streamOpen = false
	s.clearQueue()
	s.leases.clear()
	s.outgoing.Reset()
	s.counts.Lost += s.unconfirmed
	s.unconfirmed = 0
	s.notAcks = make(map[string]settlementKind)
	s.skipped = make(map[string]struct{})
	s.wakeWriter()
	s.notify()
}

// watchStream waits until the stream has ended or ctx is done. It returns true if no frame came for silenceMax before
// that.
func (s *subscriberState) watchStream(ctx context.Context, silenceMax time.Duration) (silent bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for !s.readEnded && ctx.Err() == nil {
		rest := silenceMax - time.Since(s.lastFrame)
		if rest <= 0 {
			return true
		}
		s.wait(ctx, rest)
	}
	return false
}

func (s *subscriberState) onReadEnd() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.readEnded = true
	s.notify()
}

// running is false once a stop was requested.
func (s *subscriberState) running() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return !s.stopping
}

// pause waits before the next stream. It returns false as soon as a stop is requested or ctx is done.
func (s *subscriberState) pause(ctx context.Context, wait time.Duration) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	end := time.Now().Add(wait)
	for !s.stopping && ctx.Err() == nil {
		rest := time.Until(end)
		if rest <= 0 {
			return true
		}
		s.wait(ctx, rest)
	}
	return false
}

// ---- The reader

func (s *subscriberState) onFrame(response *pb.SubscribeResponse) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lastFrame = time.Now()
	if started := response.Started; started != nil {
		s.counts.Streams++
		s.leases.start(started.LeaseDuration.AsDuration())
		s.requestMax = math.MaxInt
		if started.MaxOutstandingMessages > 0 {
			s.requestMax = int(started.MaxOutstandingMessages)
		}
		s.wakeWriter()
	}
	s.confirm(response)
	if response.Drain != nil {
		s.draining = true
		s.wakeWriter()
	}
	if len(response.Deliveries) == 0 {
		return
	}
	frame := s.leases.add(response.Deliveries, s.stream, s.lastFrame)
	if len(s.queue) == 0 {
		s.queue = make([]*lease, 0, len(frame.leases))
	}
	for i := range frame.leases {
		if s.stopping || !s.streamOpen {
			s.skip(&frame.leases[i], s.stopping)
		} else {
			s.queue = append(s.queue, &frame.leases[i])
			s.workReady.Signal()
		}
	}
}

// confirm handles what the server says of reports, settlements and extensions.
func (s *subscriberState) confirm(response *pb.SubscribeResponse) {
	for _, token := range response.Begun {
		if s.leases.onBegun(token) {
			s.notify()
		}
	}
	for _, token := range response.Extended {
		s.leases.onExtended(token)
	}
	s.counts.Extended += int64(len(response.Extended))
	if len(response.Settled) == 0 && len(response.Refused) == 0 {
		return
	}
	for _, token := range response.Settled {
		s.leases.onSettled(token)
		if s.takeSkipped(token) {
			continue
		}
		s.unconfirmed--
		switch s.notAcks[token] { // kindAck if it is not there
		case kindNack:
			s.counts.Nacked++
		case kindRelease:
			s.counts.Released++
		case kindDeadLetter:
			s.counts.DeadLettered++
		default:
			s.counts.Acked++
		}
		delete(s.notAcks, token)
	}
	for _, refusal := range response.Refused {
		// A token may have been sent first in a report or an extension, and then in the settlement of its lease. The
		// server answers them in that order.
		if known, lost := s.leases.onRefused(refusal.LeaseToken); known {
			if lost {
				s.counts.LeasesLost++
				s.notify()
			}
		} else if !s.takeSkipped(refusal.LeaseToken) {
			delete(s.notAcks, refusal.LeaseToken)
			s.counts.Refused++
			s.unconfirmed--
		}
	}
	if s.unconfirmed > 0 {
		return
	}
	if s.stopping {
		s.notify()
	}
	if s.draining {
		s.wakeWriter()
	}
}

func (s *subscriberState) takeSkipped(token string) bool {
	_, found := s.skipped[token]
	delete(s.skipped, token)
	return found
}

// skip drops a delivery that got no handler. With giveBack it also releases the lease, if the lease can be current.
func (s *subscriberState) skip(l *lease, giveBack bool) {
	token := s.leases.release(l)
	s.counts.Skipped++
	if !giveBack || l.lost || !s.streamOpen || l.stream != s.stream {
		return
	}
	release := &pb.Settlement{}
	Release().fill(release, token)
	s.outgoing.Settlements = append(s.outgoing.Settlements, release)
	s.skipped[token] = struct{}{}
	s.wakeWriter()
}

func (s *subscriberState) clearQueue() {
	for _, l := range s.queue {
		s.skip(l, s.stopping)
	}
	s.queue = nil
}

// ---- Handlers

// takeWork fills the call with deliveries, at most call.max. It waits for the first delivery, and for the server's
// confirmation if that delivery needs one. It returns false after a stop request.
func (s *subscriberState) takeWork(call *handlerCall) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for {
		for !s.stopping && len(s.queue) == 0 {
			s.workReady.Wait()
		}
		if s.stopping {
			return false
		}
		if !s.begin(call, time.Now()) {
			continue
		}
		for s.mustWait(call.leases[0]) {
			s.wait(context.Background(), forever)
		}
		if s.enter(call) {
			return true
		}
	}
}

// begin gives the first queued deliveries to a call. It drops deliveries whose leases are known to have ended, and returns
// false if the call gets none. A delivery whose begin the server must confirm gets a call of its own.
func (s *subscriberState) begin(call *handlerCall, now time.Time) bool {
	alone := false
	for len(s.queue) > 0 && len(call.leases) < call.max && !alone {
		l := s.queue[0]
		if alone = l.delivery.ConfirmBegun; alone && len(call.leases) > 0 {
			break
		}
		s.queue[0] = nil
		s.queue = s.queue[1:]
		if l.lost || s.leases.ended(l, now) {
			if !l.lost {
				s.counts.LeasesLost++
			}
			s.skip(l, false)
			alone = false
			continue
		}
		if s.leases.begin(l, now) {
			s.wakeWriter()
		}
		call.leases = append(call.leases, l)
	}
	if len(call.leases) == 0 {
		return false
	}
	s.busy++
	return true
}

// current returns true if the handler may begin, as far as the subscriber knows.
func (s *subscriberState) current(l *lease) bool {
	return !l.lost && s.streamOpen && l.stream == s.stream && !s.stopping
}

// mustWait returns true if the server has not answered the report of a delivery that needs a confirmation.
func (s *subscriberState) mustWait(l *lease) bool {
	return l.delivery.ConfirmBegun && !l.confirmed && s.current(l)
}

// enter makes the context of the call, which begins now. It returns false if the delivery is dropped instead, which only a
// delivery that waited for a confirmation can be.
func (s *subscriberState) enter(call *handlerCall) bool {
	if first := call.leases[0]; !s.current(first) {
		s.skip(first, s.stopping)
		s.leave(call)
		return false
	} else if first.confirmed {
		first.begun = first.age(time.Now())
	}
	for _, l := range call.leases {
		l.call = call
	}
	call.live = len(call.leases)
	call.ctx, call.cancel = context.WithCancel(s.streamCtx)
	return true
}

// leave: the call is over, and a handler's goroutine is free.
func (s *subscriberState) leave(call *handlerCall) {
	call.clear()
	s.busy--
	if s.draining {
		s.wakeWriter()
	}
	if s.stopping {
		s.notify()
	}
}

// settle: the handler returned. each has the settlement of each delivery; if each is empty, all is that of every delivery.
func (s *subscriberState) settle(call *handlerCall, each []Settlement, all Settlement) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	call.cancel()
	messages := make([]pb.Settlement, len(call.leases))
	if len(s.outgoing.Settlements) == 0 {
		s.outgoing.Settlements = make([]*pb.Settlement, 0, len(messages))
	}
	for i, l := range call.leases {
		if len(each) > 0 {
			all = each[i]
		}
		s.settleOne(l, all, &messages[i])
	}
	s.wakeWriter()
	s.leave(call)
}

// settleOne settles a lease with a message to fill.
func (s *subscriberState) settleOne(l *lease, settlement Settlement, message *pb.Settlement) {
	l.call = nil
	s.counts.Delivered++
	onStream := s.streamOpen && l.stream == s.stream
	if settlement.kind == kindLeave && onStream && !l.reported && !s.leases.noReports {
		// Otherwise the server would take the message for one that has perhaps ended its process.
		s.outgoing.Begun = append(s.outgoing.Begun, l.delivery.LeaseToken)
		s.leases.onReport(l)
	}
	token := s.leases.release(l)
	switch {
	case settlement.kind == kindLeave:
		s.counts.Left++
	case !onStream:
		s.counts.Lost++
	default:
		if settlement.kind != kindAck {
			s.notAcks[token] = settlement.kind
		}
		settlement.fill(message, token)
		s.outgoing.Settlements = append(s.outgoing.Settlements, message)
		s.unconfirmed++
	}
}

// ---- The writer

// nextWrite waits until there is something to send: settlements, leases to extend, reports of begun handlers. It returns
// nil when the stream has nothing more to send; halfClose says whether to end it from this side.
func (s *subscriberState) nextWrite() (request *pb.SubscribeRequest, halfClose bool) {
	for {
		request, halfClose, wait := s.tryWrite(time.Now())
		if wait == 0 {
			return request, halfClose
		}
		timer := time.NewTimer(wait)
		select {
		case <-s.writeReady:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// tryWrite is one try of nextWrite. wait > 0: nothing to send now, ask again after this time or the next signal.
func (s *subscriberState) tryWrite(now time.Time) (request *pb.SubscribeRequest, halfClose bool, wait time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.streamOpen {
		return nil, false, 0
	}
	request = &pb.SubscribeRequest{NoMoreDeliveries: s.outgoing.NoMoreDeliveries}
	s.outgoing.NoMoreDeliveries = false
	room := s.requestMax
	request.Settlements, s.outgoing.Settlements, room = split(s.outgoing.Settlements, room)
	if len(request.Settlements) > 0 {
		s.counts.SettleRequests++
	}
	request.Begun, s.outgoing.Begun, room = split(s.outgoing.Begun, room)
	s.giveBack(s.leases.collect(now, room, request))
	if !isEmpty(request) {
		return request, false, 0
	}
	// The server drains and nothing is left to settle: end the stream, so that the server does not wait for its full
	// grace period.
	if s.draining && len(s.queue) == 0 && s.busy == 0 && s.unconfirmed == 0 && len(s.skipped) == 0 {
		return nil, true, 0
	}
	next, ok := s.leases.nextCollect(now)
	if !ok {
		return nil, false, forever
	}
	if wait = next.Sub(now); wait <= 0 {
		wait = time.Millisecond
	}
	return nil, false, wait
}

// giveBack releases deliveries that have waited too long for a handler, with the next request.
func (s *subscriberState) giveBack(late []*lease) {
	if len(late) == 0 {
		return
	}
	for _, l := range late {
		s.skip(l, true)
	}
	var waiting []*lease
	for _, l := range s.queue {
		if l.delivery != nil {
			waiting = append(waiting, l)
		}
	}
	s.queue = waiting
}

// split divides a list into the elements that fit and the rest. It returns the room left.
func split[Element any](all []Element, room int) (fitting, rest []Element, left int) {
	if len(all) <= room {
		return all, nil, room - len(all)
	}
	return all[:room:room], all[room:], 0
}

// ---- Stop and counts

// requestStop stops handing out work, and gives back what no handler got.
func (s *subscriberState) requestStop() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.stopping {
		return
	}
	s.stopping = true
	s.lostBeforeStop = s.counts.Lost
	// Before the releases, so that the server does not deliver the same messages here again.
	s.outgoing.NoMoreDeliveries = s.streamOpen
	s.clearQueue()
	s.wakeWriter()
	s.workReady.Broadcast()
	s.notify()
}

// waitHandled waits for running handlers, after requestStop. It returns true if all have returned.
func (s *subscriberState) waitHandled(ctx context.Context) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.busy > 0 && ctx.Err() == nil {
		s.wait(ctx, forever)
	}
	return s.busy == 0
}

// waitConfirmed waits until the server has confirmed the settlements, after requestStop. It returns true if the server
// confirmed all of them, and none was lost since requestStop.
func (s *subscriberState) waitConfirmed(ctx context.Context) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for (s.unconfirmed > 0 || len(s.skipped) > 0) && s.streamOpen && ctx.Err() == nil {
		s.wait(ctx, forever)
	}
	return (s.unconfirmed == 0 || !s.streamOpen) && s.counts.Lost == s.lostBeforeStop
}

func (s *subscriberState) getCounts() Counts {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.counts
}
