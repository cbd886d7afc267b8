#include "simulator/serve/speculative_step_model.h"

#include <algorithm>

namespace foretrace::serve {
namespace {

class SpeculativeStepModel : public StepModel {
 public:
  SpeculativeStepModel(std::shared_ptr<const StepModel> target,
                       std::shared_ptr<const StepModel> draft, const Speculation& speculation)
      : target_(std::move(target)), draft_(std::move(draft)), speculation_(speculation) {}

  StepTime Time(const StepBatch& batch) const override {
    StepTime time = target_->Time(batch);
    if (!batch.prefills.empty()) {
      StepBatch prompts;
      prompts.prefills = batch.prefills;
      time.Add(draft_->Time(prompts));
    }
    if (batch.decodes == 0) return time;
    for (int32_t depth = 0; depth < speculation_.window; ++depth) {
      StepBatch one;
      one.decodes = batch.decodes;
      one.tokens_per_decode = speculation_.DraftedAt(depth);
      one.decode_cached = batch.decode_cached;
      one.decode_cached_max = batch.decode_cached_max;
      time.Add(draft_->Time(one));
    }
    return time;
  }

  std::string Source() const override { return target_->Source(); }

 private:
  std::shared_ptr<const StepModel> target_, draft_;
  Speculation speculation_;
};

class CostsReduction : public Reduction {
 public:
  CostsReduction(std::shared_ptr<const DeviceCosts> costs, int32_t ranks)
      : costs_(std::move(costs)), ranks_(ranks) {}
  Estimate Time(int64_t bytes) const override {
    return costs_->Collective(CollectiveOp::kAllReduce, ranks_, Bytes(bytes));
  }

 private:
  std::shared_ptr<const DeviceCosts> costs_;
  int32_t ranks_;
};

}  // namespace

std::shared_ptr<const StepModel> MakeSpeculativeStepModel(std::shared_ptr<const StepModel> target,
                                                          std::shared_ptr<const StepModel> draft,
                                                          const Speculation& speculation) {
  return std::make_shared<SpeculativeStepModel>(std::move(target), std::move(draft), speculation);
}

std::shared_ptr<const Reduction> MakeReduction(std::shared_ptr<const DeviceCosts> costs,
                                               int32_t ranks) {
  if (ranks <= 1) return nullptr;
  return std::make_shared<CostsReduction>(std::move(costs), ranks);
}

KvLink LinkOf(const DeviceCosts& costs, const ServingPlan& plan, Bytes kv_per_token) {
  constexpr int64_t kFew = 1 << 10, kMany = 1 << 28;
  const SimTime few = costs.Send(plan.devices(), Bytes(kFew)).time;
  const SimTime many = costs.Send(plan.devices(), Bytes(kMany)).time;
  const double seconds = std::max((many - few).seconds(), 1e-12);
  return {kv_per_token, Bandwidth::BytesPerSecond(static_cast<double>(kMany - kFew) / seconds),
          few};
}

}  // namespace foretrace::serve
