#include "simulator/importers/kineto/implied_outputs.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "simulator/importers/json/text.h"

namespace foretrace::kineto {
namespace {

// Where a convolution's arguments stand.
struct Schema {
  std::string_view name;
  size_t stride, padding, dilation;
};
constexpr std::array<Schema, 6> kSchemas = {{{"aten::conv2d", 3, 4, 5},
                                             {"aten::convolution", 3, 4, 5},
                                             {"aten::_convolution", 3, 4, 5},
                                             {"aten::cudnn_convolution", 3, 2, 4},
                                             {"aten::miopen_convolution", 4, 3, 5},
                                             {"aten::mkldnn_convolution", 4, 3, 5}}};
constexpr size_t kTransposedArgument = 6, kOutputMaskArgument = 10;
constexpr int64_t kMostSize = int64_t{1} << 32;  // of an image, a stride, a padding

std::span<const int64_t> DimsOf(const Event& event, size_t tensor) {
  const InputDims& dims = event.dims[tensor];
  return std::span(event.dim_values).subspan(dims.begin, dims.count);
}

// Index into Event::dims of an argument that is one tensor.
std::optional<size_t> TensorOf(const Event& event, size_t argument) {
  for (size_t i = 0; i < event.dims.size(); ++i) {
    if (event.dims[i].argument == argument && !event.dims[i].in_list) return i;
  }
  return std::nullopt;
}

// Two numbers, or one for both.
std::optional<std::array<int64_t, 2>> PairOf(const Event& event, size_t argument) {
  if (argument >= event.concrete.size()) return std::nullopt;
  const auto list = json::ParseIntegerList(event.concrete[argument]);
  if (!list || list->empty() || list->size() > 2) return std::nullopt;
  if (std::ranges::any_of(*list, [](int64_t x) { return x < 0 || x > kMostSize; })) {
    return std::nullopt;
  }
  return std::array<int64_t, 2>{list->front(), list->back()};
}

std::vector<ImpliedOutput> ResultOf(const Event& event, const Schema& schema) {
  const auto x = TensorOf(event, 0), w = TensorOf(event, 1);
  if (!x || !w) return {};
  const auto image = DimsOf(event, *x), filter = DimsOf(event, *w);
  const auto stride = PairOf(event, schema.stride), padding = PairOf(event, schema.padding),
             dilation = PairOf(event, schema.dilation);
  if (image.size() != 4 || filter.size() != 4 || !stride || !padding || !dilation) return {};
  ImpliedOutput result{*x, {image[0], filter[0]}};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t size = image[2 + i], window = filter[2 + i], step = (*stride)[i];
    if (std::max(size, window) > kMostSize || std::min({size, window, step}) < 1) return {};
    if ((*dilation)[i] > 0 && window > kMostSize / (*dilation)[i]) return {};
    const int64_t room = size + 2 * (*padding)[i] - (*dilation)[i] * (window - 1) - 1;
    if (room < 0) return {};
    result.dims.push_back(room / step + 1);
  }
  return {result};
}

// grad_output, input, weight, ..., output_mask of "[input, weight, bias]".
std::vector<ImpliedOutput> GradientsOf(const Event& event) {
  if (event.concrete.size() <= kOutputMaskArgument) return {};
  std::string_view mask = event.concrete[kOutputMaskArgument];
  std::vector<ImpliedOutput> gradients;
  for (const size_t argument : {size_t{1}, size_t{2}}) {
    const size_t comma = mask.find(',');
    const bool wanted = mask.substr(0, comma).find("True") != std::string_view::npos;
    if (comma == std::string_view::npos) return {};
    mask.remove_prefix(comma + 1);
    const auto tensor = TensorOf(event, argument);
    if (!tensor) return {};
    if (!wanted) continue;
    const auto dims = DimsOf(event, *tensor);
    gradients.push_back({*tensor, {dims.begin(), dims.end()}});
  }
  return gradients;
}

}  // namespace

std::vector<ImpliedOutput> ImpliedOutputs(const Event& event) {
  const std::string_view name = event.Text(Field::kName);
  if (name.find("convolution") == std::string_view::npos && name != "aten::conv2d") return {};
  if (kTransposedArgument < event.concrete.size() &&
      event.concrete[kTransposedArgument] == "True" && !name.starts_with("aten::cudnn")) {
    return {};
  }
  if (name == "aten::convolution_backward") return GradientsOf(event);
  const auto schema = std::ranges::find(kSchemas, name, &Schema::name);
  return schema == kSchemas.end() ? std::vector<ImpliedOutput>() : ResultOf(event, *schema);
}

}  // namespace foretrace::kineto
