#include "simulator/importers/kineto/call_detail.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/base/dtype.h"

namespace foretrace::kineto {
namespace {

// Where `is_causal` stands, or `custom_mask_type`, a number of which 0 is none. Another kind of
// value stands there in older releases' lists of arguments.
struct Masked {
  std::string_view name;
  size_t argument;
  bool number = false;
};
constexpr Masked kMasked[] = {{"aten::scaled_dot_product_attention", 5},
                              {"aten::_scaled_dot_product_flash_attention", 4},
                              {"aten::_scaled_dot_product_flash_attention_backward", 11},
                              {"aten::_scaled_dot_product_efficient_attention", 6},
                              {"aten::_scaled_dot_product_efficient_attention_backward", 11},
                              {"aten::_scaled_dot_product_cudnn_attention", 6},
                              {"aten::_scaled_dot_product_cudnn_attention_backward", 14},
                              {"aten::_flash_attention_forward", 8},
                              {"aten::_flash_attention_backward", 11},
                              {"aten::_efficient_attention_forward", 9, true},
                              {"aten::_efficient_attention_backward", 14, true}};

CallDetail MaskOf(const Event& event) {
  if (event.concrete.empty()) return CallDetail::kUnknown;
  const auto* masked = std::ranges::find(kMasked, event.Text(Field::kName), &Masked::name);
  if (masked == std::end(kMasked) || masked->argument >= event.concrete.size()) {
    return CallDetail::kUnknown;
  }
  const std::string_view value = event.concrete[masked->argument];
  if (value == (masked->number ? "0" : "False")) return CallDetail::kUnmasked;
  const bool causal = masked->number ? value == "1" || value == "2" : value == "True";
  return causal ? CallDetail::kCausal : CallDetail::kUnknown;
}

// Of dimensions of more than one element: those of one neither place nor tell elements apart.
struct Strided {
  std::vector<int64_t> dims, strides;
  int64_t element_bytes = 0;
};

double Elements(std::span<const int64_t> dims) {
  double elements = 1;
  for (const int64_t size : dims) elements *= static_cast<double>(size);
  return elements;
}

// The first of that argument's; null: there are none. A call may have as many arguments as its file
// has bytes, and they are in order.
const InputDims* DimsOf(const Event& event, uint32_t argument) {
  const auto at = std::ranges::lower_bound(event.dims, argument, {}, &InputDims::argument);
  return at != event.dims.end() && at->argument == argument ? &*at : nullptr;
}

// Tensors that are arguments by themselves; those of lists have kernels of another kind.
std::vector<Strided> TensorsOf(const Event& event) {
  std::vector<Strided> tensors;
  for (const InputDims& strides : event.strides) {
    const InputDims* dims = DimsOf(event, strides.argument);
    if (strides.in_list || strides.count == 0 || dims == nullptr) continue;
    if (dims->count != strides.count || strides.argument >= event.types.size()) continue;
    const int64_t bytes = ElementSize(ParseDType(event.types[strides.argument]));
    if (bytes == 0) continue;
    Strided& tensor = tensors.emplace_back();
    tensor.element_bytes = bytes;
    for (size_t i = 0; i < dims->count; ++i) {
      const int64_t size = event.dim_values[dims->begin + i];
      if (size == 1) continue;
      tensor.dims.push_back(size);
      tensor.strides.push_back(event.stride_values[strides.begin + i]);
    }
  }
  return tensors;
}

// Which dimension neighbouring threads go along: TensorIterator's fastest, that of the smallest
// stride of the result, which is laid out as the first of the largest arguments
// (aten/src/ATen/TensorIterator.cpp, reorder_dimensions).
std::optional<size_t> FastestOf(const Strided& tensor) {
  std::optional<size_t> fastest;
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    if (tensor.dims[i] <= 1 || tensor.strides[i] < 1) continue;
    if (!fastest || tensor.strides[i] < tensor.strides[*fastest]) fastest = i;
  }
  return fastest;
}

// Elements of the result between two that are neighbours along that dimension.
double ElementsBetween(const Strided& result, size_t along) {
  double elements = 1;
  for (size_t i = 0; i < result.dims.size(); ++i) {
    const bool faster = result.strides[i] < result.strides[along] && result.dims[i] > 1;
    if (faster) elements *= static_cast<double>(result.dims[i]);
  }
  return elements;
}

// Whether neighbouring threads, which go along `fastest` of `result`, find the tensor's elements in
// sectors of their own.
bool IsScattered(const Strided& tensor, const Strided& result, size_t fastest) {
  constexpr int64_t kSector = 32;
  constexpr double kElementsOfBlock = 512;  // 128 threads, four each
  const auto own = FastestOf(tensor);
  if (!own || tensor.strides[fastest] < kSector / tensor.element_bytes) return false;
  // What lies beside an element, if anything, the same block of threads may take while it holds
  // the sector.
  const bool alone = tensor.strides[*own] >= kSector / tensor.element_bytes;
  return alone || ElementsBetween(result, *own) >= kElementsOfBlock;
}

// Whether an image's channels lie innermost (torch.channels_last), in a list as in a concatenation
// of such, which then goes along them too.
bool HasChannelsLast(const Event& event, const InputDims& dims, const InputDims& strides) {
  constexpr uint32_t kImage = 4;
  return dims.count >= kImage && event.stride_values[strides.begin + 1] == 1 &&
         event.dim_values[dims.begin + 1] > 1;
}

// Of tensors to be concatenated, whose result lies in one piece: whether most elements of the list
// are of scattered ones. Lists have no types: elements of 4 bytes.
CallDetail OrderOfList(const Event& event) {
  constexpr int64_t kBytes = 4;
  double scattered = 0, all = 0;
  for (size_t i = 0; i < std::min(event.dims.size(), event.strides.size()); ++i) {
    const InputDims &dims = event.dims[i], &strides = event.strides[i];
    if (!dims.in_list || !strides.in_list || dims.count != strides.count) break;
    Strided tensor, result;
    tensor.element_bytes = kBytes;
    for (uint32_t d = 0; d < dims.count; ++d) {
      const int64_t size = event.dim_values[dims.begin + d];
      if (size == 1) continue;
      tensor.dims.push_back(size);
      tensor.strides.push_back(event.stride_values[strides.begin + d]);
      result.strides.push_back(dims.count - d);  // in this order, which is all that counts
    }
    if (tensor.dims.empty()) continue;
    result.dims = tensor.dims;
    const double elements = Elements(tensor.dims);
    all += elements;
    if (HasChannelsLast(event, dims, strides)) continue;
    if (IsScattered(tensor, result, result.dims.size() - 1)) scattered += elements;
  }
  if (!(all > 0)) return CallDetail::kUnknown;
  return 2 * scattered >= all ? CallDetail::kOneScattered : CallDetail::kInOrder;
}

// Sizes of a call's result, and of each tensor among its arguments its strides along them, the last
// dimension first; none along those that it is spread over.
struct Operands {
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides;
  std::optional<size_t> whole;  // the first that is as large as the result
};

int64_t SizeAt(const Event& event, const InputDims& dims, size_t i) {
  return i < dims.count ? event.dim_values[dims.begin + dims.count - 1 - i] : 1;
}

Operands OperandsOf(const Event& event) {
  constexpr uint32_t kMostDimensions = 16;
  std::vector<std::pair<InputDims, InputDims>> arguments;  // dims, strides
  Operands operands;
  for (const InputDims& strides : event.strides) {
    const InputDims* dims = DimsOf(event, strides.argument);
    if (strides.in_list || strides.count == 0 || dims == nullptr) continue;
    if (dims->in_list || dims->count != strides.count || dims->count > kMostDimensions) return {};
    arguments.emplace_back(*dims, strides);
    operands.sizes.resize(std::max<size_t>(operands.sizes.size(), dims->count), 1);
  }
  for (size_t i = 0; i < operands.sizes.size(); ++i) {
    for (const auto& [dims, strides] : arguments) {
      operands.sizes[i] = std::max(operands.sizes[i], SizeAt(event, dims, i));
    }
  }
  for (const auto& [dims, strides] : arguments) {
    std::vector<int64_t>& own = operands.strides.emplace_back(operands.sizes.size());
    bool whole = true;
    for (size_t i = 0; i < own.size(); ++i) {
      const int64_t size = SizeAt(event, dims, i);
      whole &= size == operands.sizes[i];
      if (size != 1) own[i] = event.stride_values[strides.begin + strides.count - 1 - i];
    }
    if (whole && !operands.whole) operands.whole = operands.strides.size() - 1;
  }
  return operands;
}

// Whether a tensor goes from one dimension to the next in one piece.
bool GoesOn(int64_t stride, int64_t size, int64_t next) {
  constexpr int64_t kMost = int64_t{1} << 31;
  return stride >= 0 && stride < kMost && size < kMost && stride * size == next;
}

// Dimensions that TensorIterator has left (aten/src/ATen/TensorIterator.cpp, reorder_dimensions,
// coalesce_dimensions): in the order of the result's strides, neighbours are one where every
// operand goes on. A result that is not among the arguments is laid out as the first that is as
// large. 0: not known.
int IndexDimensionsOf(const Event& event) {
  Operands operands = OperandsOf(event);
  std::vector<size_t> order;
  for (size_t i = 0; i < operands.sizes.size(); ++i) {
    if (operands.sizes[i] != 1) order.push_back(i);
  }
  if (order.empty()) return operands.sizes.empty() ? 0 : 1;
  if (operands.whole) {
    const std::vector<int64_t> layout = operands.strides[*operands.whole];
    std::ranges::stable_sort(order, {}, [&](size_t i) { return layout[i]; });
  }
  if (!event.Text(Field::kName).ends_with('_')) {
    constexpr int64_t kMost = int64_t{1} << 31;  // of an index of 32 bits
    std::vector<int64_t>& result = operands.strides.emplace_back(operands.sizes.size());
    int64_t stride = 1;
    for (const size_t i : order) {
      if (operands.sizes[i] < 1 || operands.sizes[i] > kMost / stride) return 0;
      result[i] = stride;
      stride *= operands.sizes[i];
    }
  }
  int left = 1;
  for (size_t k = 1; k < order.size(); ++k) {
    left += std::ranges::all_of(operands.strides,
                                [&](const std::vector<int64_t>& strides) {
                                  return GoesOn(strides[order[k - 1]], operands.sizes[order[k - 1]],
                                                strides[order[k]]);
                                })
                ? 0
                : 1;
  }
  return left;
}

CallDetail OrderOf(const Event& event) {
  constexpr int64_t kMost = 3;
  if (event.Text(Field::kName) == "aten::cat") return OrderOfList(event);
  const std::vector<Strided> tensors = TensorsOf(event);
  if (tensors.empty()) return CallDetail::kUnknown;
  const Strided* result = &tensors.front();
  for (const Strided& tensor : tensors) {
    if (Elements(tensor.dims) > Elements(result->dims)) result = &tensor;
  }
  const auto fastest = FastestOf(*result);
  if (!fastest) return CallDetail::kUnknown;
  int64_t scattered = 0;
  for (const Strided& tensor : tensors) {
    if (!std::ranges::equal(tensor.dims, result->dims)) continue;  // spread, and so cached
    scattered += IsScattered(tensor, *result, *fastest) ? 1 : 0;
  }
  const auto ordered = static_cast<CallDetail>(static_cast<int64_t>(CallDetail::kInOrder) +
                                               std::min(scattered, kMost));
  return WithDimensions(ordered, IndexDimensionsOf(event));
}

}  // namespace

CallDetail CallDetailOf(const Event& event) {
  const CallDetail mask = MaskOf(event);
  return mask == CallDetail::kUnknown ? OrderOf(event) : mask;
}

}  // namespace foretrace::kineto
