#pragma once
// The limits of a driver as tests assume them: those of a device without a file
// (topologies/accelerators/unnamed.yaml).

#include "simulator/hardware/catalog.h"

namespace foretrace {

inline DriverLimits TestDriver() {
  using T = SimTime;
  return {1021,
          Bytes(64 * 1024),
          {T::FromNs(8'000), T::FromNs(8'000), T::FromNs(9'000), T::FromNs(10'000),
           T::FromNs(12'000), T::FromNs(1'200), T::FromNs(2'000)}};
}

// A catalogue of that device alone, so that tests read no files.
inline const AcceleratorCatalog& TestAccelerators() {
  static const AcceleratorCatalog catalog = [] {
    Accelerator unnamed;
    unnamed.name = kUnnamedAccelerator;
    unnamed.driver = TestDriver();
    unnamed.occupancy = {2048, 32, 65536, Bytes(96 * 1024), 32};
    return *AcceleratorCatalog::Of({unnamed});
  }();
  return catalog;
}

}  // namespace foretrace
