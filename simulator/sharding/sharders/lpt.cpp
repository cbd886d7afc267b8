#include "simulator/sharding/sharders/packing.h"

namespace foretrace {
namespace {

class LptSharder : public Sharder {
 public:
  std::string_view name() const override { return "lpt"; }
  absl::StatusOr<ShardingPlan> Shard(const ShardingProblem& problem) const override {
    ShardingPlan plan = PackTables(problem);
    ImprovePacking(problem, plan);
    return plan;
  }
};

}  // namespace

std::unique_ptr<Sharder> MakeLptSharder() { return std::make_unique<LptSharder>(); }

}  // namespace foretrace
