#pragma once
// A transformer whose weights are easily counted.

#include "simulator/workload/transformer.h"

namespace foretrace {

// hidden 1024, 16 heads, sequence 1024: a layer has 12 h^2 + 13 h weights, the embedding 2,048 h
// and 1,024 h of positions, the output layer with the final norm 2,050 h where it has a table of
// its own (`tied` false).
inline TransformerConfig SmallModel(bool tied = false) {
  TransformerConfig c;
  c.hidden = 1024;
  c.layers = 4;
  c.heads = 16;
  c.vocabulary = 2048;
  c.sequence = 1024;
  if (!tied) c.tied = false;
  return c;
}

}  // namespace foretrace
