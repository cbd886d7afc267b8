#pragma once
// Times between tokens, of which there are many millions: counted in classes of half a per cent.

#include <cstdint>
#include <vector>

#include "simulator/base/real_quantities.h"

namespace foretrace::serve {

struct Distribution;

class GapHistogram {
 public:
  // `tokens` that came together, `gap` after those before.
  void Add(SimTime gap, int32_t tokens);
  // Quantiles to half a per cent; the mean and the maximum are exact.
  Distribution Describe() const;

 private:
  RealSeconds Quantile(double q) const;

  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  RealSeconds sum_;
  SimTime max_;
};

}  // namespace foretrace::serve
