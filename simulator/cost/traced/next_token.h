#pragma once
// What a recorded job trains a model to say.

#include "simulator/cost/traced/launch_flow.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Whether it trains a model to say the next token of texts. Each token has a loss over many words,
// and
//
// - queries and keys are turned by their positions (rotary embeddings), as in Llama and what came
//   after, or norms stand before layers, as in GPT-2, so that their gradients are added to what
//   passes them by; BERT and RoBERTa have them behind;
// - what is given to the last layer is a sum's norm; models of masked words, such as BERT, ESM-2
//   and ModernBERT, have a layer with an activation before it.
bool SaysNextToken(const RankTrace& rank, const LaunchFlow& flow);

}  // namespace foretrace
