#include "simulator/api/foretrace.h"

#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/api/background.h"
#include "simulator/cli/program.h"
#include "simulator/console/command.h"
#include "simulator/console/version.h"
#include "simulator/replay/simulation_setup.h"
#include "simulator/replay/trace_options.h"

namespace foretrace::api {
inline namespace v1 {
namespace {

void Add(std::vector<std::string>& arguments, const char* option, const std::string& value) {
  if (!value.empty()) arguments.insert(arguments.end(), {option, value});
}

void Add(std::vector<std::string>& arguments, const char* option,
         const std::vector<std::string>& values) {
  for (const std::string& value : values) arguments.insert(arguments.end(), {option, value});
}

void Append(std::vector<std::string>& arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
}

std::vector<std::string> ArgumentsOf(const SimulationOptions& options) {
  std::vector<std::string> arguments;
  Add(arguments, "--semantics", options.semantics);
  Add(arguments, "--without", options.without);
  if (options.aligned_start) arguments.push_back("--aligned-start");
  if (options.allow_missing_ranks) arguments.push_back("--allow-missing-ranks");
  Add(arguments, "--overheads", options.overheads);
  Add(arguments, "--what-if", options.what_if);
  Add(arguments, "--platform", options.platform);
  Add(arguments, "--network", options.network);
  Add(arguments, "--durations", options.durations);
  Add(arguments, "--calibration", options.calibrations);
  Append(arguments, options.arguments);
  return arguments;
}

using Json = rapidjson::Value;

const Json* Member(const Json& object, std::string_view name) {
  if (!object.IsObject()) return nullptr;
  const auto found =
      object.FindMember(Json(name.data(), static_cast<rapidjson::SizeType>(name.size())));
  return found == object.MemberEnd() ? nullptr : &found->value;
}

const Json* At(const Json& root, std::string_view path) {
  const Json* value = &root;
  while (value != nullptr && !path.empty()) {
    const size_t dot = std::min(path.find('.'), path.size());
    value = Member(*value, path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return value;
}

// The column `name` of `rows`; nullopt where a row has no simple value of a common type there.
std::optional<Table::Values> ColumnOf(const Json& rows, std::string_view name) {
  bool integers = true, numbers = true, texts = true;
  for (const Json& row : rows.GetArray()) {
    const Json* value = Member(row, name);
    const bool empty = value == nullptr || value->IsNull();
    integers = integers && !empty && value->IsInt64();
    numbers = numbers && (empty || value->IsNumber() || value->IsBool());
    texts = texts && (empty || value->IsString());
  }
  if (integers) {
    std::vector<int64_t> values;
    for (const Json& row : rows.GetArray()) values.push_back(Member(row, name)->GetInt64());
    return values;
  }
  if (numbers) {
    std::vector<double> values;
    for (const Json& row : rows.GetArray()) {
      const Json* value = Member(row, name);
      values.push_back(value == nullptr || value->IsNull()
                           ? std::numeric_limits<double>::quiet_NaN()
                       : value->IsBool() ? (value->GetBool() ? 1 : 0)
                                         : value->GetDouble());
    }
    return values;
  }
  if (!texts) return std::nullopt;
  std::vector<std::string> values;
  for (const Json& row : rows.GetArray()) {
    const Json* value = Member(row, name);
    const bool empty = value == nullptr || value->IsNull();
    values.push_back(empty ? "" : std::string(value->GetString(), value->GetStringLength()));
  }
  return values;
}

int64_t Integer(const Document& document, std::string_view path) {
  return static_cast<int64_t>(document.Number(path).value_or(0));
}

}  // namespace

Error::~Error() = default;

const Table::Values* Table::Find(std::string_view name) const {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [name](const auto& column) { return column.first == name; });
  return found == columns.end() ? nullptr : &found->second;
}

size_t Table::rows() const {
  if (columns.empty()) return 0;
  return std::visit([](const auto& values) { return values.size(); }, columns.front().second);
}

struct Document::Impl {
  std::string json;
  rapidjson::Document root;
};

Document Document::Parse(std::string json) {
  auto impl = std::make_shared<Impl>();
  impl->json = std::move(json);
  while (impl->json.ends_with('\n')) impl->json.pop_back();
  impl->root.Parse<rapidjson::kParseFullPrecisionFlag>(impl->json.data(), impl->json.size());
  if (impl->root.HasParseError() || !impl->root.IsObject()) {
    throw Error(Error::Kind::kDefect, "the answer is not a JSON document");
  }
  Document document;
  document.impl_ = std::move(impl);
  return document;
}

const std::string& Document::json() const { return impl_->json; }

std::optional<double> Document::Number(std::string_view path) const {
  const Json* value = At(impl_->root, path);
  if (value == nullptr || !value->IsNumber()) return std::nullopt;
  return value->GetDouble();
}

std::optional<std::string> Document::Text(std::string_view path) const {
  const Json* value = At(impl_->root, path);
  if (value == nullptr || !value->IsString()) return std::nullopt;
  return std::string(value->GetString(), value->GetStringLength());
}

std::vector<std::string> Document::Texts(std::string_view path) const {
  std::vector<std::string> texts;
  const Json* value = At(impl_->root, path);
  if (value == nullptr || !value->IsArray()) return texts;
  for (const Json& text : value->GetArray()) {
    if (text.IsString()) texts.emplace_back(text.GetString(), text.GetStringLength());
  }
  return texts;
}

Table Document::Rows(std::string_view path) const {
  const Json* rows = At(impl_->root, path);
  const bool objects =
      rows != nullptr && rows->IsArray() &&
      std::all_of(rows->Begin(), rows->End(), [](const Json& row) { return row.IsObject(); });
  if (!objects) {
    throw Error(Error::Kind::kBadInput,
                "\"" + std::string(path) + "\" is no list of objects in this document");
  }
  Table table;
  if (rows->Empty()) return table;
  for (const auto& member : (*rows)[0].GetObject()) {
    const std::string name(member.name.GetString(), member.name.GetStringLength());
    if (auto values = ColumnOf(*rows, name)) table.columns.emplace_back(name, *std::move(values));
  }
  return table;
}

struct Job::Impl {
  std::vector<std::string> paths;
  bool strict = false;
  std::shared_ptr<const TraceStore> store;
  Document inspection;
};

std::string RunText(const std::vector<std::string>& arguments, const Control& control) {
  return Execute({.arguments = arguments, .traces = nullptr}, control);
}

Document Run(const std::vector<std::string>& arguments, const Control& control) {
  std::vector<std::string> all = arguments;
  all.push_back("--json");
  return Document::Parse(RunText(all, control));
}

Document RunOn(const Job& job, const std::string& command, const std::vector<std::string>& options,
               const Control& control) {
  std::vector<std::string> arguments = {command};
  if (command == "validate") {
    Add(arguments, "--trace", job.impl().paths);
  } else {
    Append(arguments, job.impl().paths);
  }
  if (job.impl().strict) arguments.push_back("--strict");
  Append(arguments, options);
  arguments.push_back("--json");
  return Document::Parse(
      Execute({.arguments = std::move(arguments), .traces = job.impl().store}, control));
}

Job Job::Import(std::vector<std::string> paths, ImportOptions options, const Control& control) {
  if (paths.empty())
    throw Error(Error::Kind::kBadInput, "no traces: give files, folders, tars or zips");
  auto impl = std::make_shared<Impl>();
  impl->paths = paths;
  impl->strict = options.strict;
  TraceOptions traces;
  traces.paths = std::move(paths);
  traces.strict = options.strict;
  traces.process_groups = std::move(options.process_groups);
  traces.ignore = std::move(options.ignore);
  traces.jobs = options.jobs;
  impl->store = ImportInBackground(traces, control);
  Job job(impl);
  impl->inspection = RunOn(job, "inspect", {}, control);
  return job;
}

const Document& Job::inspection() const { return impl_->inspection; }
int64_t Job::rank_count() const { return Integer(inspection(), "ranks"); }
int64_t Job::world_size() const { return Integer(inspection(), "world_size"); }
int64_t Job::node_count() const { return Integer(inspection(), "nodes"); }

double Prediction::iteration_time_us() const { return Number("iteration_time_us").value_or(0); }
double Prediction::step_time_us() const { return Number("step_time_us").value_or(0); }
std::optional<double> Prediction::recorded_iteration_time_us() const {
  return Number("recorded_iteration_time_us");
}
double Prediction::baseline_us() const { return Number("baseline_us").value_or(0); }

std::vector<Iteration> Prediction::iterations() const {
  const Table table = Rows("iterations");
  const auto integers = [&](const char* name) {
    return std::get<std::vector<int64_t>>(*table.Find(name));
  };
  const auto numbers = [&](const char* name) {
    const Table::Values& values = *table.Find(name);
    if (const auto* exact = std::get_if<std::vector<int64_t>>(&values)) {
      return std::vector<double>(exact->begin(), exact->end());
    }
    return std::get<std::vector<double>>(values);
  };
  std::vector<Iteration> iterations;
  if (table.rows() == 0) return iterations;
  const auto number = integers("number"), slowest = integers("slowest_rank");
  const auto predicted = numbers("iteration_time_us"),
             recorded = numbers("recorded_iteration_time_us");
  for (size_t i = 0; i < table.rows(); ++i) {
    iterations.push_back({number[i], predicted[i],
                          std::isnan(recorded[i]) ? std::nullopt : std::optional(recorded[i]),
                          slowest[i]});
  }
  return iterations;
}

Prediction Predict(const Job& job, const SimulationOptions& options, const Control& control) {
  return Prediction(RunOn(job, "predict", ArgumentsOf(options), control));
}

Prediction Sensitivity(const Job& job, const SimulationOptions& options, const Control& control) {
  std::vector<std::string> arguments = ArgumentsOf(options);
  arguments.push_back("--sensitivity");
  return Prediction(RunOn(job, "predict", arguments, control));
}

Answer WhatIf(const Job& job, std::vector<std::string> edits, const SimulationOptions& options,
              const Control& control) {
  SimulationOptions edited = options;
  Append(edited.what_if, edits);
  return {Predict(job, options, control), Predict(job, edited, control)};
}

Document Validate(const Job& job, const SimulationOptions& options, const Control& control) {
  return RunOn(job, "validate", ArgumentsOf(options), control);
}

std::vector<FoundMapping> SearchResult::mappings() const {
  std::vector<FoundMapping> mappings;
  const Table table = Rows("mappings");
  for (size_t i = 0; i < table.rows(); ++i) {
    mappings.push_back({std::get<std::vector<std::string>>(*table.Find("mapping"))[i],
                        std::get<std::vector<double>>(*table.Find("iteration_time_us"))[i],
                        std::get<std::vector<int64_t>>(*table.Find("memory_bytes_max"))[i]});
  }
  return mappings;
}

SearchResult Search(const SearchOptions& options, const Control& control) {
  std::vector<std::string> arguments = {"search", options.workload};
  Add(arguments, "--platform", options.platform);
  if (options.global_batch > 0)
    Add(arguments, "--global-batch", std::to_string(options.global_batch));
  if (options.gpus > 0) Add(arguments, "--gpus", std::to_string(options.gpus));
  for (const std::string& searcher : options.searchers) Add(arguments, "--searcher", searcher);
  Append(arguments, options.arguments);
  return SearchResult(Run(arguments, control));
}

std::vector<FoundPlan> ShardResult::plans() const {
  std::vector<FoundPlan> plans;
  const Table table = Rows("plans");
  for (size_t i = 0; i < table.rows(); ++i) {
    plans.push_back({std::get<std::vector<std::string>>(*table.Find("sharder"))[i],
                     std::get<std::vector<double>>(*table.Find("iteration_time_us"))[i],
                     std::get<std::vector<int64_t>>(*table.Find("memory_bytes_max"))[i]});
  }
  return plans;
}

ShardResult Shard(const ShardOptions& options, const Control& control) {
  std::vector<std::string> arguments = {"shard", options.task};
  for (const std::string& sharder : options.sharders) Add(arguments, "--sharders", sharder);
  if (options.seed) Add(arguments, "--seed", std::to_string(*options.seed));
  Append(arguments, options.arguments);
  return ShardResult(Run(arguments, control));
}

std::string Version() { return kVersion; }

}  // namespace v1
}  // namespace foretrace::api
