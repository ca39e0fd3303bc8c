// SPDX-License-Identifier: Apache-2.0
//
// The client library of duetime. README.md has an example.

export type { BackoffOptions } from './backoff';
export type { CallLimits, CallOptions } from './caller';
export type { ServerOptions, TlsOptions } from './channel';
export {
  type CancelResult, Client, type ClientOptions, type NewMessage, type ScheduleOptions, type SettleResult, type Target,
} from './client';
export { type Code, DuetimeError, type ErrorDetails, type FieldViolation } from './errors';
export type { TraceContext } from './gatherer';
export type { Input } from './input';
export { List, type Page } from './list';
export type { Logger } from './log';
export type { ScheduleItemResult } from './schedule_result';
export { ScheduleStream, type ScheduleStreamOptions } from './schedule_stream';
export { Settlement } from './settlement';
export {
  type BatchHandler, type Handler, type HandlerContext, Subscriber, type StopOptions, type SubscriberOptions,
} from './subscriber';
export type { SubscriberCounts } from './subscriber_state';
export type * from './types';
