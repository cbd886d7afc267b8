#include "simulator/planning/serving/step_predictor.h"

#include "simulator/base/status_macros.h"

namespace foretrace {

absl::StatusOr<std::shared_ptr<const serve::StepModel>> MakeStepPredictor(
    const ServingOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(const int32_t devices, DevicesOf(options));
  FORETRACE_ASSIGN_OR_RETURN(const ServingBase base, LoadServingBase(options, devices));
  ServingOptions any = options;
  any.kv_blocks = 1;  // steps do not depend on it
  FORETRACE_ASSIGN_OR_RETURN(const ServingJob job, MakeServingJob(base, any));
  // Of every size that a step can have, so that no call has one to compute.
  const serve::EngineConfig& engine = job.deployment.pool.config;
  serve::StepBatch batch;
  for (int32_t tokens = 1; tokens <= engine.max_num_batched_tokens; ++tokens) {
    batch.prefills = {{tokens, 0}};
    job.deployment.pool.model->Time(batch);
  }
  batch.prefills.clear();
  for (batch.decodes = 1; batch.decodes <= engine.max_num_seqs; ++batch.decodes) {
    batch.decode_cached = batch.decode_cached_max = batch.decodes;
    job.deployment.pool.model->Time(batch);
  }
  return job.deployment.pool.model;
}

}  // namespace foretrace
