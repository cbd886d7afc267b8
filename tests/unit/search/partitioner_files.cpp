#include "tests/unit/search/partitioner_files.h"

#include <rapidjson/document.h>

#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

std::optional<double> ParseNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < 0) {
    return std::nullopt;
  }
  return value;
}

// The value of "key=VALUE" in a comma-separated list.
std::optional<double> Field(std::string_view list, std::string_view key) {
  const size_t at = list.find(std::string(key) + "=");
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = list.substr(at + key.size() + 1);
  return ParseNumber(rest.substr(0, rest.find_first_of(", \r")));
}

struct ProfileNode {
  std::string description;
  PipeDreamLayer layer;
};

absl::StatusOr<ProfileNode> ParseNode(std::string_view name, std::string_view rest,
                                      const std::string& where) {
  const size_t split = rest.rfind(" -- ");
  if (split == std::string_view::npos) {
    return InvalidInput("{}: expected 'NODE -- DESCRIPTION -- forward_compute_time=...'", where);
  }
  const std::string_view fields = rest.substr(split + 4);
  const auto forward = Field(fields, "forward_compute_time");
  const auto backward = Field(fields, "backward_compute_time");
  const auto parameters = Field(fields, "parameter_size");
  // A list of sizes in brackets stands for several outputs.
  double activations = 0;
  const size_t at = fields.find("activation_size=[");
  if (at != std::string_view::npos) {
    std::string_view list = fields.substr(at + 17);
    list = list.substr(0, list.find(']'));
    while (!list.empty()) {
      const size_t end = list.find_first_of(",; ");
      const auto one = ParseNumber(list.substr(0, end));
      if (end != 0 && !one) return InvalidInput("{}: activation_size is not a number", where);
      activations += one.value_or(0);
      list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
    }
  } else if (const auto one = Field(fields, "activation_size")) {
    activations = *one;
  } else {
    return InvalidInput("{}: activation_size is missing or not a number", where);
  }
  if (!forward || !backward || !parameters) {
    return InvalidInput("{}: a compute time or parameter_size is missing or not a number", where);
  }
  ProfileNode node;
  node.description = rest.substr(0, split);
  node.layer = {std::string(name), RealSeconds((*forward + *backward) / 1000.0),
                RealBytes(activations), RealBytes(*parameters)};
  return node;
}

}  // namespace

absl::StatusOr<PipeDreamProblem> LoadPipeDreamProfile(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string content, ReadTextFile(path, kMaxTableBytes));
  std::map<std::string, ProfileNode> nodes;
  std::vector<std::string> order;
  std::vector<std::pair<std::string, std::string>> edges;
  int number = 0;
  for (const std::string_view line : SplitLines(content)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    const std::string_view text = line;
    const size_t start = text.find_first_not_of("\t ");
    const size_t split = text.find(" -- ");
    if (split == std::string_view::npos) {
      return InvalidInput("{}: expected 'NODE -- ...'", where);
    }
    const std::string name(text.substr(start, split - start));
    if (start > 0) {
      std::string_view to = text.substr(split + 4);
      edges.emplace_back(name, std::string(to.substr(0, to.find_first_of("\r "))));
      continue;
    }
    FORETRACE_ASSIGN_OR_RETURN(ProfileNode node, ParseNode(name, text.substr(split + 4), where));
    if (!nodes.emplace(name, std::move(node)).second) {
      return InvalidInput("{}: node '{}' is given twice", where, name);
    }
    order.push_back(name);
  }
  std::set<std::string> has_input, has_output;
  for (const auto& [from, to] : edges) {
    if (!nodes.contains(from) || !nodes.contains(to)) {
      return InvalidInput("{}: edge {} -- {} names a node that is not listed", path, from, to);
    }
    has_output.insert(from);
    has_input.insert(to);
  }
  PipeDreamProblem problem;
  std::map<std::string, int32_t> index;
  for (const std::string& name : order) {
    const ProfileNode& node = nodes.at(name);
    if (!has_input.contains(name) && node.description.rfind("Input", 0) == 0) continue;
    if (!has_output.contains(name) && node.description.rfind("__getitem__", 0) == 0) continue;
    index[name] = static_cast<int32_t>(problem.layers.size());
    problem.layers.push_back(node.layer);
  }
  std::vector<std::pair<int32_t, int32_t>> kept;
  for (const auto& [from, to] : edges) {
    if (index.contains(from) && index.contains(to)) kept.emplace_back(index[from], index[to]);
  }
  if (problem.layers.empty()) return InvalidInput("{}: no layers", path);
  FORETRACE_ASSIGN_OR_RETURN(problem.graph,
                             OpGraph::Create(static_cast<int32_t>(problem.layers.size()), kept));
  return problem;
}

namespace {

using Json = rapidjson::Value;

absl::StatusOr<double> NumberAt(const Json& object, const char* key, const std::string& where) {
  if (!object.IsObject() || !object.HasMember(key) || !object[key].IsNumber() ||
      !(object[key].GetDouble() >= 0)) {
    return InvalidInput("{}: '{}' must be a number that is not negative", where, key);
  }
  return object[key].GetDouble();
}

absl::StatusOr<RealBytes> BytesAt(const Json& object, const char* key, const std::string& where) {
  FORETRACE_ASSIGN_OR_RETURN(const double count, NumberAt(object, key, where));
  return RealBytes(count);
}

absl::StatusOr<int32_t> IntAt(const Json& object, const char* key, const std::string& where) {
  FORETRACE_ASSIGN_OR_RETURN(const double value, NumberAt(object, key, where));
  if (value > 1e9 || value != std::floor(value)) {
    return InvalidInput("{}: '{}' must be a whole number up to 1e9", where, key);
  }
  return static_cast<int32_t>(value);
}

absl::Status ReadSync(const Json& option, const char* key, const std::map<int32_t, int32_t>& index,
                      const std::string& where, std::map<int32_t, RealBytes>& out) {
  if (!option.HasMember(key)) return absl::OkStatus();
  if (!option[key].IsObject()) return InvalidInput("{}: '{}' must be an object", where, key);
  for (const auto& entry : option[key].GetObject()) {
    const std::string_view name(entry.name.GetString(), entry.name.GetStringLength());
    const auto id = ParseNumber(name);
    if (!id || *id > 1e9 || !index.contains(static_cast<int32_t>(*id)) || !entry.value.IsNumber()) {
      return InvalidInput("{}: '{}' names node '{}', which is not listed", where, key, name);
    }
    out[index.at(static_cast<int32_t>(*id))] = RealBytes(entry.value.GetDouble());
  }
  return absl::OkStatus();
}

absl::StatusOr<PiperOption> ReadOption(const Json& json, const std::map<int32_t, int32_t>& index,
                                       const std::string& where) {
  PiperOption o;
  FORETRACE_ASSIGN_OR_RETURN(const double seconds, NumberAt(json, "timePerSample", where));
  o.time = RealSeconds(seconds);
  FORETRACE_ASSIGN_OR_RETURN(o.parameter_bytes, BytesAt(json, "parameterSize", where));
  FORETRACE_ASSIGN_OR_RETURN(o.memory_per_inflight, BytesAt(json, "memoryUsageA", where));
  FORETRACE_ASSIGN_OR_RETURN(o.memory_fixed, BytesAt(json, "memoryUsageB", where));
  if (json.HasMember("id") && json["id"].IsString()) o.name = json["id"].GetString();
  o.recompute = o.name == "activation recomp";
  FORETRACE_RETURN_IF_ERROR(ReadSync(json, "syncTimeFw", index, where, o.sync_in));
  FORETRACE_RETURN_IF_ERROR(ReadSync(json, "syncTimeBw", index, where, o.sync_out));
  return o;
}

absl::Status ReadNodes(const Json& list, const std::map<int32_t, int32_t>& index,
                       const std::string& path, PiperProblem& problem) {
  for (const Json& json : list.GetArray()) {
    const std::string where = fmt::format("{}: node {}", path, problem.nodes.size());
    std::map<int32_t, std::vector<PiperOption>> by_degree;
    if (!json.HasMember("TMPCs") || !json["TMPCs"].IsObject()) {
      return InvalidInput("{}: 'TMPCs' must be an object", where);
    }
    for (const auto& entry : json["TMPCs"].GetObject()) {
      const auto degree = ParseNumber(entry.name.GetString());
      if (!degree || *degree < 1 || *degree > 65536 || !entry.value.IsArray()) {
        return InvalidInput("{}: a key of 'TMPCs' must be a tensor-parallel degree", where);
      }
      for (const Json& option : entry.value.GetArray()) {
        FORETRACE_ASSIGN_OR_RETURN(PiperOption o, ReadOption(option, index, where));
        by_degree[static_cast<int32_t>(*degree)].push_back(std::move(o));
      }
    }
    problem.nodes.push_back(std::move(by_degree));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PiperProblem> LoadPiperProblem(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxJsonBytes));
  rapidjson::Document root;
  root.Parse<rapidjson::kParseIterativeFlag>(text.data(), text.size());
  if (root.HasParseError()) {
    return InvalidInput("{}: byte {}: not valid JSON", path, root.GetErrorOffset());
  }
  if (!root.IsObject() || !root.HasMember("nodes") || !root["nodes"].IsArray() ||
      !root.HasMember("edges") || !root["edges"].IsArray()) {
    return InvalidInput("{}: 'nodes' and 'edges' must be lists", path);
  }
  PiperProblem problem;
  FORETRACE_ASSIGN_OR_RETURN(problem.max_devices, IntAt(root, "maxDevices", path));
  FORETRACE_ASSIGN_OR_RETURN(problem.batch, IntAt(root, "mbsInBatch", path));
  FORETRACE_ASSIGN_OR_RETURN(problem.memory, BytesAt(root, "maxMemoryPerDevice", path));
  FORETRACE_ASSIGN_OR_RETURN(const double bandwidth, NumberAt(root, "bandwidth", path));
  problem.bandwidth = Bandwidth::BytesPerSecond(bandwidth);
  std::map<int32_t, int32_t> index;
  for (const Json& node : root["nodes"].GetArray()) {
    FORETRACE_ASSIGN_OR_RETURN(const int32_t id, IntAt(node, "id", path));
    if (!index.emplace(id, static_cast<int32_t>(index.size())).second) {
      return InvalidInput("{}: node {} is given twice", path, id);
    }
  }
  FORETRACE_RETURN_IF_ERROR(ReadNodes(root["nodes"], index, path, problem));
  for (const Json& json : root["edges"].GetArray()) {
    PiperEdge e;
    FORETRACE_ASSIGN_OR_RETURN(e.from, IntAt(json, "sourceId", path));
    FORETRACE_ASSIGN_OR_RETURN(e.to, IntAt(json, "destId", path));
    FORETRACE_ASSIGN_OR_RETURN(e.bytes, BytesAt(json, "communicationCost", path));
    if (!index.contains(e.from) || !index.contains(e.to)) {
      return InvalidInput("{}: edge {} -> {} names a node that is not listed", path, e.from, e.to);
    }
    e.from = index[e.from];
    e.to = index[e.to];
    problem.edges.push_back(e);
  }
  return problem;
}

}  // namespace foretrace
