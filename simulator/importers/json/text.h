#pragma once
// Numbers, lists and strings as they stand in JSON traces.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace::json {

// A time with picosecond resolution and the range of int64 microseconds.
struct Microseconds {
  int64_t us = 0;
  int32_t ps = 0;  // 0 .. 999,999; time = us + ps * 1e-6 us
};

// A time in microseconds ("1682725898236567.123", "1.5e3"), exact to the picosecond: decimals past
// the sixth are cut off. nullopt when it is no finite number or out of int64 microseconds.
std::optional<Microseconds> ParseMicroseconds(std::string_view text);

// An integer; unsigned 64-bit values above int64 wrap to negative ones, as ids do in C. A fraction
// of zero ("7.0") and hexadecimal with 0x are accepted.
std::optional<int64_t> ParseInteger(std::string_view text);

// "[1, 2, 3]" or "1,2,3"; nullopt when an element is no integer, as in "[0, 1, ..., 63]".
std::optional<std::vector<int64_t>> ParseIntegerList(std::string_view text);

bool IsValidUtf8(std::string_view text);

}  // namespace foretrace::json
