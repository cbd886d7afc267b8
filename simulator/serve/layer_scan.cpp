#include "simulator/serve/layer_scan.h"

#include <algorithm>

namespace foretrace::serve {

LayerScan::LayerScan(const TransformerConfig& model, const ServingPlan& plan,
                     const EngineConfig& engine, std::shared_ptr<const DeviceCosts> costs)
    : costs_(std::move(costs)),
      layers_(StateLayersOf(model, plan)),
      state_width_(StateWidth(model, engine)),
      normed_(model.state_norm),
      launch_gap_(engine.launch_gap()) {}

void LayerScan::Add(const StepBatch& batch, StepTime& time) const {
  if (!layers_) return;
  AddPrompts(batch, time);
  if (batch.decodes == 0) return;
  for (const KernelWork& work :
       UpdateKernels(layers_->scan, batch.decodes, batch.tokens_per_decode, state_width_)) {
    AddKernel(work, time);
  }
  AddGate(int64_t{batch.decodes} * batch.tokens_per_decode, time);
}

void LayerScan::AddGate(int64_t tokens, StepTime& time) const {
  if (normed_) return;
  const StateScan& scan = layers_->scan;
  const int64_t elements = tokens * scan.groups * scan.width;
  for (const KernelWork& work : Kernels({ElementwiseOp{elements, elements}, scan.dtype})) {
    AddKernel(work, time);
  }
}

// Chunks of a prompt that goes on begin where those before it end, or with its own first token
// (delta rules: vllm/model_executor/layers/fla/ops/index.py, prepare_chunk_indices).
void LayerScan::AddPrompts(const StepBatch& batch, StepTime& time) const {
  if (batch.prefills.empty()) return;
  StateScan scan = layers_->scan;
  scan.samples = 1;
  scan.tokens = batch.prefill_tokens();
  PromptScan prompts;
  prompts.state_width = state_width_;
  prompts.sequences = static_cast<int64_t>(batch.prefills.size());
  for (const PrefillChunk& part : batch.prefills) {
    const int64_t before = scan.delta ? 0 : part.cached % scan.chunk;
    const int64_t own = (before + part.tokens + scan.chunk - 1) / scan.chunk;
    prompts.chunks += own;
    prompts.longest = std::max(prompts.longest, own);
    prompts.continued += part.cached > 0 ? 1 : 0;
  }
  for (const OperatorCall& call : PromptScanCalls(scan, prompts)) {
    for (const KernelWork& work : Kernels(call)) AddKernel(work, time);
  }
  AddGate(scan.tokens, time);
}

void LayerScan::AddKernel(const KernelWork& work, StepTime& time) const {
  Estimate e = costs_->Kernel(work);
  const double least = LeastSecondsOfDecays(layers_->scan, work, costs_->Multiprocessors());
  if (least > e.time.seconds()) {
    e = {SimTime::FromUs(least * 1e6), EstimateSource::kAnalytic, e.extrapolated};
  }
  const auto times = static_cast<double>(layers_->layers);
  time.Add(StepPart::kStates, RealUs((e.time + launch_gap_).us() * times), e.source,
           e.extrapolated);
  time.joules +=
      times * costs_->JoulesAboveIdle(work.dtype, work.flop, Bytes(work.total_bytes()), e.time);
}

}  // namespace foretrace::serve
