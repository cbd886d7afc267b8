#pragma once
// The unit in which a report for people gives its times: one for all of it.

#include <string>
#include <string_view>

#include "simulator/base/time.h"

namespace foretrace {

class TimeUnit {
 public:
  // Microseconds, or milliseconds where `longest` would have seven digits as the former.
  explicit TimeUnit(SimTime longest) : ms_(longest >= SimTime::FromNs(99'999'950)) {}

  std::string_view name() const { return ms_ ? "ms" : "us"; }
  std::string Number(SimTime time) const;  // "2655.4", "622.497"
  std::string Signed(SimTime time) const;  // the same with its sign
  std::string Text(SimTime time) const;    // "2655.4 us"

 private:
  bool ms_;
};

}  // namespace foretrace
