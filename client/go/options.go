// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"math"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// DefaultServer is the address of a server on this machine.
const DefaultServer = "127.0.0.1:7788"

const (
	// No limit. The server's configuration sets the limits of messages and batches. A limit here would refuse answers and
	// deliveries that the server allows, and a refused delivery ends its stream each time.
	receiveBytesMax = math.MaxInt32
	// The default pauses of gRPC between connection attempts grow from 1 s to 2 minutes. Backoff decides when to try,
	// so these pauses are short beside its waits.
	reconnectFirst = 50 * time.Millisecond
	reconnectMax   = time.Second
	connectTimeout = 5 * time.Second
	// What the server may send before the client has read it. Without these sizes, gRPC adapts its own, and for that pings the
	// server after almost each frame that arrives.
	streamWindow     = 4 << 20
	connectionWindow = 16 << 20
)

// Options of a client. The zero value is a client of DefaultServer without TLS.
type Options struct {
	// Server is "host:port" or "unix:/path/to.sock". Empty: DefaultServer. Several, "host:port,host:port", are the members
	// of a cell: calls, streams and subscribers go to the member that leads.
	Server string
	// TLS, if set, makes the client use TLS. LoadTLS reads it from files. With &tls.Config{} the client trusts the
	// certificates of the system.
	TLS *tls.Config
	// Token, if set, is sent with each call as "authorization: Bearer TOKEN". It requires TLS.
	Token string
	// Timeout limits each call, including its repeats, together with the deadline of the call's context. 0: 10 s.
	Timeout time.Duration
	// AttemptsMax is the most tries of a call that may be repeated. 1: no repeat. 0, the default: no limit but the deadline.
	AttemptsMax int
	// Backoff sets the waits between tries. A wait is never shorter than the server requests.
	Backoff Backoff
	// Logger gets a line when a subscriber cannot reach its server, loses it, has it back, or is refused, and when a function
	// of the user panics. While nothing changes, the line comes again after a minute, then ever more rarely. nil: the default of the log package. log.New(io.Discard, "", 0) switches it off, and
	// slog.NewLogLogger makes one for log/slog.
	Logger *log.Logger
	// SeparateCalls makes each Schedule, Cancel, Reschedule and Get a call of its own. By default those of all goroutines
	// share a stream, which costs the server about half; each still has its own deadline, error and repeats.
	SeparateCalls bool
	// TraceContext, if set, returns the W3C trace context of a call, which its message keeps: the headers traceparent and
	// tracestate. It is not needed for a context whose outgoing metadata has these headers.
	TraceContext func(context.Context) (traceparent, tracestate string)
	// DialOptions are added to those of this library, for example interceptors. With any, calls share no stream, so that
	// interceptors and handlers of statistics see each call.
	DialOptions []grpc.DialOption
}

func (o Options) withDefaults() Options {
	if o.Server == "" {
		o.Server = DefaultServer
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	return o
}

// LoadTLS reads a TLS configuration from PEM files. caFile holds the trusted certificates; empty means those of the
// system. certFile and keyFile are the client's own, for servers that ask for them: both or neither.
func LoadTLS(caFile, certFile, keyFile string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if (certFile == "") != (keyFile == "") {
		return nil, newError(codes.InvalidArgument, "a TLS certificate and its key go together: one is missing")
	}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("duetime: read the TLS authority: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, newError(codes.InvalidArgument, "no certificate in the TLS file "+caFile)
		}
	}
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("duetime: read the TLS certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// dial opens a new connection. It returns at once: the first call connects.
func (o Options) dial() (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(receiveBytesMax)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnectFirst, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectMax},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connectionWindow),
		// The proxy settings of the environment are meant for the web.
		grpc.WithNoProxy(),
	}
	if o.Token != "" {
		if o.TLS == nil {
			return nil, newError(codes.InvalidArgument, "a token requires TLS")
		}
		if strings.IndexFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
			return nil, newError(codes.InvalidArgument, "a token is printable ASCII without spaces")
		}
		options = append(options, grpc.WithPerRPCCredentials(bearer(o.Token)))
	}
	target := o.Server
	if o.cell() {
		members, more, err := o.cellTarget()
		if err != nil {
			return nil, err
		}
		target, options = members, append(options, more...)
	}
	conn, err := grpc.Dial(target, append(options, o.DialOptions...)...)
	if err != nil {
		return nil, newError(codes.InvalidArgument, err.Error())
	}
	return conn, nil
}

// bearer adds a token to each call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity keeps the token off connections that others can read.
func (b bearer) RequireTransportSecurity() bool { return true }
