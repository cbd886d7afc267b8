#include "simulator/serve/step_model.h"

namespace foretrace::serve {

std::string_view Name(StepPart part) {
  static constexpr std::array<std::string_view, static_cast<size_t>(StepPart::kCount)> kNames = {
      "dense", "attention", "experts", "head", "communication"};
  return kNames[static_cast<size_t>(part)];
}

}  // namespace foretrace::serve
