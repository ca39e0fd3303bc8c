// SPDX-License-Identifier: Apache-2.0

import { type Metadata, type ServiceError, status as Status } from '@grpc/grpc-js';

import { codecOfName, type MessageCodec } from './codec';
import type { Failure } from './types';

/** A canonical code of gRPC. */
export type Code = Exclude<keyof typeof Status, 'OK'>;

/** One field of a request that the server refused. */
export interface FieldViolation {
  /** The path of the field, such as `messages[3].topic`. */
  field: string;
  description: string;
}

/** The parts of an error that programs read. */
export interface ErrorDetails {
  reason?: string;
  metadata?: Record<string, string>;
  fieldViolations?: FieldViolation[];
  retryDelay?: number;
}

/**
 * A call, or one item of a batch, failed. After UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED the outcome is unknown; after any other
 * code nothing changed.
 */
export class DuetimeError extends Error {
  override readonly name = 'DuetimeError';
  /** The cause, for programs, such as TOPIC_NOT_FOUND. Empty if no duetime server sent the error: a lost connection, a deadline. */
  readonly reason: string;
  /** Every variable part of the text, by its name. */
  readonly metadata: Record<string, string>;
  readonly fieldViolations: FieldViolation[];
  /** The milliseconds after which the server expects a repeat. Absent if a repeat does not help. */
  readonly retryDelay: number | undefined;

  constructor(readonly code: Code, message: string, details: ErrorDetails = {}, options?: ErrorOptions) {
    super(message, options);
    this.reason = details.reason ?? '';
    this.metadata = details.metadata ?? {};
    this.fieldViolations = details.fieldViolations ?? [];
    this.retryDelay = details.retryDelay;
  }
}

function codeOf(number: number): Code {
  const name = Status[number];
  return name === undefined || name === 'OK' ? 'UNKNOWN' : (name as Code);
}

// protobufjs keeps the original field names of its own google.protobuf.Any.
interface Any {
  type_url: string;
  value: Buffer;
}
const statusCodec = codecOfName<{ details: Any[] }>('google.rpc.Status');
const errorInfoCodec = codecOfName<{ reason: string; metadata: Record<string, string> }>('google.rpc.ErrorInfo');
const badRequestCodec = codecOfName<{ fieldViolations: FieldViolation[] }>('google.rpc.BadRequest');
const retryInfoCodec = codecOfName<{ retryDelay?: number }>('google.rpc.RetryInfo');

function detailsIn(metadata: Metadata | undefined): ErrorDetails {
  const bytes = metadata?.get('grpc-status-details-bin')[0];
  if (!(bytes instanceof Buffer)) return {};
  const details: ErrorDetails = {};
  try {
    for (const { type_url: url, value } of statusCodec.decode(bytes).details) {
      const type = url.slice(url.lastIndexOf('/') + 1);
      if (type === 'google.rpc.ErrorInfo') Object.assign(details, errorInfoCodec.decode(value));
      if (type === 'google.rpc.BadRequest') details.fieldViolations = badRequestCodec.decode(value).fieldViolations;
      if (type === 'google.rpc.RetryInfo') details.retryDelay = retryInfoCodec.decode(value).retryDelay;
    }
  } catch {
    // Bytes that are no details give none. Code and text remain.
  }
  return details;
}

/** The bytes of a request. Throws INVALID_ARGUMENT if a value has a wrong type, or the message has no such field. */
export function encodeRequest(codec: MessageCodec<unknown>, request: object): Buffer {
  try {
    return codec.encode(request);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new DuetimeError('INVALID_ARGUMENT', error.message, {}, { cause: error });
  }
}

/** The error of a call, with this text. */
export function errorOfCall(error: ServiceError, text: string): DuetimeError {
  return new DuetimeError(codeOf(error.code), text, detailsIn(error.metadata), { cause: error });
}

/** The error of an item of a batch or of a stream. */
export function errorOfItem(failure: Failure | undefined): DuetimeError {
  if (failure === undefined || failure.code === 0) {
    return new DuetimeError('INTERNAL', 'the server answered an item with an empty result');
  }
  const { code, message, reason, metadata, field, retryDelay } = failure;
  const fieldViolations = field === '' ? [] : [{ field, description: message }];
  return new DuetimeError(codeOf(code), message, { reason, metadata, fieldViolations, retryDelay });
}
