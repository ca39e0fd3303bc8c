// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.RetryInfo;
import io.github.duetime.v1.Failure;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.io.Serializable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A call that failed, or one item of a batch that the server refused. Each code has a class of its own, such as
 * {@link NotFound}, so that a program can catch one kind of error. {@link #reason()} names the cause.
 *
 * <p>After {@link Unavailable}, {@link DeadlineExceeded} and {@link Cancelled} the outcome is unknown: the change may have
 * been made. Any other error means that nothing changed.
 */
public class DuetimeException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /**
   * A field of the request that the server refused.
   *
   * @param field the path to the field, such as {@code messages[3].topic}
   * @param description what is wrong, for people
   */
  public record FieldViolation(String field, String description) implements Serializable {}

  /** What an error holds for programs. */
  private record Details(String reason, Map<String, String> metadata, List<FieldViolation> fields, Duration retryDelay)
      implements Serializable {
    static final Details NONE = new Details("", Map.of(), List.of(), null);
  }

  private final Status.Code code;
  private final Details details;

  private DuetimeException(Status.Code code, String message, Details details, Throwable cause) {
    super(message, cause);
    this.code = code;
    this.details = details;
  }

  /** Returns the canonical code of gRPC. */
  public final Status.Code code() {
    return code;
  }

  /**
   * Returns the cause, in upper case with underscores, for example {@code TOPIC_NOT_FOUND}. It never changes. Empty if the
   * error did not come from a duetime server: a connection that failed, a deadline that passed.
   */
  public final String reason() {
    return details.reason;
  }

  /** Returns every variable part of the message, by name. */
  public final Map<String, String> metadata() {
    return details.metadata;
  }

  /** Returns the fields of the request that the server refused. */
  public final List<FieldViolation> fieldViolations() {
    return details.fields;
  }

  /** Returns the time after which a repeat may succeed, if the server gave one. */
  public final Optional<Duration> retryDelay() {
    return Optional.ofNullable(details.retryDelay);
  }

  /** Returns the same error with the stack of the calling thread, because a network thread made this one. */
  final DuetimeException here() {
    return make(code, getMessage(), details, this);
  }

  /** Returns the same error with another text. */
  final DuetimeException saying(String message) {
    return make(code, message, details, getCause());
  }

  /** Makes the error of a call that ended with this status, which is not OK. */
  static DuetimeException of(Status status, Metadata trailers) {
    String message = status.getDescription();
    if (message == null) message = status.getCause() == null ? status.getCode().name() : status.getCause().toString();
    // gRPC has UNKNOWN for a connection that ends at a bad moment.
    boolean broken = status.getCode() == Status.Code.UNKNOWN && status.getCause() instanceof IOException;
    Status.Code code = broken ? Status.Code.UNAVAILABLE : status.getCode();
    return make(code, message, detailsOf(status, trailers), status.getCause());
  }

  /** Makes the error of a call that this exception of gRPC ended. */
  static DuetimeException of(Throwable error) {
    if (error instanceof DuetimeException known) return known;
    return of(Status.fromThrowable(error), Status.trailersFromThrowable(error));
  }

  /** Makes an error of this library, for example to test what a program does then. */
  public static DuetimeException of(Status.Code code, String message) {
    return of(code, message, null);
  }

  /** Makes an error of this library that has a cause. */
  static DuetimeException of(Status.Code code, String message, Throwable cause) {
    return make(code, message, Details.NONE, cause);
  }

  /** Makes the error of one item of a batch. */
  static DuetimeException of(Failure failure) {
    if (failure.getCode() == 0) return of(Status.Code.INTERNAL, "the server answered an item with an empty result");
    List<FieldViolation> fields =
        failure.getField().isEmpty() ? List.of() : List.of(new FieldViolation(failure.getField(), failure.getMessage()));
    Duration delay = failure.hasRetryDelay() ? Times.fromProto(failure.getRetryDelay()) : null;
    return make(Status.fromCodeValue(failure.getCode()).getCode(), failure.getMessage(),
        new Details(failure.getReason(), Map.copyOf(failure.getMetadataMap()), fields, delay), null);
  }

  private static Details detailsOf(Status status, Metadata trailers) {
    String reason = "";
    Map<String, String> metadata = Map.of();
    List<FieldViolation> fields = new ArrayList<>();
    Duration retryDelay = null;
    try {
      com.google.rpc.Status proto = StatusProto.fromStatusAndTrailers(status, trailers);
      for (Any any : proto.getDetailsList()) {
        if (any.is(com.google.rpc.ErrorInfo.class)) {
          com.google.rpc.ErrorInfo info = any.unpack(com.google.rpc.ErrorInfo.class);
          reason = info.getReason();
          metadata = Map.copyOf(info.getMetadataMap());
        } else if (any.is(BadRequest.class)) {
          for (BadRequest.FieldViolation violation : any.unpack(BadRequest.class).getFieldViolationsList()) {
            fields.add(new FieldViolation(violation.getField(), violation.getDescription()));
          }
        } else if (any.is(RetryInfo.class)) {
          retryDelay = Times.fromProto(any.unpack(RetryInfo.class).getRetryDelay());
        }
      }
    } catch (InvalidProtocolBufferException | IllegalArgumentException unreadable) {
      // Code and message remain.
      return Details.NONE;
    }
    return new Details(reason, metadata, List.copyOf(fields), retryDelay);
  }

  private static DuetimeException make(Status.Code code, String message, Details details, Throwable cause) {
    return switch (code) {
      case CANCELLED -> new Cancelled(code, message, details, cause);
      case INVALID_ARGUMENT -> new InvalidArgument(code, message, details, cause);
      case DEADLINE_EXCEEDED -> new DeadlineExceeded(code, message, details, cause);
      case NOT_FOUND -> new NotFound(code, message, details, cause);
      case ALREADY_EXISTS -> new AlreadyExists(code, message, details, cause);
      case PERMISSION_DENIED -> new PermissionDenied(code, message, details, cause);
      case RESOURCE_EXHAUSTED -> new ResourceExhausted(code, message, details, cause);
      case FAILED_PRECONDITION -> new FailedPrecondition(code, message, details, cause);
      case ABORTED -> new Aborted(code, message, details, cause);
      case UNAVAILABLE -> new Unavailable(code, message, details, cause);
      case DATA_LOSS -> new DataLoss(code, message, details, cause);
      case UNAUTHENTICATED -> new Unauthenticated(code, message, details, cause);
      default -> new DuetimeException(code, message, details, cause);
    };
  }

  /** The client cancelled the call, or the thread that waited for it was interrupted. The outcome is unknown. */
  public static final class Cancelled extends DuetimeException {
    private static final long serialVersionUID = 1;

    private Cancelled(Status.Code code, String message, Details details, Throwable cause) {
      super(code, message, details, cause);
    }
  }

  /** The request is not valid, whatever the state of the server. */
  public static final class InvalidArgument extends DuetimeException {
    private static final long serialVersionUID = 1;

    private InvalidArgument(Status.Code code, String message, Details details, Throwable cause) {
      super(code, message, details, cause);
    }
  }

  /** The deadline passed before the answer came. The outcome is unknown. */
  public static final class DeadlineExceeded extends DuetimeException {
    private static final long serialVersionUID = 1;

    private DeadlineExceeded(Status.Code code, String message, Details details, Throwable cause) {
      super(code, message, details, cause);
    }
  }

  /** The topic, subscription, message, operation or recurrence does not exist. */
  public static final class NotFound extends DuetimeException {
    private static final long serialVersionUID = 1;

    private NotFound(Status.Code code, String message, Details details, Throwable cause) {
      super(code, message, details, cause);
    }
  }

  /** The name, key or request id is in use with other content. */
  public static final class AlreadyExists extends DuetimeException {
    private static final long serialVersionUID = 1;

    private AlreadyExists(Status.Code code, String message, Details details, Throwable cause) {
      super(code, message, details, cause);
    }
  }

  /** The server does not allow the call. */
  public static final class PermissionDenied extends DuetimeException {
    private static final long serialVersionUID = 1;

    private PermissionDenied(Status.Code code, String message, Details details, Throwable cause) {
      super(code, message, details, cause);
    }
  }

  /** A limit is reached. {@link #retryDelay()} says if a repeat may help. */
  public static final class ResourceExhausted extends DuetimeException {
    private static final long serialVersionUID = 1;

    private ResourceExhausted(Status.Code code, String message, Details details, Throwable cause) {
      super(code, message, details, cause);
    }
  }

  /** The state of the server does not allow the call. */
  public static final class FailedPrecondition extends DuetimeException {
    private static final long serialVersionUID = 1;

    private FailedPrecondition(Status.Code code, String message, Details details, Throwable cause) {
      super(code, message, details, cause);
    }
  }

  /** Another client changed the thing first. */
  public static final class Aborted extends DuetimeException {
    private static final long serialVersionUID = 1;

    private Aborted(Status.Code code, String message, Details details, Throwable cause) {
      super(code, message, details, cause);
    }
  }

  /** The server cannot be reached, or does not serve. The outcome is unknown. */
  public static final class Unavailable extends DuetimeException {
    private static final long serialVersionUID = 1;

    private Unavailable(Status.Code code, String message, Details details, Throwable cause) {
      super(code, message, details, cause);
    }
  }

  /** Bytes on the server's disk that the answer needs are damaged. */
  public static final class DataLoss extends DuetimeException {
    private static final long serialVersionUID = 1;

    private DataLoss(Status.Code code, String message, Details details, Throwable cause) {
      super(code, message, details, cause);
    }
  }

  /** The server does not know the client. */
  public static final class Unauthenticated extends DuetimeException {
    private static final long serialVersionUID = 1;

    private Unauthenticated(Status.Code code, String message, Details details, Throwable cause) {
      super(code, message, details, cause);
    }
  }
}
