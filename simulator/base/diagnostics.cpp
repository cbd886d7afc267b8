#include "simulator/base/diagnostics.h"

#include <fmt/format.h>

#include <array>

namespace foretrace {
namespace {

constexpr size_t kRepairs = static_cast<size_t>(Repair::kCount);

constexpr std::array<RepairKind, kRepairs> kKinds = {{
    // A Chakra schema without units.
    {"assumed_microseconds", Severity::kAssumed},
    // It names a node that is not in the file: dropped.
    {"dangling_dependency", Severity::kLost},
    // The same event came before: dropped.
    {"duplicate_event", Severity::kHarmless},
    // The first of two values of one key is taken.
    {"duplicate_key", Severity::kAssumed},
    // It names dimensions of a topology, which groups say better.
    {"ignored_involved_dim", Severity::kLost},
    // A later node, or one of a device, around a node of the CPU: dropped.
    {"implausible_parent", Severity::kLost},
    // Taken as metadata.
    {"invalid_node_type", Severity::kLost},
    {"missing_comm_size", Severity::kLost},
    {"missing_comm_type", Severity::kLost},
    // Counts as 0.
    {"missing_duration", Severity::kAssumed},
    // Device work keeps its recorded gap to the work before.
    {"missing_launch", Severity::kAssumed},
    {"missing_peer", Severity::kLost},
    // Within another: dropped.
    {"nested_step_mark", Severity::kHarmless},
    // Of one thread: the later is no part of the earlier.
    {"overlapping_ops", Severity::kAssumed},
    {"self_dependency", Severity::kHarmless},
    {"step_given_twice", Severity::kLost},
    {"step_without_duration", Severity::kLost},
    {"sync_without_call", Severity::kLost},
    {"unknown_attribute", Severity::kHarmless},
    {"unknown_category", Severity::kLost},
    {"unknown_comm_type", Severity::kLost},
    // An operator of the execution trace that the profile does not show.
    {"unlinked_operator", Severity::kLost},
    {"unreadable_process_groups", Severity::kLost},
    // Each rank begins at zero.
    {"unrelated_clocks", Severity::kAssumed},
    {"unsupported_phase", Severity::kLost},
    {"unusable_argument", Severity::kLost},
    {"unusable_group", Severity::kLost},
}};

// Reports list them by name.
constexpr bool Sorted() {
  for (size_t i = 1; i < kRepairs; ++i) {
    if (kKinds[i - 1].name >= kKinds[i].name) return false;
  }
  return true;
}
static_assert(Sorted());

}  // namespace

const RepairKind& KindOf(Repair repair) { return kKinds[static_cast<size_t>(repair)]; }

std::string_view Name(Severity severity) {
  constexpr std::array<std::string_view, 3> kNames = {"harmless", "assumed", "left out"};
  return kNames[static_cast<size_t>(severity)];
}

void Diagnostics::Add(Repair repair, std::string_view where, int64_t count) {
  auto it = entries_.find(repair);
  if (it == entries_.end()) it = entries_.emplace(repair, Entry{0, std::string(where)}).first;
  it->second.count += count;
}

void Diagnostics::Merge(const Diagnostics& other) {
  for (const auto& [repair, entry] : other.entries_) Add(repair, entry.first, entry.count);
}

int64_t Diagnostics::Count(Repair repair) const {
  const auto it = entries_.find(repair);
  return it == entries_.end() ? 0 : it->second.count;
}

absl::Status Diagnostics::AsStrictError() const {
  if (entries_.empty()) return absl::OkStatus();
  std::string message = "--strict: the input needs repairs:";
  const char* separator = " ";
  for (const auto& [repair, entry] : entries_) {
    message += fmt::format("{}{} ({}, first: {})", separator, KindOf(repair).name, entry.count,
                           entry.first);
    separator = "; ";
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace foretrace
