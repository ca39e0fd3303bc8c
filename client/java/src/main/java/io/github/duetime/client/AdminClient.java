// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import com.google.protobuf.FieldMask;
import com.google.protobuf.Message;
import io.github.duetime.v1.AdminGrpc;
import io.github.duetime.v1.CancelOperationRequest;
import io.github.duetime.v1.CreateRecurrenceRequest;
import io.github.duetime.v1.CreateSubscriptionRequest;
import io.github.duetime.v1.CreateTopicRequest;
import io.github.duetime.v1.DeleteRecurrenceRequest;
import io.github.duetime.v1.DeleteRecurrenceResponse;
import io.github.duetime.v1.DeleteSubscriptionRequest;
import io.github.duetime.v1.DeleteTopicRequest;
import io.github.duetime.v1.DeleteTopicResponse;
import io.github.duetime.v1.ForecastRequest;
import io.github.duetime.v1.ForecastResponse;
import io.github.duetime.v1.GetOperationRequest;
import io.github.duetime.v1.GetRecurrenceRequest;
import io.github.duetime.v1.GetSubscriptionRequest;
import io.github.duetime.v1.GetTopicRequest;
import io.github.duetime.v1.ListOperationsRequest;
import io.github.duetime.v1.ListOperationsResponse;
import io.github.duetime.v1.ListRecurrencesRequest;
import io.github.duetime.v1.ListRecurrencesResponse;
import io.github.duetime.v1.ListSubscriptionsRequest;
import io.github.duetime.v1.ListSubscriptionsResponse;
import io.github.duetime.v1.ListTopicsRequest;
import io.github.duetime.v1.ListTopicsResponse;
import io.github.duetime.v1.MessagesGrpc;
import io.github.duetime.v1.Operation;
import io.github.duetime.v1.PauseRecurrenceRequest;
import io.github.duetime.v1.PauseTopicRequest;
import io.github.duetime.v1.PreviewRecurrenceRequest;
import io.github.duetime.v1.PreviewRecurrenceResponse;
import io.github.duetime.v1.Recurrence;
import io.github.duetime.v1.ResumeRecurrenceRequest;
import io.github.duetime.v1.ResumeTopicRequest;
import io.github.duetime.v1.StartBulkRequest;
import io.github.duetime.v1.Subscription;
import io.github.duetime.v1.TestClockGrpc;
import io.github.duetime.v1.Topic;
import io.github.duetime.v1.UpdateRecurrenceRequest;
import io.github.duetime.v1.UpdateSubscriptionRequest;
import io.github.duetime.v1.UpdateTopicRequest;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;

/**
 * The calls for operators and tools: topics, subscriptions, forecasts, operations on many messages, and recurrences. The
 * protos document each field, its bounds and the errors: admin.proto, topic.proto, subscription.proto, forecast.proto,
 * operation.proto and recurrence.proto.
 *
 * <p>A call blocks until its answer or its deadline, and throws {@link DuetimeException}. It is tried again on
 * UNAVAILABLE unless its comment says otherwise. Thread-safe.
 */
public final class AdminClient {
  private final Caller caller;

  AdminClient(Caller caller) {
    this.caller = caller;
  }

  /**
   * Makes any call of the service Admin: {@code call(AdminGrpc.getCheckAccessMethod(), request)}. The methods for topics,
   * subscriptions, forecasts and operations are short forms of such calls. The protos say whether it is tried again. The
   * same for TestClock, the service of a server with a test clock.
   *
   * @throws DuetimeException.InvalidArgument if the method is of another service
   */
  public <Q extends Message, A> A call(MethodDescriptor<Q, A> method, Q request) {
    String service = method.getServiceName();
    if (!AdminGrpc.SERVICE_NAME.equals(service) && !TestClockGrpc.SERVICE_NAME.equals(service)) {
      throw DuetimeException.of(Status.Code.INVALID_ARGUMENT, method.getFullMethodName() + " is no call of the service Admin");
    }
    return make(method, named(request));
  }

  // ---- Topics

  /** Creates a topic. If it exists with the same settings, returns it. */
  public Topic createTopic(Topic topic) {
    return call(AdminGrpc.getCreateTopicMethod(), CreateTopicRequest.newBuilder().setTopic(topic).build()).getTopic();
  }

  /** Returns the topic: its settings and its counts. */
  public Topic getTopic(String name) {
    return call(AdminGrpc.getGetTopicMethod(), GetTopicRequest.newBuilder().setName(name).build()).getTopic();
  }

  /** Lists topics in the order of their names. */
  public PagedList<Topic> listTopics(ListTopicsRequest request) {
    return new PagedList<>(token -> {
      ListTopicsResponse page = call(AdminGrpc.getListTopicsMethod(),
          token.isEmpty() ? request : request.toBuilder().setPageToken(token).build());
      return new PagedList.Page<>(page.getTopicsList(), page.getNextPageToken());
    });
  }

  /** Changes the settings of a topic that the paths name, for example {@code settings.max_pending}. */
  public Topic updateTopic(Topic topic, String... paths) {
    return call(AdminGrpc.getUpdateTopicMethod(),
        UpdateTopicRequest.newBuilder().setTopic(topic).setUpdateMask(mask(paths)).build()).getTopic();
  }

  /**
   * Deletes a topic. With {@code force}, a topic that holds messages is purged first: the answer then names the operation.
   * Not tried again: a repeat would answer NOT_FOUND although the first try deleted the topic.
   */
  public DeleteTopicResponse deleteTopic(String name, boolean force) {
    return call(AdminGrpc.getDeleteTopicMethod(),
        DeleteTopicRequest.newBuilder().setName(name).setForce(force).build());
  }

  /** Pauses all deliveries of a topic. */
  public Topic pauseTopic(String name) {
    return call(AdminGrpc.getPauseTopicMethod(), PauseTopicRequest.newBuilder().setName(name).build()).getTopic();
  }

  /** Resumes the deliveries of a topic. */
  public Topic resumeTopic(String name) {
    return call(AdminGrpc.getResumeTopicMethod(), ResumeTopicRequest.newBuilder().setName(name).build()).getTopic();
  }

  // ---- Subscriptions

  /** Creates a subscription. If it exists with the same settings, returns it. */
  public Subscription createSubscription(Subscription subscription) {
    return createSubscription(subscription, CreateSubscriptionRequest.Start.START_UNSPECIFIED);
  }

  /** As {@link #createSubscription(Subscription)}; {@code start} says which messages the subscription gets. */
  public Subscription createSubscription(Subscription subscription, CreateSubscriptionRequest.Start start) {
    return call(AdminGrpc.getCreateSubscriptionMethod(),
        CreateSubscriptionRequest.newBuilder().setSubscription(subscription).setStart(start).build()).getSubscription();
  }

  /** Returns the subscription: its settings and its counts. */
  public Subscription getSubscription(String topic, String name) {
    return call(AdminGrpc.getGetSubscriptionMethod(),
        GetSubscriptionRequest.newBuilder().setTopic(topic).setName(name).build()).getSubscription();
  }

  /** Lists the subscriptions of a topic in the order of their names. */
  public PagedList<Subscription> listSubscriptions(ListSubscriptionsRequest request) {
    return new PagedList<>(token -> {
      ListSubscriptionsResponse page = call(AdminGrpc.getListSubscriptionsMethod(),
          token.isEmpty() ? request : request.toBuilder().setPageToken(token).build());
      return new PagedList.Page<>(page.getSubscriptionsList(), page.getNextPageToken());
    });
  }

  /** Changes the settings of a subscription that the paths name. To pause it, update {@code settings.paused}. */
  public Subscription updateSubscription(Subscription subscription, String... paths) {
    return call(AdminGrpc.getUpdateSubscriptionMethod(),
        UpdateSubscriptionRequest.newBuilder().setSubscription(subscription).setUpdateMask(mask(paths)).build())
        .getSubscription();
  }

  /** Deletes a subscription. Not tried again, as {@link #deleteTopic}. */
  public void deleteSubscription(String topic, String name) {
    call(AdminGrpc.getDeleteSubscriptionMethod(),
        DeleteSubscriptionRequest.newBuilder().setTopic(topic).setName(name).build());
  }

  // ---- Forecasts

  /** Returns how many messages and bytes become due in each bucket of time. */
  public ForecastResponse forecast(ForecastRequest request) {
    return call(AdminGrpc.getForecastMethod(), request);
  }

  // ---- Operations on many messages

  /**
   * Starts an operation on all messages of a topic that match a filter, or, with dry_run, counts them. An operation
   * without a name gets a random one, so that the server recognises a repeat.
   */
  public Operation startBulk(StartBulkRequest request) {
    return call(AdminGrpc.getStartBulkMethod(), request).getOperation();
  }

  /** Returns the operation. */
  public Operation getOperation(String name) {
    return call(AdminGrpc.getGetOperationMethod(), GetOperationRequest.newBuilder().setName(name).build()).getOperation();
  }

  /** Lists operations in the order of their names. */
  public PagedList<Operation> listOperations(ListOperationsRequest request) {
    return new PagedList<>(token -> {
      ListOperationsResponse page = call(AdminGrpc.getListOperationsMethod(),
          token.isEmpty() ? request : request.toBuilder().setPageToken(token).build());
      return new PagedList.Page<>(page.getOperationsList(), page.getNextPageToken());
    });
  }

  /** Stops an operation. Its changes so far stay. */
  public Operation cancelOperation(String name) {
    return call(AdminGrpc.getCancelOperationMethod(), CancelOperationRequest.newBuilder().setName(name).build())
        .getOperation();
  }

  // ---- Recurrences

  /** Creates a recurrence and schedules its first occurrence. If it exists with the same content, returns it. */
  public Recurrence createRecurrence(Recurrence recurrence) {
    return createRecurrence(recurrence, false);
  }

  /** As {@link #createRecurrence(Recurrence)}; with {@code validateOnly} the server checks but changes nothing. */
  public Recurrence createRecurrence(Recurrence recurrence, boolean validateOnly) {
    return make(MessagesGrpc.getCreateRecurrenceMethod(),
        CreateRecurrenceRequest.newBuilder().setRecurrence(recurrence).setValidateOnly(validateOnly).build())
        .getRecurrence();
  }

  /** Returns the recurrence. */
  public Recurrence getRecurrence(String name) {
    return make(MessagesGrpc.getGetRecurrenceMethod(), GetRecurrenceRequest.newBuilder().setName(name).build())
        .getRecurrence();
  }

  /** Lists recurrences in the order of their names, without the payloads of their templates. */
  public PagedList<Recurrence> listRecurrences(ListRecurrencesRequest request) {
    return new PagedList<>(token -> {
      ListRecurrencesResponse page = make(MessagesGrpc.getListRecurrencesMethod(),
          token.isEmpty() ? request : request.toBuilder().setPageToken(token).build());
      return new PagedList.Page<>(page.getRecurrencesList(), page.getNextPageToken());
    });
  }

  /** Changes the fields of a recurrence that the mask names. Not tried again with an etag, as a reschedule. */
  public Recurrence updateRecurrence(UpdateRecurrenceRequest request) {
    return make(MessagesGrpc.getUpdateRecurrenceMethod(), request).getRecurrence();
  }

  /** Pauses a recurrence: it makes no more occurrences. */
  public Recurrence pauseRecurrence(String name) {
    return make(MessagesGrpc.getPauseRecurrenceMethod(), PauseRecurrenceRequest.newBuilder().setName(name).build())
        .getRecurrence();
  }

  /** Resumes a paused recurrence. */
  public Recurrence resumeRecurrence(String name) {
    return make(MessagesGrpc.getResumeRecurrenceMethod(), ResumeRecurrenceRequest.newBuilder().setName(name).build())
        .getRecurrence();
  }

  /** Deletes a recurrence. Not tried again, as {@link #deleteTopic}. */
  public DeleteRecurrenceResponse deleteRecurrence(String name) {
    return make(MessagesGrpc.getDeleteRecurrenceMethod(), DeleteRecurrenceRequest.newBuilder().setName(name).build());
  }

  /** Returns the times and numbers of the occurrences of a schedule. */
  public PreviewRecurrenceResponse previewRecurrence(PreviewRecurrenceRequest request) {
    return make(MessagesGrpc.getPreviewRecurrenceMethod(), request);
  }

  private static FieldMask mask(String... paths) {
    return FieldMask.newBuilder().addAllPaths(List.of(paths)).build();
  }

  /** Gives an operation a name if it needs one. A dry run is not stored, so a repeat needs no name. */
  @SuppressWarnings("unchecked")
  private static <Q extends Message> Q named(Q request) {
    if (!(request instanceof StartBulkRequest bulk) || !bulk.getName().isEmpty() || bulk.getDryRun()) return request;
    return (Q) bulk.toBuilder().setName(RandomId.next()).build();
  }

  private <Q extends Message, A> A make(MethodDescriptor<Q, A> method, Q request) {
    return Caller.await(caller.call(method, request, true, Duration.ZERO, (answer, tries) -> answer));
  }
}
