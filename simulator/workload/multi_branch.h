#pragma once
// The multi-branch models of GraphPipe's evaluation (appendix 3.10.3) and its case study (section
// 3.7.4, figure 3.8). Where the text contradicts itself the appendix is followed: MMT has four
// branches, DLRM seven dense and seven sparse ones, CANDLE-Uno seven.

#include <cstdint>

#include "absl/status/statusor.h"
#include "simulator/workload/workload.h"

namespace foretrace {

// Branches of transformer layers, concatenated at the end.
struct MultiModalConfig {
  int64_t branches = 4;
  int64_t layers = 8;  // per branch
  int64_t hidden = 1024;
  int64_t heads = 16;
  int64_t ffn = 4096;
  int64_t sequence = 256;
};
absl::StatusOr<Workload> BuildMultiModalTransformer(const MultiModalConfig& config);

// Two branches of four repeats of attention and two linear layers, concatenated. The paper gives no
// sizes for this model; the defaults are those of MMT.
absl::StatusOr<Workload> BuildTwoBranchCaseStudy();

struct DlrmConfig {
  int64_t dense_branches = 7;
  int64_t dense_layers = 4;
  int64_t dense_width = 4096;
  int64_t sparse_branches = 7;
  int64_t rows = 1'000'000;  // per table
  int64_t dimension = 64;
  int64_t bag = 100;  // rows looked up per sample, concatenated
  // The paper says that layers of the dense width follow the interaction, not how many.
  int64_t top_layers = 4;
  int64_t top_width = 4096;
};
absl::StatusOr<Workload> BuildDlrm(const DlrmConfig& config);

struct CandleUnoConfig {
  int64_t branches = 7;
  int64_t layers = 4;  // per branch
  int64_t width = 4096;
};
absl::StatusOr<Workload> BuildCandleUno(const CandleUnoConfig& config);

}  // namespace foretrace
