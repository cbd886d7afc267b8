#include "simulator/serve/shared_prefix.h"

#include <map>
#include <optional>

namespace foretrace::serve {

void ShareEarlierPrefixes(std::span<const int32_t> shared_tokens, int32_t block_tokens,
                          RequestTrace& trace) {
  std::map<int32_t, size_t> latest;  // by blocks: the latest prompt of so many
  uint64_t next_id = 0;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    Request& request = trace.requests[i];
    const int32_t blocks = request.input_tokens / block_tokens;
    const int32_t shared = std::min(shared_tokens[i] / block_tokens, blocks);
    const auto like = latest.lower_bound(shared);
    std::optional<size_t> from;
    if (shared > 0 && like != latest.end()) {
      from = like->second;
      for (auto it = like; like->first != shared && it != latest.end(); ++it) {
        from = std::max(*from, it->second);
      }
    }
    request.prefix_begin = static_cast<uint32_t>(trace.prefix_ids.size());
    request.prefix_blocks = static_cast<uint32_t>(blocks);
    for (int32_t b = 0; b < blocks; ++b) {
      const uint64_t id =
          from && b < shared
              ? trace.prefix_ids[trace.requests[*from].prefix_begin + static_cast<size_t>(b)]
              : next_id++;
      trace.prefix_ids.push_back(id);
    }
    latest[blocks] = i;
  }
  trace.prefix_block_tokens = block_tokens;
}

}  // namespace foretrace::serve
