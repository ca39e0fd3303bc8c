// SPDX-License-Identifier: Apache-2.0
#include "server/kafka/kafka_error.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"

namespace duetime::kafka {

absl::Status StatusOf(rd_kafka_resp_err_t code, absl::string_view what) {
  DT_CHECK(code != RD_KAFKA_RESP_ERR_NO_ERROR);
  const std::string text = absl::StrCat(what, ": ", rd_kafka_err2str(code));
  switch (code) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
      return absl::InvalidArgumentError(text);
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
      return absl::PermissionDeniedError(text);
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
      return absl::DeadlineExceededError(text);
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace duetime::kafka
