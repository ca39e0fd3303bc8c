// SPDX-License-Identifier: Apache-2.0

package duetime

import "context"

// BatchHandler handles up to SubscriberOptions.BatchMax deliveries in one call, in the order of the stream. It returns one
// settlement for each delivery, in their order. nil acks all. Any other number of settlements nacks all, and is logged.
//
// A batch is what has arrived when the handler is free. No delivery waits for others, so a batch may have one. ctx is done
// when the leases of all its deliveries are known to have ended; the settlement of a delivery whose lease has ended has no
// effect. A handler that panics nacks all. In all else a BatchHandler is like a Handler.
//
// If a batch ends this program, its messages come again one by one, so that the message that ends it again becomes a dead
// letter alone. The first end counts as a failed attempt of each message if the call lasted longer than about 100 ms.
type BatchHandler func(ctx context.Context, deliveries []*Delivery) []Settlement

// SubscribeBatch is Subscribe with a handler of several deliveries at once. SubscriberOptions.Handlers counts its calls.
func (c *Client) SubscribeBatch(ctx context.Context, options SubscriberOptions, handler BatchHandler) (*Subscriber, error) {
	if options.BatchMax <= 0 {
		options.BatchMax = 100
	}
	return c.subscribe(ctx, options, options.BatchMax, handler.run)
}

// runner calls a handler. It returns the settlement of each delivery, or nothing and that of all.
type runner func(call *handlerCall) (each []Settlement, all Settlement)

func (h Handler) run(call *handlerCall) ([]Settlement, Settlement) {
	return nil, h(call.ctx, call.leases[0].delivery)
}

func (h BatchHandler) run(call *handlerCall) ([]Settlement, Settlement) {
	deliveries := make([]*Delivery, len(call.leases))
	for i, l := range call.leases {
		deliveries[i] = l.delivery
	}
	return h(call.ctx, deliveries), Ack()
}

// handlerCall is one call of a handler. Each goroutine that calls handlers uses one again and again.
type handlerCall struct {
	// The most deliveries.
	max    int
	leases []*lease
	// How many of the leases are not lost.
	live   int
	ctx    context.Context
	cancel context.CancelFunc
}

// onLost: one of the leases is lost. Ends the context with the last one.
func (c *handlerCall) onLost() {
	if c.live--; c.live == 0 {
		c.cancel()
	}
}

// clear makes the call ready for its next deliveries.
func (c *handlerCall) clear() {
	for i := range c.leases {
		c.leases[i] = nil
	}
	c.leases = c.leases[:0]
	c.ctx, c.cancel = nil, nil
}
