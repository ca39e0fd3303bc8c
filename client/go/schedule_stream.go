// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// ScheduleStreamOptions are the options of a ScheduleStream. The zero value has the defaults.
type ScheduleStreamOptions struct {
	// FramesMax is the most frames without an answer. With that many, Send waits. 0: 8. The server handles up to 16
	// frames at once.
	FramesMax int
	// AnswerTimeout: the stream ends if frames wait and the server answers none of them for this long. 0: 30 s.
	AnswerTimeout time.Duration
}

// ScheduleStream schedules many messages on one stream, in frames of many, over its own connection. After a break it
// knows which of the messages have an answer.
//
// Messages are numbered from 0 over all frames, in the order of sending. Every message below Answered has its result:
// accepted durably, or refused. The outcome of the others is unknown once the stream has ended. Unanswered returns
// these with their request ids. The server remembers the ids for an hour, so sending the messages again on another
// stream makes no second message. A ScheduleStream does not reconnect. It is safe for concurrent use.
type ScheduleStream struct {
	framesMax     int
	answerTimeout time.Duration
	onResult      func(number int64, result ScheduleResult)
	options       Options
	conn          *grpc.ClientConn
	ctx           context.Context
	cancel        context.CancelFunc
	stream        pb.Messages_ScheduleStreamClient
	// Closed when the reader has seen the end of the stream.
	readOver chan struct{}

	// Held by Send, Finish and Unanswered, one at a time. It guards the next two.
	sending sync.Mutex
	ended   bool
	err     error

	// Guards all that follows. Signalled by each answer and by the end of the stream.
	mutex   sync.Mutex
	changed *sync.Cond
	// The frames that Send got and the server has not answered, in order.
	frames         [][]Message
	sent, answered int64
	// When the server last answered, or had nothing to answer.
	progress time.Time
	// Why the stream ended; io.EOF if the server ended it with OK. nil until then.
	readErr error
	// Why this side broke the stream.
	broken error
	// Fires when the server may have been silent for too long.
	silence *time.Timer
}

// OpenScheduleStream connects, and opens a stream that lasts until Finish, an error, or the end of ctx. One goroutine
// calls onResult for each message, in order. onResult may call only Cancel, Sent and Answered of the stream. If it
// panics, the panic is logged, and the stream goes on.
func (c *Client) OpenScheduleStream(ctx context.Context, options ScheduleStreamOptions,
	onResult func(number int64, result ScheduleResult)) (*ScheduleStream, error) {
	conn, err := c.options.dial()
	if err != nil {
		return nil, err
	}
	if options.FramesMax <= 0 {
		options.FramesMax = 8
	}
	if options.AnswerTimeout <= 0 {
		options.AnswerTimeout = 30 * time.Second
	}
	ctx, cancel := context.WithCancel(ctx)
	var leader *time.Timer
	if c.options.cell() {
		// The stream opens when a member leads.
		leader = time.AfterFunc(options.AnswerTimeout, cancel)
	}
	stream, err := pb.NewMessagesClient(conn).ScheduleStream(ctx)
	if leader != nil && !leader.Stop() {
		err = newError(codes.DeadlineExceeded, "no member of the cell led in time")
	}
	if err != nil {
		failure := c.options.errorOf(ctx, err)
		cancel()
		conn.Close()
		return nil, failure
	}
	s := &ScheduleStream{
		framesMax:     options.FramesMax,
		answerTimeout: options.AnswerTimeout,
		onResult:      onResult,
		options:       c.options,
		conn:          conn,
		ctx:           ctx,
		cancel:        cancel,
		stream:        stream,
		readOver:      make(chan struct{}),
		progress:      time.Now(),
	}
	s.changed = sync.NewCond(&s.mutex)
	// checkSilence needs the timer, so it must not begin before the assignment.
	s.mutex.Lock()
	s.silence = time.AfterFunc(s.answerTimeout, s.checkSilence)
	s.mutex.Unlock()
	go s.read()
	return s, nil
}

// Send sends one frame. A message without a request id gets a random one. Send waits while FramesMax frames have no
// answer. Success means sent, not accepted.
//
// An error means that the stream has ended; Unanswered then returns this frame too. DeadlineExceeded after
// AnswerTimeout; FailedPrecondition after Finish; otherwise as the server ended the stream.
func (s *ScheduleStream) Send(messages ...Message) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	frame := append([]Message(nil), messages...)
	request := &pb.ScheduleStreamRequest{Messages: make([]*pb.ScheduleRequest, len(frame))}
	for i := range frame {
		if frame[i].RequestID == "" {
			frame[i].RequestID = newID()
		}
		request.Messages[i] = frame[i].Proto()
	}
	s.mutex.Lock()
	// Stored first, so that no error loses them.
	if len(s.frames) == 0 {
		s.progress = time.Now()
	}
	s.sent += int64(len(frame))
	s.frames = append(s.frames, frame)
	for len(s.frames) > s.framesMax && s.readErr == nil {
		s.changed.Wait()
	}
	over := s.readErr != nil
	s.mutex.Unlock()
	if s.ended {
		if s.err == nil {
			return newError(codes.FailedPrecondition, "the stream was finished")
		}
		return s.err
	}
	// An error of the stream's Send says only that the stream is over; the reader knows why.
	if over || s.stream.Send(request) != nil {
		return s.end()
	}
	return nil
}

// Finish ends the sending and waits for all answers. It returns nil if the server answered all frames; otherwise why
// the stream ended. A repeat returns the same.
func (s *ScheduleStream) Finish() error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.ended {
		return s.err
	}
	_ = s.stream.CloseSend()
	return s.end()
}

// Cancel breaks the stream, so that Send and Finish return soon.
func (s *ScheduleStream) Cancel() { s.cancel() }

// Sent returns the number of messages that Send got.
func (s *ScheduleStream) Sent() int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.sent
}

// Answered returns the number of messages that have a result.
func (s *ScheduleStream) Answered() int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.answered
}

// Unanswered removes and returns the messages without a result, in order. It ends the stream if that is open.
func (s *ScheduleStream) Unanswered() []Message {
	s.sending.Lock()
	defer s.sending.Unlock()
	if !s.ended {
		s.cancel()
		_ = s.end()
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var messages []Message
	for _, frame := range s.frames {
		messages = append(messages, frame...)
	}
	s.frames = nil
	return messages
}

// end waits for the end of the stream and stores how it ended. The caller holds s.sending.
func (s *ScheduleStream) end() error {
	<-s.readOver
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ended = true
	switch {
	case s.broken != nil:
		// The cause of a cancellation explains more than the cancellation.
		s.err = s.broken
	case s.readErr != io.EOF:
		s.err = s.options.errorOf(s.ctx, s.readErr)
	case len(s.frames) > 0:
		s.err = newError(codes.Internal, "the server ended the stream before it had answered all of it")
	}
	return s.err
}

// checkSilence breaks the stream if frames wait and the server answers none of them.
func (s *ScheduleStream) checkSilence() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.readErr != nil {
		return
	}
	if len(s.frames) == 0 {
		s.progress = time.Now()
	}
	if rest := s.answerTimeout - time.Since(s.progress); rest > 0 {
		s.silence.Reset(rest)
		return
	}
	s.breakStream(newError(codes.DeadlineExceeded, "the server did not answer a frame in time"))
}

// breakStream ends the stream from this side. The caller holds s.mutex.
func (s *ScheduleStream) breakStream(err error) {
	if s.broken == nil {
		s.broken = err
	}
	s.cancel()
}

// read reads the answers until the stream ends, and then closes the connection.
func (s *ScheduleStream) read() {
	defer close(s.readOver)
	defer s.conn.Close()
	defer s.cancel()
	for {
		response, err := s.stream.Recv()
		if err == nil && s.take(response) {
			continue
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.readErr = err
		if err == nil {
			s.breakStream(newError(codes.Internal, "the server answered a frame that was not the next one"))
			s.readErr = s.broken
		}
		s.silence.Stop()
		s.changed.Broadcast()
		return
	}
}

// take returns false if the answer does not fit the next unanswered frame.
func (s *ScheduleStream) take(response *pb.ScheduleStreamResponse) bool {
	s.mutex.Lock()
	number := s.answered
	fits := len(s.frames) > 0 && response.First == number && len(s.frames[0]) == len(response.Results)
	s.mutex.Unlock()
	if !fits {
		return false
	}
	for _, result := range response.Results {
		if s.onResult != nil {
			s.callOnResult(number, scheduleResult(result))
		}
		number++
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.frames[0] = nil
	s.frames = s.frames[1:]
	s.answered = number
	s.progress = time.Now()
	s.changed.Broadcast()
	return true
}

func (s *ScheduleStream) callOnResult(number int64, result ScheduleResult) {
	defer s.options.logPanic("onResult")
	s.onResult(number, result)
}
