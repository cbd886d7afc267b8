#include "simulator/engine/observer.h"

#include <array>

#include "simulator/base/enum_names.h"

namespace foretrace {

std::string_view Name(WaitCause cause) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "none",      "program_order", "launch",       "dependency", "collective_arrival", "network",
      "cpu_block", "device_room",   "launch_queue", "start_skew", "communicator_busy"};
  return EnumName(kNames, cause);
}

}  // namespace foretrace
