#pragma once
// What a row of a table of operators moves and computes, and how long that takes at the table's own
// rates: times relative to it change little with a size, so that they say something of rows on
// either side.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "simulator/base/real_quantities.h"

namespace foretrace::serve {

struct OperatorWork {
  RealBytes bytes;
  Flop flop;
  double steps = 0;   // keys that a query meets, which a block takes one after the other
  double blocks = 0;  // that queries are divided into, however few keys they meet
};

// A number of at least 0, or the text, of a row's column; 0 or empty where the row states none.
struct OperatorColumns {
  std::function<double(std::string_view)> number;
  std::function<std::string_view(std::string_view)> text;
};

// Of a row of GEMMs or of attention; 0: its table does not say.
struct CallSizes {
  double m = 0, n = 0, k = 0;
  double sequences = 0, heads = 0, key_heads = 0, head = 0, window = 0;
  double prompt = 0, cached = 0;  // tokens of each sequence
  double width = 2;               // bytes of a value of the GEMM's operands, or of the cache
};
CallSizes GemmSizes(const OperatorColumns& row);
CallSizes AttentionSizes(const OperatorColumns& row);

// Of a row of experts' GEMMs; 0: its table does not say.
struct ExpertSizes {
  double experts = 0, devices = 1, top_k = 0;
  double tokens = 0;             // over all devices, before each goes to top_k experts
  double hidden = 0, inter = 0;  // `inter`: of the part of an expert that a device has
  double matrices = 3;           // of an expert; those that are not gated have two
  double width = 2;              // bytes of a value of weights and activations
  double exponent = 0;           // of the power law of experts' popularity; 0: all are alike
};
ExpertSizes ExpertSizesOf(const OperatorColumns& row);

using OperatorSizes = std::variant<CallSizes, ExpertSizes>;

// y[m,n] = x[m,k] W.
OperatorWork GemmWork(const CallSizes& sizes);
// Of a rank in the mean, as one kernel: the weights of all experts that get a token, tokens being
// dealt evenly. Of the most loaded, kernel by kernel: operator_features.h.
OperatorWork ExpertWork(const ExpertSizes& sizes);
// Causal prompts, or one token of each sequence over the cached ones, within a window where there
// is one.
OperatorWork AttentionWork(const CallSizes& sizes);
// The same over latents of 512 values with 64 of the position (DeepSeek).
OperatorWork LatentAttentionWork(const CallSizes& sizes);

// The shortest of the rows, and what bytes, FLOP, steps and blocks take at the rates that the
// fastest rows reach.
struct OperatorRates {
  RealMs floor;
  double bytes_per_ms = 0, flop_per_ms = 0, steps_per_ms = 0, blocks_per_ms = 0;

  // The floor, bytes and FLOP one after the other: longer than work takes whose memory and
  // arithmetic overlap, but without a bend where the one overtakes the other, so that times
  // relative to it may be interpolated.
  RealMs InSequence(const OperatorWork& work) const;
  // The floor, and of each kernel what bounds it: memory, arithmetic, its steps or its blocks.
  RealMs Overlapped(std::span<const OperatorWork> kernels) const;
};
struct MeasuredWork {
  OperatorWork work;
  RealMs time;
};
OperatorRates RatesOf(std::span<const MeasuredWork> rows);

}  // namespace foretrace::serve
