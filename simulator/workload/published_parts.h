#pragma once
// What classes of configurations have in common.

#include <cstdint>

#include "simulator/workload/published_keys.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

// What all have. A class has so many heads of keys by default (0: as many as heads), heads of that
// size (0: the hidden size over heads), a tied output layer, and biases of queries, keys and
// values; it may leave the number of layers to a list of them.
struct ClassHas {
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  bool tied = false;
  bool qkv_biases = false;
  bool lists_layers = false;
};

void ReadSizes(PublishedKeys& keys, TransformerConfig& config, const ClassHas& has);
// With RMS norms, rotary positions and gated feed-forward layers.
void ReadLlama(PublishedKeys& keys, TransformerConfig& config, const ClassHas& has);
// Layers of which some attend to a window: a list of what each is, or all but every n-th; `window`
// and `every` are the class's.
void ReadWindows(PublishedKeys& keys, TransformerConfig& config, int64_t window, int64_t every);
void ReadExperts(PublishedKeys& keys, TransformerConfig& config);
// Experts in all but the first layers, with shared ones, as DeepSeek's have them.
void ReadDeepSeekExperts(PublishedKeys& keys, TransformerConfig& config);
// Experts in every n-th layer, as Qwen's have them.
void ReadQwenExperts(PublishedKeys& keys, TransformerConfig& config);

}  // namespace foretrace
