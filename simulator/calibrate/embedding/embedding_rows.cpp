#include "simulator/calibrate/embedding/embedding_rows.h"

#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr std::array<std::string_view, 4> kOptimizers = {"sgd", "sgd_momentum", "adam", "adagrad"};
constexpr std::array<std::string_view, 3> kParts = {"all", "kernels", "sort"};

absl::StatusOr<double> Number(const BenchmarkRow& row, std::string_view key, double least) {
  const std::string_view text = row.shape.Text(key).value_or("");
  double value = 0;
  const auto end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(value >= least) || !(value <= 1e15)) {
    return InvalidInput("shape key '{}' is '{}'; a number from {} on is needed", key, text, least);
  }
  return value;
}

absl::StatusOr<ReuseFactors> ReuseOf(std::string_view text) {
  ReuseFactors reuse;
  size_t bin = 0;
  double sum = 0;
  for (std::string_view rest = text;; ++bin) {
    const size_t bar = std::min(rest.find('|'), rest.size());
    double value = -1;
    const auto parsed = std::from_chars(rest.data(), rest.data() + bar, value);
    if (bin >= kReuseBins || parsed.ec != std::errc() || parsed.ptr != rest.data() + bar ||
        !(value >= 0 && value <= 1 + 1e-6)) {
      return InvalidInput("rf is '{}'; {} reuse factors from 0 to 1 joined by '|' are needed", text,
                          kReuseBins);
    }
    reuse.fractions[bin] = value;
    sum += value;
    if (bar == rest.size()) break;
    rest.remove_prefix(bar + 1);
  }
  if (bin + 1 != kReuseBins) {
    return InvalidInput("rf has {} reuse factors, not {}", bin + 1, kReuseBins);
  }
  if (std::abs(sum - 1) > 0.01 || reuse.fractions[0] > 0) {
    return InvalidInput(
        "rf must add up to 1 over the rows that are looked up (is {:.3f}), and none of "
        "them is looked up less than once (first factor {:.3f})",
        sum, reuse.fractions[0]);
  }
  return reuse;
}

absl::Status ReadTags(const BenchmarkRow& row, LookupSample& sample) {
  const std::string_view impl = TagOf(row.library, "impl"), grad = TagOf(row.library, "grad");
  if (impl != "batched" && impl != "loop" && impl != "concat") {
    return InvalidInput(
        "library '{}' has no tag impl=batched, impl=loop or impl=concat, so that it is "
        "not known which kernels ran",
        row.library);
  }
  sample.kernels = impl == "batched" ? LookupKernels::kBatched : LookupKernels::kBag;
  if (row.phase != Phase::kForward && grad != "fused" && grad != "dense" && grad != "sparse") {
    return InvalidInput(
        "library '{}' has no tag grad=fused, grad=dense or grad=sparse, which phase {} "
        "needs",
        row.library, Name(row.phase));
  }
  sample.query.fused_update = grad == "fused";
  sample.query.sparse_gradient = grad == "sparse";
  sample.query.clears_gradient = grad == "dense" && sample.kernels == LookupKernels::kBag;
  sample.query.mean_lengths = TagOf(row.library, "lengths") == "mean";
  sample.query.rowwise = TagOf(row.library, "rowwise") != "0";
  sample.query.optimizer = OptimizerKind::kSgd;
  if (const std::string_view name = TagOf(row.library, "optimizer"); !name.empty()) {
    const auto it = std::find(kOptimizers.begin(), kOptimizers.end(), name);
    if (it == kOptimizers.end()) {
      return InvalidInput("tag optimizer={} is none of {}", name, fmt::join(kOptimizers, ", "));
    }
    sample.query.optimizer = static_cast<OptimizerKind>(it - kOptimizers.begin());
  }
  if (const std::string_view part = TagOf(row.library, "part"); !part.empty()) {
    const auto it = std::find(kParts.begin(), kParts.end(), part);
    if (it == kParts.end())
      return InvalidInput("tag part={} is none of {}", part, fmt::join(kParts, ", "));
    sample.part = static_cast<TimedPart>(it - kParts.begin());
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view TagOf(std::string_view text, std::string_view tag, char separator) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    const std::string_view part = text.substr(0, end);
    if (part.size() > tag.size() && part.starts_with(tag) && part[tag.size()] == '=') {
      return part.substr(tag.size() + 1);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

absl::StatusOr<LookupSample> SampleOfRow(const BenchmarkRow& row) {
  LookupSample sample;
  switch (row.phase) {
    case Phase::kForward:
      sample.pass = LookupPass::kForward;
      break;
    case Phase::kBackward:
      sample.pass = LookupPass::kBackward;
      break;
    case Phase::kOptimizer:
      sample.pass = LookupPass::kUpdate;
      break;
    default:
      return InvalidInput("phase of a lookup is '{}'", Name(row.phase));
  }
  FORETRACE_RETURN_IF_ERROR(ReadTags(row, sample));
  const auto tables = *row.shape.Int("tables"), batch = *row.shape.Int("b");
  if (tables < 1 || tables > 100'000 || batch < 1) {
    return InvalidInput("{} tables of {} bags; both must be at least 1", tables, batch);
  }
  TableLookup table;
  table.batch = static_cast<double>(batch);
  FORETRACE_ASSIGN_OR_RETURN(table.rows, Number(row, "e", 1));
  FORETRACE_ASSIGN_OR_RETURN(table.dim, Number(row, "d", 1));
  FORETRACE_ASSIGN_OR_RETURN(table.pooling, Number(row, "l", 0));
  FORETRACE_ASSIGN_OR_RETURN(table.reuse, ReuseOf(row.shape.Text("rf").value_or("")));
  if (row.shape.Text("unique")) {
    FORETRACE_ASSIGN_OR_RETURN(table.unique_rows, Number(row, "unique", 0));
  }
  sample.query.weight_dtype = ParseDType(row.dtype);
  if (sample.query.weight_dtype == DType::kUnknown) {
    return InvalidInput("unknown dtype '{}'", row.dtype);
  }
  const bool apart = TagOf(row.library, "impl") == "loop";
  sample.query.tables.assign(apart ? 1 : static_cast<size_t>(tables), table);
  sample.calls = apart ? static_cast<double>(tables) : 1;
  return sample;
}

BenchmarkRow RowOfSample(const LookupSample& sample, const std::string& library) {
  const EmbeddingQuery& query = sample.query;
  const TableLookup& table = query.tables.front();
  BenchmarkRow row;
  row.kind = BenchmarkKind::kEmbedding;
  row.op = "embedding";
  row.phase = sample.pass == LookupPass::kForward    ? Phase::kForward
              : sample.pass == LookupPass::kBackward ? Phase::kBackward
                                                     : Phase::kOptimizer;
  row.dtype = std::string(Name(query.weight_dtype));
  auto shape = ShapeKeys::Parse(
      fmt::format("tables={};b={};e={};d={};l={};weights=0;rf={};unique={}", query.tables.size(),
                  std::llround(table.batch), table.rows, table.dim, table.pooling,
                  fmt::join(table.reuse.fractions, "|"), table.unique_rows));
  row.shape = *std::move(shape);
  row.library =
      library + (sample.kernels == LookupKernels::kBatched ? ";impl=batched" : ";impl=concat");
  if (sample.pass != LookupPass::kForward) {
    row.library += query.fused_update      ? ";grad=fused"
                   : query.sparse_gradient ? ";grad=sparse"
                                           : ";grad=dense";
    if (query.fused_update) {
      row.library +=
          fmt::format(";optimizer={};rowwise={}", kOptimizers[static_cast<size_t>(query.optimizer)],
                      query.rowwise ? 1 : 0);
    }
  }
  if (sample.part != TimedPart::kAll) {
    row.library += fmt::format(";part={}", kParts[static_cast<size_t>(sample.part)]);
  }
  if (query.mean_lengths) row.library += ";lengths=mean";
  return row;
}

}  // namespace foretrace
