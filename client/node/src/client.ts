// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from 'node:crypto';

import { type CallLimits, type CallOptions, Caller } from './caller';
import type { ServerOptions } from './channel';
import { ADMIN_CALLS } from './codec';
import { Connection } from './connection';
import { DuetimeError, errorOfItem } from './errors';
import { Gatherer } from './gatherer';
import type { Input } from './input';
import { List } from './list';
import { responseOf, type ScheduleItemResult } from './schedule_result';
import { ScheduleStream, type ScheduleStreamOptions } from './schedule_stream';
import { type BatchHandler, batchRunnerOf, type Handler, runnerOf, Subscriber, type SubscriberOptions } from './subscriber';
import type * as types from './types';

/** The options of a client. */
export interface ClientOptions extends ServerOptions, CallLimits {
  /** Makes each schedule, cancel, reschedule and get a call of its own. Default: false, so that these calls share a stream. */
  separateCalls?: boolean;
}

/** What to deliver, and when: exactly one of `delay` (milliseconds), `deliverTime` and `civilTime`. */
export type NewMessage = Input<types.ScheduleRequest> & { readonly topic: string };

/** A message by its id, or by its topic and key. */
export type Target = { readonly messageId: string } | { readonly key: Input<types.TopicKey> };

export interface ScheduleOptions extends CallOptions {
  /**
   * What the call does if an answer is lost.
   *
   * - `safely` (default): gives each message without a `requestId` a random one, and tries again on UNAVAILABLE. The server
   *   recognises the repeat, so there is one message. This costs the server a small record per message for an hour.
   * - `never`: sends the request as it is, once.
   * - `allowDuplicates`: sends the request as it is, and tries again on UNAVAILABLE. Without `key` and `requestId` there may be two
   *   messages.
   */
  repeat?: 'safely' | 'never' | 'allowDuplicates';
}

/** The result of a cancel. */
export interface CancelResult extends types.CancelResponse {
  /**
   * True if an earlier try of this call ended without an answer. ALREADY_CANCELLED may then be the effect of that try; so may
   * NOT_FOUND, in a topic without retention of ended messages.
   */
  triedBefore: boolean;
}

/** The result of settlements. */
export interface SettleResult extends types.SettleResponse {
  /** True if an earlier try of this call ended without an answer. LEASE_LOST may then be the effect of that try. */
  triedBefore: boolean;
}

function withRequestId(message: NewMessage): NewMessage {
  // A request with validateOnly changes nothing, so a repeat needs no id.
  return message.requestId || message.validateOnly ? message : { ...message, requestId: randomUUID() };
}

function withName(operation: Input<types.StartBulkRequest>): Input<types.StartBulkRequest> {
  // A dry run is not stored, so a repeat needs no name.
  return operation.name || operation.dryRun ? operation : { ...operation, name: randomUUID() };
}

function checkCount(results: unknown[], items: readonly unknown[]): void {
  if (results.length !== items.length) {
    throw new DuetimeError('INTERNAL', 'the server answered a batch with another number of results');
  }
}

/**
 * A client of one server or one cell. It connects at the first call.
 *
 * The calls of the service Admin are those of `AdminCalls`. A StartBulk without a name gets a random one, so that the server recognises
 * a repeat. A request is the RPC's message; the interfaces of `types` document each field, and the protos list the errors of each call. A call
 * throws a DuetimeError. If the request has a value of a wrong type, that is INVALID_ARGUMENT without a reason, and nothing is sent.
 *
 * Retries: after UNAVAILABLE only, until the call's deadline, and only where a repeat does no harm and its answer does not mislead. The
 * client has a budget of 100 repeats without answer; each second adds one repeat, and so do ten calls. A call without budget waits.
 */
export class Client {
  private readonly connection: Connection;
  private readonly gatherer: Gatherer | undefined;
  private readonly caller: Caller;
  // The server allows 1,000 calls at once on a connection, and gRPC queues the others. So pulls that wait have their own connection.
  private pulls: { connection: Connection; caller: Caller } | undefined;
  private closed = false;

  /** Throws INVALID_ARGUMENT if the options contradict each other. */
  constructor(private readonly options: ClientOptions = {}) {
    this.connection = new Connection(options);
    if (!options.separateCalls) this.gatherer = new Gatherer(this.connection);
    this.caller = new Caller(this.connection, options, this.gatherer);
  }

  /** Closes the connection, which ends its streams to schedule. Subscribers have connections of their own. */
  close(): void {
    this.closed = true;
    this.gatherer?.close();
    this.connection.close();
    this.pulls?.connection.close();
  }

  // ---- Messages

  /**
   * Returns the message as accepted, without payload and attributes, and the outcome. The message is durable then. If `messageEnded` is
   * true, the call was a repeat, and nothing is pending: the message has ended, as its state says.
   */
  schedule(message: NewMessage, options: ScheduleOptions = {}): Promise<types.ScheduleResponse> {
    const { repeat = 'safely' } = options;
    return this.caller.call('Schedule', repeat === 'safely' ? withRequestId(message) : message, options, { repeat: repeat !== 'never' });
  }

  /**
   * Returns one result per message, in order: an answer, or a DuetimeError. The server may refuse some messages and accept others.
   * If the call itself throws, the outcome of all messages is unknown.
   */
  async scheduleBatch(messages: readonly NewMessage[], options: ScheduleOptions = {}): Promise<ScheduleItemResult[]> {
    const { repeat = 'safely' } = options;
    const items = repeat === 'safely' ? messages.map(withRequestId) : messages;
    const { results } = await this.caller.call('ScheduleBatch', { messages: items }, options, { repeat: repeat !== 'never' });
    checkCount(results, messages);
    return results.map(responseOf);
  }

  /** Opens a stream to schedule many messages. */
  scheduleStream(options: ScheduleStreamOptions): ScheduleStream {
    return new ScheduleStream(this.connection, options);
  }

  /** Any outcome is an answer; NOT_FOUND is one. `stopRedelivery` also ends a message that was delivered and is not settled. */
  async cancel(target: Target & { stopRedelivery?: boolean }, options?: CallOptions): Promise<CancelResult> {
    const { response, triedBefore } = await this.caller.callAndCount('Cancel', target, options);
    return { ...response, triedBefore };
  }

  /** Cancels several messages. Returns one result per target, in order. */
  async cancelBatch(
    targets: readonly (Target & { stopRedelivery?: boolean })[],
    options?: CallOptions,
  ): Promise<(CancelResult | DuetimeError)[]> {
    const { response, triedBefore } = await this.caller.callAndCount('CancelBatch', { cancels: targets }, options);
    checkCount(response.results, targets);
    return response.results.map(({ cancel, error }) => (cancel === undefined ? errorOfItem(error) : { ...cancel, triedBefore }));
  }

  /**
   * Moves a pending message. Any outcome is an answer, as with `cancel`. With an `etag` that is no longer current the call throws
   * ABORTED. A call with an etag is not tried again, because the change of the first try would look like another client's.
   */
  reschedule(
    request: Target & Input<Pick<types.RescheduleRequest, 'deliverTime' | 'delay' | 'civilTime' | 'etag'>>,
    options?: CallOptions,
  ): Promise<types.RescheduleResponse> {
    return this.caller.call('Reschedule', request, options);
  }

  /** Returns a pending message and its state in each subscription, or the record of an ended message. Otherwise NOT_FOUND. */
  get(request: Target & { view?: types.MessageView }, options?: CallOptions): Promise<types.GetResponse> {
    return this.caller.call('Get', request, options);
  }

  /** Returns the history of a message and the causes of its lateness. NOT_FOUND as with `get`. */
  explain(target: Target, options?: CallOptions): Promise<types.ExplainResponse> {
    return this.caller.call('Explain', target, options);
  }

  /** The pending messages of a topic. */
  list(request: Input<types.ListRequest>, options?: CallOptions): List<types.Message> {
    return this.listOf('List', request, options, (response) => response.messages);
  }

  /**
   * Returns due messages, each with a lease for `settle`. The request's `wait` extends the deadline. Not tried again: messages that the
   * first try leased stay leased until their leases end. A pull with `wait` uses a second connection, so no other call waits behind it.
   */
  async pull(request: Input<types.PullRequest>, options?: CallOptions): Promise<types.Delivery[]> {
    const wait = Math.max(request.wait ?? 0, 0);
    const caller = wait > 0 ? this.callerOfPulls() : this.caller;
    return (await caller.call('Pull', request, options, { extraTime: wait })).deliveries;
  }

  private callerOfPulls(): Caller {
    if (this.pulls === undefined) {
      if (this.closed) return this.caller;
      const connection = new Connection(this.options);
      this.pulls = { connection, caller: this.caller.over(connection) };
    }
    return this.pulls.caller;
  }

  /**
   * Settles leases of `pull` or of streams, in the order of the list. A settlement without an action acks: `{ leaseToken }`. The answer
   * says which settlements took effect.
   */
  async settle(request: Input<types.SettleRequest>, options?: CallOptions): Promise<SettleResult> {
    const { response, triedBefore } = await this.caller.callAndCount('Settle', request, options);
    return { ...response, triedBefore };
  }

  /** Starts a subscriber, which calls `handler` for each delivery until it is stopped. It has a connection of its own. */
  subscribe(options: SubscriberOptions, handler: Handler): Subscriber {
    return new Subscriber(this.options, options, runnerOf(handler));
  }

  /** As `subscribe`, with a handler of up to `options.batchMax` deliveries. `options.handlers` counts its calls. */
  subscribeBatch(options: SubscriberOptions, handler: BatchHandler): Subscriber {
    return new Subscriber(this.options, options, batchRunnerOf(handler), Math.max(options.batchMax ?? 100, 1));
  }

  // ---- Recurrences

  /** Creates a recurrence and schedules its first occurrence. A repeat with the same content returns the existing recurrence. */
  async createRecurrence(request: Input<types.CreateRecurrenceRequest>, options?: CallOptions): Promise<types.Recurrence> {
    return (await this.caller.call('CreateRecurrence', request, options)).recurrence!;
  }

  /** Returns a recurrence, or throws NOT_FOUND. */
  async getRecurrence(name: string, options?: CallOptions): Promise<types.Recurrence> {
    return (await this.caller.call('GetRecurrence', { name }, options)).recurrence!;
  }

  /** The recurrences, in the order of their names. */
  listRecurrences(request: Input<types.ListRecurrencesRequest> = {}, options?: CallOptions): List<types.Recurrence> {
    return this.listOf('ListRecurrences', request, options, (response) => response.recurrences);
  }

  /** Changes the fields that `updateMask` names. Not tried again with an etag, as `reschedule`. */
  async updateRecurrence(request: Input<types.UpdateRecurrenceRequest>, options?: CallOptions): Promise<types.Recurrence> {
    return (await this.caller.call('UpdateRecurrence', request, options)).recurrence!;
  }

  /** Stops the occurrences, and cancels the pending one if it was never delivered. */
  async pauseRecurrence(name: string, options?: CallOptions): Promise<types.Recurrence> {
    return (await this.caller.call('PauseRecurrence', { name }, options)).recurrence!;
  }

  /** Resumes a paused recurrence. Its `misfire` decides about the occurrences that the pause missed. */
  async resumeRecurrence(name: string, options?: CallOptions): Promise<types.Recurrence> {
    return (await this.caller.call('ResumeRecurrence', { name }, options)).recurrence!;
  }

  /** Not tried again, because a repeat would answer NOT_FOUND although the first try deleted the recurrence. */
  deleteRecurrence(name: string, options?: CallOptions): Promise<types.DeleteRecurrenceResponse> {
    return this.caller.call('DeleteRecurrence', { name }, options);
  }

  /** Returns the next occurrences of a schedule, or of an existing recurrence. */
  async previewRecurrence(
    request: Input<types.PreviewRecurrenceRequest>,
    options?: CallOptions,
  ): Promise<types.PreviewRecurrenceResponseOccurrence[]> {
    return (await this.caller.call('PreviewRecurrence', request, options)).occurrences;
  }

  // ---- The calls of the service Admin

  static {
    for (const { name, items } of ADMIN_CALLS) {
      const method = items === undefined
        ? function (this: Client, request: object = {}, options?: CallOptions): Promise<object> {
          return this.caller.call(name, name === 'StartBulk' ? withName(request) : request, options);
        }
        : function (this: Client, request: object = {}, options?: CallOptions): List<unknown> {
          return this.listOf(name as ListCall, request, options, (response: any) => response[items]);
        };
      Object.defineProperty(this.prototype, name[0]!.toLowerCase() + name.slice(1), { value: method, configurable: true, writable: true });
    }
  }

  private listOf<Name extends ListCall, Item>(
    name: Name,
    request: Input<types.Calls[Name]['request']>,
    options: CallOptions | undefined,
    itemsOf: (response: types.Calls[Name]['response']) => Item[],
  ): List<Item> {
    const fetch = async (pageToken: string): Promise<{ items: Item[]; nextPageToken: string }> => {
      const response = await this.caller.call(name, { ...request, pageToken }, options);
      return { items: itemsOf(response), nextPageToken: response.nextPageToken };
    };
    return new List(fetch, (request as { pageToken?: string }).pageToken ?? '');
  }
}

export interface Client extends types.AdminCalls {}

type ListCall = { [Name in keyof types.Calls]: types.Calls[Name]['response'] extends { nextPageToken: string } ? Name : never }[keyof types.Calls];
