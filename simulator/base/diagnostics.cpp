#include "simulator/base/diagnostics.h"

#include <fmt/format.h>

namespace foretrace {

void Diagnostics::Add(std::string_view kind, std::string_view where, int64_t count) {
  auto it = entries_.find(kind);
  if (it == entries_.end()) {
    it = entries_.emplace(std::string(kind), Entry{0, std::string(where)}).first;
  }
  it->second.count += count;
}

void Diagnostics::Merge(const Diagnostics& other) {
  for (const auto& [kind, entry] : other.entries_) Add(kind, entry.first, entry.count);
}

int64_t Diagnostics::Count(std::string_view kind) const {
  const auto it = entries_.find(kind);
  return it == entries_.end() ? 0 : it->second.count;
}

absl::Status Diagnostics::AsStrictError() const {
  if (entries_.empty()) return absl::OkStatus();
  std::string message = "--strict: the input needs repairs:";
  const char* separator = " ";
  for (const auto& [kind, entry] : entries_) {
    message += fmt::format("{}{} ({}, first: {})", separator, kind, entry.count, entry.first);
    separator = "; ";
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace foretrace
