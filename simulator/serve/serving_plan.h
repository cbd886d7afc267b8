#pragma once
// How a model is divided over the devices of one engine.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/workload/transformer.h"

namespace foretrace::serve {

struct ServingPlan {
  int32_t tensor = 1;    // heads and widths of layers
  int32_t pipeline = 1;  // layers
  int32_t data = 1;      // sequences; weights outside of experts are held by each
  // Keys and values of every sequence, by position (cache parallelism); all else as `data`.
  int32_t kv = 1;
  bool expert = false;  // experts are divided over all devices of a stage, each whole

  int32_t stage_devices() const { return tensor * data * kv; }
  int32_t devices() const { return stage_devices() * pipeline; }
  int32_t expert_degree() const { return expert ? stage_devices() : 1; }
  // Errors: degrees that do not divide the model.
  absl::Status Fits(const TransformerConfig& model) const;
};

// "tp4 pp2 dp2 ep kvp2", any of them, in any order.
absl::StatusOr<ServingPlan> ParseServingPlan(std::string_view text);
std::string Text(const ServingPlan& plan);

}  // namespace foretrace::serve
