#include "simulator/report/time_unit.h"

#include <fmt/format.h>

namespace foretrace {

std::string TimeUnit::Number(SimTime time) const {
  return ms_ ? fmt::format("{:.3f}", time.us() * 1e-3) : fmt::format("{:.1f}", time.us());
}

std::string TimeUnit::Signed(SimTime time) const {
  return ms_ ? fmt::format("{:+.3f}", time.us() * 1e-3) : fmt::format("{:+.1f}", time.us());
}

std::string TimeUnit::Text(SimTime time) const {
  return fmt::format("{} {}", Number(time), name());
}

}  // namespace foretrace
