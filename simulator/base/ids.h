#pragma once
// 32-bit index types that do not convert into each other.

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

namespace foretrace {

template <typename Tag>
struct Id {
  uint32_t value = kNone;

  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  constexpr Id() = default;
  explicit constexpr Id(uint32_t v) : value(v) {}
  constexpr bool valid() const { return value != kNone; }
  constexpr auto operator<=>(const Id&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value);
  }
};

}  // namespace foretrace
