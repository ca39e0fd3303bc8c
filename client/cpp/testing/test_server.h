// SPDX-License-Identifier: Apache-2.0
//
// TestServer: a server with a test clock, to test one's own code. test_server_fixture.h has a
// fixture for GoogleTest.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "client/cpp/admin_client.h"
#include "client/cpp/delay_client.h"
#include "client/cpp/subscriber.h"
#include "duetime/v1/test_clock.pb.h"

namespace duetime::client {

struct AdvanceOptions {
  // Waits at each event, and at the end, until subscribers have settled all that they have.
  bool until_idle = true;
  // How long the move may take, on the machine's clock: at most ten minutes.
  absl::Duration timeout = absl::Seconds(10);
};

// The clock of a test server. It stands still, and moves when a test says so.
//
// Moves return what happened, or DEADLINE_EXCEEDED, with the time at which the clock stands, if
// subscribers or the server need longer than the timeout. Thread safety: one thread at a time.
class TestClock {
 public:
  explicit TestClock(std::unique_ptr<AdminClient> calls) : calls_(std::move(calls)) {}

  // Server time.
  absl::StatusOr<absl::Time> Now();
  // Each message on the way is handed out at its own time.
  absl::StatusOr<v1::Advanced> Advance(absl::Duration by, const AdvanceOptions& options = {});
  absl::StatusOr<v1::Advanced> AdvanceTo(absl::Time to, const AdvanceOptions& options = {});
  // Moves the clock to the next time at which something happens to a message. If nothing does until
  // `until`, the stop of the answer is STOP_NOTHING. `until` is at most 100 years ahead.
  absl::StatusOr<v1::Advanced> Next(absl::Time until = absl::InfiniteFuture(),
                                    const AdvanceOptions& options = {});

 private:
  friend class TestServer;

  absl::StatusOr<v1::Advanced> Move(v1::AdvanceRequest request, const AdvanceOptions& options);
  absl::StatusOr<v1::Advanced> Moved(v1::Advanced advanced);

  const std::unique_ptr<AdminClient> calls_;
  std::vector<v1::HandOut> hand_outs_;
};

// A server of its own for a test: duetimed itself, over an empty directory that the destructor
// removes. It ends with the process of the test, too.
//
// Thread safety: one thread at a time.
class TestServer {
 public:
  struct Options {
    // The program duetimed. Empty: that of the environment variable DUETIMED, or on PATH. Nothing
    // is downloaded.
    std::string binary{};
    // Where the clock starts. By default the same in each run, 2030-01-01 in UTC, so that a test
    // has the same zone changes and weekdays.
    absl::Time at = absl::FromUnixSeconds(1'893'456'000);
  };

  // FAILED_PRECONDITION, with the log, if there is no program duetimed, or it does not start.
  static absl::StatusOr<std::unique_ptr<TestServer>> Start(const Options& options);
  static absl::StatusOr<std::unique_ptr<TestServer>> Start() { return Start(Options()); }
  // Ends the server at once, and the subscribers that Subscribe started.
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  // host:port
  const std::string& address() const { return address_; }
  TestClock& clock() { return *clock_; }
  Client& client() { return *client_; }
  AdminClient& admin() { return *admin_; }

  // Starts a subscriber, and waits until the server has it. The handler may run until the
  // destructor, which waits for it: it must not use what ends before.
  absl::Status Subscribe(const std::string& topic, Handler handler);
  // Waits until the topic has so many subscribers, or returns DEADLINE_EXCEEDED. A program's
  // subscriber connects in the background; without it, a move of the clock hands out nothing.
  absl::Status AwaitSubscribers(const std::string& topic, int count,
                                absl::Duration timeout = absl::Seconds(10));
  // Waits until subscribers have settled all that is due, or returns DEADLINE_EXCEEDED. The clock
  // stands still, but for a millisecond if just then something is due.
  absl::Status Idle(absl::Duration timeout = absl::Seconds(10));
  // What the server handed out during moves of the clock, and Idle, in order. What a subscriber got
  // in between is not in it, and of one move the first 10,000.
  std::vector<v1::HandOut> Deliveries(absl::string_view topic) const;

 private:
  class Keeper;
  TestServer();
  absl::Status Connect();

  // In the order in which they begin. They end in the opposite one.
  std::unique_ptr<Keeper> keeper_;
  std::string address_;
  std::unique_ptr<TestClock> clock_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<AdminClient> admin_;
  std::vector<std::unique_ptr<Subscriber>> subscribers_;
};

}  // namespace duetime::client
