#pragma once
// What an engine's memory goes to, and what is left for keys and values.

#include <string>
#include <vector>

#include "simulator/base/units.h"
#include "simulator/serve/engine_config.h"
#include "simulator/serve/serving_plan.h"

namespace foretrace::serve {

// Of one device; blocks and tokens of its data-parallel rank.
struct MemoryLedger {
  Bytes device;        // capacity
  Bytes available;     // that the engine takes of it
  Bytes weights;       // of the stage that holds most
  Bytes activations;   // of a step with as many tokens as may be, as the engine measures at start
  Bytes reserve;       // driver, libraries, captured graphs
  Bytes kv;            // what is left
  Bytes kv_per_token;  // in layers without a window
  CacheWindow window;
  // Of models with state-space mixers: what a sequence keeps, and where that does not lie in blocks
  // of the cache, its memory and how many sequences that has room for.
  Bytes state_per_sequence, states;
  int64_t most_sequences = 0;
  int32_t block_tokens = 0;  // as the engine makes them for this model
  // Of the engine's own blocks, as many as a layer's states of a sequence fill; those of this model
  // are as large, up to a bound. 0: states do not lie in them.
  int64_t blocks_of_states = 0;
  static constexpr int64_t kMostBlocksOfStates = 1 << 14;
  int64_t blocks = 0;
  int64_t tokens = 0;   // that they hold of one request, beside its window
  int64_t context = 0;  // the longest request that is to be served

  // As engines ask when they start: the longest request has room.
  bool fits() const { return tokens >= context && fits_states(); }
  // The states of one sequence have, however many blocks there are.
  bool fits_states() const {
    return blocks_of_states <= kMostBlocksOfStates && (states == Bytes() || most_sequences > 0);
  }
};

// `engine` with the limits of a rank (EngineConfig::OfRank). With a draft model on the same
// devices, which holds weights and keys and values too; null: none.
MemoryLedger MakeLedger(const TransformerConfig& model, const ServingPlan& plan,
                        const EngineConfig& engine, Bytes device,
                        const TransformerConfig* draft = nullptr);

// One line: how many tokens fit, or what is missing.
std::string Verdict(const MemoryLedger& ledger);

}  // namespace foretrace::serve
