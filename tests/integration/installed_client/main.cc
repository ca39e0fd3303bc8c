// SPDX-License-Identifier: Apache-2.0
//
// Schedules the message "kept" of the topic t on the server at 127.0.0.1:7788. Uses each header
// that is installed.
#include <cstdio>

#include "absl/time/time.h"

#include "client/cpp/admin_client.h"
#include "client/cpp/backoff.h"
#include "client/cpp/channel.h"
#include "client/cpp/client_options.h"
#include "client/cpp/convert.h"
#include "client/cpp/delay_client.h"
#include "client/cpp/error.h"
#include "client/cpp/log_function.h"
#include "client/cpp/new_message.h"
#include "client/cpp/pager.h"
#include "client/cpp/schedule_result.h"
#include "client/cpp/schedule_stream.h"
#include "client/cpp/subscriber.h"

int main() {
  const auto client = duetime::client::Client::Create({});
  if (!client.ok()) return 2;
  duetime::client::NewMessage message;
  message.topic = "t";
  message.payload = "kept";
  message.when = absl::Seconds(1);
  const auto accepted = (*client)->Schedule(message);
  if (!accepted.ok()) std::puts(accepted.status().ToString().c_str());
  return accepted.ok() ? 0 : 1;
}
