#pragma once
// What is known of a row of a table of operators before anything is learnt from times: the work of
// its kernels, one after the other, and the sizes that libraries choose kernels by.

#include <vector>

#include "simulator/serve/expert_load.h"
#include "simulator/serve/operator_work.h"

namespace foretrace::serve {

struct OperatorFeatures {
  std::vector<OperatorWork> kernels;  // each bound by memory, arithmetic or its steps
  std::vector<float> sizes;           // logarithms, as many for each row of a kind; 0: not stated
};

// Of GEMMs, attention and latent attention `work` as one kernel. Of experts those of the most
// loaded device: two GEMMs, of whole tiles of 64 tokens an expert, and what moves tokens to and
// from them.
OperatorFeatures FeaturesOf(const OperatorSizes& sizes, const OperatorWork& work,
                            ExpertLoads& loads);

}  // namespace foretrace::serve
