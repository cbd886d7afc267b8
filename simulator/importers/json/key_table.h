#pragma once
// What the keys of a document mean, for look-ups once per key of a large file.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/base/check.h"

namespace foretrace::json {

// Up to 255 known keys of up to 63 characters. Found by length, then by first and last character;
// few keys of a format share all three, so that text is compared about once.
template <typename Meaning>
class KeyTable {
 public:
  KeyTable(std::initializer_list<std::pair<std::string_view, Meaning>> entries)
      : entries_(entries) {
    FORETRACE_CHECK(entries_.size() < 256);
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
    for (const auto& [key, meaning] : entries_) {
      FORETRACE_CHECK(!key.empty() && key.size() < kLengths);
      ++first_[key.size() + 1];
    }
    for (size_t n = 1; n < first_.size(); ++n) {
      first_[n] = static_cast<uint8_t>(first_[n] + first_[n - 1]);
    }
  }

  // Null for a key that is not known.
  const Meaning* Find(std::string_view key) const {
    if (key.empty() || key.size() >= kLengths) return nullptr;
    for (size_t i = first_[key.size()]; i < first_[key.size() + 1]; ++i) {
      const std::string_view known = entries_[i].first;
      if (known.front() == key.front() && known.back() == key.back() &&
          std::memcmp(known.data(), key.data(), key.size()) == 0) {
        return &entries_[i].second;
      }
    }
    return nullptr;
  }

 private:
  static constexpr size_t kLengths = 64;
  std::vector<std::pair<std::string_view, Meaning>> entries_;  // by length
  std::array<uint8_t, kLengths + 1>
      first_{};  // entries of n characters: [first_[n], first_[n + 1])
};

}  // namespace foretrace::json
