#pragma once
// What was wrong with an input but could be repaired. Each kind is counted and keeps its first
// example; --strict turns the first of each kind into an error.

#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace foretrace {

// Every kind there is, in order of its name (diagnostics.cpp says what each does).
enum class Repair : uint8_t {
  kAssumedMicroseconds,
  kDanglingDependency,
  kDuplicateEvent,
  kDuplicateKey,
  kIgnoredInvolvedDim,
  kImplausibleParent,
  kInvalidNodeType,
  kMissingCommSize,
  kMissingCommType,
  kMissingDuration,
  kMissingLaunch,
  kMissingPeer,
  kNestedStepMark,
  kOverlappingOps,
  kSelfDependency,
  kStepGivenTwice,
  kStepWithoutDuration,
  kSyncWithoutCall,
  kUnknownAttribute,
  kUnknownCategory,
  kUnknownCommType,
  kUnlinkedOperator,
  kUnreadableProcessGroups,
  kUnrelatedClocks,
  kUnsupportedPhase,
  kUnusableArgument,
  kUnusableGroup,
  kCount,
};

// What a repair does to a simulation.
enum class Severity : uint8_t {
  kHarmless,  // nothing that is simulated is lost
  kAssumed,   // something else stands for what is missing
  kLost,      // something that is simulated was left out
};

struct RepairKind {
  std::string_view name;  // "self_dependency": stable, for reports
  Severity severity = Severity::kHarmless;
};
const RepairKind& KindOf(Repair repair);
// "harmless", "assumed", "left out"
std::string_view Name(Severity severity);

class Diagnostics {
 public:
  struct Entry {
    int64_t count = 0;
    std::string first;  // file and node of the first occurrence
  };

  // `where` says where it is, in text or by a function that returns it, which is asked for the
  // first of a kind alone.
  void Add(Repair repair, std::string_view where, int64_t count = 1);
  template <std::invocable Where>
  void Add(Repair repair, const Where& where, int64_t count = 1) {
    if (const auto it = entries_.find(repair); it != entries_.end()) {
      it->second.count += count;
    } else {
      entries_.emplace(repair, Entry{count, where()});
    }
  }
  void Merge(const Diagnostics& other);
  int64_t Count(Repair repair) const;
  bool empty() const { return entries_.empty(); }
  const std::map<Repair, Entry>& entries() const { return entries_; }
  // OK when nothing was recorded, else an error that names the first of each kind.
  absl::Status AsStrictError() const;

 private:
  std::map<Repair, Entry> entries_;
};

}  // namespace foretrace
