// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/linear_check.h"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_set>
#include <utility>

namespace duetime::linear {
namespace {

bool Answered(const Operation& operation) { return operation.answer != Answer::kUnknown; }

// Finds the states in which one stretch can end.
class Stretch {
 public:
  Stretch(std::span<const Operation> operations, size_t steps_max)
      : operations_(operations), steps_max_(steps_max) {}

  // Returns false if the search takes too many steps.
  bool Search(const std::vector<State>& starts) {
    for (const State& start : starts) Visit({std::vector<bool>(operations_.size()), 0, start});
    while (!stack_.empty()) {
      if (steps_ > steps_max_) return false;
      Node node = std::move(stack_.back());
      stack_.pop_back();
      Expand(node);
    }
    return true;
  }

  std::vector<State> TakeEnds() { return std::move(ends_); }
  size_t steps() const { return steps_; }
  // The order in which the search came furthest, as text.
  std::string Furthest() const {
    std::string text = "explained at most " + std::to_string(furthest_.count) +
                       ", then: " + furthest_.state.Text() + "\n";
    for (size_t i = 0; i < operations_.size(); ++i) {
      const bool done = !furthest_.done.empty() && furthest_.done[i];
      text += (done ? "  explained " : "            ") + ToText(operations_[i]) + "\n";
    }
    return text;
  }

 private:
  struct Node {
    std::vector<bool> done;
    size_t count = 0;
    State state;
  };

  void Visit(Node node) {
    std::string name(node.done.begin(), node.done.end());
    if (!visited_.insert(std::move(name) + node.state.Text()).second) return;
    if (furthest_.done.empty() || node.count > furthest_.count) furthest_ = node;
    bool over = true;
    for (size_t i = 0; i < operations_.size(); ++i) {
      over = over && (node.done[i] || !Answered(operations_[i]));
    }
    if (over && found_.insert(node.state.Text()).second) ends_.push_back(node.state);
    stack_.push_back(std::move(node));
  }

  void Expand(const Node& node) {
    // An operation that begins after an answer comes after the answered operation.
    int64_t first_over_us = kNever;
    for (size_t i = 0; i < operations_.size(); ++i) {
      if (node.done[i] || !Answered(operations_[i])) continue;
      first_over_us = std::min(first_over_us, operations_[i].over_us);
    }
    std::vector<State> next;
    for (size_t i = 0; i < operations_.size(); ++i) {
      if (node.done[i]) continue;
      if (operations_[i].begun_us > first_over_us) break;
      next.clear();
      Step(node.state, operations_[i], &next);
      ++steps_;
      for (State& state : next) {
        Node after = {node.done, node.count + 1, std::move(state)};
        after.done[i] = true;
        Visit(std::move(after));
      }
    }
  }

  const std::span<const Operation> operations_;
  const size_t steps_max_;
  std::vector<Node> stack_;
  std::unordered_set<std::string> visited_;
  std::unordered_set<std::string> found_;
  std::vector<State> ends_;
  Node furthest_;
  size_t steps_ = 0;
};

// Sorts the operations by their start. An unanswered operation ends when the daemon is dead.
std::vector<Operation> Sorted(const Run& run) {
  std::vector<Operation> operations = run.operations;
  for (Operation& operation : operations) {
    operation.over_us = std::min(operation.over_us, run.dead_us);
  }
  std::stable_sort(operations.begin(), operations.end(),
                   [](const Operation& a, const Operation& b) { return a.begun_us < b.begun_us; });
  return operations;
}

// The length of the first stretch, which ends at the first moment without an open operation.
size_t CutLength(std::span<const Operation> operations) {
  int64_t over_us = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    if (i > 0 && operations[i].begun_us > over_us) return i;
    over_us = std::max(over_us, Answered(operations[i]) ? operations[i].over_us : kNever);
  }
  return operations.size();
}

// Removes ended messages that no later operation names, and then removes duplicate states.
class Pruner {
 public:
  explicit Pruner(const std::vector<Run>& runs) {
    for (const Run& run : runs) {
      for (const Operation& operation : run.operations) {
        for (const std::string& id : {operation.target_id, operation.id, operation.previous_id}) {
          if (!id.empty()) last_us_[id] = std::max(last_us_[id], operation.begun_us);
        }
      }
    }
  }

  std::vector<State> Prune(std::vector<State> states, int64_t now_us) const {
    std::unordered_set<std::string> seen;
    std::vector<State> kept;
    for (State& state : states) {
      State shorter;
      for (size_t i = 0; i < state.messages.size(); ++i) {
        const Message& message = state.messages[i];
        const auto last = last_us_.find(message.id);
        const bool named = last != last_us_.end() && last->second >= now_us;
        const bool holds = static_cast<int>(i) == state.holder;
        if (!holds && !named && message.end != Message::End::kPending) continue;
        if (holds) shorter.holder = static_cast<int>(shorter.messages.size());
        shorter.messages.push_back(message);
      }
      if (seen.insert(shorter.Text()).second) kept.push_back(std::move(shorter));
    }
    return kept;
  }

 private:
  // The start of the last operation that names the id, in microseconds.
  std::map<std::string, int64_t> last_us_;
};

std::string Describe(const std::vector<State>& starts, const Stretch& stretch) {
  std::string text;
  for (size_t i = 0; i < starts.size() && i < 5; ++i) {
    text += "may begin as: " + starts[i].Text() + "\n";
  }
  return text + stretch.Furthest();
}

bool NothingPending(const State& state) {
  return std::all_of(state.messages.begin(), state.messages.end(),
                     [](const Message& m) { return m.end != Message::End::kPending; });
}

}  // namespace

Verdict Check(const std::vector<Run>& runs, size_t steps_max) {
  Verdict verdict;
  const Pruner pruner(runs);
  std::vector<State> states(1);
  for (size_t number = 0; number < runs.size(); ++number) {
    const std::vector<Operation> operations = Sorted(runs[number]);
    std::span<const Operation> rest = operations;
    while (!rest.empty()) {
      const size_t length = CutLength(rest);
      Stretch stretch(rest.first(length), steps_max);
      const bool searched = stretch.Search(states);
      verdict.steps += stretch.steps();
      verdict.longest = std::max(verdict.longest, length);
      std::vector<State> ends = stretch.TakeEnds();
      if (!searched || ends.empty()) {
        verdict.result = searched ? Verdict::Result::kNotLinearizable : Verdict::Result::kTooLarge;
        verdict.text = "run " + std::to_string(number + 1) + "\n" + Describe(states, stretch);
        return verdict;
      }
      states = pruner.Prune(std::move(ends), rest[length - 1].begun_us);
      rest = rest.subspan(length);
    }
    if (number + 1 < runs.size()) {
      for (State& state : states) Restart(&state);
    }
  }
  if (std::none_of(states.begin(), states.end(), NothingPending)) {
    verdict.result = Verdict::Result::kLost;
    verdict.text = "left at the end: " + states.front().Text();
  }
  return verdict;
}

}  // namespace duetime::linear
