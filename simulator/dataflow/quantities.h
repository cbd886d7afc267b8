#pragma once
// What systems state are the types of base/. Costs are real numbers: of bytes and of nanoseconds,
// of one sample where many share them, so that published figures can be compared to their last
// digit.

#include "simulator/base/time.h"
#include "simulator/base/units.h"

namespace foretrace::dataflow {

// Bytes per nanosecond.
inline double GBps(Bandwidth b) { return b.bytes_per_second() / 1e9; }
inline double NsOf(double bytes, Bandwidth b) { return bytes / GBps(b); }
inline double NsOf(SimTime t) { return static_cast<double>(t.ps()) / 1000; }
inline double CountOf(Bytes b) { return static_cast<double>(b.count()); }

}  // namespace foretrace::dataflow
