#pragma once
// Whole prompts and tokens as measured on a few settings of a served model (Splitwise's table:
// model,hardware,tensor_parallel,batch_size,prompt_tokens,output_tokens,prompt_ms,
// time_between_tokens_ms), and what lies between them.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/real_quantities.h"
#include "simulator/serve/interpolation.h"

namespace foretrace::serve {

// Repeats of one setting, averaged.
struct IterationRow {
  std::string deployment;  // "llama2-70b a100-80gb tp2"
  int32_t batch = 0, prompt = 0, output = 0;
  RealMs prompt_time, token_time;

  double prompt_tokens() const { return static_cast<double>(batch) * prompt; }
};
// In order of the settings. Errors name file and line.
absl::StatusOr<std::vector<IterationRow>> ReadIterationTable(const std::string& file);

// One deployment's times: of a prompt by the tokens of its batch, linear between logarithms (the
// time of a step is near a power of its tokens piece by piece: weights, then GEMMs, then
// attention dominate); of a token by sequences, linear.
class IterationModel {
 public:
  // Errors: no rows.
  static absl::StatusOr<IterationModel> Fit(const std::vector<IterationRow>& rows);
  RealMs PromptTime(double tokens) const;
  RealMs TokenTime(double sequences) const;

 private:
  Curve prompt_;  // logarithms of both, the time in ms
  Curve token_;   // ms
};

struct IterationErrors {
  size_t fitted = 0, held_out = 0;
  double prompt_median_percent = 0, prompt_p90_percent = 0;
  double token_median_percent = 0, token_p90_percent = 0;
};
// Each setting of a deployment is predicted once, from the two thirds that it is not in: settings
// are dealt to three parts in turn, repeats of one together.
absl::StatusOr<IterationErrors> HoldOutThirds(const std::vector<IterationRow>& rows);

std::string IterationText(const std::string& file, const IterationErrors& errors);
std::string IterationJson(const std::string& file, const IterationErrors& errors);

}  // namespace foretrace::serve
