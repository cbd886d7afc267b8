#pragma once
// What a file is, by how it begins.

#include <cstddef>
#include <string_view>

namespace foretrace {

// Of a file so many bytes at its start are looked at.
inline constexpr size_t kModelTextBytes = size_t{64} << 10;

// Whether a file that begins so ends there, too, and is JSON; more may have been anything.
inline bool IsSmallJson(std::string_view start) {
  const size_t first = start.find_first_not_of(" \t\r\n");
  const size_t last = start.find_last_not_of(" \t\r\n");
  return first != std::string_view::npos && start.size() < kModelTextBytes &&
         ((start[first] == '{' && start[last] == '}') ||
          (start[first] == '[' && start[last] == ']'));
}

// Whether it is a model's sizes as Hugging Face's transformers writes them (config.json), whatever
// it is called.
inline bool StatesModelType(std::string_view start) {
  return IsSmallJson(start) && start.find("\"model_type\"") != std::string_view::npos &&
         start.find("\"traceEvents\"") == std::string_view::npos;
}

}  // namespace foretrace
