// SPDX-License-Identifier: Apache-2.0
//
// The tags of completion queues.
#pragma once

namespace duetime::rpc {

// An operation that has been started. Its result arrives once, on its queue's thread.
class CompletionTag {
 public:
  virtual void Complete(bool ok) = 0;

 protected:
  ~CompletionTag() = default;
};

// A tag that calls a member function. The owner has one such object for each kind of operation, so
// that starting an operation allocates nothing.
template <typename Owner, void (Owner::*kMethod)(bool)>
class MemberTag final : public CompletionTag {
 public:
  explicit MemberTag(Owner* owner) : owner_(owner) {}
  void Complete(bool ok) override { (owner_->*kMethod)(ok); }

 private:
  Owner* const owner_;
};

}  // namespace duetime::rpc
