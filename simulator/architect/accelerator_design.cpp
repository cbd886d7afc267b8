#include "simulator/architect/accelerator_design.h"

#include <algorithm>
#include <span>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// The published program's table of areas (github.com/msr-fiddle/phaze, fed7cde), um^2.
constexpr std::pair<int32_t, double> kBufferAreas[] = {
    {2, 3338220},   {4, 6078640},   {8, 11952400},   {16, 23745200},
    {32, 46750900}, {64, 88605700}, {128, 175423000}};
constexpr std::pair<int32_t, double> kL2Areas[] = {  // by KB
    {1, 6133.98}, {2, 8248.43},  {4, 12610.5},  {8, 22139.9},  {16, 38583},    {32, 63338.4},
    {64, 115579}, {128, 204764}, {256, 446565}, {512, 897890}, {1024, 1634130}};
constexpr double kMacArea = 760.041386;   // a multiply-accumulate unit and its registers
constexpr double kLaneArea = 759.823853;  // a vector lane and its registers
constexpr int64_t kL2BytesPerUnit = 16;
constexpr int64_t kSmallestL2 = 1024;

absl::StatusOr<double> AreaOfBuffer(std::span<const std::pair<int32_t, double>> areas, int64_t size,
                                    const char* what, const char* unit) {
  for (const auto& [known, area] : areas) {
    if (known == size) return area;
  }
  return InvalidInput(
      "{} of {} {}: areas are known of powers of two from {} to {} {}; choose cores and buffers "
      "within",
      what, size, unit, areas.front().first, areas.back().first, unit);
}

}  // namespace

int64_t AcceleratorDesign::tensor_l2_bytes() const {
  return std::max(kL2BytesPerUnit * width * depth, kSmallestL2);
}
int64_t AcceleratorDesign::vector_l2_bytes() const {
  return std::max(kL2BytesPerUnit * width, kSmallestL2);
}

std::string Describe(const AcceleratorDesign& d) {
  return fmt::format("{{{},{},{},{},{}}}/{}MB", d.tensor_cores, d.vector_cores, d.width, d.depth,
                     d.width, d.buffer_MB);
}

absl::StatusOr<Area> AreaOf(const AcceleratorDesign& d) {
  if (d.tensor_cores < 1 || d.vector_cores < 1 || d.width < 1 || d.depth < 1) {
    return InvalidInput("design {}: every count and size must be at least 1", Describe(d));
  }
  const auto l2 = [&](int64_t bytes, const char* what) -> absl::StatusOr<double> {
    if (bytes % 1024 != 0) {
      return InvalidInput("{} of {} bytes in design {}: not whole KB; choose powers of two", what,
                          bytes, Describe(d));
    }
    return AreaOfBuffer(kL2Areas, bytes / 1024, what, "KB");
  };
  FORETRACE_ASSIGN_OR_RETURN(const double buffer,
                             AreaOfBuffer(kBufferAreas, d.buffer_MB, "a global buffer", "MB"));
  FORETRACE_ASSIGN_OR_RETURN(const double tensor_l2,
                             l2(d.tensor_l2_bytes(), "the L2 buffer of a tensor core"));
  FORETRACE_ASSIGN_OR_RETURN(const double vector_l2,
                             l2(d.vector_l2_bytes(), "the L2 buffer of a vector core"));
  const double mac = kMacArea * static_cast<double>(int64_t{d.width} * d.depth);
  const double lanes = kLaneArea * d.width;
  return Area::SquareMicrometres(buffer + d.tensor_cores * (tensor_l2 + mac) +
                                 d.vector_cores * (vector_l2 + lanes));
}

}  // namespace foretrace
