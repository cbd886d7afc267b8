#include "simulator/serve/engine_exchanges.h"

#include <algorithm>
#include <utility>

namespace foretrace::serve {
namespace {

class CostsRankExchange : public RankExchange {
 public:
  CostsRankExchange(const EngineConfig& engine, std::shared_ptr<const DeviceCosts> costs,
                    int32_t ranks)
      : engine_(engine), costs_(std::move(costs)), ranks_(ranks) {}
  Estimate Sum(int64_t bytes) const override {
    return SumOverRanks(engine_, *costs_, ranks_, Bytes(bytes));
  }
  Estimate Gather(int64_t bytes) const override {
    return costs_->Collective(CollectiveOp::kAllGather, ranks_, Bytes(bytes));
  }

 private:
  const EngineConfig engine_;
  std::shared_ptr<const DeviceCosts> costs_;
  int32_t ranks_;
};

class CostsEngineExchange : public EngineExchange {
 public:
  CostsEngineExchange(std::shared_ptr<const DeviceCosts> costs, int32_t ranks)
      : costs_(std::move(costs)), ranks_(ranks) {}
  Estimate Gather(int64_t bytes) const override {
    return costs_->Collective(CollectiveOp::kAllGather, ranks_, Bytes(bytes));
  }
  Estimate Scatter(int64_t bytes) const override {
    return costs_->Collective(CollectiveOp::kReduceScatter, ranks_, Bytes(bytes));
  }

 private:
  std::shared_ptr<const DeviceCosts> costs_;
  int32_t ranks_;
};

}  // namespace

Estimate SumOverRanks(const EngineConfig& engine, const DeviceCosts& costs, int32_t ranks,
                      Bytes bytes) {
  const Bandwidth link = costs.SwitchBandwidth(ranks);
  if (link.bytes_per_second() <= 0 || !engine.all_reduce.Takes(ranks, bytes)) {
    return costs.Collective(CollectiveOp::kAllReduce, ranks, bytes);
  }
  return {engine.all_reduce.Time(ranks, bytes, link), EstimateSource::kAnalytic, false};
}

std::shared_ptr<const RankExchange> MakeRankExchange(const EngineConfig& engine,
                                                     std::shared_ptr<const DeviceCosts> costs,
                                                     int32_t ranks) {
  if (ranks <= 1) return nullptr;
  return std::make_shared<CostsRankExchange>(engine, std::move(costs), ranks);
}

std::shared_ptr<const EngineExchange> MakeEngineExchange(std::shared_ptr<const DeviceCosts> costs,
                                                         int32_t ranks) {
  return std::make_shared<CostsEngineExchange>(std::move(costs), ranks);
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
