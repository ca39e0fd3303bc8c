// SPDX-License-Identifier: Apache-2.0
//
// Helpers for the delivery benchmarks: a daemon, subscribers that record the lateness of each
// message, and senders.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/cpp/subscriber.h"
#include "tests/bench/load.h"
#include "tests/support/server_process.h"

namespace duetime::bench {

// Starts the daemon with metrics, on a directory of its own in TMPDIR. Ends the program if it does
// not start.
std::unique_ptr<test::ServerProcess> StartDaemon(const std::string& daemon,
                                                 const std::vector<std::string>& flags);

// Collects the deliveries of a subscriber. Thread-safe.
struct Received {
  std::mutex mutex;
  std::vector<double> lateness_ms;
  // Lateness by the daemon's own clock when it handed the message to the stream, in whole
  // milliseconds.
  std::vector<double> hand_out_ms;
  std::atomic<int64_t> count{0};
  std::atomic<int64_t> early{0};
};

// Opens a subscriber with this credit on the subscription, or on the topic's default one. `answer`
// chooses the settlement of each message; without it every message is acked. Ends the program if
// the subscriber cannot be opened.
std::unique_ptr<client::Subscriber> Listen(
    const test::ServerProcess& server, const std::string& topic, int credit, Received* received,
    std::function<client::Settlement(const client::Delivery&)> answer = {},
    const std::string& subscription = "");

void WaitFor(const std::function<bool()>& done, double seconds_max);

// Schedules `rate` messages a second on `topic` until `stop`. Each is due between `ahead_ms` and
// `ahead_ms` + 500 ms after it is sent.
void Trickle(const Channel& channel, const std::string& topic, int64_t rate,
             const std::atomic<bool>* stop, int64_t ahead_ms);

// Schedules `messages` of 128 bytes, round robin over `topics`. The i-th is due at due_ms + i
// modulo `spread_ms`.
LoadResult ScheduleMany(const Channel& channel, const std::vector<std::string>& topics,
                        int64_t messages, int64_t due_ms, int64_t spread_ms);

void PrintLateness(const char* name, Received* received);

}  // namespace duetime::bench
