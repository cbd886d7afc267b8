#pragma once
// What a row of a table of operators moves and computes, and how long that takes at the table's own
// rates: times relative to it change little with a size, so that they say something of rows on
// either side.

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "simulator/base/real_quantities.h"

namespace foretrace::serve {

struct OperatorWork {
  RealBytes bytes;
  Flop flop;
  double steps = 0;  // keys that a query meets, which blocks may take one after the other
};

// A number, or the text, of a row's column; 0 or empty where the table has no such column.
struct OperatorColumns {
  std::function<double(std::string_view)> number;
  std::function<std::string_view(std::string_view)> text;
};

// Bytes of a value of a column's type; four bits with the scale of 32 values.
double WidthOfType(std::string_view type);
// Weight matrices of an expert: three, or two of those that are not gated.
double ExpertMatrices(const OperatorColumns& row);

// y[m,n] = x[m,k] W.
OperatorWork GemmWork(const OperatorColumns& row);
// Expert GEMMs of one rank: the weights of all experts that get a token, tokens being dealt evenly.
OperatorWork ExpertWork(const OperatorColumns& row);
// Causal prompts of `isl` tokens, or one token of each sequence over `step` cached ones, within a
// window where there is one.
OperatorWork AttentionWork(const OperatorColumns& row);
// The same over latents of 512 values with 64 of the position (DeepSeek).
OperatorWork LatentAttentionWork(const OperatorColumns& row);

// The shortest of the rows, and what bytes, FLOP and steps take at the rates that the fastest rows
// reach.
struct OperatorRates {
  RealMs floor;
  double bytes_per_ms = 0, flop_per_ms = 0, steps_per_ms = 0;

  // Of bytes and FLOP, one after the other.
  RealMs TimeOf(const OperatorWork& work) const;
};
struct MeasuredWork {
  OperatorWork work;
  RealMs time;
};
OperatorRates RatesOf(std::span<const MeasuredWork> rows);

}  // namespace foretrace::serve
