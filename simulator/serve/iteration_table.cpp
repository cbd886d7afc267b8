#include "simulator/serve/iteration_table.h"

#include <cmath>
#include <map>
#include <tuple>

#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/serve/csv_columns.h"
#include "simulator/serve/request.h"

namespace foretrace::serve {
namespace {

constexpr double kMaxMs = 1e9;
constexpr size_t kParts = 3;

std::map<std::string, std::vector<IterationRow>> ByDeployment(
    const std::vector<IterationRow>& rows) {
  std::map<std::string, std::vector<IterationRow>> groups;
  for (const IterationRow& row : rows) groups[row.deployment].push_back(row);
  return groups;
}

}  // namespace

absl::StatusOr<std::vector<IterationRow>> ReadIterationTable(const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(
      CsvColumns table,
      CsvColumns::Open(file, {"model", "hardware", "tensor_parallel", "batch_size", "prompt_tokens",
                              "output_tokens", "prompt_ms", "time_between_tokens_ms"}));
  std::map<std::tuple<std::string, int32_t, int32_t, int32_t>, std::pair<IterationRow, int>> sums;
  while (table.Next()) {
    const CsvRow& in = table.row();
    IterationRow row;
    row.deployment = fmt::format("{} {} tp{}", in.Text(0), in.Text(1), in.Integer(2, 1, 1 << 16));
    row.batch = in.Integer(3, 1, 1 << 20);
    row.prompt = in.Integer(4, 1, kMaxTokens);
    row.output = in.Integer(5, 1, kMaxTokens);
    auto& [sum, count] = sums[{row.deployment, row.batch, row.prompt, row.output}];
    row.prompt_time = sum.prompt_time + RealMs(in.Number(6, 1e-6, kMaxMs));
    row.token_time = sum.token_time + RealMs(in.Number(7, 1e-6, kMaxMs));
    sum = row;
    ++count;
  }
  FORETRACE_RETURN_IF_ERROR(table.status());
  std::vector<IterationRow> rows;
  for (auto& [key, entry] : sums) {
    entry.first.prompt_time = entry.first.prompt_time / entry.second;
    entry.first.token_time = entry.first.token_time / entry.second;
    rows.push_back(entry.first);
  }
  return rows;
}

absl::StatusOr<IterationModel> IterationModel::Fit(const std::vector<IterationRow>& rows) {
  IterationModel model;
  for (const IterationRow& row : rows) {
    model.prompt_.Add(std::log(row.prompt_tokens()), std::log(row.prompt_time.ms()));
    model.token_.Add(row.batch, row.token_time.ms());
  }
  FORETRACE_RETURN_IF_ERROR(model.prompt_.Finish());
  FORETRACE_RETURN_IF_ERROR(model.token_.Finish());
  return model;
}

RealMs IterationModel::PromptTime(double tokens) const {
  return RealMs(std::exp(prompt_.At(std::log(tokens)).us));
}
RealMs IterationModel::TokenTime(double sequences) const { return RealMs(token_.At(sequences).us); }

absl::StatusOr<IterationErrors> HoldOutThirds(const std::vector<IterationRow>& rows) {
  std::vector<double> prompt, token;
  for (const auto& [name, group] : ByDeployment(rows)) {
    for (size_t part = 0; part < kParts; ++part) {
      std::vector<IterationRow> kept;
      for (size_t i = 0; i < group.size(); ++i) {
        if (i % kParts != part) kept.push_back(group[i]);
      }
      const auto model = IterationModel::Fit(kept);
      if (!model.ok()) {
        return InvalidInput("{}: has {} settings, too few to hold a third of them out", name,
                            group.size());
      }
      for (size_t i = part; i < group.size(); i += kParts) {
        const IterationRow& row = group[i];
        prompt.push_back(100 *
                         std::abs(model->PromptTime(row.prompt_tokens()) / row.prompt_time - 1));
        token.push_back(100 * std::abs(model->TokenTime(row.batch) / row.token_time - 1));
      }
    }
  }
  IterationErrors errors;
  errors.held_out = prompt.size();
  errors.fitted = rows.size();
  errors.prompt_median_percent = Quantile(prompt, 0.5);
  errors.prompt_p90_percent = Quantile(prompt, 0.9);
  errors.token_median_percent = Quantile(token, 0.5);
  errors.token_p90_percent = Quantile(token, 0.9);
  return errors;
}

std::string IterationText(const std::string& file, const IterationErrors& e) {
  return fmt::format(
      "Verdict: median error {:.2f} % of prompts, {:.2f} % between tokens, on {} held-out "
      "settings\n"
      "{}: {} settings, each predicted from the two thirds that it is not in\n\n"
      "{:<20} {:>9} {:>9}\n{:<20} {:>9.2f} {:>9.2f}\n{:<20} {:>9.2f} {:>9.2f}\n",
      e.prompt_median_percent, e.token_median_percent, e.held_out, file, e.held_out, "error %",
      "median", "P90", "prompt", e.prompt_median_percent, e.prompt_p90_percent, "between tokens",
      e.token_median_percent, e.token_p90_percent);
}

std::string IterationJson(const std::string& file, const IterationErrors& e) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter out(buffer);
  out.StartObject();
  out.Field("table", file);
  out.Key("summary");
  out.StartObject();
  out.Field("settings", static_cast<uint64_t>(e.held_out));
  out.Field("prompt_median_percent", e.prompt_median_percent);
  out.Field("prompt_p90_percent", e.prompt_p90_percent);
  out.Field("token_median_percent", e.token_median_percent);
  out.Field("token_p90_percent", e.token_p90_percent);
  out.EndObject();
  out.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace::serve
