#pragma once
// Configurations of models that have mixers with states beside or instead of attention: each layer
// is told as two of a pattern (layer_pattern.h), what mixes tokens and what is behind it.

#include "simulator/workload/published_keys.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

// Each as the class of that name in transformers has it.
void ReadNemotronH(PublishedKeys& keys, TransformerConfig& config);
void ReadFalconH1(PublishedKeys& keys, TransformerConfig& config);
void ReadGraniteHybrid(PublishedKeys& keys, TransformerConfig& config);
void ReadQwen3Next(PublishedKeys& keys, TransformerConfig& config);

}  // namespace foretrace
