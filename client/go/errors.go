// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// Error is the error of a call, of an item of a batch, or of a stream. Find it with errors.As:
//
//	var failure *duetime.Error
//	if errors.As(err, &failure) && failure.Reason == "TOPIC_FULL" { ... }
type Error struct {
	// Code is the canonical code of gRPC, never OK.
	Code codes.Code
	// Reason is the cause for programs, like TOPIC_NOT_FOUND. Empty if the error does not come from a duetime server: a
	// connection that failed, a deadline that passed.
	Reason string
	// Message is the error in English, for people.
	Message string
	// Metadata holds every variable part of the message, by name.
	Metadata map[string]string
	// Fields are the request fields that the server refused.
	Fields []FieldViolation
	// RetryDelay is the delay that the server requests before the next try. 0: it requests none.
	RetryDelay time.Duration

	status *status.Status
	cause  error
}

// FieldViolation is one request field that the server refused.
type FieldViolation struct {
	// Field is the path to the field, such as "messages[3].topic".
	Field string
	// Description says what is wrong, for people.
	Description string
}

// Error returns the code, the reason and the message.
func (e *Error) Error() string {
	text := "duetime: " + e.Code.String()
	if e.Reason != "" {
		text += " " + e.Reason
	}
	return text + ": " + e.Message
}

// Unwrap returns context.Canceled or context.DeadlineExceeded if the context of the call ended it.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus makes status.Code and status.FromError work with an Error.
func (e *Error) GRPCStatus() *status.Status {
	if e.status != nil {
		return e.status
	}
	return status.New(e.Code, e.Message)
}

// ReasonOf returns the reason of an Error, and "" for any other error.
func ReasonOf(err error) string {
	var failure *Error
	if errors.As(err, &failure) {
		return failure.Reason
	}
	return ""
}

func newError(code codes.Code, message string) *Error { return &Error{Code: code, Message: message} }

// errorOf is the function errorOf, and says it if only one of client and server uses TLS.
func (o Options) errorOf(ctx context.Context, err error) *Error {
	failure := errorOf(ctx, err)
	switch {
	case failure.Code != codes.Unavailable || failure.Reason != "":
	case o.TLS == nil && strings.Contains(failure.Message, "error reading server preface: EOF"):
		failure.Message = o.Server +
			": the server closed the connection before it answered, as a server with TLS does; this client uses no TLS"
	case o.TLS != nil && strings.Contains(failure.Message, "first record does not look like a TLS handshake"):
		failure.Message = o.Server + ": this client uses TLS, and the server does not"
	}
	return failure
}

// errorOf converts the error of a call that was made with ctx. err must not be nil.
func errorOf(ctx context.Context, err error) *Error {
	var failure *Error
	if errors.As(err, &failure) {
		return failure
	}
	s, known := status.FromError(err)
	if !known {
		s = status.FromContextError(err)
	}
	failure = &Error{Code: s.Code(), Message: s.Message(), status: s}
	if failure.Code == codes.Canceled || failure.Code == codes.DeadlineExceeded {
		failure.cause = ctx.Err()
	}
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			failure.Reason, failure.Metadata = detail.Reason, detail.Metadata
		case *errdetails.BadRequest:
			for _, violation := range detail.FieldViolations {
				failure.Fields = append(failure.Fields, FieldViolation{Field: violation.Field, Description: violation.Description})
			}
		case *errdetails.RetryInfo:
			failure.RetryDelay = detail.RetryDelay.AsDuration()
		}
	}
	return failure
}

// errorOfItem converts the error of an item of a batch. An item without result and error is Internal.
func errorOfItem(item *pb.Failure) *Error {
	code := codes.Code(item.GetCode())
	if code == codes.OK {
		return newError(codes.Internal, "the server answered an item with an empty result")
	}
	if code > codes.Unauthenticated {
		code = codes.Unknown
	}
	failure := &Error{Code: code, Reason: item.Reason, Message: item.Message, Metadata: item.Metadata}
	if item.Field != "" {
		failure.Fields = []FieldViolation{{Field: item.Field, Description: item.Message}}
	}
	failure.RetryDelay = item.RetryDelay.AsDuration()
	return failure
}
