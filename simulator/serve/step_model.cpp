#include "simulator/serve/step_model.h"

namespace foretrace::serve {

int64_t StepBatch::DecodeCached(const AttentionWindow& window) const {
  if (window.tokens == 0 || decodes == 0) return decode_cached;
  if (decode_lengths.empty()) return decodes * window.Before(decode_cached / decodes);
  int64_t sum = 0;
  for (const int32_t cached : decode_lengths) sum += window.Before(cached);
  return sum;
}

std::string_view Name(StepPart part) {
  static constexpr std::array<std::string_view, static_cast<size_t>(StepPart::kCount)> kNames = {
      "dense", "attention", "states", "experts", "head", "communication"};
  return kNames[static_cast<size_t>(part)];
}

}  // namespace foretrace::serve
