#include "simulator/planning/mappings/training_job.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "simulator/base/dtype.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/real_sizes.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/options.h"
#include "simulator/cost/collective/expert_exchange_file.h"
#include "simulator/mapping/cluster_file.h"
#include "simulator/mapping/expert_dispatch.h"
#include "simulator/planning/mappings/measured_device.h"
#include "simulator/planning/mappings/platform_exchanges.h"
#include "simulator/planning/mappings/training_models.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

// Devices under one switch of the PCIe tree share its way to the host.
void SetHost(const PlatformSpec& spec, ClusterParameters& cluster) {
  const Accelerator& device = spec.node.accelerator;
  cluster.host_memory = spec.node.host_memory;
  double rate = 0;
  for (const MemoryLevel& level : device.memory) {
    if (level.kind != MemoryKind::kHost) continue;
    rate = level.bandwidth.bytes_per_second() * level.efficiency;
    cluster.host_staging = level.staging;
    if (spec.node.host_link == kNoLinkType) continue;
    const LinkType& shared = spec.links[static_cast<size_t>(spec.node.host_link)];
    rate = std::min(rate, level.efficiency * shared.payload_rate().bytes_per_second() /
                              spec.node.devices_per_pcie_switch);
  }
  if (rate > 0) cluster.host_link = Bandwidth::BytesPerSecond(rate);
}

// Without it mappings that take DeepEP are refused.
absl::Status SetDeepEp(const PlatformSpec& spec, ClusterParameters& cluster,
                       std::vector<std::string>& read) {
  const std::vector<std::string> files = ListShipped("calibration", "expert_exchange.yaml");
  if (files.empty()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(const LoadedExpertExchange exchange,
                             LoadExpertExchange(files.front()));
  const DeepEpDevice deep_ep{exchange.model, LinksOf(spec)};
  cluster.deep_ep = std::make_shared<const DeepEpDevice>(deep_ep);
  read.push_back(files.front());
  return absl::OkStatus();
}

// Bandwidths and latency of the network as solvers take them that know one bandwidth.
absl::StatusOr<FlatLinks> FlatLinksOf(const PlatformSpec& spec, const ExchangeTimes& exchanges) {
  const int32_t n = spec.node.devices;
  const auto rate = [&](CollectiveOp op, SpacedGroup group, double share) {
    return RateOf(share, [&](Bytes bytes) { return exchanges.Collective(op, group, bytes); });
  };
  FlatLinks flat;
  if (spec.nodes > 1) {
    FORETRACE_ASSIGN_OR_RETURN(const LinkRate nic, rate(CollectiveOp::kAllGather, {2, n}, 0.5));
    flat.nic = nic.bandwidth;
  }
  if (n > 1) {
    FORETRACE_ASSIGN_OR_RETURN(const LinkRate node,
                               rate(CollectiveOp::kAllReduce, {n, 1}, 2.0 * (n - 1) / n));
    flat.node = node.bandwidth;
    flat.latency = node.latency;
  }
  if (spec.nodes == 1) flat.nic = flat.node;  // nothing leaves the node
  if (n == 1) flat.node = flat.nic;
  return flat;
}

}  // namespace

void TrainingJobOptions::RegisterPlatform(CLI::App& command, bool required) {
  CLI::Option* option = command.add_option("--platform,--topology", platform,
                                           "platform file, or the name of one in topologies/");
  option->type_name("FILE|NAME");
  if (required) option->required();
  command
      .add_option("--calibration", calibration,
                  "what whole training iterations attained on the device: a file, or none")
      ->type_name("FILE|none")
      ->capture_default_str();
  command
      .add_option("--kernels", kernels,
                  "measured GEMMs and all-reduces of the device: a folder of calibration files "
                  "or the name of one in calibration/, none, or auto (the one whose kernels are of "
                  "the platform's device)")
      ->type_name("DIR|NAME|auto|none")
      ->capture_default_str();
}

void TrainingJobOptions::Register(CLI::App& command) {
  command
      .add_option(
          "workload", workload,
          "the model: a file (docs/search.md), Hugging Face's config.json of it or the folder "
          "with that, or a name that `foretrace list workloads` shows or its publisher gives "
          "it")
      ->required()
      ->type_name("FILE|NAME");
  RegisterPlatform(command, true);
  command.add_option("--gpus", gpus, "devices to use (default: all of the platform)")
      ->check(CLI::Range(int64_t{1}, kMaxDevices));
  command.add_option("--global-batch", global_batch, "samples of one iteration")
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--sequence", sequence,
                  "tokens of a sample of a transformer (default: as the workload states)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  command.add_option("--memory-gib", memory_gib, "memory of a device (default: the platform's)")
      ->check(CLI::Range(0.001, 1e6));
  command
      .add_option("--memory-margin", memory_margin,
                  "share of it that is left for fragmentation and buffers")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  command
      .add_option(
          "--stack", stack,
          "what the training software does by itself, by release: overlap, kernels, formats "
          "(`foretrace list stacks`, or a file; NAME is the newest); words of mappings add to it "
          "or stand over it")
      ->type_name("FILE|NAME|NAME@RELEASE|none")
      ->capture_default_str();
  command.add_flag("--torch-compile", compiled,
                   "kernels are compiled, where the stack leaves that to its users");
}

std::string BesideNote(const ClusterParameters& cluster) {
  if (cluster.measured != nullptr) return "";
  if (cluster.multiprocessors > 0) {
    return "kernels beside collectives take longer by the share of multiprocessors that these hold";
  }
  return fmt::format(
      "kernels beside collectives take {:.3f} times as long, as measured on A100: the device's "
      "file "
      "states no multiprocessors",
      1 + cluster.overlap_slowdown);
}

namespace {

// By what both keep up, where the file says so; the share is of an H100, at 720 and 1,280 TFLOP/s.
// Of 4 bits the energy of a product is taken to be half that of 8, as this is half that of 16
// (GB200: 1.98 times the rate), whatever the peaks are.
void SetSharesAtPower(ClusterParameters& cluster) {
  const FlopRate sixteen = cluster.sustained, eight = cluster.sustained_fp8;
  if (sixteen <= FlopRate() || eight <= FlopRate()) return;
  constexpr double kMeasured = 720.0 / 1280, kHalf = 0.5;
  const double share = ClusterParameters().eight_bit_share;
  cluster.eight_bit_share = share * sixteen.per_second() / eight.per_second() / kMeasured;
  if (cluster.peak_fp4 > FlopRate()) {
    const double peaks = cluster.peak_fp8.per_second() / cluster.peak_fp4.per_second();
    cluster.four_bit_share = cluster.eight_bit_share * std::max(peaks, kHalf);
  }
}

// `single`: of models in 32 bits.
void SetRates(const Accelerator& device, bool single, ClusterParameters& cluster) {
  cluster.peak = single ? device.simt_peak(RateKind::kFp32) : device.peak(RateKind::kFp16);
  cluster.peak_memory = device.memory_bandwidth();
  if (!single) cluster.sustained = device.sustained(RateKind::kFp16);
  cluster.sustained_fp8 = device.sustained(RateKind::kFp8);
  // Shares of 16 bits' time are by rates: 8 bits take 0.58 where theirs is twice as high, as data
  // sheets round it.
  const double doubled = 2 * device.peak(RateKind::kFp16).per_second();
  const FlopRate eight = device.peak(RateKind::kFp8), four = device.peak(RateKind::kFp4);
  cluster.peak_fp8 = eight;
  cluster.peak_fp4 = four;
  if (four > FlopRate()) {
    cluster.four_bit_share = cluster.eight_bit_share * doubled / four.per_second();
  }
  const double lower = eight > FlopRate() ? doubled / eight.per_second() : 1;
  if (std::abs(lower - 1) > 0.02) cluster.eight_bit_share *= lower;
  SetSharesAtPower(cluster);
  cluster.split_accumulation = device.instructions.split_accumulation;
  cluster.multiprocessors = device.multiprocessors();
  cluster.kernel_gap = device.driver.latencies.stream_gap;
  cluster.stream_wait = device.driver.latencies.event;
}

// With the constants of a training calibration; empty or "none": notes what stands in for them.
absl::Status Calibrate(const std::string& file, const Accelerator& device,
                       ClusterParameters& cluster, std::vector<std::string>& notes,
                       std::vector<std::string>& read) {
  if (file.empty() || file == "none") {
    notes.push_back(
        fmt::format("no training calibration for {}: {}", device.name,
                    cluster.measured != nullptr
                        ? "memory efficiency is that of large copies on an A100"
                        : "efficiencies are those of large GEMMs and copies on an A100"));
  } else {
    FORETRACE_ASSIGN_OR_RETURN(const ClusterCalibration c, LoadClusterCalibration(file));
    Apply(c, cluster);
    read.push_back(file);
    notes.push_back(fmt::format("calibration {}: {}; {}",
                                std::filesystem::path(file).lexically_normal().string(), c.fitted,
                                c.errors));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ClusterParameters> ClusterOf(const ClusterChoice& choice, DType dtype,
                                            Accelerator* device, int64_t* devices,
                                            std::vector<std::string>& notes,
                                            std::vector<std::string>* files) {
  std::vector<std::string> read;
  FORETRACE_ASSIGN_OR_RETURN(const PlatformSpec spec, FindPlatform(choice.platform, choice.gpus));
  ClusterParameters cluster;
  *device = spec.node.accelerator;
  read = {spec.file, device->file};
  *devices = spec.devices();
  const bool single = ElementSize(dtype) >= 4;
  SetRates(*device, single, cluster);
  if (cluster.peak == FlopRate() || cluster.peak_memory == Bandwidth()) {
    return InvalidInput(
        "platform {}: node.accelerator states no {} rate or no memory bandwidth, which "
        "the cost of a layer needs",
        spec.name, single ? "fp32" : "fp16");
  }
  if (std::string note = BfloatNote(*device, dtype); !note.empty()) {
    notes.push_back(std::move(note));
  }
  cluster.devices_per_node = spec.node.devices;
  if (choice.experts) FORETRACE_RETURN_IF_ERROR(SetDeepEp(spec, cluster, read));
  FORETRACE_ASSIGN_OR_RETURN(cluster.exchanges, ExchangesOf(spec));
  FORETRACE_ASSIGN_OR_RETURN(cluster.flat, FlatLinksOf(spec, *cluster.exchanges));
  SetHost(spec, cluster);
  FORETRACE_ASSIGN_OR_RETURN(cluster.measured, MeasurementsOn(spec, choice.kernels, notes, read));
  FORETRACE_RETURN_IF_ERROR(Calibrate(choice.calibration, *device, cluster, notes, read));
  notes.push_back(Describe(cluster));
  if (files != nullptr) files->insert(files->end(), read.begin(), read.end());
  return cluster;
}

namespace {

// The release that `options` names, in the job's model and cluster.
absl::Status AssumeSoftware(const TrainingJobOptions& options, const Accelerator& device,
                            TrainingJob& job) {
  if (options.stack == "none") {
    if (options.compiled) {
      return InvalidInput("--torch-compile would change nothing: no --stack is given");
    }
    if (!job.model.transformer) return absl::OkStatus();
    job.notes.push_back(fmt::format(
        "software: none assumed, so that {}communication is hidden only where a mapping's words "
        "say so; --stack names one (foretrace list stacks)",
        job.model.transformer->fused_attention ? "" : "attention is not fused and "));
    return absl::OkStatus();
  }
  if (!job.model.transformer) {
    return InvalidInput("--stack {}: stacks run transformers, and workload {} is a graph",
                        options.stack, job.model.workload.name);
  }
  TransformerConfig& model = *job.model.transformer;
  FORETRACE_ASSIGN_OR_RETURN(
      job.software, NamedReleaseOf(options.stack, {model.name, model.experts > 0, device.name}));
  StackRelease& release = job.software->release;
  if (options.compiled) {
    if (!release.eager) {
      return InvalidInput("--torch-compile would change nothing: {} has kernels of its own",
                          job.software->stack);
    }
    Compile(release);
  }
  if (model.further_tokens > 0 && !release.further_tokens) {
    job.notes.push_back(
        fmt::format("{} does not predict further tokens of {}: its modules for "
                    "them are left out",
                    job.software->Text(), model.name));
  }
  SetKernels(release, model);
  // One model for all mappings, so that search and generate agree.
  PadVocabulary(release, job.cluster.devices_per_node, model);
  SetCluster(release, device.chip, job.cluster);
  FORETRACE_ASSIGN_OR_RETURN(Workload workload, BuildTransformer(model));
  workload.name = job.model.workload.name;
  job.model.workload = std::move(workload);
  const std::string& file = job.software->file;
  job.files.push_back(file);
  // Of those that ship the same wherever they are installed.
  const std::string said = options.stack.starts_with(file)
                               ? file
                               : fmt::format("{}/{}{}", kSoftwareStacks.folder, job.software->stack,
                                             kSoftwareStacks.suffix);
  job.notes.push_back(fmt::format("software: {}, as {} has it", job.software->Text(), said));
  return absl::OkStatus();
}

// Where its layers are not alike.
void NoteLayers(TrainingJob& job) {
  if (!job.model.transformer) return;
  const TransformerConfig& model = *job.model.transformer;
  if (DenseLayers(model) > 0) {
    job.notes.push_back(fmt::format("{} of {} layers are dense, the others mixtures of experts",
                                    DenseLayers(model), model.layers));
  }
  if (!model.pattern.empty()) job.notes.push_back(PatternNote(model));
  if (WindowedLayers(model) > 0) {
    job.notes.push_back(
        fmt::format("{} of {} layers have windows of {} tokens; where context parallelism divides "
                    "the sequence attention is taken over all tokens",
                    WindowedLayers(model), model.layers, model.window));
  }
}

}  // namespace

absl::StatusOr<TrainingJob> LoadTrainingJob(const TrainingJobOptions& options) {
  TrainingJob job;
  FORETRACE_ASSIGN_OR_RETURN(const std::string workload, FindWorkload(options.workload, job.notes));
  FORETRACE_ASSIGN_OR_RETURN(job.model, LoadModel(workload));
  if (job.model.transformer)
    FORETRACE_RETURN_IF_ERROR(CheckTrainedAttention(*job.model.transformer));
  if (options.sequence > 0) {
    FORETRACE_RETURN_IF_ERROR(SetSequence(options.sequence, job.model));
  }
  Accelerator device;
  int64_t on_platform = 0;
  FORETRACE_ASSIGN_OR_RETURN(
      job.cluster,
      ClusterOf({options.platform, options.calibration, options.kernels, options.gpus,
                 job.model.transformer && job.model.transformer->experts > 0},
                job.model.workload.dtype, &device, &on_platform, job.notes, &job.files));
  job.files.push_back(workload);
  if (ElementSize(job.model.workload.dtype) == 1) {
    return InvalidInput(
        "workload {}: weights and gradients are not trained in {}; state dtype bfloat16, and fp8 "
        "as a word of mappings or --precision for GEMMs in 8 bits",
        job.model.workload.name, Name(job.model.workload.dtype));
  }
  if (std::string note = BesideNote(job.cluster); job.model.transformer && !note.empty()) {
    job.notes.push_back(std::move(note));
  }
  FORETRACE_RETURN_IF_ERROR(AssumeSoftware(options, device, job));
  job.device_watts = device.physical.power_w;
  job.eight_bit_gemms = device.peak(RateKind::kFp8) > FlopRate();
  job.devices = options.gpus > 0 ? options.gpus : on_platform;
  if (job.devices > on_platform) {
    if (on_platform <= job.cluster.devices_per_node) {
      return Infeasible(
          "--gpus {}: platform {} is one node of {} devices; name a platform with a "
          "network between nodes",
          job.devices, options.platform, on_platform);
    }
    job.notes.push_back(
        fmt::format("{} devices: the platform has {}; more nodes like its own are "
                    "assumed",
                    job.devices, on_platform));
  }
  const double memory = options.memory_gib > 0
                            ? options.memory_gib * (1 << 30)
                            : static_cast<double>(device.visible_memory().count());
  if (memory <= 0) {
    return InvalidInput("platform {}: node.accelerator states no memory; give --memory-gib",
                        options.platform);
  }
  job.memory = WholeBytes(memory);
  job.capacity = WholeBytes(memory * (1 - options.memory_margin));
  job.notes.insert(job.notes.end(), job.model.notes.begin(), job.model.notes.end());
  NoteLayers(job);
  job.notes.push_back(fmt::format("memory: {:.1f} GiB a device, of which {:.0f} % are left free",
                                  memory / (1 << 30), 100 * options.memory_margin));
  return job;
}

TransformerConfig ModelUnder(const TrainingJob& job, const ParallelMapping& mapping) {
  TransformerConfig model = *job.model.transformer;
  if (job.software) model.loss = LossOf(job.software->release, mapping);
  return model;
}

absl::StatusOr<std::string> InputBytes(const TrainingJob& job) {
  std::string bytes;
  for (const std::string& file : job.files) {
    if (file.empty()) continue;
    FORETRACE_ASSIGN_OR_RETURN(const std::string content, ReadBinaryFile(file, kMaxTableBytes));
    bytes += fmt::format("{}:", content.size()) + content;
  }
  return bytes;
}

}  // namespace foretrace
