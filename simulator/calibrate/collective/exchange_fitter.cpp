#include "simulator/calibrate/collective/exchange_fitter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "simulator/base/dtype.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/collective/expert_exchange_file.h"

namespace foretrace {
namespace {

int64_t Of(const BenchmarkRow& row, std::string_view key) { return *row.shape.Int(key); }

ExchangeSample SampleOf(const BenchmarkRow& row) {
  ExchangeSample sample;
  ExpertExchange& x = sample.exchange;
  x.algorithm = *ParseEnum<ExpertAlgorithm>(*row.shape.Text("algorithm"));
  x.direction =
      row.op.starts_with("dispatch") ? ExpertDirection::kDispatch : ExpertDirection::kCombine;
  ExpertRouting& r = x.routing;
  r.experts = Of(row, "experts");
  r.top_k = Of(row, "top_k");
  r.ranks = static_cast<int32_t>(Of(row, "ranks"));
  r.nodes = static_cast<int32_t>(Of(row, "nodes"));
  r.groups = static_cast<int32_t>(Of(row, "groups"));
  r.groups_of_token = static_cast<int32_t>(Of(row, "groups_of_token"));
  x.tokens = static_cast<double>(Of(row, "tokens"));
  const DType dtype = ParseDType(row.dtype);
  x.token_bytes = dtype == DType::kFloat8 ? Fp8TokenBytes(Of(row, "hidden"))
                                          : TokenBytes(Of(row, "hidden"), ElementSize(dtype));
  x.multiprocessors = static_cast<int32_t>(Of(row, "sms"));
  ExpertLinks& links = sample.links;
  links.devices = r.ranks / r.nodes;
  links.nvlink = Bandwidth::GBps(static_cast<double>(Of(row, "nvlink_GBps")));
  links.nic = Bandwidth::GBps(static_cast<double>(Of(row, "nic_GBps")));
  links.multiprocessors = static_cast<int32_t>(Of(row, "multiprocessors"));
  sample.notify = row.op.ends_with("notify");
  sample.time_us = row.time_us;
  return sample;
}

// A hidden size and the number of experts of a token.
using Shape = std::pair<int64_t, int64_t>;
Shape ShapeOf(const BenchmarkRow& row) { return {Of(row, "hidden"), Of(row, "top_k")}; }

}  // namespace

std::string FittedExchanges::ToYaml() const { return ExpertExchangeYaml(fit_.model); }

absl::Status FittedExchanges::Writable() const {
  const std::vector<std::string> missing = fit_.Missing();
  if (missing.empty()) return absl::OkStatus();
  return InvalidInput(
      "a calibration file has all kernels, and there are no rows of {}; add tables that have them, "
      "or leave --output out",
      fmt::join(missing, ", "));
}

std::vector<EvaluatedRow> FittedExchanges::Evaluate(std::span<const BenchmarkRow> rows) const {
  std::vector<EvaluatedRow> evaluated;
  for (const BenchmarkRow& row : rows) {
    const ExchangeSample s = SampleOf(row);
    const ExpertRouting& routing = s.exchange.routing;
    const ExpertKernel& model =
        fit_.model.Kernel(s.exchange.algorithm, s.exchange.direction, routing.nodes);
    const ExpertKernel& kernel = s.notify ? model : fit_.KernelOf(s.exchange);
    const bool notifies =
        kernel.notify_us + kernel.notify_us_per_doubling + kernel.notify_share > 0;
    if (!IsFitted(kernel) || (s.notify && !notifies)) continue;
    const RealUs transfer = TransferOf(kernel, s.links, s.exchange);
    EvaluatedRow result;
    result.row = &row;
    result.model = fmt::format("{} {} {} node{}", Name(s.exchange.algorithm), row.op, routing.nodes,
                               routing.nodes == 1 ? "" : "s");
    result.predicted_us = (s.notify ? NotifyOf(kernel, routing, transfer) : transfer).us();
    result.extrapolated = fit_.congested_nodes.contains(routing.nodes) &&
                          s.exchange.algorithm == ExpertAlgorithm::kDeduplicated &&
                          &kernel == &model;
    evaluated.push_back(std::move(result));
  }
  return evaluated;
}

std::vector<std::string> FittedExchanges::Notes() const {
  std::vector<std::string> notes;
  const std::vector<std::string> missing = fit_.Missing();
  if (!missing.empty()) {
    notes.push_back(fmt::format("no rows of {}: not fitted", fmt::join(missing, ", ")));
  }
  for (const int32_t nodes : fit_.congested_nodes) {
    notes.push_back(fmt::format(
        "deduplicated exchanges of {} nodes took no part in the fit: they move less than half of "
        "what other numbers of nodes do through a NIC, so that their fabric is congested{}",
        nodes,
        fit_.congested.contains(nodes)
            ? "; transfers have constants of their own here, which no file has"
            : ""));
  }
  return notes;
}

absl::StatusOr<std::unique_ptr<FittedModels>> ExchangeFitter::Fit(
    std::span<const BenchmarkRow> rows, const FitOptions& options) const {
  std::vector<ExchangeSample> samples;
  for (const BenchmarkRow& row : rows) samples.push_back(SampleOf(row));
  Tell(options.progress, "kernels", 0, 1);
  FORETRACE_ASSIGN_OR_RETURN(ExchangeFit fit, FitExchanges(samples));
  return std::make_unique<FittedExchanges>(std::move(fit));
}

absl::StatusOr<std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>> ExchangeFitter::Load(
    const std::string& path) const {
  FORETRACE_ASSIGN_OR_RETURN(LoadedExpertExchange loaded, LoadExpertExchange(path));
  ExchangeFit fit;
  fit.model = loaded.model;
  return std::pair<CalibrationHeader, std::unique_ptr<FittedModels>>(
      std::move(loaded.header), std::make_unique<FittedExchanges>(std::move(fit)));
}

absl::StatusOr<std::unique_ptr<FittedModels>> ExchangeFitter::Adapt(
    const FittedModels&, std::span<const BenchmarkRow>) const {
  return InvalidInput(
      "exchanges with experts cannot be corrected by a few rows; fit them (calibrate "
      "expert-exchange TABLE.csv)");
}

absl::StatusOr<RowSplit> ExchangeFitter::Split(std::span<const BenchmarkRow> rows,
                                               std::string_view rule, uint64_t seed) const {
  FORETRACE_RETURN_IF_ERROR(CheckHoldOutRule(*this, rule));
  std::set<Shape> shapes;
  std::set<int64_t> numbers;  // of nodes
  for (const BenchmarkRow& row : rows) {
    const int64_t nodes = Of(row, "nodes");
    if (nodes == 1) shapes.insert(ShapeOf(row));
    if (nodes > 1) numbers.insert(nodes);
  }
  const auto place = [](const auto& set, const auto& value) {
    return static_cast<uint64_t>(std::distance(set.begin(), set.lower_bound(value)));
  };
  RowSplit split;
  for (const BenchmarkRow& row : rows) {
    const int64_t nodes = Of(row, "nodes");
    const bool test = rule == "nodes" ? nodes > 1 && place(numbers, nodes) == seed % numbers.size()
                                      : nodes == 1 && place(shapes, ShapeOf(row)) % 3 == seed % 3;
    (test ? split.test : split.train).push_back(row);
  }
  return split;
}

}  // namespace foretrace
