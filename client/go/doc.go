// SPDX-License-Identifier: Apache-2.0

// Package duetime is the client library of duetime, a server that delivers messages at the time that you choose.
//
// A [Client] schedules, finds, moves and cancels messages, and manages topics, subscriptions, recurrences and bulk
// operations. [Client.Subscribe] starts a [Subscriber], which calls your function for each message that is due, and
// settles the message as the function says. [Client.OpenScheduleStream] schedules many messages on one stream.
//
// Answers are the types of the protos (package duetimepb). So are the requests of the service Admin, whose calls [Client] has
// as the protos define them. The protos document each field, its bounds and the errors.
//
// Every error of a call is an [*Error], for [errors.As]: it has the code, the reason and the metadata that the server
// sent. After Unavailable, DeadlineExceeded or Canceled the outcome of a call is unknown. Any other error means that the
// call changed nothing. A call is repeated after Unavailable only, and only if a repeat does no harm.
//
// A message can be delivered more than once. Delivery.MessageId is the same each time, and Delivery.MaybeRedelivered
// says when to check for a repeat.
package duetime
