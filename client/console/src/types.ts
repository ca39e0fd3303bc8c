// SPDX-License-Identifier: Apache-2.0
//
// The fields of duetime.v1 that the page uses, as they are in the console's JSON: the names of the protos, int64 as text,
// times as RFC 3339, durations as "1.5s", bytes as base64.

export type Int64 = string;
export type Time = string;
export type Duration = string;
export type Labels = Record<string, string>;

export type MessageState =
  | "STATE_SCHEDULED" | "STATE_DUE" | "STATE_IN_FLIGHT" | "STATE_ACKED" | "STATE_CANCELLED" | "STATE_EXPIRED"
  | "STATE_DEAD_LETTERED" | "STATE_SKIPPED" | "STATE_DROPPED";

export interface DeadLetter {
  topic: string;
  subscription: string;
  message_id: string;
  key: string;
  attempts: number;
  reason: string;
  reason_text: string;
  first_dispatch_time?: Time;
  last_dispatch_time?: Time;
  deliver_time?: Time;
  accept_time?: Time;
  last_attempts: Attempt[];
}

export interface Message {
  id: string;
  topic: string;
  payload: string;
  attributes: Labels;
  deliver_time: Time;
  accept_time: Time;
  state: MessageState;
  attempts: number;
  payload_bytes: Int64;
  key: string;
  etag: string;
  labels: Labels;
  ordering_key: string;
  ttl?: Duration;
  late_policy: string;
  spread?: Duration;
  civil_time?: { local: string; time_zone: string };
  update_time?: Time;
  end_time?: Time;
  recurrence: string;
  occurrence: Int64;
  expire_time?: Time;
  dead_letter?: DeadLetter;
  dead_letter_ids: string[];
}

// An attempt that ended without a settlement.
export interface Attempt {
  number: number;
  end: string;
  end_time?: Time;
  held?: Duration;
  delay?: Duration;
  client_id: string;
  reason: string;
}

export interface SubscriptionStatus {
  subscription: string;
  state: MessageState;
  attempts: number;
  lease_end_time?: Time;
  retry_time?: Time;
  wait_reason: string;
  last_attempts: Attempt[];
  dead_letter_id: string;
}

export interface Timeline {
  accept_time?: Time;
  update_time?: Time;
  due_time?: Time;
  fire_time?: Time;
  first_dispatch_time?: Time;
  lease_end_time?: Time;
  end_time?: Time;
  attempts: number;
  loaded: boolean;
  released: boolean;
  in_backlog: boolean;
  subscribers: number;
}

export interface TopicSettings {
  max_pending?: Int64;
  max_payload_bytes?: Int64;
  default_ttl?: Duration;
  tombstone_retention?: Duration;
  rate?: { messages_per_second: Int64; burst: Int64 };
  paused?: boolean;
  minute_limit?: { messages: Int64; policy: string; spread_max?: Duration };
  dead_letter_topic?: string;
}

export interface Topic {
  name: string;
  settings: TopicSettings;
  counts?: { pending: Int64; pending_bytes: Int64; due: Int64 };
}

export interface SubscriptionSettings {
  lease_duration?: Duration;
  retry?: { min_backoff?: Duration; max_backoff?: Duration; multiplier?: number; jitter?: number; max_attempts?: number };
  dead_letter_topic?: string;
  paused?: boolean;
  retention?: Duration;
  retention_policy?: string;
  retention_max_messages?: Int64;
}

export interface SubscriptionCounts {
  ready: Int64;
  in_flight: Int64;
  delayed: Int64;
  blocked: Int64;
  streams: Int64;
  behind: boolean;
  delivered: Int64;
  acked: Int64;
  dead_lettered: Int64;
  dropped: Int64;
  slowed: boolean;
}

export interface Subscription {
  topic: string;
  name: string;
  settings: SubscriptionSettings;
  counts?: SubscriptionCounts;
  backlog?: { messages: Int64; oldest_due_time?: Time };
  create_time?: Time;
}

export interface Filter {
  key_prefix?: string;
  labels?: Labels;
  start_time?: Time;
  end_time?: Time;
  // Of a bulk operation only, not of a list.
  message_id?: string;
}

export type BulkAction =
  "BULK_ACTION_CANCEL" | "BULK_ACTION_SHIFT" | "BULK_ACTION_RELEASE" | "BULK_ACTION_PURGE" | "BULK_ACTION_REDRIVE";

export interface StartBulk {
  topic: string;
  action: BulkAction;
  filter?: Filter;
  shift_by?: Duration;
  dry_run?: boolean;
}

export interface Operation {
  name: string;
  topic: string;
  filter?: Filter;
  action: BulkAction;
  shift_by?: Duration;
  dry_run: boolean;
  state: "STATE_STARTING" | "STATE_RUNNING" | "STATE_DONE" | "STATE_STOPPED" | "STATE_FAILED";
  missing_places: string[];
  create_time: Time;
  end_time?: Time;
  matched: Int64;
  changed: Int64;
  unchanged: Int64;
  progress_time?: Time;
  sample: Message[];
  error?: { message: string; reason: string };
}

export interface Recurrence {
  name: string;
  topic: string;
  template?: { payload: string; attributes: Labels; labels: Labels; ordering_key: string; ttl?: Duration };
  schedule: {
    cron?: string; interval?: Duration; time_zone: string; start_time?: Time; end_time?: Time; max_count: Int64; jitter?: Duration;
  };
  overlap: string;
  misfire: string;
  state: "STATE_ACTIVE" | "STATE_PAUSED" | "STATE_COMPLETED" | "STATE_STALLED";
  state_reason: string;
  create_time: Time;
  update_time?: Time;
  next_deliver_time?: Time;
  next_message_id: string;
  occurrences: Int64;
  skipped: Int64;
}

export interface Occurrence {
  number: Int64;
  time: Time;
  civil_time: { local: string; time_zone: string };
}

export interface ForecastCount {
  messages: Int64;
  bytes: Int64;
}

export type Bucket = "BUCKET_SECOND" | "BUCKET_MINUTE" | "BUCKET_HOUR" | "BUCKET_DAY";

export interface Forecast {
  buckets: { start_time: Time; count: ForecastCount }[];
  overdue: ForecastCount;
  later: ForecastCount;
  total: ForecastCount;
  start_time: Time;
  end_time: Time;
}

export interface ServerInfo {
  version: string;
  state: string;
  start_time: Time;
  uptime: Duration;
  server_time: Time;
  clock_state: string;
  epoch: Int64;
  shards: number;
  limits: Record<string, string | number | boolean>;
  counts?: Record<string, Int64>;
  disk_low: boolean;
  damage?: {
    blocks: { file: string; offset: Int64; family: string; first_key: string; last_key: string }[];
    blocks_total: Int64;
    stopped_families: string[];
  };
}

// One of the three.
export interface WhenJson {
  delay?: Duration;
  deliver_time?: Time;
  civil_time?: { local: string; time_zone: string };
}

export interface ScheduleRequest extends WhenJson {
  topic: string;
  payload: string;
  key?: string;
  on_conflict?: string;
  attributes?: Labels;
  labels?: Labels;
  ttl?: Duration;
  ordering_key?: string;
  request_id?: string;
  validate_only?: boolean;
}

export interface NewRecurrence {
  name: string;
  topic: string;
  template: { payload: string; labels?: Labels };
  schedule: { cron?: string; interval?: Duration; time_zone?: string };
}

export interface SubscriberStream {
  id: string;
  topic: string;
  subscription: string;
  client_id: string;
  peer: string;
  principal: string;
  max_outstanding_messages: number;
  in_flight: Int64;
  start_time?: Time;
  last_settle_time?: Time;
}

interface Page {
  page_size?: number;
  page_token?: string;
}
interface Paged {
  next_page_token: string;
}

type Named = { name: string };
export interface Outcome {
  outcome: string;
  state: string;
  end_time?: Time;
  redelivery_stopped?: boolean;
  delivery_uncertain?: boolean;
}

// What a call has moved a test clock over.
export interface Advanced {
  stop: string;
  fired: string;
  handed_out: string;
}

interface AdvanceLimits {
  timeout: string;
  hand_outs_max: number;
}

// Request and response by the name of the call.
export interface Calls {
  "TestClock/GetClock": [Record<string, never>, { clock: { frozen: boolean; speed: number } }];
  "TestClock/Advance": [{ by: string; limits: AdvanceLimits }, { advanced: Advanced }];
  "TestClock/AdvanceToNext": [{ limits: AdvanceLimits }, { advanced: Advanced }];
  "Admin/ServerInfo": [Record<string, never>, ServerInfo];
  "Admin/ListTopics": [Page & { name_prefix?: string }, Paged & { topics: Topic[] }];
  "Admin/GetTopic": [Named, { topic: Topic }];
  "Admin/CreateTopic": [{ topic: { name: string; settings: object } }, { topic: Topic }];
  "Admin/DeleteTopic": [Named & { force?: boolean }, { operation: string }];
  "Admin/UpdateTopic": [{ topic: Topic; update_mask: string }, { topic: Topic }];
  "Admin/PauseTopic": [Named, { topic: Topic }];
  "Admin/ResumeTopic": [Named, { topic: Topic }];
  "Admin/ListSubscriptions": [Page & { topic: string }, Paged & { subscriptions: Subscription[] }];
  "Admin/GetSubscription": [{ topic: string; name: string }, { subscription: Subscription }];
  "Admin/CreateSubscription": [{ subscription: { topic: string; name: string; settings: object }; start?: string }, { subscription: Subscription }];
  "Admin/DeleteSubscription": [{ topic: string; name: string }, Record<string, never>];
  "Admin/ListStreams": [Page & { topic?: string }, Paged & { streams: SubscriberStream[] }];
  "Admin/EndStream": [{ id: string }, Record<string, never>];
  "Admin/UpdateSubscription": [{ subscription: Subscription; update_mask: string }, { subscription: Subscription }];
  "Admin/Forecast": [{ topic?: string; start_time?: Time; bucket: Bucket; buckets: number }, Forecast];
  "Admin/StartBulk": [StartBulk, { operation: Operation }];
  "Admin/GetOperation": [Named, { operation: Operation }];
  "Admin/ListOperations": [Page & { topic?: string }, Paged & { operations: Operation[] }];
  "Admin/CancelOperation": [Named, { operation: Operation }];
  "Messages/Schedule": [ScheduleRequest, { message: Message; outcome: string; previous_message_id: string; minute_limit_exceeded: boolean }];
  "Messages/List": [Page & Filter & { topic: string; states?: string[] }, Paged & { messages: Message[] }];
  "Messages/Get": [
    { message_id?: string; key?: { topic: string; key: string }; view?: string },
    { message: Message; subscriptions: SubscriptionStatus[] },
  ];
  "Messages/Explain": [
    { message_id: string },
    {
      message: Message; timeline: Timeline; summary: string; subscriptions: SubscriptionStatus[];
      lateness?: { server?: Duration; waiting?: Duration; total?: Duration };
    },
  ];
  "Messages/Cancel": [{ message_id: string; stop_redelivery?: boolean }, Outcome];
  "Messages/Reschedule": [
    { message_id: string; deliver_time?: Time; delay?: Duration; etag?: string },
    Outcome & { message?: Message },
  ];
  "Messages/ListRecurrences": [Page & { topic?: string }, Paged & { recurrences: Recurrence[] }];
  "Messages/GetRecurrence": [Named, { recurrence: Recurrence }];
  "Messages/PauseRecurrence": [Named, { recurrence: Recurrence }];
  "Messages/ResumeRecurrence": [Named, { recurrence: Recurrence }];
  "Messages/CreateRecurrence": [{ recurrence: NewRecurrence; validate_only?: boolean }, { recurrence: Recurrence }];
  "Messages/DeleteRecurrence": [Named, { occurrence_cancelled: boolean }];
  "Messages/PreviewRecurrence": [{ name?: string; schedule?: NewRecurrence["schedule"]; count: number }, { occurrences: Occurrence[] }];
}
