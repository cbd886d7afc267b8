#pragma once
// How much of a long task is done.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace foretrace {

// Who is told; empty: nobody.
using ProgressSink = std::function<void(std::string_view what, int64_t done, int64_t total)>;

inline void Tell(const ProgressSink& sink, std::string_view what, size_t done, size_t total) {
  if (sink) sink(what, static_cast<int64_t>(done), static_cast<int64_t>(total));
}

}  // namespace foretrace
