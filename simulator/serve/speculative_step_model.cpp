#include "simulator/serve/speculative_step_model.h"

#include <algorithm>

namespace foretrace::serve {
namespace {

class SpeculativeStepModel : public StepModel {
 public:
  SpeculativeStepModel(std::shared_ptr<const StepModel> target,
                       std::shared_ptr<const StepModel> draft, const Speculation& speculation,
                       std::shared_ptr<const TokenExchange> exchange)
      : target_(std::move(target)),
        draft_(std::move(draft)),
        speculation_(speculation),
        exchange_(std::move(exchange)) {}

  StepTime Time(const StepBatch& batch) const override {
    StepTime time = target_->Time(batch);
    if (!batch.prefills.empty()) {
      StepBatch prompts;
      prompts.prefills = batch.prefills;
      const StepTime read = draft_->Time(prompts);
      if (exchange_ == nullptr) {
        time.Add(read);
      } else if (read.total() > time.total()) {
        time = read;
      }
    }
    if (batch.decodes == 0) return time;
    for (int32_t depth = 0; depth < speculation_.window; ++depth) {
      StepBatch one;
      one.decodes = batch.decodes;
      one.tokens_per_decode = speculation_.DraftedAt(depth);
      one.decode_cached = batch.decode_cached;
      one.decode_cached_max = batch.decode_cached_max;
      one.decode_lengths = batch.decode_lengths;
      time.Add(draft_->Time(one));
    }
    if (exchange_ != nullptr) {
      const int64_t checked = int64_t{batch.decodes} * speculation_.CheckedTokens();
      for (int way = 0; way < 2; ++way) {
        const Estimate sent = exchange_->Time(checked);
        time.Add(StepPart::kCommunication, RealUs(sent.time.us()), sent.source, sent.extrapolated);
      }
    }
    return time;
  }

  std::string Source() const override { return target_->Source(); }

 private:
  std::shared_ptr<const StepModel> target_, draft_;
  Speculation speculation_;
  std::shared_ptr<const TokenExchange> exchange_;
};

class CostsExchange : public TokenExchange {
 public:
  CostsExchange(std::shared_ptr<const DeviceCosts> costs, int32_t distance)
      : costs_(std::move(costs)), distance_(distance) {}
  Estimate Time(int64_t tokens) const override {
    return costs_->Send(distance_, Bytes(tokens * static_cast<int64_t>(sizeof(int32_t))));
  }

 private:
  std::shared_ptr<const DeviceCosts> costs_;
  int32_t distance_;
};

}  // namespace

std::shared_ptr<const TokenExchange> MakeTokenExchange(std::shared_ptr<const DeviceCosts> costs,
                                                       int32_t distance) {
  return std::make_shared<CostsExchange>(std::move(costs), distance);
}

std::shared_ptr<const StepModel> MakeSpeculativeStepModel(
    std::shared_ptr<const StepModel> target, std::shared_ptr<const StepModel> draft,
    const Speculation& speculation, std::shared_ptr<const TokenExchange> exchange) {
  return std::make_shared<SpeculativeStepModel>(std::move(target), std::move(draft), speculation,
                                                std::move(exchange));
}

}  // namespace foretrace::serve
