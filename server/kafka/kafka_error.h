// SPDX-License-Identifier: Apache-2.0
//
// Turns the errors of librdkafka and of the brokers into those of cell::Log.
#pragma once

#include <librdkafka/rdkafka.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace duetime::kafka {

//   INVALID_ARGUMENT     the entry is too large, or the brokers refuse its form
//   PERMISSION_DENIED    the client may not use the topic
//   DEADLINE_EXCEEDED    no answer in time
//   UNAVAILABLE          all other errors: each may pass, for example once a broker has started
// `what` begins the message. REQUIRES: `code` is an error.
absl::Status StatusOf(rd_kafka_resp_err_t code, absl::string_view what);

}  // namespace duetime::kafka
