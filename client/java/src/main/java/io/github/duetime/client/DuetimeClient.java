// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.github.duetime.v1.AdminGrpc;
import io.github.duetime.v1.CancelBatchRequest;
import io.github.duetime.v1.CancelBatchResponse;
import io.github.duetime.v1.CancelRequest;
import io.github.duetime.v1.CancelResponse;
import io.github.duetime.v1.ExplainRequest;
import io.github.duetime.v1.ExplainResponse;
import io.github.duetime.v1.GetRequest;
import io.github.duetime.v1.GetResponse;
import io.github.duetime.v1.ListRequest;
import io.github.duetime.v1.ListResponse;
import io.github.duetime.v1.Message;
import io.github.duetime.v1.MessageView;
import io.github.duetime.v1.MessagesGrpc;
import io.github.duetime.v1.PullRequest;
import io.github.duetime.v1.PullResponse;
import io.github.duetime.v1.RescheduleRequest;
import io.github.duetime.v1.RescheduleResponse;
import io.github.duetime.v1.ScheduleBatchRequest;
import io.github.duetime.v1.ScheduleBatchResponse;
import io.github.duetime.v1.ScheduleRequest;
import io.github.duetime.v1.ScheduleResponse;
import io.github.duetime.v1.ScheduleResult;
import io.github.duetime.v1.ServerInfoRequest;
import io.github.duetime.v1.ServerInfoResponse;
import io.github.duetime.v1.SettleRequest;
import io.github.duetime.v1.SettleResponse;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;

/**
 * A client of one server or one cell. It schedules, finds, moves and cancels messages, receives them call by
 * call, and opens everything else: {@link #admin()}, {@link #openScheduleStream}, {@link #subscriber}.
 *
 * <p>A call blocks until its answer or its deadline, and throws {@link DuetimeException}. Its form {@code ...Async}
 * returns at once; the future fails with the same exception, and cancelling the future cancels the call. Answers are the
 * classes of the protos; messages.proto lists the errors beside each call.
 *
 * <p>Retries: after UNAVAILABLE only, until the deadline of the call, and only where a repeat does no harm and its answer
 * does not mislead. The client has a budget of 100 repeats without answer; each second adds one repeat, and so do ten calls. A call
 * without budget waits.
 *
 * <p>Thread-safe; calls of several threads share the connection, and those of schedule, cancel, reschedule and get share a
 * stream on it ({@link ClientOptions.Builder#separateCalls}).
 */
public final class DuetimeClient implements AutoCloseable {
  private final ClientOptions options;
  private final Connection connection;
  private final Caller caller;
  // Of the calls that wait for their answer.
  private final Caller awaited;
  private final AdminClient admin;
  private final Supplier<Connection> open;
  // The server allows 1,000 calls at once on a connection, and gRPC queues the others. So pulls that wait have their own
  // connection. Null before the first of them. The lock of this object guards it.
  private Connection pullConnection;
  private Caller pullCaller;

  private DuetimeClient(ClientOptions options, Supplier<Connection> open) {
    this.options = options;
    this.open = open;
    connection = open.get();
    caller = new Caller(connection, options);
    awaited = caller.awaited();
    admin = new AdminClient(caller);
  }

  /** Returns a client of a server without TLS: {@code host:port} or {@code unix:/path/to.sock}. */
  public static DuetimeClient connect(String target) {
    return create(ClientOptions.builder().target(target).build());
  }

  /**
   * Returns a client. The first call connects; a broken connection is restored by later calls.
   *
   * @throws DuetimeException.InvalidArgument if the target is none, or a TLS file is bad or cannot be read
   */
  public static DuetimeClient create(ClientOptions options) {
    return new DuetimeClient(options, () -> Connection.open(options));
  }

  /** Returns a client on this connection, for tests. */
  static DuetimeClient on(Connection connection, ClientOptions options) {
    return new DuetimeClient(options, () -> connection);
  }

  /** Returns the calls for topics, subscriptions, forecasts, operations on many messages, and recurrences. */
  public AdminClient admin() {
    return admin;
  }

  /** Ends the calls and schedule streams of this client. Its subscribers have connections of their own, and go on. */
  @Override
  public synchronized void close() {
    connection.close();
    if (pullConnection != null) pullConnection.close();
  }

  private synchronized Caller callerOfPulls() {
    if (pullConnection == null) {
      // A call over a closed connection fails.
      if (connection.isClosed()) return caller;
      pullConnection = open.get();
      pullCaller = caller.over(pullConnection);
    }
    return pullCaller;
  }

  // ---- Schedule

  /** Schedules a message. It is durable when the call returns. As {@code schedule(message, Repeat.SAFELY)}. */
  public ScheduleResponse schedule(NewMessage message) {
    return schedule(message, Repeat.SAFELY);
  }

  /**
   * Schedules a message. Returns it as accepted, without payload and attributes, and the outcome. If {@code messageEnded} is true, the
   * call was a repeat, and nothing is pending: the message has ended, as its state says.
   */
  public ScheduleResponse schedule(NewMessage message, Repeat repeat) {
    return Caller.await(schedule(awaited, message, repeat));
  }

  /** As {@link #schedule(NewMessage)}. */
  public CompletableFuture<ScheduleResponse> scheduleAsync(NewMessage message) {
    return scheduleAsync(message, Repeat.SAFELY);
  }

  /** As {@link #schedule(NewMessage, Repeat)}. */
  public CompletableFuture<ScheduleResponse> scheduleAsync(NewMessage message, Repeat repeat) {
    return schedule(caller, message, repeat);
  }

  private static CompletableFuture<ScheduleResponse> schedule(Caller by, NewMessage message, Repeat repeat) {
    return begin(() -> by.call(MessagesGrpc.getScheduleMethod(), named(message.toProto(), repeat), repeat != Repeat.NEVER,
        Duration.ZERO, (answer, tries) -> answer));
  }

  /** Schedules messages with one call. As {@code scheduleBatch(messages, Repeat.SAFELY)}. */
  public List<ItemResult<ScheduleResponse>> scheduleBatch(List<NewMessage> messages) {
    return scheduleBatch(messages, Repeat.SAFELY);
  }

  /**
   * Schedules messages with one call. Returns one result per message, in order: the server may refuse some and accept
   * others. After an exception the outcome of all messages is unknown.
   */
  public List<ItemResult<ScheduleResponse>> scheduleBatch(List<NewMessage> messages, Repeat repeat) {
    return Caller.await(scheduleBatchAsync(messages, repeat));
  }

  /** As {@link #scheduleBatch(List, Repeat)}. */
  public CompletableFuture<List<ItemResult<ScheduleResponse>>> scheduleBatchAsync(List<NewMessage> messages, Repeat repeat) {
    return begin(() -> {
      ScheduleBatchRequest.Builder request = ScheduleBatchRequest.newBuilder();
      for (NewMessage message : messages) request.addMessages(named(message.toProto(), repeat));
      return caller.call(MessagesGrpc.getScheduleBatchMethod(), request.build(), repeat != Repeat.NEVER, Duration.ZERO,
          (ScheduleBatchResponse answer, int tries) -> {
            checkCount(answer.getResultsCount(), messages.size());
            return answer.getResultsList().stream().map(DuetimeClient::resultOf).toList();
          });
    });
  }

  /** Opens a stream to schedule many messages, with {@link ScheduleStream.Options#DEFAULT}. */
  public ScheduleStream openScheduleStream(ScheduleStream.Listener listener) {
    return openScheduleStream(ScheduleStream.Options.DEFAULT, listener);
  }

  /** Opens a stream to schedule many messages. If the server cannot be reached, the stream ends with UNAVAILABLE. */
  public ScheduleStream openScheduleStream(ScheduleStream.Options streamOptions, ScheduleStream.Listener listener) {
    connection.wake();
    return new ScheduleStream(connection, streamOptions, listener);
  }

  // ---- Accepted messages

  /** Cancels a message, unless it was delivered. Any outcome is a result, NOT_FOUND too. */
  public CancelResult cancel(Target target) {
    return cancel(target, false);
  }

  /** Cancels a message. {@code stopRedelivery} also ends a message that was delivered and is not settled. */
  public CancelResult cancel(Target target, boolean stopRedelivery) {
    return Caller.await(cancel(awaited, target, stopRedelivery));
  }

  /** As {@link #cancel(Target, boolean)}. */
  public CompletableFuture<CancelResult> cancelAsync(Target target, boolean stopRedelivery) {
    return cancel(caller, target, stopRedelivery);
  }

  private static CompletableFuture<CancelResult> cancel(Caller by, Target target, boolean stopRedelivery) {
    return begin(() -> by.call(MessagesGrpc.getCancelMethod(), cancelRequest(target, stopRedelivery), true,
        Duration.ZERO, (CancelResponse answer, int tries) -> new CancelResult(answer, tries > 1)));
  }

  /** Cancels messages with one call. Returns one result per target, in order. */
  public List<ItemResult<CancelResult>> cancelBatch(List<Target> targets, boolean stopRedelivery) {
    return Caller.await(cancelBatchAsync(targets, stopRedelivery));
  }

  /** As {@link #cancelBatch(List, boolean)}. */
  public CompletableFuture<List<ItemResult<CancelResult>>> cancelBatchAsync(List<Target> targets, boolean stopRedelivery) {
    return begin(() -> {
      CancelBatchRequest.Builder request = CancelBatchRequest.newBuilder();
      for (Target target : targets) request.addCancels(cancelRequest(target, stopRedelivery));
      return caller.call(MessagesGrpc.getCancelBatchMethod(), request.build(), true, Duration.ZERO,
          (CancelBatchResponse answer, int tries) -> {
            checkCount(answer.getResultsCount(), targets.size());
            List<ItemResult<CancelResult>> results = new ArrayList<>(targets.size());
            for (io.github.duetime.v1.CancelResult result : answer.getResultsList()) {
              results.add(result.hasCancel()
                  ? ItemResult.of(new CancelResult(result.getCancel(), tries > 1))
                  : ItemResult.failed(DuetimeException.of(result.getError())));
            }
            return List.copyOf(results);
          });
    });
  }

  /** Moves a pending message. Any outcome is a result, as with cancel. */
  public RescheduleResponse reschedule(Target target, When when) {
    return reschedule(target, when, "");
  }

  /**
   * Moves a pending message if its etag is still this one, else throws {@link DuetimeException.Aborted}. A call with an
   * etag is not tried again, because the change of the first try would look like another client's.
   */
  public RescheduleResponse reschedule(Target target, When when, String etag) {
    return Caller.await(reschedule(awaited, target, when, etag));
  }

  /** As {@link #reschedule(Target, When, String)}; an empty etag stands for any. */
  public CompletableFuture<RescheduleResponse> rescheduleAsync(Target target, When when, String etag) {
    return reschedule(caller, target, when, etag);
  }

  private static CompletableFuture<RescheduleResponse> reschedule(Caller by, Target target, When when, String etag) {
    return begin(() -> {
      RescheduleRequest.Builder request = RescheduleRequest.newBuilder().setEtag(etag);
      Requests.fill(target, request::setMessageId, request::setKey);
      Requests.fill(when, request::setDelay, request::setDeliverTime, request::setCivilTime);
      return plain(by, MessagesGrpc.getRescheduleMethod(), request.build());
    });
  }

  /** Returns a pending message and its state in each subscription, or the record of an ended message; without payload. */
  public GetResponse get(Target target) {
    return get(target, MessageView.MESSAGE_VIEW_BASIC);
  }

  /** As {@link #get(Target)}. The full view has the payload and the attributes of a pending message. */
  public GetResponse get(Target target, MessageView view) {
    return Caller.await(get(awaited, target, view));
  }

  /** As {@link #get(Target, MessageView)}. */
  public CompletableFuture<GetResponse> getAsync(Target target, MessageView view) {
    return get(caller, target, view);
  }

  private static CompletableFuture<GetResponse> get(Caller by, Target target, MessageView view) {
    return begin(() -> {
      GetRequest.Builder request = GetRequest.newBuilder().setView(view);
      Requests.fill(target, request::setMessageId, request::setKey);
      return plain(by, MessagesGrpc.getGetMethod(), request.build());
    });
  }

  /** Returns the history of a message and the causes of its lateness. */
  public ExplainResponse explain(Target target) {
    return Caller.await(explainAsync(target));
  }

  /** As {@link #explain(Target)}. */
  public CompletableFuture<ExplainResponse> explainAsync(Target target) {
    return begin(() -> {
      ExplainRequest.Builder request = ExplainRequest.newBuilder();
      Requests.fill(target, request::setMessageId, request::setKey);
      return plain(caller, MessagesGrpc.getExplainMethod(), request.build());
    });
  }

  /** Lists the pending messages of a topic, without payloads. */
  public PagedList<Message> list(String topic) {
    return list(ListRequest.newBuilder().setTopic(topic).build());
  }

  /** Lists the pending messages that match the request, without payloads. Its page size is that of the pages. */
  public PagedList<Message> list(ListRequest request) {
    return new PagedList<>(token -> {
      ListResponse page = Caller.await(plain(caller, MessagesGrpc.getListMethod(),
          token.isEmpty() ? request : request.toBuilder().setPageToken(token).build()));
      return new PagedList.Page<>(page.getMessagesList(), page.getNextPageToken());
    });
  }

  // ---- Receive

  /**
   * Returns due messages, each with a lease for {@link #settle}. The wait of the request extends the deadline. If no
   * message comes in time, the answer is empty. Not tried again: messages that a first try leased stay leased until their
   * leases end. A pull with a wait uses a second connection, so no other call waits behind it.
   */
  public PullResponse pull(PullRequest request) {
    return Caller.await(pullAsync(request));
  }

  /** As {@link #pull(PullRequest)}. */
  public CompletableFuture<PullResponse> pullAsync(PullRequest request) {
    return begin(() -> {
      Duration wait = Times.clamp(Times.fromProto(request.getWait()), Duration.ZERO, Times.MAX);
      Caller over = wait.isZero() ? caller : callerOfPulls();
      return over.call(MessagesGrpc.getPullMethod(), request, true, wait, (answer, tries) -> answer);
    });
  }

  /**
   * Settles leases of pulls or of streams, in the order of the list. A {@link io.github.duetime.v1.Settlement} without an
   * action acks. The answer says which settlements took effect.
   */
  public SettleResult settle(SettleRequest request) {
    return Caller.await(settleAsync(request));
  }

  /** As {@link #settle(SettleRequest)}. */
  public CompletableFuture<SettleResult> settleAsync(SettleRequest request) {
    return begin(() -> caller.call(MessagesGrpc.getSettleMethod(), Objects.requireNonNull(request), true, Duration.ZERO,
        (SettleResponse answer, int tries) -> new SettleResult(answer, tries > 1)));
  }

  /** Returns a builder of a subscriber of this topic, on a connection of its own to the server of this client. */
  public Subscriber.Builder subscriber(String topic) {
    return new Subscriber.Builder(() -> Connection.open(options), topic);
  }

  /** Returns the version, state, counts and limits of the server. */
  public ServerInfoResponse serverInfo() {
    return Caller.await(
        plain(caller, AdminGrpc.getServerInfoMethod(), ServerInfoRequest.getDefaultInstance()));
  }

  // ---- Requests and results

  /** Starts a call. What its arguments throw is the error of the call, as every other error is. */
  private static <T> CompletableFuture<T> begin(Supplier<CompletableFuture<T>> call) {
    try {
      return call.get();
    } catch (DuetimeException e) {
      return CompletableFuture.failedFuture(e);
    } catch (RuntimeException e) {
      return CompletableFuture.failedFuture(
          DuetimeException.of(Status.Code.INVALID_ARGUMENT, "an argument of the call is not valid: " + e, e));
    }
  }

  private static <Q extends com.google.protobuf.Message, A> CompletableFuture<A> plain(
      Caller by, MethodDescriptor<Q, A> method, Q request) {
    return by.call(method, request, true, Duration.ZERO, (answer, tries) -> answer);
  }

  /** Gives the request an id if it needs one. With validate_only it changes nothing, so a repeat needs no id. */
  private static ScheduleRequest named(ScheduleRequest request, Repeat repeat) {
    boolean needed = repeat == Repeat.SAFELY && request.getRequestId().isEmpty() && !request.getValidateOnly();
    return needed ? request.toBuilder().setRequestId(RandomId.next()).build() : request;
  }

  private static CancelRequest cancelRequest(Target target, boolean stopRedelivery) {
    CancelRequest.Builder request = CancelRequest.newBuilder().setStopRedelivery(stopRedelivery);
    Requests.fill(target, request::setMessageId, request::setKey);
    return request.build();
  }

  private static void checkCount(int results, int items) {
    if (results == items) return;
    throw DuetimeException.of(Status.Code.INTERNAL, "the server answered a batch with another number of results");
  }

  /** Returns the result that a schedule of this item alone would have. */
  static ItemResult<ScheduleResponse> resultOf(ScheduleResult result) {
    if (!result.hasMessage()) return ItemResult.failed(DuetimeException.of(result.getError()));
    ScheduleResponse.Builder response = ScheduleResponse.newBuilder()
        .setMessage(result.getMessage())
        .setOutcome(result.getOutcome())
        .setPreviousMessageId(result.getPreviousMessageId())
        .setMinuteLimitExceeded(result.getMinuteLimitExceeded())
        .setRequestRepeated(result.getRequestRepeated())
        .setMessageEnded(result.getMessageEnded());
    if (result.hasOldDeliverTime()) response.setOldDeliverTime(result.getOldDeliverTime());
    return ItemResult.of(response.build());
  }
}
