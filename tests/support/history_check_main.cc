// SPDX-License-Identifier: Apache-2.0
//
// Judges the kept history of a crash or soak test again.
//
//   history_check FILE...                   prints the counts and the broken promises
//   history_check FILE... --message=N       prints the events of a message
//   history_check FILE --make=EVENTS        writes a good history of this size
//
// Exit code as JudgeFiles. To see how long a check of ten million events takes:
//
//   history_check /tmp/history --make=10000000 && time history_check /tmp/history
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/history.h"
#include "tests/support/history_checker.h"

namespace duetime::test {
namespace {

// A message lives while this many others begin, as under load.
constexpr uint32_t kPending = 10'000;

// Each message is scheduled, delivered and acked: five events.
int Make(const std::string& path, int64_t events) {
  HistoryWriter writer(path);
  writer.Add({.run = 1, .what = What::kStart});
  const auto messages = static_cast<uint32_t>(events / 5);
  std::vector<int64_t> deliver_ms(messages);
  for (uint32_t i = 0; i < messages + 2 * kPending; ++i) {
    if (i < messages) {
      const uint32_t message = writer.NewMessage();
      writer.Add({.message = message, .what = What::kSchedule});
      deliver_ms[message] = writer.NowNanos() / 1'000'000;
      writer.Add({.id = message + 1ull,
                  .time_ms = deliver_ms[message],
                  .message = message,
                  .run = 1,
                  .what = What::kSchedule,
                  .outcome = Outcome::kOk});
    }
    if (i >= kPending && i - kPending < messages) {
      const uint32_t message = i - kPending;
      writer.Add({.id = message + 1ull,
                  .time_ms = deliver_ms[message],
                  .token = message + 1ull,
                  .message = message,
                  .run = 1,
                  .attempt = 1,
                  .what = What::kDelivery});
    }
    if (i >= 2 * kPending) {
      Event ack = {
          .token = i - 2 * kPending + 1ull, .message = i - 2 * kPending, .what = What::kAck};
      writer.Add(ack);
      ack.outcome = Outcome::kOk;
      writer.Add(ack);
    }
  }
  writer.Add({.what = What::kDrained});
  return writer.Flush() ? 0 : 2;
}

int PrintOne(const std::vector<std::string>& paths, uint32_t message) {
  std::vector<std::unique_ptr<HistoryReader>> readers;
  std::vector<std::span<const Event>> files;
  for (const std::string& path : paths) {
    std::string error;
    readers.push_back(HistoryReader::Open(path, &error));
    if (readers.back() == nullptr) {
      std::printf("%s\n", error.c_str());
      return 2;
    }
    files.push_back(readers.back()->events());
  }
  PrintMessage(files, message);
  return 0;
}

}  // namespace
}  // namespace duetime::test

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  duetime::test::Expected expected;
  bool running = false;
  uint32_t message = 0;
  int64_t make = 0;
  CLI::App app("Judges the kept history of a crash or soak test.");
  app.add_option("FILE", paths, "One for each process of the test")->required();
  app.add_option("--subscriptions", expected.subscriptions, "That got every message");
  app.add_flag("--running", running, "The test has not drained the daemon yet: nothing is LOST");
  const CLI::Option* one = app.add_option("--message", message, "Print its events");
  app.add_option("--make", make, "Write a good history of so many events")
      ->check(CLI::Range(5, 1 << 30));
  CLI11_PARSE(app, argc, argv);
  expected.drained = !running;
  if (make > 0) return duetime::test::Make(paths[0], make);
  if (one->count() > 0) return duetime::test::PrintOne(paths, message);
  return duetime::test::JudgeFiles(paths, expected);
}
