#include "simulator/cost/collective/message_size.h"

#include <algorithm>

#include "simulator/base/check.h"

namespace foretrace {

Bytes AllToAllMessageSize(std::span<const int64_t> splits, size_t members) {
  FORETRACE_CHECK(splits.size() == members * members);
  int64_t largest = 0;
  for (size_t i = 0; i < members; ++i) {
    int64_t sent = 0;
    int64_t received = 0;
    for (size_t j = 0; j < members; ++j) {
      sent += splits[i * members + j];
      received += splits[j * members + i];
    }
    largest = std::max({largest, sent, received});
  }
  return Bytes(largest);
}

}  // namespace foretrace
