#include "simulator/report/path_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

namespace foretrace {
namespace {

std::string OpName(const ExplainedStep& step, const PathSegment& segment) {
  const NodeIndex op = step.classifier.FrameworkOp(segment.rank, segment.node);
  const RankTrace& rank = step.store.ranks()[segment.rank];
  return std::string(step.store.name(rank, op.valid() ? op : segment.node));
}

std::string CauseOf(const ExplainedStep& step, const PathSegment& segment) {
  const RankTrace& rank = step.store.ranks()[segment.rank];
  switch (segment.activity) {
    case PathActivity::kCpu:
      return segment.node.valid() ? "CPU: " + OpName(step, segment) : "CPU";
    case PathActivity::kCompute:
      return "device: " + OpName(step, segment);
    case PathActivity::kTransfer: {
      const ExecutedNode* event = step.table.Find({segment.rank, segment.node});
      const CommAttr* attr = rank.comm(segment.node);
      const bool named = attr != nullptr && attr->group.valid();
      std::string_view name = named ? step.store.strings().Get(attr->group) : "";
      if (name.empty() && event != nullptr && step.communicator_names != nullptr) {
        name = step.communicator_names(event->rendezvous);
      }
      const std::string_view what = rank.kind(segment.node) == NodeKind::kCollective
                                        ? Name(rank.collective_op(segment.node))
                                        : Name(rank.kind(segment.node));
      return fmt::format("communication: {}{}{}", what, name.empty() ? "" : " of ", name);
    }
    default:
      return fmt::format("waiting: {}", Name(segment.activity));
  }
}

}  // namespace

std::vector<StepCause> ComparePaths(const ExplainedStep& before, const ExplainedStep& after) {
  std::map<std::string, StepCause> by_cause;
  for (const PathSegment& segment : before.path.segments) {
    by_cause[CauseOf(before, segment)].before += segment.end - segment.start;
  }
  for (const PathSegment& segment : after.path.segments) {
    by_cause[CauseOf(after, segment)].after += segment.end - segment.start;
  }
  std::vector<StepCause> causes;
  for (auto& [what, cause] : by_cause) {
    if (cause.difference() == SimTime()) continue;
    causes.push_back({what, cause.before, cause.after});
  }
  const auto size = [](const StepCause& cause) {
    return std::max(cause.difference(), -cause.difference());
  };
  std::stable_sort(causes.begin(), causes.end(),
                   [&](const StepCause& a, const StepCause& b) { return size(a) > size(b); });
  return causes;
}

}  // namespace foretrace
