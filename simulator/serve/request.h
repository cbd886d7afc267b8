#pragma once
// What a serving engine is asked to do.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "simulator/base/time.h"

namespace foretrace::serve {

struct Request {
  SimTime arrival;
  int32_t input_tokens = 0;
  int32_t output_tokens = 0;
  int32_t priority = 0;  // lower is served first
  // Prefix blocks in RequestTrace::prefix_ids: equal numbers are equal prefixes.
  uint32_t prefix_begin = 0;
  uint32_t prefix_blocks = 0;
};

struct RequestTrace {
  std::string source;  // file or generator, for messages
  std::vector<Request> requests;
  std::vector<uint64_t> prefix_ids;
  int32_t prefix_block_tokens = 0;  // tokens that one prefix id stands for; 0: there are none
  bool generated = false;           // drawn, not read from a file

  std::span<const uint64_t> PrefixOf(const Request& request) const {
    return std::span(prefix_ids).subspan(request.prefix_begin, request.prefix_blocks);
  }
};

// Lengths and times that no request has: longer than any model's context, later than a month.
inline constexpr int32_t kMaxTokens = 1 << 28;
inline constexpr double kMaxArrivalSeconds = 86400.0 * 31;

// Sorts by arrival; requests of one instant keep their order.
void SortByArrival(RequestTrace& trace);

}  // namespace foretrace::serve
