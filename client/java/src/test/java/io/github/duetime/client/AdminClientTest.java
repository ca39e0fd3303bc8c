// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Message;
import io.github.duetime.v1.AdminGrpc;
import io.github.duetime.v1.CallRepeat;
import io.github.duetime.v1.GetRequest;
import io.github.duetime.v1.MessagesGrpc;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.ServerCalls;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Each call of the service Admin, to a server that loses the first answer. */
@Timeout(30)
class AdminClientTest {
  private final List<Message> requests = Collections.synchronizedList(new ArrayList<>());
  private Server server;
  private DuetimeClient client;

  @BeforeEach
  void start() throws IOException {
    String name = InProcessServerBuilder.generateName();
    ServerServiceDefinition.Builder service = ServerServiceDefinition.builder(AdminGrpc.getServiceDescriptor());
    for (MethodDescriptor<?, ?> method : AdminGrpc.getServiceDescriptor().getMethods()) serve(service, method);
    server = InProcessServerBuilder.forName(name).addService(service.build()).build().start();
    client = DuetimeClient.on(Connection.of(InProcessChannelBuilder.forName(name).build(), null), ClientOptions.builder().build());
  }

  private <Q, A> void serve(ServerServiceDefinition.Builder service, MethodDescriptor<Q, A> method) {
    service.addMethod(method, ServerCalls.<Q, A>asyncUnaryCall((request, observer) -> {
      requests.add((Message) request);
      if (requests.size() == 1) {
        observer.onError(Status.UNAVAILABLE.asRuntimeException());
        return;
      }
      observer.onNext(method.parseResponse(InputStream.nullInputStream()));
      observer.onCompleted();
    }));
  }

  @AfterEach
  void stop() {
    client.close();
    server.shutdownNow();
  }

  @Test
  void eachMethodOfAdminCanBeCalledAndIsRepeatedAsItsOptionSays() {
    assertTrue(AdminGrpc.getServiceDescriptor().getMethods().size() > 20);
    for (MethodDescriptor<?, ?> method : AdminGrpc.getServiceDescriptor().getMethods()) check(method);
  }

  @SuppressWarnings("unchecked")
  private <A> void check(MethodDescriptor<?, A> unknown) {
    MethodDescriptor<Message, A> method = (MethodDescriptor<Message, A>) unknown;
    Message request = method.parseRequest(InputStream.nullInputStream());
    CallRepeat rule = Caller.repeatOf(method);
    String name = method.getFullMethodName();
    requests.clear();
    if (rule == CallRepeat.CALL_REPEAT_ONCE) {
      assertThrows(DuetimeException.Unavailable.class, () -> client.admin().call(method, request), name);
    } else {
      assertEquals(method.parseResponse(InputStream.nullInputStream()), client.admin().call(method, request), name);
    }
    assertEquals(rule == CallRepeat.CALL_REPEAT_ONCE ? 1 : 2, requests.size(), name);
    assertEquals(1, new HashSet<>(requests).size(), name);
    if (rule != CallRepeat.CALL_REPEAT_IF_NAMED) return;
    assertFalse(requests.get(0).getField(requests.get(0).getDescriptorForType().findFieldByName("name")).equals(""), name);
  }

  @Test
  void aCallOfAnotherServiceIsRefused() {
    assertThrows(DuetimeException.InvalidArgument.class,
        () -> client.admin().call(MessagesGrpc.getGetMethod(), GetRequest.getDefaultInstance()));
  }
}
