#include "simulator/calibrate/collective/exchange_fit.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

ExpertExchangeModel Made() {
  ExpertExchangeModel model;
  for (ExpertKernel& k : model.deduplicated.within) {
    k.latency_us = 20;
    k.copy_us_per_KB = 0.03;
    k.nvlink_share = 0.7;
    k.sharpness = 4;
  }
  for (ExpertKernel& k : model.deduplicated.between) {
    k.latency_us = 30;
    k.latency_us_per_doubling = 10;
    k.copy_us_per_KB = 0.03;
    k.nvlink_share = 0.7;
    k.nic_share = 0.9;
    k.sharpness = 4;
    k.notify_us = 15;
    k.notify_us_per_doubling = 20;
  }
  for (ExpertExchangeKernels* kernels : {&model.direct}) {
    for (ExpertKernel& k : kernels->within) {
      k.latency_us = 8;
      k.token_us_per_KB = 0.2;
      k.nvlink_share = 0.5;
      k.nic_share = 0.95;
      k.sharpness = 4;
    }
    for (size_t d = 0; d < 2; ++d) {
      kernels->between[d] = kernels->within[d];
      kernels->between[d].latency_us = 12;
    }
  }
  return model;
}

// Times of a model, of tokens that choose 8 of 64 experts.
std::vector<ExchangeSample> Samples(const ExpertExchangeModel& model, bool congested) {
  std::vector<ExchangeSample> samples;
  for (const auto algorithm : {ExpertAlgorithm::kDeduplicated, ExpertAlgorithm::kDirect}) {
    for (const auto direction : {ExpertDirection::kDispatch, ExpertDirection::kCombine}) {
      for (const int32_t nodes : {1, 2, 4, 8}) {
        for (int exponent = 0; exponent < 16; ++exponent) {
          for (const int32_t sms : {8, 24}) {
            for (const int64_t hidden : {2048, 7168}) {
              ExchangeSample s;
              s.exchange.algorithm = algorithm;
              s.exchange.direction = direction;
              s.exchange.routing = {64, 8, 8 * nodes, nodes, 0, 0};
              s.exchange.tokens = 1 << exponent;
              s.exchange.token_bytes = TokenBytes(hidden, 2);
              s.exchange.multiprocessors = sms;
              s.links = {8, Bandwidth::GBps(450), Bandwidth::GBps(50), 132};
              const ExpertKernel& kernel = model.Kernel(algorithm, direction, nodes);
              s.time_us = TransferOf(kernel, s.links, s.exchange).us();
              if (congested && nodes == 8 && algorithm == ExpertAlgorithm::kDeduplicated) {
                s.time_us *= 3;
              }
              samples.push_back(s);
              if (nodes == 1 || algorithm == ExpertAlgorithm::kDirect) continue;
              s.notify = true;
              s.time_us = NotifyOf(kernel, s.exchange.routing, RealUs(s.time_us)).us();
              samples.push_back(s);
            }
          }
        }
      }
    }
  }
  return samples;
}

double WorstError(const ExpertExchangeModel& fitted, std::span<const ExchangeSample> samples) {
  double worst = 0;
  for (const ExchangeSample& s : samples) {
    const ExpertRouting& routing = s.exchange.routing;
    const ExpertKernel& kernel =
        fitted.Kernel(s.exchange.algorithm, s.exchange.direction, routing.nodes);
    const RealUs transfer = TransferOf(kernel, s.links, s.exchange);
    const RealUs predicted = s.notify ? NotifyOf(kernel, routing, transfer) : transfer;
    worst = std::max(worst, std::abs(predicted.us() / s.time_us - 1));
  }
  return worst;
}

TEST(ExchangeFit, FindsAModelThatMadeTheTimes) {
  const std::vector<ExchangeSample> samples = Samples(Made(), false);
  const auto fit = FitExchanges(samples);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_TRUE(fit->congested_nodes.empty());
  EXPECT_LT(WorstError(fit->model, samples), 0.03);
}

// Eight nodes at a third of what the others move through their NICs: what they show is not the
// kernels'.
TEST(ExchangeFit, LeavesOutACongestedFabric) {
  const auto fit = FitExchanges(Samples(Made(), true));
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_EQ(fit->congested_nodes, std::set<int32_t>{8});
  EXPECT_LT(WorstError(fit->model, Samples(Made(), false)), 0.03);
}

// Of the fabric that was measured: three times as long is what the same kernels take of a NIC at a
// third of its rate, with few tokens too, so that constants of their own say it all.
TEST(ExchangeFit, CongestedFabricsHaveConstantsOfTheirOwn) {
  const std::vector<ExchangeSample> samples = Samples(Made(), true);
  const auto fit = FitExchanges(samples);
  ASSERT_TRUE(fit.ok()) << fit.status();
  ASSERT_TRUE(fit->congested.contains(8));
  std::vector<double> errors;
  for (const ExchangeSample& s : samples) {
    if (s.exchange.algorithm != ExpertAlgorithm::kDeduplicated || s.exchange.routing.nodes != 8) {
      EXPECT_EQ(
          &fit->KernelOf(s.exchange),
          &fit->model.Kernel(s.exchange.algorithm, s.exchange.direction, s.exchange.routing.nodes));
    } else if (!s.notify) {
      const RealUs predicted = TransferOf(fit->KernelOf(s.exchange), s.links, s.exchange);
      errors.push_back(std::abs(predicted.us() / s.time_us - 1));
    }
  }
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 0.05);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.15);
}

// A table of one mode, or of one node, is fitted as far as it goes.
TEST(ExchangeFit, FitsWhatThereIsAndSaysWhatIsMissing) {
  std::vector<ExchangeSample> samples = Samples(Made(), false);
  std::erase_if(samples, [](const ExchangeSample& s) {
    return s.exchange.algorithm == ExpertAlgorithm::kDirect;
  });
  const auto fit = FitExchanges(samples);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_LT(WorstError(fit->model, samples), 0.03);
  EXPECT_EQ(fit->Missing(),
            (std::vector<std::string>{
                "direct dispatches within a node", "direct dispatches between nodes",
                "direct combines within a node", "direct combines between nodes"}));
  EXPECT_FALSE(FitExchanges({}).ok());
}

// What a fit begins with is no result.
TEST(ExchangeFit, KernelsWithoutRowsAreNotFitted) {
  std::vector<ExchangeSample> samples = Samples(Made(), false);
  std::erase_if(samples, [](const ExchangeSample& s) { return s.exchange.routing.nodes > 1; });
  const auto fit = FitExchanges(samples);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_LT(WorstError(fit->model, samples), 0.03);
  for (const ExpertExchangeKernels* kernels : {&fit->model.deduplicated, &fit->model.direct}) {
    for (size_t d = 0; d < 2; ++d) {
      EXPECT_TRUE(IsFitted(kernels->within[d]));
      EXPECT_FALSE(IsFitted(kernels->between[d]));
    }
  }
}

}  // namespace
}  // namespace foretrace
