#pragma once
// What Kineto's categories and its step marks mean, across PyTorch 1.8 to 2.x and both vendors.

#include <cstdint>
#include <optional>
#include <string_view>

namespace foretrace::kineto {

enum class Category : uint8_t {
  kCpuOp,
  kAnnotation,
  kRuntime,
  kKernel,
  kMemcpy,
  kMemset,
  kSync,     // an event or stream wait as the device's tracer saw it; belongs to a runtime call
  kIgnored,  // known and without meaning here: flows, Python frames, memory instants, spans
  kUnknown,
};

Category ParseCategory(std::string_view category);

// The number in "ProfilerStep#12"; nullopt for other names. Recordings without such marks: see
// trace/serving_step.h.
std::optional<int64_t> ParseStepMark(std::string_view name);

}  // namespace foretrace::kineto
