// SPDX-License-Identifier: Apache-2.0
//
// Desk::PutOff, for the files of Desk.
#pragma once

#include <utility>

#include "server/delivery/desk.h"

namespace duetime::delivery {

template <typename C>
bool Desk::PutOff(base::Now now, C* command, void (Desk::*handler)(base::Now, C),
                  storage::MessageId* id, absl::Status* status) {
  const auto again = [&] {
    return [this, handler, command = std::move(*command)](base::Now later, bool ok) mutable {
      if (ok) {
        (this->*handler)(later, std::move(command));
      } else {
        Refuse(command);
      }
    };
  };
  const Target& target = command->target;
  const scheduler::Latches::Name key_name = KeyName(target.topic, target.key);
  const bool key_busy = !target.key.empty() && latches_->Held(key_name);
  if (!key_busy) {
    *status = Resolve(now, target, id);
    if (!status->ok() || !Busy(*id)) return false;
  }
  if (Crowded()) {
    *status = CrowdedError();
    return false;
  }
  WhenFree(key_busy ? key_name : scheduler::Latches::Name(*id), again());
  return true;
}

}  // namespace duetime::delivery
