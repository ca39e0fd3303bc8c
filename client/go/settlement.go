// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

type settlementKind int

const (
	kindAck settlementKind = iota
	kindNack
	kindDeadLetter
	kindRelease
	kindLeave
)

// Settlement says how a handler settles a delivery. Make it with Ack, Nack and the other functions. Reasons are kept
// with the dead letter if the message becomes one; the library cuts them to 255 bytes.
type Settlement struct {
	kind settlementKind
	// nil: with a nack, by the retry policy; with a release, none.
	delay  *time.Duration
	reason string
}

// Ack: the message is done.
func Ack() Settlement { return Settlement{} }

// Nack delivers the message again by the retry policy of the subscription.
func Nack(reason string) Settlement { return Settlement{kind: kindNack, reason: reason} }

// NackAfter delivers the message again after this delay, without regard to the retry policy.
func NackAfter(delay time.Duration, reason string) Settlement {
	return Settlement{kind: kindNack, delay: &delay, reason: reason}
}

// DeadLetter never delivers the message again, and keeps it as a dead letter.
func DeadLetter(reason string) Settlement { return Settlement{kind: kindDeadLetter, reason: reason} }

// Release gives the message back as if the handler had not got it: no failed attempt.
func Release() Settlement { return Settlement{kind: kindRelease} }

// ReleaseAfter is Release with a delay before the next delivery.
func ReleaseAfter(delay time.Duration) Settlement {
	return Settlement{kind: kindRelease, delay: &delay}
}

// Leave settles nothing: the message keeps its lease and its credit until the lease or the stream ends.
func Leave() Settlement { return Settlement{kind: kindLeave} }

// FromError is Ack if err is nil, else Nack with the text of err.
func FromError(err error) Settlement {
	if err == nil {
		return Ack()
	}
	return Nack(err.Error())
}

// fill makes `settlement` that of this lease, for the server. Not for Leave.
func (s Settlement) fill(settlement *pb.Settlement, token string) {
	settlement.LeaseToken = token
	var delay *durationpb.Duration
	if s.delay != nil {
		delay = durationpb.New(*s.delay)
	}
	switch s.kind {
	case kindNack:
		settlement.Action = &pb.Settlement_Nack{Nack: &pb.Nack{Delay: delay, Reason: fittingReason(s.reason)}}
	case kindDeadLetter:
		settlement.Action = &pb.Settlement_DeadLetter{DeadLetter: &pb.DeadLetterLease{Reason: fittingReason(s.reason)}}
	case kindRelease:
		settlement.Action = &pb.Settlement_Release{Release: &pb.ReleaseLease{Delay: delay}}
	}
}

// reasonBytesMax is the longest reason that the server accepts. It ends the stream if it gets a longer one.
const reasonBytesMax = 255

// fittingReason makes the reason valid UTF-8 and cuts it at the boundary of a character.
func fittingReason(reason string) string {
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	if len(reason) <= reasonBytesMax {
		return reason
	}
	size := reasonBytesMax
	for size > 0 && !utf8.RuneStart(reason[size]) {
		size--
	}
	return reason[:size]
}
