// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/sums.h"

#include <array>
#include <initializer_list>
#include <tuple>

#include "google/protobuf/message.h"

namespace duetime::gateway {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kSampleMax = 20;

// Adds all fields of type int64, and sets those of type bool that are set in `more`. Other
// fields stay.
void AddNumbers(const Message& more, Message* sum) {
  const Reflection* const reflection = sum->GetReflection();
  const auto* const type = sum->GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* const field = type->field(i);
    if (field->is_repeated()) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      reflection->SetInt64(sum, field,
                           reflection->GetInt64(*sum, field) + reflection->GetInt64(more, field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      reflection->SetBool(sum, field,
                          reflection->GetBool(*sum, field) || reflection->GetBool(more, field));
    }
  }
}

bool Before(const google::protobuf::Timestamp& a, const google::protobuf::Timestamp& b) {
  return std::tuple(a.seconds(), a.nanos()) < std::tuple(b.seconds(), b.nanos());
}

// Whether more messages wait behind key `a`.
bool Longer(const v1::HeldKey& a, const v1::HeldKey& b) {
  return std::tuple(a.on_disk(), a.waiting()) > std::tuple(b.on_disk(), b.waiting());
}

// What an operation is as a whole: the first of these states in which one of its parts is.
v1::Operation::State Worse(v1::Operation::State a, v1::Operation::State b) {
  for (const auto state : {v1::Operation::STATE_STARTING, v1::Operation::STATE_RUNNING,
                           v1::Operation::STATE_FAILED, v1::Operation::STATE_STOPPED}) {
    if (a == state || b == state) return state;
  }
  return a;
}

}  // namespace

void Add(const v1::Topic& more, v1::Topic* sum) {
  AddNumbers(more.counts(), sum->mutable_counts());
  sum->set_paused_by_restore(sum->paused_by_restore() || more.paused_by_restore());
}

void Add(const v1::Subscription& more, v1::Subscription* sum) {
  v1::SubscriptionCounts* const counts = sum->mutable_counts();
  AddNumbers(more.counts(), counts);
  if (Longer(more.counts().longest_key(), counts->longest_key())) {
    *counts->mutable_longest_key() = more.counts().longest_key();
  }
  v1::SubscriptionBacklog* const backlog = sum->mutable_backlog();
  AddNumbers(more.backlog(), backlog);
  if (!more.backlog().has_oldest_due_time()) return;
  if (!backlog->has_oldest_due_time() ||
      Before(more.backlog().oldest_due_time(), backlog->oldest_due_time())) {
    *backlog->mutable_oldest_due_time() = more.backlog().oldest_due_time();
  }
}

void Add(const v1::ForecastResponse& more, v1::ForecastResponse* sum) {
  // Both are in the order of time, and leave out what is empty.
  google::protobuf::RepeatedPtrField<v1::ForecastBucket> merged;
  int i = 0;
  for (const v1::ForecastBucket& bucket : more.buckets()) {
    while (i < sum->buckets_size() && Before(sum->buckets(i).start_time(), bucket.start_time())) {
      merged.Add()->Swap(sum->mutable_buckets(i++));
    }
    v1::ForecastBucket* const added = merged.Add();
    *added = bucket;
    if (i < sum->buckets_size() && !Before(bucket.start_time(), sum->buckets(i).start_time())) {
      AddNumbers(sum->buckets(i++).count(), added->mutable_count());
    }
  }
  while (i < sum->buckets_size()) merged.Add()->Swap(sum->mutable_buckets(i++));
  sum->mutable_buckets()->Swap(&merged);
  AddNumbers(more.overdue(), sum->mutable_overdue());
  AddNumbers(more.later(), sum->mutable_later());
  AddNumbers(more.total(), sum->mutable_total());
}

void Add(const v1::Operation& more, v1::Operation* sum) {
  sum->set_state(Worse(sum->state(), more.state()));
  sum->set_matched(sum->matched() + more.matched());
  sum->set_changed(sum->changed() + more.changed());
  sum->set_unchanged(sum->unchanged() + more.unchanged());
  sum->mutable_missing_places()->MergeFrom(more.missing_places());
  if (sum->state() == v1::Operation::STATE_RUNNING ||
      sum->state() == v1::Operation::STATE_STARTING) {
    sum->clear_end_time();
  } else if (Before(sum->end_time(), more.end_time())) {
    *sum->mutable_end_time() = more.end_time();
  }
  if (Before(more.create_time(), sum->create_time())) {
    *sum->mutable_create_time() = more.create_time();
  }
  // The slowest cell decides.
  if (!more.has_progress_time()) {
    if (more.state() == v1::Operation::STATE_RUNNING) sum->clear_progress_time();
  } else if (sum->has_progress_time() && Before(more.progress_time(), sum->progress_time())) {
    *sum->mutable_progress_time() = more.progress_time();
  }
  for (const v1::Message& message : more.sample()) {
    if (sum->sample_size() < kSampleMax) *sum->add_sample() = message;
  }
  if (more.has_error() && !sum->has_error()) *sum->mutable_error() = more.error();
}

void Add(const v1::Counts& more, v1::Counts* sum) { AddNumbers(more, sum); }

}  // namespace duetime::gateway
