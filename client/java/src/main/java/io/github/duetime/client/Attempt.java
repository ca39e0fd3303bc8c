// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptors;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** One try of a call. To cancel its answer cancels the try. */
final class Attempt<Q extends Message, A> {
  final CompletableFuture<A> answer = new CompletableFuture<>();
  final MethodDescriptor<Q, A> method;
  final Q request;
  /** The deadline, in the time of {@link System#nanoTime}. */
  final long end;
  /** The trace context of the call: `traceparent` and `tracestate`, or nothing. */
  final Map<String, String> trace;

  Attempt(MethodDescriptor<Q, A> method, Q request, long end, Map<String, String> trace) {
    this.method = method;
    this.request = request;
    this.end = end;
    this.trace = trace;
  }

  /** Sends the request as a call of its own. */
  void sendAlone(Channel channel) {
    if (answer.isDone()) return;
    CallOptions deadline = CallOptions.DEFAULT.withDeadlineAfter(end - System.nanoTime(), TimeUnit.NANOSECONDS);
    Channel traced = trace.isEmpty() ? channel
        : ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers()));
    ClientCall<Q, A> call = traced.newCall(method, deadline);
    ClientCalls.asyncUnaryCall(call, request, new Observer());
    answer.whenComplete((value, error) -> {
      if (answer.isCancelled()) call.cancel("the caller cancelled the call", null);
    });
  }

  private Metadata headers() {
    Metadata headers = new Metadata();
    trace.forEach((name, value) -> headers.put(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER), value));
    return headers;
  }

  private final class Observer implements StreamObserver<A> {
    private A value;

    @Override
    public void onNext(A next) {
      value = next;
    }

    @Override
    public void onError(Throwable error) {
      answer.completeExceptionally(error);
    }

    @Override
    public void onCompleted() {
      answer.complete(value);
    }
  }
}
