#pragma once
// Which layers of a model are alike: by their feed-forward parts, and by how far back they attend.

#include <vector>

#include "absl/status/status.h"
#include "simulator/serve/attention_window.h"
#include "simulator/serve/serving_plan.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace::serve {

// Layers whose feed-forward parts are alike: dense, or experts.
struct FeedForwardKind {
  TransformerConfig config;  // of a model that had no other layers
  TransformerGraph graph;
  int64_t layers = 0;
};
std::vector<FeedForwardKind> FeedForwardKinds(const TransformerConfig& model);

// Layers that attend alike.
struct AttentionKind {
  AttentionWindow window;
  int64_t layers = 0;
};
std::vector<AttentionKind> AttentionKinds(const TransformerConfig& model);

// Elements that a token has in a layer's cache on one device: keys and values of its heads; with
// latent attention the latent and the rotated key, which every tensor-parallel rank holds whole.
int64_t CacheElements(const TransformerConfig& model, int64_t tensor);

// How the weights of an operator are stored.
WeightFormat FormatOf(const TransformerConfig& model, const GraphOp& op);

// A device's local sizes for so many of its tokens.
Binding BindServing(const FeedForwardKind& kind, const ServingPlan& plan, int64_t tokens);

// Errors: layers of several kinds, or of latent attention, which layer profiles and the studies of
// one layer do not have.
absl::Status CheckUniform(const TransformerConfig& model);

}  // namespace foretrace::serve
