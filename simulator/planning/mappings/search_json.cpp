#include <utility>

#include "simulator/base/json_writer.h"
#include "simulator/base/utf8.h"
#include "simulator/planning/mappings/search_report.h"

namespace foretrace {
namespace {

void Text(JsonWriter& json, std::string_view text) {
  const std::string valid = ValidUtf8(text);
  json.String(valid.data(), static_cast<rapidjson::SizeType>(valid.size()));
}

void WriteStages(JsonWriter& json, std::span<const StagePeak> stages) {
  json.Key("memory_of_stages");
  json.StartArray();
  for (const StagePeak& stage : stages) {
    json.StartObject();
    json.Key("at_us");
    json.Double(stage.at.us());
    json.Key("during");
    Text(json, stage.forward ? "forward" : "backward");
    const std::pair<const char*, int64_t> numbers[] = {
        {"micro_batch", stage.microbatch},
        {"passes_held", stage.held},
        {"peak_bytes", stage.total.count()},
        {"weights_bytes", stage.weights.count()},
        {"gradients_bytes", stage.gradients.count()},
        {"optimizer_bytes", stage.optimizer.count()},
        {"activations_bytes", stage.activations.count()},
        {"other_bytes", stage.other.count()},
        {"reserved_bytes", stage.reserved.count()},
        {"host_bytes", stage.host.count()}};
    for (const auto& [key, value] : numbers) {
      json.Key(key);
      json.Int64(value);
    }
    json.EndObject();
  }
  json.EndArray();
}

void WriteRow(JsonWriter& json, const SearchReport& report, const SearchRow& row) {
  json.StartObject();
  json.Key("mapping");
  Text(json, row.text);
  json.Key("searcher");
  Text(json, row.searcher);
  json.Key("feasible");
  json.Bool(true);
  const Evaluation& e = row.evaluation;
  const std::pair<const char*, double> numbers[] = {
      {"iteration_time_us", e.iteration.us()},
      {"throughput_samples_per_s", row.throughput},
      {"model_flop_utilisation", e.model_flop_utilisation},
      {"peak_tflops", row.peak.per_second() * 1e-12},
      {"model_flop_utilisation_of_model_type", row.utilisation_of_model_type},
      {"bubble_share", e.bubble},
      {"exposed_communication_share", e.exposed_communication}};
  for (const auto& [key, value] : numbers) {
    json.Key(key);
    json.Double(value);
  }
  json.Key("arithmetic");
  Text(json, row.arithmetic);
  json.Key("memory_bytes_max");
  json.Int64(e.memory.count());
  if (row.reserved > Bytes()) {
    json.Key("memory_reserved_bytes_max");
    json.Int64(row.reserved.count());
    json.Key("reserved_fits");
    json.Bool(Overflow(report, row).empty());
  }
  if (row.cpu > SimTime()) {
    json.Key("cpu_bound_us");
    json.Double(row.cpu.us());
  }
  if (row.estimate > SimTime()) {
    json.Key("own_estimate_us");
    json.Double(row.estimate.us());
  }
  if (row.simulated > SimTime()) {
    json.Key("simulated_us");
    json.Double(row.simulated.us());
  }
  if (report.device_watts > 0) {
    json.Key("joules_per_iteration_at_most");
    json.Double(Joules(report, row));
  }
  if (!row.stages.empty()) WriteStages(json, row.stages);
  json.Key("yaml");
  Text(json, MappingYaml(row.mapping));
  json.EndObject();
}

// Null: no kernel was priced.
void WriteSources(JsonWriter& json, const CostSources& sources) {
  if (sources.total() <= 0) {
    json.Null();
    return;
  }
  json.StartObject();
  for (const EstimateSource source : {EstimateSource::kCalibrated, EstimateSource::kAnalytic}) {
    json.Key(std::string(Name(source)) + "_share");
    json.Double(sources.share(source));
  }
  json.Key("extrapolated_share");
  json.Double(sources.extrapolated_share());
  json.EndObject();
}

// What was searched for, and how far.
void WriteSearch(JsonWriter& json, const SearchReport& report) {
  json.Key("workload");
  Text(json, report.workload);
  json.Key("software");
  if (report.software.empty()) {
    json.Null();
  } else {
    Text(json, report.software);
  }
  if (!report.network.empty()) {
    json.Key("network");
    Text(json, report.network);
  }
  const std::pair<const char*, int64_t> counts[] = {
      {"devices", report.devices},
      {"global_batch", report.global_batch},
      {"candidates", report.candidates},
      {"evaluated", report.evaluated},
      {"infeasible", report.infeasible},
      {"pruned", report.pruned},
      {"device_memory_bytes", report.device_memory.count()}};
  for (const auto& [key, value] : counts) {
    json.Key(key);
    json.Int64(value);
  }
  json.Key("sequence");
  if (report.sequence > 0) {
    json.Int64(report.sequence);
  } else {
    json.Null();
  }
  json.Key("seconds");
  json.Double(report.took.seconds());
  json.Key("evaluations_per_second");
  json.Double(report.took > RealSeconds()
                  ? static_cast<double>(report.evaluated) / report.took.seconds()
                  : 0);
  json.Key("interrupted");
  json.Bool(report.interrupted);
}

}  // namespace

std::string SearchJson(const SearchReport& report) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  WriteSearch(json, report);
  for (const auto& [key, rows] :
       {std::pair{"mappings", &report.rows}, {"pareto", &report.pareto}}) {
    json.Key(key);
    json.StartArray();
    for (const SearchRow& row : *rows) WriteRow(json, report, row);
    json.EndArray();
  }
  json.Key("kernel_sources");
  WriteSources(json, report.kernel_sources);
  for (const auto& [key, list] :
       {std::pair{"failures", &report.failures}, {"notes", &report.notes}}) {
    json.Key(key);
    json.StartArray();
    for (const std::string& line : *list) Text(json, line);
    json.EndArray();
  }
  json.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace
