#include "simulator/base/estimate.h"

#include "simulator/base/enum_names.h"

namespace foretrace {

std::string_view Name(EstimateSource source) {
  static constexpr std::array<std::string_view, 4> kNames = {"recorded", "calibrated", "analytic",
                                                             "missing"};
  return EnumName(kNames, source);
}

}  // namespace foretrace
