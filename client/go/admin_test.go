// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"
	"reflect"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// Each method of the protos can be called. After Unavailable it is repeated or not, as its option says, with the same request,
// which then has a name if the server needs one.
func TestEachMethodOfAdminCanBeCalled(t *testing.T) {
	var method string
	var requests []proto.Message
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ = grpc.MethodFromServerStream(stream)
		request := proto.Clone(requests[0])
		if err := stream.RecvMsg(request); err != nil {
			return err
		}
		if requests = append(requests, request); len(requests) == 2 {
			return status.Error(codes.Unavailable, "once")
		}
		return stream.SendMsg(&pb.ServerInfoRequest{}) // an empty message, as any answer may be
	}))
	client := newClient(t, serve(t, server))
	service := pb.File_duetime_v1_admin_proto.Services().Get(0)
	for i := 0; i < service.Methods().Len(); i++ {
		rpc := service.Methods().Get(i)
		kind, err := protoregistry.GlobalTypes.FindMessageByName(rpc.Input().FullName())
		if err != nil {
			t.Fatal(err)
		}
		requests = []proto.Message{kind.New().Interface()}
		results := reflect.ValueOf(client.AdminClient).MethodByName(string(rpc.Name())).Call(
			[]reflect.Value{reflect.ValueOf(context.Background()), reflect.ValueOf(requests[0])})
		err, _ = results[1].Interface().(error)
		if want := "/" + string(service.FullName()) + "/" + string(rpc.Name()); method != want {
			t.Fatalf("%s called %s", want, method)
		}
		rule := proto.GetExtension(rpc.Options(), pb.E_Call).(*pb.Call).GetRepeat()
		if rule == pb.CallRepeat_CALL_REPEAT_ONCE {
			if status.Code(err) != codes.Unavailable || len(requests) != 2 {
				t.Errorf("%s: %v after %d tries", rpc.Name(), err, len(requests)-1)
			}
			continue
		}
		if err != nil || len(requests) != 3 || !proto.Equal(requests[1], requests[2]) {
			t.Errorf("%s: %v after %v", rpc.Name(), err, requests[1:])
		}
		if named := requests[1].ProtoReflect().Descriptor().Fields().ByName("name"); rule == pb.CallRepeat_CALL_REPEAT_IF_NAMED &&
			!requests[1].ProtoReflect().Has(named) {
			t.Errorf("%s: no name", rpc.Name())
		}
	}
}
