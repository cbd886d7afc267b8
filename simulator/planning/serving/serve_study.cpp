#include "simulator/planning/serving/serve_study.h"

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/hardware/catalog.h"
#include "simulator/planning/serving/serving_job.h"
#include "simulator/serve/cache_parallelism.h"
#include "simulator/serve/layer_kinds.h"
#include "simulator/serve/pipelined_decode.h"
#include "simulator/serve/speculation.h"

namespace foretrace {
namespace {

std::vector<StudyRow> Volumes(const TransformerConfig& model) {
  using serve::VolumeForm;
  std::vector<StudyRow> rows;
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

absl::StatusOr<std::vector<StudyRow>> Decode(const ServeStudy& o, const ServingBase& base) {
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
  s.table_per_1000_blocks = o.table;
  s.host = o.host;
  std::vector<StudyRow> rows;
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
                        {"latency_us", step.latency().us()},
                        {"compute_us", step.compute.us()},
                        {"communication_us", step.communication.us()},
                        {"host_us", step.host.us()}});
      }
    }
  }
  return rows;
}

std::vector<StudyRow> Drafts(const ServeStudy& o) {
  std::vector<StudyRow> rows;
  const RealSeconds draft(o.draft), target(o.target);
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

// Elements of a layer's GEMMs.
int64_t GemmWeights(const TransformerConfig& model) {
  const serve::ServedKind kind = serve::ServedKinds(model, {}).front();
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
absl::StatusOr<std::vector<StudyRow>> Phases(const ServeStudy& o, std::vector<std::string>& notes) {
  FORETRACE_ASSIGN_OR_RETURN(const TransformerConfig model, LoadServedModel(o.model, notes));
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
  pass.weights = GemmWeights(model);
  pass.width = ElementSize(model.dtype);
  pass.rate = FlopRate::PerSecond(device->peak(RateKind::kBf16).per_second() * o.reach);
  pass.memory = device->memory_bandwidth();
  if (pass.rate.per_second() <= 0 || pass.memory.bytes_per_second() <= 0) {
    return InvalidInput("{}: states no rate in bf16 or no memory bandwidth", device->file);
  }
  pass.link = o.link;
  pass.hop = SimTime::FromSeconds(o.hop.seconds());
  std::vector<StudyRow> rows;
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
                    {"ttft_ms", TimeOf(prefill).ms()},
                    {"prefill_tokens_per_s", PassTokensPerSecond(prefill)},
                    {"tpot_ms", TimeOf(decode).ms()},
                    {"decode_tokens_per_s", PassTokensPerSecond(decode)}});
  }
  if (rows.empty()) {
    return Infeasible("{}: {} devices divide neither its {} heads nor its {} layers", model.name,
                      o.devices, model.heads, model.layers);
  }
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<StudyRow>> RowsOf(const ServeStudy& study,
                                             std::vector<std::string>& notes) {
  if (study.study == "drafts") return Drafts(study);
  if (study.study == "phases") return Phases(study, notes);
  ServingOptions serving;
  serving.model = study.model;
  serving.platform = study.platform;
  FORETRACE_ASSIGN_OR_RETURN(const ServingBase base, LoadServingBase(serving, study.devices));
  for (const std::string& note : base.notes) {
    if (note.starts_with("workload ")) notes.push_back(note);
  }
  FORETRACE_RETURN_IF_ERROR(serve::CheckUniform(base.model));
  if (study.study == "volumes") return Volumes(base.model);
  if (study.devices > base.platform.devices()) {
    return Infeasible("--devices {}: platform {} has {}", study.devices, base.platform.name,
                      base.platform.devices());
  }
  serve::ServingPlan plan;
  plan.tensor = study.devices;
  FORETRACE_RETURN_IF_ERROR(plan.Fits(base.model));
  return Decode(study, base);
}

}  // namespace foretrace
