#include "simulator/serve/measured_run.h"

#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/serve/csv_columns.h"
#include "simulator/serve/run_meta.h"
#include "simulator/serve/shared_prefix.h"

namespace foretrace::serve {
namespace {

namespace fs = std::filesystem;

// Of one request, by two clocks: the client's and the engine's.
struct Stamps {
  RealSeconds arrival;
  RealSeconds queued, first, last;
};

// One request of the file. What the file does not state of its times follows from its stamps.
struct Recorded {
  size_t row = 0;
  Request request;
  Stamps stamps;
  std::optional<RealSeconds> ttft, tpot, e2e;
};

RequestTimes RecordedTimes(const Recorded& r) {
  const int32_t output = r.request.output_tokens;
  RequestTimes times;
  times.ttft = r.ttft.value_or(r.stamps.first - r.stamps.queued);
  times.e2e = r.e2e.value_or(r.stamps.last - r.stamps.queued);
  if (output > 1) times.tpot = r.tpot.value_or((r.stamps.last - r.stamps.first) / (output - 1));
  return times;
}

std::string Disorder(const Stamps& stamps) {
  if (stamps.first < stamps.queued) return "its first token comes before it was queued";
  if (stamps.last < stamps.first) return "its last token comes before its first";
  return "";
}

absl::StatusOr<std::vector<Recorded>> ReadRunTable(const std::string& file, size_t& unfinished) {
  FORETRACE_ASSIGN_OR_RETURN(CsvColumns table,
                             CsvColumns::Open(file, {"input_tokens", "output_tokens", "queued_s",
                                                     "first_token_s", "last_token_s"}));
  int32_t arrival = table.Also("client_arrival_s");
  if (arrival < 0) arrival = table.Also("planned_arrival_s");
  const int32_t number = table.Also("request");
  const int32_t ttft = table.Also("ttft_s"), tpot = table.Also("tpot_s");
  const int32_t e2e = table.Also("e2e_s");
  std::vector<Recorded> all;
  for (size_t line = 0; table.Next(); ++line) {
    const CsvRow& row = table.row();
    const auto seconds = [&](size_t column) {
      return RealSeconds(row.Number(column, 0, kMaxArrivalSeconds));
    };
    const auto stated = [&](int32_t column) {
      return column < 0 ? std::nullopt : std::optional(seconds(static_cast<size_t>(column)));
    };
    if (row.Text(4).empty()) {
      ++unfinished;
      continue;
    }
    Recorded r;
    r.row = number < 0
                ? line
                : static_cast<size_t>(row.Integer(static_cast<size_t>(number), 0, kMaxTokens));
    r.request.input_tokens = row.Integer(0, 1, kMaxTokens);
    r.request.output_tokens = row.Integer(1, 1, kMaxTokens);
    r.stamps = {RealSeconds(), seconds(2), seconds(3), seconds(4)};
    r.stamps.arrival = stated(arrival).value_or(r.stamps.queued);
    r.ttft = stated(ttft), r.tpot = stated(tpot), r.e2e = stated(e2e);
    if (const std::string problem = Disorder(r.stamps); !problem.empty()) table.Fail(problem);
    all.push_back(r);
  }
  FORETRACE_RETURN_IF_ERROR(table.status());
  return all;
}

// A member that is a number within bounds; nullopt: it is missing, null or something else.
std::optional<double> NumberOf(const rapidjson::Value& object, const char* key) {
  const auto at = object.FindMember(key);
  if (at == object.MemberEnd() || !at->value.IsNumber()) return std::nullopt;
  const double value = at->value.GetDouble();
  return std::isfinite(value) && value >= 0 && value < 1e12 ? std::optional(value) : std::nullopt;
}

// "bench-12" is the workload's 12th request.
size_t NumberOfRequest(const rapidjson::Value& object, size_t fallback) {
  const auto id = object.FindMember("request_id");
  if (id == object.MemberEnd() || !id->value.IsString()) return fallback;
  const std::string text = id->value.GetString();
  uint32_t number = 0;
  return absl::SimpleAtoi(text.substr(text.rfind('-') + 1), &number) ? number : fallback;
}

absl::StatusOr<std::vector<Recorded>> ReadRunLines(const std::string& file, size_t& unfinished) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kMaxTableBytes));
  std::vector<Recorded> all;
  size_t number = 0;
  for (const std::string_view line : SplitLines(text)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    rapidjson::Document document;
    document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseFullPrecisionFlag>(
        line.data(), line.size());
    if (document.HasParseError() || !document.IsObject()) {
      return InvalidInput("{}:{}: is no JSON object", file, number);
    }
    const auto input = NumberOf(document, "input_toks"), output = NumberOf(document, "output_toks");
    if (!input || !output || *input < 1 || *output < 1 || *input > kMaxTokens ||
        *output > kMaxTokens || *input != std::floor(*input) || *output != std::floor(*output)) {
      return InvalidInput("{}:{}: needs input_toks and output_toks, whole numbers from 1", file,
                          number);
    }
    const auto queued = NumberOf(document, "queued_ts");
    const auto first = NumberOf(document, "first_token_ts");
    const auto last = NumberOf(document, "last_token_ts");
    if (!queued || !first || !last) {
      ++unfinished;
      continue;
    }
    Recorded r;
    r.row = NumberOfRequest(document, number - 1);
    r.request.input_tokens = static_cast<int32_t>(*input);
    r.request.output_tokens = static_cast<int32_t>(*output);
    r.stamps = {RealSeconds(NumberOf(document, "arrival_time").value_or(*queued)),
                RealSeconds(*queued), RealSeconds(*first), RealSeconds(*last)};
    if (const std::string problem = Disorder(r.stamps); !problem.empty()) {
      return InvalidInput("{}:{}: {}", file, number, problem);
    }
    all.push_back(r);
  }
  return all;
}

absl::Status Take(const std::string& file, const std::vector<Recorded>& all, MeasuredRun& run) {
  if (all.empty()) return InvalidInput("{}: no request of it finished", file);
  RealSeconds arrival = all.front().stamps.arrival, queued = all.front().stamps.queued, last;
  for (const Recorded& r : all) {
    arrival = std::min(arrival, r.stamps.arrival);
    queued = std::min(queued, r.stamps.queued);
    last = std::max(last, r.stamps.last);
  }
  for (const Recorded& r : all) {
    if ((r.stamps.arrival - arrival).seconds() > kMaxArrivalSeconds) {
      return InvalidInput("{}: request {} arrives more than a month after the first", file, r.row);
    }
    Request request = r.request;
    request.arrival = SimTime::FromSeconds((r.stamps.arrival - arrival).seconds());
    run.trace.requests.push_back(request);
    run.rows.push_back(r.row);
    run.measured.push_back(RecordedTimes(r));
  }
  run.time = last - queued;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MeasuredRun> ReadMeasuredRun(const std::string& folder) {
  MeasuredRun run;
  run.folder = folder;
  FORETRACE_RETURN_IF_ERROR(ReadRunMeta((fs::path(folder) / "meta.json").string(), run));
  const std::string table = (fs::path(folder) / "requests.csv").string();
  const std::string lines = (fs::path(folder) / "requests.jsonl").string();
  std::error_code error;
  const bool as_lines = !fs::exists(table, error) && fs::exists(lines, error);
  const std::string& file = as_lines ? lines : table;
  run.trace.source = file;
  size_t unfinished = 0;
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<Recorded> all, as_lines
                                                                  ? ReadRunLines(file, unfinished)
                                                                  : ReadRunTable(file, unfinished));
  FORETRACE_RETURN_IF_ERROR(Take(file, all, run));
  if (unfinished > 0) {
    run.notes.push_back(fmt::format("{} of {} requests have no last token and are left out",
                                    unfinished, unfinished + all.size()));
  }
  return run;
}

absl::Status AddSharedPrefixes(const std::string& file, MeasuredRun& run) {
  FORETRACE_ASSIGN_OR_RETURN(
      CsvColumns table,
      CsvColumns::Open(file, {"input_tokens", "output_tokens", "shared_prefix_tokens"}));
  RequestTrace workload;
  std::vector<int32_t> shared;
  while (table.Next()) {
    Request request;
    request.input_tokens = table.row().Integer(0, 1, kMaxTokens);
    request.output_tokens = table.row().Integer(1, 1, kMaxTokens);
    workload.requests.push_back(request);
    shared.push_back(table.row().Integer(2, 0, kMaxTokens));
  }
  FORETRACE_RETURN_IF_ERROR(table.status());
  for (size_t i = 0; i < run.rows.size(); ++i) {
    const Request& asked = run.trace.requests[i];
    if (run.rows[i] >= workload.requests.size()) {
      return InvalidInput("{}: has {} requests, {} has a request {}", file,
                          workload.requests.size(), run.trace.source, run.rows[i]);
    }
    const Request& planned = workload.requests[run.rows[i]];
    if (planned.input_tokens != asked.input_tokens ||
        planned.output_tokens != asked.output_tokens) {
      return InvalidInput("{}: request {} is not that of {}", file, run.rows[i], run.trace.source);
    }
  }
  ShareEarlierPrefixes(shared, run.engine.block_tokens, workload);
  for (size_t i = 0; i < run.rows.size(); ++i) {
    Request& asked = run.trace.requests[i];
    asked.prefix_begin = workload.requests[run.rows[i]].prefix_begin;
    asked.prefix_blocks = workload.requests[run.rows[i]].prefix_blocks;
  }
  run.trace.prefix_ids = std::move(workload.prefix_ids);
  run.trace.prefix_block_tokens = workload.prefix_block_tokens;
  return absl::OkStatus();
}

}  // namespace foretrace::serve
