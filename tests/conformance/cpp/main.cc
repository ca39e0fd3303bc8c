// SPDX-License-Identifier: Apache-2.0
//
// The driver of the C++ library. See tests/conformance/PROTOCOL.md.
#include <atomic>
#include <iostream>
#include <list>
#include <string>
#include <thread>

#include "tests/conformance/cpp/calls.h"
#include "tests/conformance/cpp/wire.h"

namespace {

using duetime::conformance::Calls;
using duetime::conformance::Json;

void Answer(Calls* calls, const std::string& line) {
  Json answer;
  try {
    const Json request = Json::parse(line);
    answer = calls->OutcomeOf(request);
    answer["id"] = request.at("id");
  } catch (const std::exception& error) {
    answer["error"] = {{"code", "DRIVER"}, {"message", error.what()}};
  }
  duetime::conformance::Print(answer);
}

// One request, on its own thread.
struct Running {
  std::atomic<bool> done = false;
  std::thread thread;
};

}  // namespace

int main() {
  // Otherwise getline reads a byte at a time, and a request may have 88 MB.
  std::ios::sync_with_stdio(false);
  // Otherwise getline writes what another thread is printing.
  std::cin.tie(nullptr);
  Calls calls;
  std::list<Running> running;
  std::string line;
  while (std::getline(std::cin, line)) {
    running.remove_if([](Running& request) {
      if (!request.done) return false;
      request.thread.join();
      return true;
    });
    Running& request = running.emplace_back();
    request.thread = std::thread([&calls, &request, line] {
      Answer(&calls, line);
      request.done = true;
    });
  }
  for (Running& request : running) request.thread.join();
  return 0;
}
