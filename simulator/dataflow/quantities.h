#pragma once
// What systems state are the types of base/. Costs are real numbers, of one sample where many share
// them, so that published figures can be compared to their last digit: those of
// base/real_quantities.h where parts of the room and others meet, bare numbers of nanoseconds and
// bytes within solvers.

#include <cmath>
#include <cstdint>

#include "simulator/base/real_quantities.h"

namespace foretrace::dataflow {

// Bytes per nanosecond.
inline double GBps(Bandwidth b) { return b.bytes_per_second() / 1e9; }
inline double NsOf(double bytes, Bandwidth b) { return bytes / GBps(b); }
inline double NsOf(SimTime t) { return static_cast<double>(t.ps()) / 1000; }
inline int64_t Picoseconds(double ns) { return std::llround(ns * 1000); }
inline RealNs Real(SimTime t) { return RealNs(NsOf(t)); }
inline RealNs TimeToMove(RealBytes bytes, Bandwidth b) { return RealNs(NsOf(bytes.count(), b)); }
// Of the largest of so many equal parts.
constexpr int64_t CeilOf(int64_t size, int64_t parts) { return (size + parts - 1) / parts; }
inline double CountOf(Bytes b) { return RealBytes(b).count(); }

}  // namespace foretrace::dataflow
