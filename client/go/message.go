// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// When says when to deliver a message: After, At or Local. The server rounds up to whole milliseconds.
type When interface {
	setSchedule(request *pb.ScheduleRequest)
	setReschedule(request *pb.RescheduleRequest)
}

// After is a delay from the arrival of the request at the server: After(30 * time.Minute).
type After time.Duration

// At is a moment: At(time.Now().Add(time.Hour)). A moment in the past is due at once.
type At time.Time

// Local is a local time in a time zone: Local{Time: "2026-11-21T09:00", Zone: "Europe/Berlin"}. The server resolves it by the rules
// of CivilTime in message.proto, and keeps the local time as well.
type Local struct {
	// Time is like "2026-11-21T09:00", optionally followed by ":30" or ":30.250".
	Time string
	// Zone is a name of the IANA time zone database.
	Zone string
}

func (a After) setSchedule(request *pb.ScheduleRequest) {
	request.When = &pb.ScheduleRequest_Delay{Delay: durationpb.New(time.Duration(a))}
}

func (a After) setReschedule(request *pb.RescheduleRequest) {
	request.When = &pb.RescheduleRequest_Delay{Delay: durationpb.New(time.Duration(a))}
}

func (a At) setSchedule(request *pb.ScheduleRequest) {
	request.When = &pb.ScheduleRequest_DeliverTime{DeliverTime: timestamppb.New(time.Time(a))}
}

func (a At) setReschedule(request *pb.RescheduleRequest) {
	request.When = &pb.RescheduleRequest_DeliverTime{DeliverTime: timestamppb.New(time.Time(a))}
}

func (l Local) setSchedule(request *pb.ScheduleRequest) {
	request.When = &pb.ScheduleRequest_CivilTime{CivilTime: &pb.CivilTime{Local: l.Time, TimeZone: l.Zone}}
}

func (l Local) setReschedule(request *pb.RescheduleRequest) {
	request.When = &pb.RescheduleRequest_CivilTime{CivilTime: &pb.CivilTime{Local: l.Time, TimeZone: l.Zone}}
}

// OnConflict says what to do if the topic has a pending message with the same key. ScheduleRequest in messages.proto
// has the details.
type OnConflict = pb.ScheduleRequest_OnConflict

const (
	// ConflictFail is the default: the same content changes nothing, other content is CONTENT_MISMATCH.
	ConflictFail = pb.ScheduleRequest_ON_CONFLICT_FAIL
	// ConflictReplace replaces content and time.
	ConflictReplace = pb.ScheduleRequest_ON_CONFLICT_REPLACE
	// ConflictKeepTime replaces the content, and the message keeps its time.
	ConflictKeepTime = pb.ScheduleRequest_ON_CONFLICT_KEEP_TIME
	// ConflictPushBack replaces the content, and the time only moves later, at most by MaxWait.
	ConflictPushBack = pb.ScheduleRequest_ON_CONFLICT_PUSH_BACK
	// ConflictOnce is for a program that may replay: as ConflictFail, but a message that has ended counts, too.
	ConflictOnce = pb.ScheduleRequest_ON_CONFLICT_ONCE
)

// LatePolicy says what happens to a message after its time to live.
type LatePolicy = pb.Message_LatePolicy

const (
	// LateDeliver is the default: the server delivers the message late.
	LateDeliver = pb.Message_LATE_POLICY_DELIVER
	// LateDrop ends the message.
	LateDrop = pb.Message_LATE_POLICY_DROP
	// LateDeadLetter turns the message into a dead letter.
	LateDeadLetter = pb.Message_LATE_POLICY_DEAD_LETTER
)

// Message is what to deliver, and when. The topic and the time are required. ScheduleRequest in messages.proto documents the
// bounds.
type Message struct {
	// Topic to deliver to.
	Topic string
	// Payload to deliver; may be empty.
	Payload []byte
	// Attributes are delivered with the payload.
	Attributes map[string]string
	// When to deliver. nil: the server refuses the message, with DELIVER_TIME_MISSING. After(0) is due at once.
	When When

	// Key is the producer's name for the message. Calls find, move, replace and cancel the message by it.
	Key string
	// OnConflict says what to do if the key has a pending message.
	OnConflict OnConflict
	// MaxWait is the longest total delay with ConflictPushBack. 0: no bound.
	MaxWait time.Duration
	// OnlyIfExists: the call replaces a message, but never creates one.
	OnlyIfExists bool
	// RequestID makes a repeat of this request safe for an hour. Empty: Schedule chooses a random one, see Repeat.
	RequestID string
	// ValidateOnly: the server checks and decides as usual, but changes nothing.
	ValidateOnly bool

	// Labels for lists and filters.
	Labels map[string]string
	// OrderingKey: first deliveries of messages with the same ordering key start in order.
	OrderingKey string
	// TTL is how long the message is worth delivering, from its delivery time on. 0: that of the topic, if it has one.
	TTL time.Duration
	// ExpireTime is the end of the time to live. If it is set, TTL has no effect.
	ExpireTime time.Time
	// LatePolicy says what happens after the time to live.
	LatePolicy LatePolicy
	// Spread delivers the message at a point within this span after its time. The message's id decides the point.
	Spread time.Duration
}

// Proto returns the request for the message.
func (m Message) Proto() *pb.ScheduleRequest {
	request := &pb.ScheduleRequest{
		Topic:        m.Topic,
		Payload:      m.Payload,
		Attributes:   m.Attributes,
		Key:          m.Key,
		OnConflict:   m.OnConflict,
		OnlyIfExists: m.OnlyIfExists,
		RequestId:    m.RequestID,
		ValidateOnly: m.ValidateOnly,
		Labels:       m.Labels,
		OrderingKey:  m.OrderingKey,
		LatePolicy:   m.LatePolicy,
	}
	if m.When != nil {
		m.When.setSchedule(request)
	}
	// 0 and absent mean the same; absent is shorter.
	if m.MaxWait != 0 {
		request.MaxWait = durationpb.New(m.MaxWait)
	}
	if !m.ExpireTime.IsZero() {
		request.Lifetime = &pb.ScheduleRequest_ExpireTime{ExpireTime: timestamppb.New(m.ExpireTime)}
	} else if m.TTL != 0 {
		request.Lifetime = &pb.ScheduleRequest_Ttl{Ttl: durationpb.New(m.TTL)}
	}
	if m.Spread != 0 {
		request.Spread = durationpb.New(m.Spread)
	}
	return request
}

// Target is a message that exists: ByID or ByKey.
type Target struct {
	id  string
	key *pb.TopicKey
}

// ByID names a message by the id that Schedule returned.
func ByID(id string) Target { return Target{id: id} }

// ByKey names the message that the key of the topic leads to.
func ByKey(topic, key string) Target { return Target{key: &pb.TopicKey{Topic: topic, Key: key}} }

// String returns the id or the key, for people.
func (t Target) String() string {
	if t.key != nil {
		return t.key.Topic + " " + t.key.Key
	}
	return t.id
}
