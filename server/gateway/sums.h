// SPDX-License-Identifier: Apache-2.0
//
// What all cells say together of one thing. Each function adds `more` to `sum`.
#pragma once

#include "duetime/v1/admin.pb.h"

namespace duetime::gateway {

void Add(const v1::Topic& more, v1::Topic* sum);
void Add(const v1::Subscription& more, v1::Subscription* sum);
// REQUIRES: both are answers to one request with a start_time.
void Add(const v1::ForecastResponse& more, v1::ForecastResponse* sum);
// The operation runs while it runs in a cell.
void Add(const v1::Operation& more, v1::Operation* sum);
void Add(const v1::Counts& more, v1::Counts* sum);

}  // namespace duetime::gateway
