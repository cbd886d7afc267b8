#include "simulator/workload/weight_format.h"

#include <fmt/ranges.h>

#include <array>

#include "simulator/base/enum_names.h"

namespace foretrace {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(WeightFormat::kCount)> kNames = {
    "model", "fp8", "fp8_block", "mxfp4", "int4"};
constexpr std::array<double, static_cast<size_t>(WeightFormat::kCount)> kBits = {
    0, 8, 8 + 32.0 / (128 * 128), 4 + 8.0 / 32, 4 + 16.0 / 128};

}  // namespace

std::string_view Name(WeightFormat format) { return kNames[static_cast<size_t>(format)]; }

std::optional<WeightFormat> ParseWeightFormat(std::string_view text) {
  return ParseEnum<WeightFormat>(text);
}

std::string WeightFormatNames() {
  return fmt::format("{}", fmt::join(kNames.begin() + 1, kNames.end(), ", "));
}

double BitsOf(WeightFormat format) { return kBits[static_cast<size_t>(format)]; }

}  // namespace foretrace
