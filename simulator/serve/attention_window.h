#pragma once
// How far back tokens attend.

#include <cstdint>

namespace foretrace::serve {

struct AttentionWindow {
  int64_t tokens = 0;   // of which a token attends to the last, its own included; 0: to all
  bool pieces = false;  // instead of the last those of its own piece, which is `tokens` long

  // Tokens before the one at `position`, which has as many before it, that it attends to.
  int64_t Before(int64_t position) const;
  // GEMMs of queries and keys of `count` tokens after `cached`, their own keys included.
  int64_t Pairs(int64_t cached, int64_t count) const;
  // Whether any of them does not attend to all before it.
  bool Cuts(int64_t cached, int64_t count) const { return tokens > 0 && cached + count > tokens; }
};

}  // namespace foretrace::serve
