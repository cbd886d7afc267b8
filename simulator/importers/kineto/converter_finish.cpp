// The second half of Converter: headers, and references across the file.

#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <limits>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/hardware/stated_device.h"
#include "simulator/importers/framework/process_groups.h"
#include "simulator/importers/kineto/converter.h"

namespace foretrace::kineto {
namespace {

constexpr int64_t kMaxBaseNs = int64_t{4'000'000'000} * 1'000'000'000;

bool IsRank(int64_t value) { return value >= 0 && value < std::numeric_limits<int32_t>::max(); }

// Whether ranks are named at all, and not cut short by the profiler.
bool HasRanks(const rapidjson::Value& object) {
  const auto it = object.FindMember("ranks");
  if (it == object.MemberEnd() || it->value.IsNull()) return false;
  if (it->value.IsArray()) return !it->value.Empty();
  if (!it->value.IsString()) return true;
  const std::string_view text(it->value.GetString(), it->value.GetStringLength());
  return !text.empty() && text.find("...") == std::string_view::npos;
}

bool SameLimits(const OccupancyLimits& a, const OccupancyLimits& b) {
  return a.threads == b.threads && a.blocks == b.blocks && a.registers == b.registers &&
         a.shared_memory == b.shared_memory && a.warp == b.warp;
}

}  // namespace

absl::Status Converter::OnHeader(std::string_view key, std::string_view json_text) {
  if (key == "distributedInfo") return ReadDistributedInfo(json_text);
  if (key == "deviceProperties") return ReadDeviceProperties(json_text);
  if (key == "foretracePrediction") {
    builder_->info().synthetic = true;
    builder_->info().producer = "kineto form of a prediction";
  }
  if (key == "baseTimeNanoseconds") {
    const auto base = json::ParseInteger(json_text);
    if (!base || *base < 0 || *base > kMaxBaseNs) {
      return InvalidInput("{}: \"baseTimeNanoseconds\" is no time: {}", source_,
                          Excerpt(json_text, 40));
    }
    base_ns_ = *base;
  }
  return absl::OkStatus();
}

absl::Status Converter::ReadDistributedInfo(std::string_view json_text) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(json_text.data(), json_text.size());
  if (document.HasParseError() || !document.IsObject()) {
    return InvalidInput("{}: \"distributedInfo\" is no object: {}", source_,
                        Excerpt(json_text, 40));
  }
  for (const char* key : {"rank", "world_size"}) {
    const auto it = document.FindMember(key);
    if (it == document.MemberEnd() || it->value.IsNull() || IntegerMember(document, key)) continue;
    return InvalidInput("{}: \"{}\" of distributedInfo is no whole number", source_, key);
  }
  if (const auto rank = IntegerMember(document, "rank")) {
    if (!IsRank(*rank)) return InvalidInput("{}: distributedInfo names rank {}", source_, *rank);
    rank_ = static_cast<int32_t>(*rank);
  }
  if (const auto size = IntegerMember(document, "world_size")) {
    if (!IsRank(*size) || (rank_ && *size <= *rank_)) {
      return InvalidInput("{}: distributedInfo names world_size {}, rank {}", source_, *size,
                          rank_.value_or(-1));
    }
    builder_->info().world_size = static_cast<int32_t>(*size);
  }
  const auto groups = document.FindMember("pg_config");
  if (groups == document.MemberEnd()) return absl::OkStatus();
  const auto add = [this](const rapidjson::Value& entry, std::string name) {
    if (!entry.IsObject()) return;
    if (name.empty()) return;
    ProcessGroup group = ReadGroup(entry);
    group.name = std::move(name);
    if (group.ranks.empty() && HasRanks(entry)) {
      builder_->diagnostics().Add(Repair::kUnusableGroup,
                                  fmt::format("{}: ranks of group \"{}\"", source_, group.name));
    }
    // Without ranks only the default group is known: it has all of them.
    const auto size = IntegerMember(entry, "pg_size");
    if (group.ranks.empty() && size && *size != builder_->info().world_size) return;
    builder_->AddProcessGroup(std::move(group));
  };
  if (groups->value.IsArray()) {
    for (const auto& entry : groups->value.GetArray()) {
      if (entry.IsObject()) add(entry, TextMember(entry, "pg_name"));
    }
  } else if (groups->value.IsObject()) {
    for (const auto& entry : groups->value.GetObject()) {
      add(entry.value, {entry.name.GetString(), entry.name.GetStringLength()});
    }
  }
  return absl::OkStatus();
}

// A list of devices, or the only one. What it states of a device comes before what the device's
// file does.
absl::Status Converter::ReadDeviceProperties(std::string_view json_text) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(json_text.data(), json_text.size());
  if (document.HasParseError()) return absl::OkStatus();
  std::string recorded, known;  // of a name that no file has
  const auto add = [&](const rapidjson::Value& device) -> absl::Status {
    if (!device.IsObject()) return absl::OkStatus();
    const auto id = IntegerMember(device, "id");
    if (!id) return absl::OkStatus();
    RecordedDevice out{*id, TextMember(device, "name"), {}};
    if (options_.occupancy != nullptr) {
      FORETRACE_ASSIGN_OR_RETURN(out.limits, options_.occupancy->Of(out.name));
      FORETRACE_ASSIGN_OR_RETURN(const OccupancyLimits unnamed, options_.occupancy->Of(""));
      if (!out.name.empty() && SameLimits(out.limits, unnamed)) {
        if (out.name != recorded) {  // those of one host are mostly alike
          recorded = out.name;
          FORETRACE_ASSIGN_OR_RETURN(known,
                                     NameOf({recorded, IntegerMember(device, "numSms").value_or(0),
                                             IntegerMember(device, "warpSize").value_or(0),
                                             IntegerMember(device, "totalGlobalMem").value_or(0)}));
        }
        out.name = known;
        FORETRACE_ASSIGN_OR_RETURN(out.limits, options_.occupancy->Of(out.name));
      }
    }
    const auto state = [&](const char* key, int32_t& limit) {
      const auto value = IntegerMember(device, key);
      if (value && *value > 0 && *value <= std::numeric_limits<int32_t>::max()) {
        limit = static_cast<int32_t>(*value);
      }
    };
    state("maxThreadsPerMultiprocessor", out.limits.threads);
    state("regsPerMultiprocessor", out.limits.registers);
    state("warpSize", out.limits.warp);
    state("numSms", out.multiprocessors);
    int32_t shared = 0;
    state("sharedMemPerMultiprocessor", shared);
    state("maxSharedMemoryPerMultiProcessor", shared);  // ROCm's spelling
    if (shared > 0) out.limits.shared_memory = Bytes(shared);
    // A block can ask for all but what the driver keeps.
    int32_t largest = 0;
    state("sharedMemPerBlockOptin", largest);
    if (shared > 0 && largest > 0 && largest <= shared) {
      out.limits.reserved_shared_memory = Bytes(shared - largest);
    }
    devices_.push_back(std::move(out));
    return absl::OkStatus();
  };
  if (document.IsObject()) return add(document);
  if (!document.IsArray()) return absl::OkStatus();
  for (const auto& device : document.GetArray()) FORETRACE_RETURN_IF_ERROR(add(device));
  return absl::OkStatus();
}

void Converter::ResolveLaunches() {
  for (const DeviceNode& device : device_nodes_) {
    const auto it = call_by_correlation_.find(device.correlation);
    if (it == call_by_correlation_.end()) {
      builder_->diagnostics().Add(Repair::kMissingLaunch, [&] {
        return fmt::format("{}: correlation {} ({})", source_, device.correlation,
                           Excerpt(builder_->name(device.node), 80));
      });
      continue;
    }
    const NodeIndex call = it->second.node;
    builder_->SetLauncher(device.node, call);
    if (!device.described) DescribeByCall(device);
    const auto kind = static_cast<RuntimeCall>(builder_->detail(call));
    // Calls that the profiler had no name for ("INVALID"), known by what they issued.
    if (kind == RuntimeCall::kOther) {
      const NodeKind issued = builder_->kind(device.node);
      builder_->SetDetail(
          call, static_cast<uint8_t>(issued == NodeKind::kMemcpy   ? RuntimeCall::kMemcpyAsync
                                     : issued == NodeKind::kMemset ? RuntimeCall::kMemset
                                                                   : RuntimeCall::kLaunchKernel));
    }
    if (!device.host_kind_known && kind == RuntimeCall::kMemcpySync) {
      const bool to_device =
          builder_->detail(device.node) == static_cast<uint8_t>(MemcpyKind::kHostToDevicePinned);
      builder_->SetDetail(device.node,
                          static_cast<uint8_t>(to_device ? MemcpyKind::kHostToDevicePageable
                                                         : MemcpyKind::kDeviceToHostPageable));
    }
  }
}

void Converter::DescribeByCall(const DeviceNode& device) {
  const auto it = issued_by_correlation_.find(device.correlation);
  if (it == issued_by_correlation_.end()) return;
  const Issued& issued = it->second;
  if (builder_->kind(device.node) == NodeKind::kKernel) {
    if (issued.launch.known()) {
      kernel_launches_.push_back({device.node, device.device, issued.launch});
    }
  } else if (issued.bytes >= 0) {
    AddBytes(device, Bytes(issued.bytes), issued.launch.exact_waves_milli);
  }
}

absl::StatusOr<const Converter::RecordedDevice*> Converter::DeviceOf(int64_t id) {
  for (const RecordedDevice& device : devices_) {
    if (device.id == id) return &device;
  }
  // ROCm numbers a process's devices as the host does where it sees only one of them.
  if (devices_.size() == 1) return &devices_[0];
  if (!unnamed_) {
    unnamed_ = RecordedDevice();
    if (options_.occupancy != nullptr) {
      FORETRACE_ASSIGN_OR_RETURN(unnamed_->limits, options_.occupancy->Of(""));
    }
  }
  return &*unnamed_;
}

absl::Status Converter::ResolveWaves() {
  for (const LaunchedKernel& kernel : kernel_launches_) {
    FORETRACE_ASSIGN_OR_RETURN(const RecordedDevice* const device, DeviceOf(kernel.device));
    const uint32_t waves = KernelWavesMilli(kernel.launch, device->limits, device->multiprocessors);
    if (waves > 0) builder_->SetWaves(kernel.node, waves);
    if (kernel.launch.attr) builder_->SetLaunch(kernel.node, *kernel.launch.attr);
  }
  return absl::OkStatus();
}

void Converter::ResolveSyncs() {
  absl::flat_hash_map<uint32_t, bool> seen;
  for (const Sync& sync : syncs_) {
    const auto it = call_by_correlation_.find(sync.correlation);
    if (it == call_by_correlation_.end()) {
      builder_->diagnostics().Add(Repair::kSyncWithoutCall, source_);
      continue;
    }
    if (seen.try_emplace(it->second.node.value, true).second) {
      builder_->SetSync(it->second.node, sync.attr);
    }
  }
}

void Converter::SetCommunication(NodeIndex node, const CommInfo& info) {
  CommAttr attr;
  const auto clamp = [](int64_t value) {
    return static_cast<int32_t>(std::clamp<int64_t>(value, -1, INT32_MAX));
  };
  attr.group = builder_->Intern(info.group);
  // PyTorch gives the size of both directions for sends and receives, too.
  attr.bytes_in = Bytes(info.is_recv ? 0 : info.bytes_in.value_or(0));
  attr.bytes_out = Bytes(info.is_send ? 0 : info.bytes_out.value_or(0));
  attr.peer = clamp(info.peer);
  attr.dtype = info.dtype;
  attr.group_size = clamp(info.group_size);
  attr.sequence = info.sequence;
  std::vector<int32_t> ranks;
  for (const int64_t rank : info.group_ranks) {
    if (IsRank(rank)) ranks.push_back(static_cast<int32_t>(rank));
  }
  if (ranks.size() != info.group_ranks.size()) ranks.clear();
  // The store wants ranks of the job.
  if (info.peer_rank >= 0) {
    attr.peer = clamp(info.peer_rank);
  } else if (attr.peer >= 0 && static_cast<size_t>(attr.peer) < ranks.size()) {
    attr.peer = ranks[static_cast<size_t>(attr.peer)];
  }
  if (!info.group.empty() && !ranks.empty()) {
    builder_->AddProcessGroup({info.group, info.group_description, std::move(ranks)});
  }
  const bool splits_fit = info.in_splits.size() < 65536 && info.out_splits.size() < 65536;
  using Splits = std::span<const int64_t>;
  builder_->SetComm(node, attr, splits_fit ? Splits(info.in_splits) : Splits(),
                    splits_fit ? Splits(info.out_splits) : Splits());
  if (info.is_send || info.is_recv) {
    builder_->SetKind(node, info.is_send ? NodeKind::kSend : NodeKind::kRecv);
    builder_->SetDetail(node, 0);
  } else {
    builder_->SetDetail(node, static_cast<uint8_t>(info.op));
  }
}

void Converter::ResolveCollectives() {
  for (auto& ranges : comm_ranges_) {
    std::stable_sort(ranges.begin(), ranges.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
  }
  struct Launch {
    const Collective* collective;
    NodeIndex call;
    SimTime time;
  };
  std::vector<Launch> launches;
  for (const Collective& c : collectives_) {
    const auto it = call_by_correlation_.find(c.correlation);
    if (it == call_by_correlation_.end()) {
      SetCommunication(c.node, c.info);
      continue;
    }
    launches.push_back({&c, it->second.node, builder_->start(it->second.node)});
  }
  std::stable_sort(launches.begin(), launches.end(),
                   [](const Launch& a, const Launch& b) { return a.time < b.time; });
  absl::flat_hash_map<uint32_t, SimTime> previous;  // by lane
  const std::vector<CommRange> none;
  for (const Launch& launch : launches) {
    const uint32_t lane = builder_->lane(launch.call).value;
    const auto& ranges = lane < comm_ranges_.size() ? comm_ranges_[lane] : none;
    const auto [it, first] = previous.try_emplace(lane, SimTime::Min());
    SetCommunication(launch.collective->node, ResolveCommunication(launch.collective->info, ranges,
                                                                   launch.time, it->second));
    it->second = launch.time;
  }
}

// Where the profiler marks no step, the annotations of a serving engine do, numbered from 1 in
// order of time. Those within another are parts of its step.
void Converter::MarkServingSteps() {
  if (step_marked_) return;
  std::stable_sort(serving_steps_.begin(), serving_steps_.end(), [](const auto& a, const auto& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  int64_t number = 0;
  SimTime end = SimTime::Min();
  for (const ServingStep& step : serving_steps_) {
    if (step.end <= end) continue;
    end = step.end;
    builder_->AddIteration(++number, step.node);
  }
}

absl::StatusOr<ImportedFile> Converter::Finish() {
  if (builder_->size() == 0) {
    return InvalidInput("{}: no operators, calls or kernels among the events", source_);
  }
  node_by_event_ = {};
  ResolveLaunches();
  FORETRACE_RETURN_IF_ERROR(ResolveWaves());
  ResolveSyncs();
  ResolveCollectives();
  MarkServingSteps();
  for (uint32_t i = 0; i < builder_->lanes().size(); ++i) {
    const Lane& lane = builder_->lanes()[i];
    if (lane.kind != Lane::Kind::kCpuThread) continue;
    const auto it = thread_labels_.find(lane.id);
    if (it != thread_labels_.end()) builder_->SetLaneLabel(LaneIndex(i), it->second);
  }
  RankInfo& info = builder_->info();
  for (const RecordedDevice& device : devices_) {
    if (info.device_name.empty() || device.id == device_used_) info.device_name = device.name;
  }
  info.origin_ns = base_ns_ + origin_us_.value_or(0) * 1000;
  ImportedFile file;
  file.builder = std::move(builder_);
  file.role = TraceRole::kProfile;
  file.rank = rank_;
  file.link_keys = std::move(link_keys_);
  return file;
}

}  // namespace foretrace::kineto
