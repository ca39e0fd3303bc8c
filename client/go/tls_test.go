// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"crypto/tls"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

func TestAServerWithTLSMetWithoutAndTheReverse(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	certificate := &web.TLS.Certificates[0]
	for _, c := range []struct {
		server []grpc.ServerOption
		client *tls.Config
		want   string
	}{
		{[]grpc.ServerOption{grpc.Creds(credentials.NewServerTLSFromCert(certificate))}, nil,
			"the server closed the connection before it answered, as a server with TLS does; this client uses no TLS"},
		{nil, &tls.Config{}, "this client uses TLS, and the server does not"},
	} {
		fake := &fakeServer{}
		server := grpc.NewServer(c.server...)
		pb.RegisterMessagesServer(server, fake)
		address := serve(t, server)
		client, err := New(Options{Server: address, TLS: c.client, AttemptsMax: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Schedule(context.Background(), Message{Topic: "t"})
		if err == nil || !strings.Contains(err.Error(), address+": "+c.want) {
			t.Errorf("call: %v", err)
		}
		disconnected := make(chan error, 100)
		subscriber, err := client.Subscribe(context.Background(), SubscriberOptions{
			Topic: "t", OnDisconnect: func(err error) { disconnected <- err }},
			func(context.Context, *Delivery) Settlement { return Ack() })
		if err != nil {
			t.Fatal(err)
		}
		if err := <-disconnected; err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("subscriber: %v", err)
		}
		_ = subscriber.Stop(context.Background())
		stream, err := client.OpenScheduleStream(context.Background(), ScheduleStreamOptions{}, nil)
		if err == nil {
			_ = stream.Send(Message{Topic: "t"})
			err = stream.Finish()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("stream: %v", err)
		}
		client.Close()
	}
}
