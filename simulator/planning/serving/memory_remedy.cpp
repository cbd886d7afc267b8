#include "simulator/planning/serving/memory_remedy.h"

#include <algorithm>
#include <vector>

#include "simulator/base/error.h"

namespace foretrace {

std::string MemoryRemedy(const ServingBase& base, const ServingOptions& options,
                         const serve::ServingPlan& plan, int64_t room,
                         const std::function<bool(const ServingOptions&)>& fits) {
  if (base.draft && options.draft_parallel.empty()) {
    ServingOptions without = options;
    without.draft.clear();
    without.speculate.clear();
    if (fits(without)) return "; without the draft model it would fit";
  }
  std::vector<std::string> ways;
  ServingOptions shorter = options;
  shorter.max_model_len = static_cast<int32_t>(std::min<int64_t>(room, 1 << 28));
  if (room > 0 && room >= base.longest_request && fits(shorter)) {
    ways.push_back(fmt::format("--max-model-len {}", room));
  }
  for (serve::ServingPlan more = plan; more.tensor <= base.model.heads; more.tensor *= 2) {
    if (more.tensor == plan.tensor || !more.Fits(base.model).ok()) continue;
    ServingOptions wider = options;
    wider.parallel = Text(more);
    if (!fits(wider)) continue;
    ways.push_back(fmt::format("--parallel '{}'", wider.parallel));
    break;
  }
  if (ways.empty()) return "";
  std::string text = fmt::format("; {}", fmt::join(ways, " or "));
  if (options.max_num_seqs) text += fmt::format(" with --max-num-seqs {}", *options.max_num_seqs);
  if (options.max_num_batched_tokens) {
    text += fmt::format("{} --max-num-batched-tokens {}", options.max_num_seqs ? "" : " with",
                        *options.max_num_batched_tokens);
  }
  return text + " would fit";
}

}  // namespace foretrace
