#include "simulator/api/foretrace_step.h"

#include <cstring>
#include <memory>

#include "simulator/planning/serving/step_predictor.h"

struct foretrace_step_predictor {
  std::shared_ptr<const foretrace::serve::StepModel> model;
};

extern "C" {

foretrace_step_predictor* foretrace_step_open(const char* model, const char* platform,
                                              const char* parallel, const char* profile,
                                              char* error, size_t error_size) {
  foretrace::ServingOptions options;
  options.model = model;
  options.platform = platform;
  options.parallel = parallel;
  if (profile != nullptr) options.profiles = profile;
  auto steps = foretrace::MakeStepPredictor(options);
  if (steps.ok()) return new foretrace_step_predictor{*std::move(steps)};
  if (error_size > 0) {
    const auto message = steps.status().message();
    const size_t size = message.size() < error_size - 1 ? message.size() : error_size - 1;
    std::memcpy(error, message.data(), size);
    error[size] = '\0';
  }
  return nullptr;
}

int foretrace_step_predict(const foretrace_step_predictor* predictor,
                           const foretrace_step_batch* batch, foretrace_step_time* time) {
  foretrace::serve::StepBatch step;
  for (size_t i = 0; i < batch->chunks; ++i) {
    if (batch->chunk_tokens[i] <= 0 || batch->chunk_cached[i] < 0) return 2;
    step.prefills.push_back({batch->chunk_tokens[i], batch->chunk_cached[i]});
  }
  if (batch->decodes < 0 || batch->decode_cached < 0) return 2;
  step.decodes = batch->decodes;
  step.decode_cached = batch->decodes > 0 ? batch->decode_cached : 0;
  if (step.decodes > 0) {
    step.decode_cached_max = static_cast<int32_t>(step.decode_cached / step.decodes);
  }
  if (step.empty()) return 2;
  const foretrace::serve::StepTime predicted = predictor->model->Time(step);
  time->us = predicted.us();
  time->calibrated = predicted.share(foretrace::EstimateSource::kCalibrated);
  time->analytic = predicted.share(foretrace::EstimateSource::kAnalytic);
  time->extrapolated = predicted.us() > 0 ? predicted.extrapolated / predicted.total() : 0;
  return 0;
}

void foretrace_step_close(foretrace_step_predictor* predictor) { delete predictor; }

}  // extern "C"
