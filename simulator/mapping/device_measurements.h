#pragma once
// What was measured on a device and its neighbours, in place of closed forms.

#include <cstdint>
#include <optional>
#include <string>

#include "simulator/base/units.h"

namespace foretrace {

// Thread-safe. nullopt: nothing was measured that tells.
class DeviceMeasurements {
 public:
  virtual ~DeviceMeasurements() = default;
  // An m x k matrix times a k x n one, in 16 bits.
  virtual std::optional<double> ProductSeconds(int64_t m, int64_t n, int64_t k) const = 0;
  // All-reduce of a buffer among `ranks` neighbours in a node.
  virtual std::optional<double> AllReduceSeconds(int32_t ranks, Bytes bytes) const = 0;
  // Where they come from, for reports and to tell searches apart.
  virtual std::string Source() const = 0;
};

}  // namespace foretrace
