#include "simulator/engine/observer.h"

#include <array>

#include "simulator/base/enum_names.h"

namespace foretrace {

std::string_view Name(WaitCause cause) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "none",    "program_order", "launch",      "dependency",   "collective_arrival",
      "network", "cpu_block",     "cpu_handoff", "launch_queue", "start_skew"};
  return EnumName(kNames, cause);
}

}  // namespace foretrace
