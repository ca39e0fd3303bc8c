// SPDX-License-Identifier: Apache-2.0
/**
 * The client library of duetime, a daemon that keeps messages on disk and delivers them when they are due.
 *
 * <p>{@link io.github.duetime.client.DuetimeClient} makes calls about messages and opens everything else:
 * {@link io.github.duetime.client.AdminClient} manages topics and subscriptions,
 * {@link io.github.duetime.client.ScheduleStream} schedules many messages on one stream, and
 * {@link io.github.duetime.client.Subscriber} receives due messages and settles them.
 *
 * <p>Answers are the classes of the protos, in {@code io.github.duetime.v1}. The protos document each field, its bounds
 * and the errors of each call.
 */
package io.github.duetime.client;
