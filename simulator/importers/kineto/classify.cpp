#include "simulator/importers/kineto/classify.h"

#include <utility>

#include "simulator/importers/json/text.h"

namespace foretrace::kineto {

Category ParseCategory(std::string_view category) {
  static constexpr std::pair<std::string_view, Category> kCategories[] = {
      {"cpu_op", Category::kCpuOp},
      {"kernel", Category::kKernel},
      {"cuda_runtime", Category::kRuntime},
      {"user_annotation", Category::kAnnotation},
      {"gpu_memcpy", Category::kMemcpy},
      {"gpu_memset", Category::kMemset},
      {"cuda_driver", Category::kRuntime},
      {"cuda_sync", Category::kSync},
      {"python_function", Category::kIgnored},
      {"gpu_user_annotation", Category::kIgnored},
      {"cpu_instant_event", Category::kIgnored},
      {"Trace", Category::kIgnored},
      {"overhead", Category::kIgnored},
      {"hip_runtime", Category::kRuntime},
      {"hip_driver", Category::kRuntime},
      // PyTorch 1.8 and 1.9.
      {"Operator", Category::kCpuOp},
      {"Kernel", Category::kKernel},
      {"Runtime", Category::kRuntime},
      {"Memcpy", Category::kMemcpy},
      {"Memset", Category::kMemset},
      {"PythonFunction", Category::kIgnored},
      {"cuda_profiler_range", Category::kIgnored},
      {"cuda_event", Category::kIgnored},
      {"Python", Category::kIgnored},
  };
  for (const auto& [text, meaning] : kCategories) {
    if (text == category) return meaning;
  }
  // Calls of other devices' libraries: "xpu_runtime", "mtia_runtime", "privateuse1_driver".
  if (category.ends_with("_runtime") || category.ends_with("_driver")) return Category::kRuntime;
  return Category::kUnknown;
}

std::optional<int64_t> ParseStepMark(std::string_view name) {
  constexpr std::string_view kPrefix = "ProfilerStep#";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return json::ParseInteger(name.substr(kPrefix.size()));
}

}  // namespace foretrace::kineto
