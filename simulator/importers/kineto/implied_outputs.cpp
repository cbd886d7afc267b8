#include "simulator/importers/kineto/implied_outputs.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "simulator/importers/json/text.h"

namespace foretrace::kineto {
namespace {

constexpr size_t kNone = SIZE_MAX;

// Where a convolution's or a pool's arguments stand. `window`: of a pool; a convolution's are the
// dimensions of its second tensor.
struct Windows {
  std::string_view name;
  size_t stride, padding, dilation, window = kNone, ceil = kNone;
};
constexpr Windows kWindows[] = {{"aten::conv1d", 3, 4, 5},
                                {"aten::conv2d", 3, 4, 5},
                                {"aten::conv3d", 3, 4, 5},
                                {"aten::convolution", 3, 4, 5},
                                {"aten::_convolution", 3, 4, 5},
                                {"aten::cudnn_convolution", 3, 2, 4},
                                {"aten::miopen_convolution", 4, 3, 5},
                                {"aten::mkldnn_convolution", 4, 3, 5},
                                {"aten::miopen_depthwise_convolution", 4, 3, 5},
                                {"aten::_conv_depthwise2d", 4, 5, 6},
                                {"aten::_slow_conv2d_forward", 4, 5, kNone},
                                {"aten::max_pool2d_with_indices", 2, 3, 4, 1, 5},
                                {"aten::max_pool3d_with_indices", 2, 3, 4, 1, 5},
                                {"aten::max_pool2d", 2, 3, 4, 1, 5},
                                {"aten::max_pool3d", 2, 3, 4, 1, 5},
                                {"aten::avg_pool2d", 2, 3, kNone, 1, 4},
                                {"aten::avg_pool3d", 2, 3, kNone, 1, 4}};

// Where a transposed convolution's arguments stand.
struct Spread {
  std::string_view name;
  size_t stride, padding, output_padding, dilation, groups = kNone;
};
constexpr Spread kSpreads[] = {{"aten::cudnn_convolution_transpose", 4, 2, 3, 5, 6},
                               {"aten::miopen_convolution_transpose", 5, 3, 4, 6, 7},
                               {"aten::slow_conv_transpose2d", 4, 5, 6, 7},
                               {"aten::slow_conv_transpose3d", 4, 5, 6, 7}};

// Where a reduction's dimensions stand, and whether it keeps them.
struct Reduced {
  std::string_view name;
  size_t dimensions, keep;
};
constexpr Reduced kReduced[] = {{"aten::sum", 1, 2},  {"aten::mean", 1, 2},
                                {"aten::amax", 1, 2}, {"aten::amin", 1, 2},
                                {"aten::max", 1, 2},  {"aten::min", 1, 2},
                                {"aten::prod", 1, 2}, {"aten::logsumexp", 1, 2},
                                {"aten::norm", 2, 3}, {"aten::linalg_vector_norm", 2, 3},
                                {"aten::std", 1, 3},  {"aten::var", 1, 3}};

// Whose second argument is the size of the result, batch and channels left out.
constexpr std::string_view kResized[] = {
    "aten::upsample_nearest",   "aten::_upsample_nearest_exact", "aten::upsample_linear",
    "aten::upsample_bilinear",  "aten::_upsample_bilinear",      "aten::upsample_bicubic",
    "aten::_upsample_bicubic",  "aten::upsample_trilinear",      "aten::adaptive_avg_pool",
    "aten::_adaptive_avg_pool", "aten::adaptive_max_pool"};

constexpr size_t kTransposedArgument = 6, kOutputMaskArgument = 10;
constexpr size_t kLeading = 2;                   // batch and channels
constexpr int64_t kMostSize = int64_t{1} << 32;  // of an image, a stride, a padding

std::span<const int64_t> DimsOf(const Event& event, size_t tensor) {
  const InputDims& dims = event.dims[tensor];
  return std::span(event.dim_values).subspan(dims.begin, dims.count);
}

// Index into Event::dims of an argument that is one tensor.
std::optional<size_t> TensorOf(const Event& event, size_t argument) {
  for (size_t i = 0; i < event.dims.size(); ++i) {
    const InputDims& dims = event.dims[i];
    if (dims.argument == argument && !dims.in_list && dims.count > 0) return i;
  }
  return std::nullopt;
}

// `count` numbers, of which one may stand for all.
std::optional<std::vector<int64_t>> NumbersOf(const Event& event, size_t argument, size_t count) {
  if (argument >= event.concrete.size()) return std::nullopt;
  auto list = json::ParseIntegerList(event.concrete[argument]);
  if (!list || (list->size() != count && list->size() != 1)) return std::nullopt;
  if (std::ranges::any_of(*list, [](int64_t x) { return x < 0 || x > kMostSize; })) {
    return std::nullopt;
  }
  list->resize(count, list->front());
  return list;
}

bool IsTrue(const Event& event, size_t argument) {
  return argument < event.concrete.size() && event.concrete[argument] == "True";
}

// Places of a window along a dimension; nullopt: none, or the arguments make no sense.
std::optional<int64_t> PlacesOf(int64_t size, int64_t window, int64_t step, int64_t padding,
                                int64_t dilation, bool ceil) {
  if (std::max(size, window) > kMostSize || std::min({size, window, step}) < 1) return {};
  if (dilation > 0 && window > kMostSize / dilation) return {};
  const int64_t room = size + 2 * padding - dilation * (window - 1) - 1;
  if (room < 0) return {};
  int64_t places = room / step + 1;
  // A last window that begins within the image or the padding before it counts, where asked for.
  if (ceil && room % step != 0 && places * step < size + padding) ++places;
  return places;
}

std::vector<ImpliedOutput> ResultOf(const Event& event, const Windows& schema) {
  const bool pool = schema.window != kNone;
  const auto x = TensorOf(event, 0), w = TensorOf(event, 1);
  if (!x || (!pool && !w)) return {};
  const auto image = DimsOf(event, *x);
  constexpr size_t kMostDimensions = 3;
  if (image.size() <= kLeading || image.size() > kLeading + kMostDimensions) return {};
  const size_t count = image.size() - kLeading;
  std::optional<std::vector<int64_t>> window;
  if (pool) {
    window = NumbersOf(event, schema.window, count);
  } else if (const auto filter = DimsOf(event, *w); filter.size() == image.size()) {
    window.emplace(filter.begin() + kLeading, filter.end());
  }
  const bool own_step = pool && schema.stride < event.concrete.size() &&
                        event.concrete[schema.stride] == "[]";  // a window's size
  const auto stride = own_step ? window : NumbersOf(event, schema.stride, count);
  const auto padding = NumbersOf(event, schema.padding, count);
  const auto dilation = schema.dilation == kNone ? std::vector<int64_t>(count, 1)
                                                 : NumbersOf(event, schema.dilation, count);
  if (!window || !stride || !padding || !dilation) return {};
  ImpliedOutput result{*x, {image[0], pool ? image[1] : DimsOf(event, *w)[0]}};
  for (size_t i = 0; i < count; ++i) {
    const auto places = PlacesOf(image[kLeading + i], (*window)[i], (*stride)[i], (*padding)[i],
                                 (*dilation)[i], IsTrue(event, schema.ceil));
    if (!places) return {};
    result.dims.push_back(*places);
  }
  return {result};
}

std::vector<ImpliedOutput> SpreadOf(const Event& event, const Spread& schema) {
  const auto x = TensorOf(event, 0), w = TensorOf(event, 1);
  if (!x || !w) return {};
  const auto image = DimsOf(event, *x), filter = DimsOf(event, *w);
  if (image.size() <= kLeading || filter.size() != image.size()) return {};
  const size_t count = image.size() - kLeading;
  const auto stride = NumbersOf(event, schema.stride, count);
  const auto padding = NumbersOf(event, schema.padding, count);
  const auto more = NumbersOf(event, schema.output_padding, count);
  const auto dilation = NumbersOf(event, schema.dilation, count);
  const auto groups =
      schema.groups == kNone ? std::vector<int64_t>{1} : NumbersOf(event, schema.groups, 1);
  if (!stride || !padding || !more || !dilation || !groups) return {};
  if (std::ranges::max(filter) > kMostSize || std::ranges::max(image) > kMostSize) return {};
  if (filter[1] > kMostSize / std::max<int64_t>(groups->front(), 1)) return {};
  ImpliedOutput result{*x, {image[0], filter[1] * groups->front()}};
  for (size_t i = 0; i < count; ++i) {
    const auto real =
        static_cast<double>((*stride)[i]) * static_cast<double>(image[kLeading + i] - 1);
    const auto reach =
        static_cast<double>((*dilation)[i]) * static_cast<double>(filter[kLeading + i] - 1);
    const double size = real - 2.0 * static_cast<double>((*padding)[i]) + reach +
                        static_cast<double>((*more)[i]) + 1;
    if (!(size >= 1 && size <= static_cast<double>(kMostSize))) return {};
    result.dims.push_back(static_cast<int64_t>(size));
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

// `dimension` of `rank`, of which negative ones count from the end.
std::optional<size_t> Dimension(int64_t dimension, size_t rank) {
  const auto count = static_cast<int64_t>(rank);
  if (dimension < -count || dimension >= count) return std::nullopt;
  return static_cast<size_t>(dimension < 0 ? dimension + count : dimension);
}

std::vector<ImpliedOutput> ReducedOf(const Event& event, const Reduced& schema) {
  const auto x = TensorOf(event, 0);
  if (!x || schema.dimensions >= event.concrete.size() || event.types.empty()) return {};
  constexpr std::string_view kTypes[] = {"float", "double", "c10::Half", "c10::BFloat16"};
  if (std::ranges::find(kTypes, event.types.front()) == std::end(kTypes)) return {};
  const auto dimensions = json::ParseIntegerList(event.concrete[schema.dimensions]);
  if (!dimensions || dimensions->empty()) return {};
  const auto dims = DimsOf(event, *x);
  std::vector<bool> gone(dims.size());
  for (const int64_t d : *dimensions) {
    const auto at = Dimension(d, dims.size());
    if (!at) return {};
    gone[*at] = true;
  }
  ImpliedOutput result{*x, {}};
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!gone[i]) {
      result.dims.push_back(dims[i]);
    } else if (IsTrue(event, schema.keep)) {
      result.dims.push_back(1);
    }
  }
  if (result.dims.empty()) return {};  // a single value has no dimensions
  return {result};
}

std::vector<ImpliedOutput> ResizedOf(const Event& event) {
  const auto x = TensorOf(event, 0);
  if (!x) return {};
  const auto image = DimsOf(event, *x);
  if (image.size() <= kLeading) return {};
  const auto size = NumbersOf(event, 1, image.size() - kLeading);
  if (!size) return {};
  ImpliedOutput result{*x, {image[0], image[1]}};
  result.dims.insert(result.dims.end(), size->begin(), size->end());
  return {result};
}

// (image, grid [samples, places..., coordinates], ...): a place of the grid each.
std::vector<ImpliedOutput> SampledOf(const Event& event) {
  const auto x = TensorOf(event, 0), places = TensorOf(event, 1);
  if (!x || !places) return {};
  const auto image = DimsOf(event, *x), grid = DimsOf(event, *places);
  if (image.size() <= kLeading || grid.size() != image.size()) return {};
  ImpliedOutput result{*x, {image[0], image[1]}};
  result.dims.insert(result.dims.end(), grid.begin() + 1, grid.end() - 1);
  return {result};
}

// (image, [before, behind] of the last dimension, then of the one before, ...).
std::vector<ImpliedOutput> PaddedOf(const Event& event) {
  const auto x = TensorOf(event, 0);
  if (!x || event.concrete.size() < 2) return {};
  const auto padding = json::ParseIntegerList(event.concrete[1]);
  const auto image = DimsOf(event, *x);
  if (!padding || padding->size() % 2 != 0 || padding->size() / 2 > image.size()) return {};
  ImpliedOutput result{*x, {image.begin(), image.end()}};
  for (size_t i = 0; i < padding->size(); ++i) {
    if ((*padding)[i] > kMostSize || (*padding)[i] < -kMostSize) return {};
    int64_t& size = result.dims[image.size() - 1 - i / 2];
    if (size > kMostSize) return {};
    size += (*padding)[i];
    if (i % 2 == 1 && size < 1) return {};
  }
  return {result};
}

std::vector<ImpliedOutput> SelectedOf(const Event& event) {
  const auto x = TensorOf(event, 0), index = TensorOf(event, 2);
  if (!x || !index || event.concrete.size() < 2) return {};
  const auto dims = DimsOf(event, *x), chosen = DimsOf(event, *index);
  const auto number = json::ParseInteger(event.concrete[1]);
  const auto at = number ? Dimension(*number, dims.size()) : std::nullopt;
  if (!at || chosen.size() != 1) return {};
  ImpliedOutput result{*x, {dims.begin(), dims.end()}};
  result.dims[*at] = chosen[0];
  return {result};
}

}  // namespace

std::vector<ImpliedOutput> ImpliedOutputs(const Event& event) {
  const std::string_view name = event.Text(Field::kName);
  if (event.concrete.empty() || !name.starts_with("aten::")) return {};
  if (name == "aten::index_select") return SelectedOf(event);
  if (name == "aten::grid_sampler_2d" || name == "aten::grid_sampler_3d") return SampledOf(event);
  const bool backward = name.ends_with("backward");
  if (!backward &&
      (name.starts_with("aten::reflection_pad") || name.starts_with("aten::replication_pad"))) {
    return PaddedOf(event);
  }
  if (const auto* reduced = std::ranges::find(kReduced, name, &Reduced::name);
      reduced != std::end(kReduced)) {
    return ReducedOf(event, *reduced);
  }
  if (std::ranges::any_of(kResized, [&](std::string_view r) { return name.starts_with(r); })) {
    return backward ? std::vector<ImpliedOutput>() : ResizedOf(event);
  }
  const bool convolution = name.find("convolution") != std::string_view::npos;
  if (convolution && IsTrue(event, kTransposedArgument) && !name.starts_with("aten::cudnn")) {
    return {};
  }
  if (const auto* spread = std::ranges::find(kSpreads, name, &Spread::name);
      spread != std::end(kSpreads)) {
    return SpreadOf(event, *spread);
  }
  if (name == "aten::convolution_backward") return GradientsOf(event);
  const auto* schema = std::ranges::find(kWindows, name, &Windows::name);
  return schema == std::end(kWindows) ? std::vector<ImpliedOutput>() : ResultOf(event, *schema);
}

}  // namespace foretrace::kineto
