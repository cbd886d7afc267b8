#include "simulator/serve/attention_window.h"

#include <algorithm>

namespace foretrace::serve {
namespace {

// 0 + 1 + ... + (n - 1).
int64_t SumBelow(int64_t n) { return n * (n - 1) / 2; }

}  // namespace

int64_t AttentionWindow::Before(int64_t position) const {
  if (tokens == 0) return position;
  return pieces ? position % tokens : std::min(position, tokens - 1);
}

int64_t AttentionWindow::Pairs(int64_t cached, int64_t count) const {
  const auto before_all = [&](int64_t end) {  // of the tokens at positions below `end`
    if (tokens == 0) return SumBelow(end);
    if (pieces) return end / tokens * SumBelow(tokens) + SumBelow(end % tokens);
    const int64_t whole = std::min(end, tokens);
    return SumBelow(whole) + (end - whole) * (tokens - 1);
  };
  return before_all(cached + count) - before_all(cached) + count;
}

}  // namespace foretrace::serve
