// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cli/show.h"
#include "client/cli/subscription_output.h"
#include "client/delay_client.h"

namespace duetime::cli {
namespace {

using client::Client;

// Sends the settlements and hands what became of each to `print`.
template <typename Print>
ExitCode Settle(const Settings& settings, Client* client, const v1::SettleRequest& request,
                const std::vector<uint64_t>& tokens, const Print& print) {
  const absl::StatusOr<client::SettleResult> result = client->Settle(request);
  if (!result.ok()) return Fail(settings, result.status());
  bool refused = false;
  for (const uint64_t token : tokens) {
    print(token, *result);
    refused |= WasRefused(token, *result);
  }
  return refused ? kNotAsWished : kDone;
}

}  // namespace

ExitCode Run(const Settings& settings, const PullArguments& arguments) {
  const auto client = Connect<Client>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  const absl::StatusOr<v1::PullResponse> response = (*client)->Pull(arguments.request);
  if (!response.ok()) return Fail(settings, response.status());
  if (response->deliveries().empty()) {
    if (!settings.json) std::fputs("nothing\n", stderr);
    return kNotAsWished;
  }
  const absl::Time received = absl::Now();
  v1::SettleRequest settle;
  for (const v1::Delivery& proto : response->deliveries()) {
    const client::Delivery delivery(proto);
    Print(settings.json ? DeliveryJson(delivery, received)
                        : PulledText(delivery, received, settings.zone));
    settle.add_ack(proto.lease_token());
  }
  std::fflush(stdout);
  if (!arguments.ack) return kDone;
  // That it is acked is what was asked for; only a refusal is news.
  return Settle(settings, client->get(), settle, {settle.ack().begin(), settle.ack().end()},
                [&](uint64_t token, const client::SettleResult& result) {
                  if (!WasRefused(token, result)) return;
                  const std::string text =
                      settings.json ? Line(SettledJson(token, result)) : SettledText(token, result);
                  std::fwrite(text.data(), 1, text.size(), stderr);
                });
}

ExitCode Run(const Settings& settings, const SettleArguments& arguments) {
  const auto client = Connect<Client>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Settle(
      settings, client->get(), arguments.request, arguments.tokens,
      [&](uint64_t token, const client::SettleResult& result) {
        Print(settings.json ? Line(SettledJson(token, result)) : SettledText(token, result));
      });
}

}  // namespace duetime::cli
