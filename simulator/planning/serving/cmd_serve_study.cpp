// serve-study: the papers' studies of decode parallelism and of drafts, on a platform.

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/hardware/catalog.h"
#include "simulator/planning/serving/serving_job.h"
#include "simulator/serve/cache_parallelism.h"
#include "simulator/serve/layer_kinds.h"
#include "simulator/serve/pipelined_decode.h"
#include "simulator/serve/speculation.h"

namespace foretrace {
namespace {

struct ServeStudyOptions {
  std::string study;
  std::string platform = "dgx-a100";
  std::string model = "llama2-7b";
  int32_t devices = 4;
  double spread = 0.3;
  double table_us = 10, host_us = 100;
  double draft_us = 842.7, target_us = 31507;
  std::string accelerator = "sn40l";
  double link_gbps = 50, hop_ns = 150, reach = 0.9;
  int64_t prompt = 4096;
  bool json = false;
  // Of these options, the first that was given.
  std::function<std::string(std::initializer_list<const char*>)> first_given;
};

// Options of other studies are not given.
absl::Status CheckOptions(const ServeStudyOptions& o) {
  struct Group {
    std::vector<std::string_view> studies;
    std::initializer_list<const char*> options;
  };
  const Group groups[] = {
      {{"volumes", "decode", "phases"}, {"--model"}},
      {{"decode"}, {"--platform", "--spread", "--table-us", "--host-us"}},
      {{"decode", "phases"}, {"--devices"}},
      {{"phases"}, {"--accelerator", "--link-gbps", "--hop-ns", "--reach", "--prompt"}},
      {{"drafts"}, {"--draft-us", "--target-us"}}};
  for (const Group& group : groups) {
    if (std::find(group.studies.begin(), group.studies.end(), o.study) != group.studies.end()) {
      continue;
    }
    const std::string given = o.first_given(group.options);
    if (given.empty()) continue;
    return InvalidInput("{} would change nothing: it is of the study {}, not of {}", given,
                        fmt::join(group.studies, " and "), o.study);
  }
  return absl::OkStatus();
}

// One line of a study: names and numbers in order.
using Row = std::vector<std::pair<std::string, std::variant<double, std::string>>>;

std::vector<Row> Volumes(const TransformerConfig& model) {
  using serve::VolumeForm;
  std::vector<Row> rows;
  for (const int32_t devices : {2, 4, 8}) {
    for (const int64_t batch : {32, 128, 512}) {
      const auto tensor = [&](VolumeForm f) {
        return serve::TensorVolume(f, batch, model.hidden, devices);
      };
      const auto cache = [&](VolumeForm f) {
        return serve::CacheVolume(f, batch, model.hidden, model.heads, devices);
      };
      rows.push_back({{"devices", devices * 1.0},
                      {"batch", static_cast<double>(batch)},
                      {"tp_thesis", tensor(VolumeForm::kThesis)},
                      {"kvp_thesis", cache(VolumeForm::kThesis)},
                      {"tp_per_gpu", tensor(VolumeForm::kPerGpu)},
                      {"kvp_per_gpu", cache(VolumeForm::kPerGpu)}});
    }
  }
  return rows;
}

absl::StatusOr<std::vector<Row>> Decode(const ServeStudyOptions& o, const ServingBase& base) {
  serve::DecodeScenario s;
  s.model = base.model;
  s.devices = o.devices;
  s.spread = o.spread;
  const Accelerator& device = base.platform.node.accelerator;
  const MemoryLevel* host = device.level(MemoryKind::kHost);
  if (host == nullptr || device.memory_capacity().count() == 0) {
    return InvalidInput("platform {}: its accelerator states no memory or no link to the host",
                        base.platform.name);
  }
  // The study is of one layer, which has its share of a device's memory.
  s.kv_memory = Bytes(device.memory_capacity().count() / 2);
  s.host_bandwidth = host->bandwidth;
  s.table_us_per_1000_blocks = o.table_us;
  s.host_us = o.host_us;
  std::vector<Row> rows;
  for (const int64_t context : {10'000, 20'000, 40'000, 80'000}) {
    for (const int64_t batch : {32, 64, 128, 256, 512}) {
      s.context = context;
      s.max_batch = batch;
      for (int p = 0; p < static_cast<int>(serve::DecodeParallelism::kCount); ++p) {
        const auto parallelism = static_cast<serve::DecodeParallelism>(p);
        const serve::DecodeStep step = DecodeLayer(s, parallelism, *base.costs);
        rows.push_back({{"context", static_cast<double>(context)},
                        {"batch", static_cast<double>(batch)},
                        {"parallel", std::string(Name(parallelism))},
                        {"tokens_per_s", step.tokens_per_s()},
                        {"latency_us", step.latency_us()},
                        {"compute_us", step.compute_us},
                        {"communication_us", step.communication_us},
                        {"host_us", step.host_us}});
      }
    }
  }
  return rows;
}

std::vector<Row> Drafts(const ServeStudyOptions& o) {
  std::vector<Row> rows;
  const double draft = o.draft_us * 1e-6, target = o.target_us * 1e-6;
  for (int32_t window = 1; window <= 8; ++window) {
    for (const double accepted : {0.5, 0.6, 0.7, 0.8, 0.9}) {
      rows.push_back(
          {{"window", window * 1.0},
           {"acceptance", accepted},
           {"sequence_tokens_per_s", serve::SequenceRate(window, accepted, draft, target)},
           {"tree_tokens_per_s", serve::TreeRate(window, 2, accepted, draft, target)}});
    }
  }
  return rows;
}

// Elements of a layer's products.
int64_t ProductWeights(const TransformerConfig& model) {
  const serve::FeedForwardKind kind = serve::FeedForwardKinds(model).front();
  const OperatorGraph& graph = kind.graph.graph;
  const Binding sizes = serve::BindServing(kind, {}, 1);
  int64_t weights = 0;
  for (const GraphOp& op : graph.ops()) {
    if (!op.in_block || op.kind != GraphOpKind::kMatmul) continue;
    for (const TensorId t : op.inputs) {
      if (graph.tensor(t).role == TensorRole::kWeight) weights += Elements(graph, sizes, t);
    }
  }
  return weights;
}

// DFModel's figure 20: a prompt and a token under each division of the devices into tensor and
// pipeline parallelism.
absl::StatusOr<std::vector<Row>> Phases(const ServeStudyOptions& o) {
  FORETRACE_ASSIGN_OR_RETURN(const TransformerConfig model, LoadServedModel(o.model));
  FORETRACE_RETURN_IF_ERROR(serve::CheckUniform(model));
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog, AcceleratorCatalog::Load());
  const Accelerator* device = catalog.Find(o.accelerator);
  if (device == nullptr) {
    return InvalidInput("--accelerator '{}': no file of topologies/accelerators/ is named so",
                        o.accelerator);
  }
  serve::DataflowPass pass;
  pass.hidden = model.hidden;
  pass.layers = model.layers;
  pass.weights = ProductWeights(model);
  pass.width = ElementSize(model.dtype);
  pass.rate = FlopRate::PerSecond(device->peak(RateKind::kBf16).per_second() * o.reach);
  pass.memory = device->memory_bandwidth();
  if (pass.rate.per_second() <= 0 || pass.memory.bytes_per_second() <= 0) {
    return InvalidInput("{}: states no rate in bf16 or no memory bandwidth", device->file);
  }
  pass.link = Bandwidth::GBps(o.link_gbps);
  pass.hop = SimTime::FromNs(o.hop_ns);
  std::vector<Row> rows;
  for (int32_t tensor = 1; tensor <= o.devices; tensor *= 2) {
    if (o.devices % tensor != 0 || model.heads % tensor != 0) continue;
    pass.tensor = tensor;
    pass.pipeline = o.devices / tensor;
    if (model.layers % pass.pipeline != 0) continue;
    serve::DataflowPass prefill = pass, decode = pass;
    prefill.tokens = o.prompt;
    prefill.reads_weights = false;
    decode.context = o.prompt + 1;
    rows.push_back({{"tp", tensor * 1.0},
                    {"pp", pass.pipeline * 1.0},
                    {"ttft_ms", PassUs(prefill) * 1e-3},
                    {"prefill_tokens_per_s", PassTokensPerSecond(prefill)},
                    {"tpot_ms", PassUs(decode) * 1e-3},
                    {"decode_tokens_per_s", PassTokensPerSecond(decode)}});
  }
  if (rows.empty()) {
    return Infeasible("{}: {} devices divide neither its {} heads nor its {} layers", model.name,
                      o.devices, model.heads, model.layers);
  }
  return rows;
}

double NumberOf(const Row& row, std::string_view name) {
  const auto cell =
      std::ranges::find(row, name, [](const auto& c) { return std::string_view(c.first); });
  return std::get<double>(cell->second);
}

// Of the rows in which `name` is `value`, the one with the most of `most`.
const Row& Best(const std::vector<Row>& rows, std::string_view name, double value,
                std::string_view most) {
  const Row* best = nullptr;
  for (const Row& row : rows) {
    if (!name.empty() && NumberOf(row, name) != value) continue;
    if (best == nullptr || NumberOf(row, most) > NumberOf(*best, most)) best = &row;
  }
  return *best;
}

// What the study is made for, at both ends of its range.
std::string Verdict(const std::string& study, const std::vector<Row>& rows) {
  const Row& first = rows.front();
  const Row& last = rows.back();
  if (study == "volumes") {
    return fmt::format(
        "Verdict: on {:.0f} devices at a batch of {:.0f}, dividing the cache moves {:.1f} % of "
        "what dividing tensors does; on {:.0f} at {:.0f}, {:.1f} %\n",
        NumberOf(first, "devices"), NumberOf(first, "batch"),
        100 * NumberOf(first, "kvp_thesis") / NumberOf(first, "tp_thesis"),
        NumberOf(last, "devices"), NumberOf(last, "batch"),
        100 * NumberOf(last, "kvp_thesis") / NumberOf(last, "tp_thesis"));
  }
  if (study == "phases") {
    const Row& prompt = Best(rows, "", 0, "prefill_tokens_per_s");
    const Row& token = Best(rows, "", 0, "decode_tokens_per_s");
    return fmt::format(
        "Verdict: prompts are fastest by tp{:.0f} pp{:.0f}, {:.0f} tokens/s; decodes by tp{:.0f} "
        "pp{:.0f}, {:.0f} tokens/s\n",
        NumberOf(prompt, "tp"), NumberOf(prompt, "pp"), NumberOf(prompt, "prefill_tokens_per_s"),
        NumberOf(token, "tp"), NumberOf(token, "pp"), NumberOf(token, "decode_tokens_per_s"));
  }
  const bool drafts = study == "drafts";
  const std::string_view over = drafts ? "acceptance" : "context";
  const std::string_view rate = drafts ? "sequence_tokens_per_s" : "tokens_per_s";
  std::string text;
  for (const double value : {NumberOf(first, over), NumberOf(last, over)}) {
    const Row& best = Best(rows, over, value, rate);
    text += text.empty() ? "Verdict: " : "; ";
    text +=
        drafts ? fmt::format("at an acceptance of {:.1f} a window of {:.0f} is the fastest", value,
                             NumberOf(best, "window"))
               : fmt::format("at a context of {:.0f} the fastest is {} with a batch of {:.0f}",
                             value, std::get<std::string>(best[2].second), NumberOf(best, "batch"));
    text += fmt::format(", {:.0f} tokens/s", NumberOf(best, rate));
  }
  return text + "\n";
}

std::string Text(const std::vector<Row>& rows, const TextStyle& style) {
  std::vector<TextTable::Column> columns;
  for (const auto& [name, value] : rows.front()) columns.push_back({name});
  TextTable table(std::move(columns));
  for (const Row& row : rows) {
    std::vector<std::string> cells;
    for (const auto& [name, value] : row) {
      const double* number = std::get_if<double>(&value);
      cells.push_back(number == nullptr       ? std::get<std::string>(value)
                      : name == "acceptance"  ? fmt::format("{:.1f}", *number)
                      : name.ends_with("_ms") ? fmt::format("{:.3f}", *number)
                                              : fmt::format("{:.0f}", *number));
    }
    table.AddRow(std::move(cells));
  }
  return table.Format(style);
}

std::string Json(const std::string& study, const std::vector<Row>& rows) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter out(buffer);
  out.StartObject();
  out.Field("study", study);
  out.Key("rows");
  out.StartArray();
  for (const Row& row : rows) {
    out.StartObject();
    for (const auto& cell : row) {
      std::visit([&](const auto& value) { out.Field(cell.first, value); }, cell.second);
    }
    out.EndObject();
  }
  out.EndArray();
  out.EndObject();
  return buffer.GetString();
}

absl::Status RunServeStudy(const ServeStudyOptions& options, const CommandContext& context) {
  FORETRACE_RETURN_IF_ERROR(CheckOptions(options));
  std::vector<Row> rows;
  if (options.study == "drafts") {
    rows = Drafts(options);
  } else if (options.study == "phases") {
    FORETRACE_ASSIGN_OR_RETURN(rows, Phases(options));
  } else {
    ServingOptions serving;
    serving.model = options.model;
    serving.platform = options.platform;
    FORETRACE_ASSIGN_OR_RETURN(const ServingBase base, LoadServingBase(serving, options.devices));
    FORETRACE_RETURN_IF_ERROR(serve::CheckUniform(base.model));
    if (options.study == "volumes") {
      rows = Volumes(base.model);
    } else {
      if (options.devices > base.platform.devices()) {
        return Infeasible("--devices {}: platform {} has {}", options.devices, base.platform.name,
                          base.platform.devices());
      }
      serve::ServingPlan plan;
      plan.tensor = options.devices;
      FORETRACE_RETURN_IF_ERROR(plan.Fits(base.model));
      FORETRACE_ASSIGN_OR_RETURN(rows, Decode(options, base));
    }
  }
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("serve-study", [&] { return Json(options.study, rows); }));
  if (options.json) {
    return context.console->PrintJson("serve-study", Json(options.study, rows));
  }
  return context.console->Print(Verdict(options.study, rows) +
                                Text(rows, context.console->style()));
}

// Of prompts and tokens on dataflow devices.
void RegisterPhases(CLI::App& command, ServeStudyOptions& o) {
  command
      .add_option("--accelerator", o.accelerator,
                  "phases: the device, a name in topologies/accelerators/")
      ->capture_default_str();
  command.add_option("--link-gbps", o.link_gbps, "phases: GB/s of a link of the devices' ring")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
  command.add_option("--hop-ns", o.hop_ns, "phases: latency of a link")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command.add_option("--reach", o.reach, "phases: share of the device's rate that it reaches")
      ->check(CLI::Range(1e-3, 1.0))
      ->capture_default_str();
  command.add_option("--prompt", o.prompt, "phases: tokens of the prompt")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
}

}  // namespace

void AddServeStudyCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<ServeStudyOptions>();
  CLI::App* command = app.add_subcommand(
      "serve-study",
      "studies of decode: volumes and steps of cache, tensor and data parallelism; "
      "prompts and tokens on dataflow devices; drafts over window and acceptance");
  o->first_given = [command](std::initializer_list<const char*> names) {
    return command->FirstGiven(names);
  };
  command->add_option("study", o->study, "volumes, decode, phases or drafts")
      ->required()
      ->check(CLI::IsMember({"volumes", "decode", "phases", "drafts"}));
  command->add_option("--platform", o->platform, "platform file, or the name of one in topologies/")
      ->capture_default_str();
  command->add_option("--model", o->model, "workload file, or the name of one in traces/workloads/")
      ->capture_default_str();
  command
      ->add_option("--devices", o->devices, "decode: that share the layer; phases: of the system")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--spread", o->spread,
                   "decode: keys and values of the fullest replica over the mean, less 1")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--table-us", o->table_us, "decode: host time of 1,000 blocks of a table")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--host-us", o->host_us, "decode: host time of a step otherwise")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--draft-us", o->draft_us, "drafts: a step of the draft model")
      ->check(CLI::Range(0.001, 1e9))
      ->capture_default_str();
  command->add_option("--target-us", o->target_us, "drafts: a step of the target model")
      ->check(CLI::Range(0.001, 1e9))
      ->capture_default_str();
  RegisterPhases(*command, *o);
  command->add_flag("--json", o->json, "one JSON document instead of a table");
  command->footer(Examples({
      "foretrace serve-study volumes",
      "foretrace serve-study decode --platform dgx-a100 --devices 4",
      "foretrace serve-study phases --model llama3-8b --devices 16",
      "foretrace serve-study drafts --draft-us 81.1 --target-us 31507",
  }));
  command->callback(
      [o, &context] { context.run = [o, &context] { return RunServeStudy(*o, context); }; });
}

}  // namespace foretrace
