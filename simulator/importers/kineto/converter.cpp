#include "simulator/importers/kineto/converter.h"

#include <algorithm>
#include <limits>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/importers/framework/device_names.h"
#include "simulator/importers/kineto/call_detail.h"
#include "simulator/importers/kineto/implied_outputs.h"
#include "simulator/trace/serving_step.h"

namespace foretrace::kineto {
namespace {

// Microseconds since 1970 until the year 2096; keeps nanoseconds within int64.
constexpr int64_t kMaxUs = int64_t{4'000'000} * 1'000'000'000;
// Within a trace: 26 days, as the trace store allows.
constexpr int64_t kMaxSpanUs = (int64_t{1} << 61) / 1'000'000;

bool FitsInt32(int64_t value) { return value >= 0 && value <= std::numeric_limits<int32_t>::max(); }

}  // namespace

Converter::Converter(const std::string& source, const ImportOptions& options)
    : source_(source), options_(options) {
  RankInfo info;
  info.source = source;
  info.producer = "kineto";
  builder_ = std::make_unique<RankTraceBuilder>(std::move(info));
}

std::string Converter::Where(const Event& event) const {
  return fmt::format("{}: event {} at byte {} ({})", source_, event.index, event.offset,
                     Excerpt(event.Text(Field::kName), 80));
}

void Converter::Diagnose(Repair repair, const Event& event) {
  builder_->diagnostics().Add(repair, [&] { return Where(event); });
}

// The communication that `event` describes; what of it cannot be read is counted.
CommInfo Converter::Describe(const Event& event, CommSource source) {
  if (const std::string what = UnusableArgument(event); !what.empty()) {
    builder_->diagnostics().Add(Repair::kUnusableArgument,
                                [&] { return fmt::format("{}: {}", Where(event), what); });
  }
  return DescribeCommunication(event, source);
}

absl::Status Converter::OnEvent(const Event& event) {
  const std::string_view phase = event.Text(Field::kPhase);
  if (phase != "X") {
    if (phase == "M") NameLane(event);
    // Marks, counters, flows, async spans and objects of the trace event format hold no work.
    constexpr std::string_view kWithoutWork = "MiICbneSTpFstfNODPvVRca()";
    const bool known = phase.size() == 1 && kWithoutWork.find(phase[0]) != std::string_view::npos;
    if (!known) Diagnose(Repair::kUnsupportedPhase, event);
    return absl::OkStatus();
  }
  Category category = ParseCategory(event.Text(Field::kCategory));
  if (category == Category::kIgnored) return absl::OkStatus();
  if (category == Category::kUnknown) {
    builder_->diagnostics().Add(Repair::kUnknownCategory, [&] {
      return fmt::format("{} of category \"{}\"", Where(event),
                         Excerpt(event.Text(Field::kCategory), 40));
    });
    return absl::OkStatus();
  }
  if (event.duplicate) Diagnose(Repair::kDuplicateKey, event);
  if (!json::IsValidUtf8(event.Text(Field::kName))) {
    return InvalidInput("{}: event {} at byte {}: its name is not valid UTF-8", source_,
                        event.index, event.offset);
  }
  return Convert(event, category);
}

absl::Status Converter::Convert(const Event& event, Category category) {
  if (category == Category::kSync) {
    AddSync(event);
    return absl::OkStatus();
  }
  RankTraceBuilder::NodeSpec spec;
  spec.name = event.Text(Field::kName);
  FORETRACE_ASSIGN_OR_RETURN(spec.start, StartOf(event));
  FORETRACE_ASSIGN_OR_RETURN(spec.duration, DurationOf(event));
  if (CameBefore(event, spec)) {
    Diagnose(Repair::kDuplicateEvent, event);
    return absl::OkStatus();
  }
  switch (category) {
    case Category::kKernel:
    case Category::kMemcpy:
    case Category::kMemset:
      return AddDeviceNode(event, category, spec);
    default:
      return AddCpuNode(event, category, spec);
  }
}

// Merged or appended files hold events twice. A stream runs one thing at a time, and a thread
// issues one call after the other: what begins and ends with its like in one place, under one
// number, is it.
bool Converter::CameBefore(const Event& event, const RankTraceBuilder::NodeSpec& spec) {
  const size_t hash =
      absl::HashOf(event.Text(Field::kCategory), spec.name, event.Text(Field::kProcess),
                   event.Text(Field::kThread), event.Text(Field::kDevice),
                   event.Text(Field::kStream), event.Text(Field::kCorrelation),
                   event.Text(Field::kExternalId), spec.start.ps(), spec.duration.ps());
  const auto next = NodeIndex(static_cast<uint32_t>(builder_->size()));
  const auto [it, first] = node_by_event_.try_emplace(hash, next);
  if (first) return false;
  const NodeIndex other = it->second;
  return builder_->name(other) == spec.name && builder_->start(other) == spec.start &&
         builder_->duration(other) == spec.duration;
}

absl::StatusOr<SimTime> Converter::StartOf(const Event& event) {
  const Field field = event.Has(Field::kExactStart) ? Field::kExactStart : Field::kStart;
  const auto time = json::ParseMicroseconds(event.Text(field));
  if (!time) {
    return InvalidInput("{}: its start \"ts\" is {}", Where(event),
                        event.Has(Field::kStart) ? "not a usable number" : "missing");
  }
  if (time->us > kMaxUs || time->us < -kMaxUs) {
    return InvalidInput(
        "{}: its start \"ts\" is out of range ({}): profiles state "
        "microseconds; nanoseconds have to be divided by 1,000",
        Where(event), event.Text(field));
  }
  if (!origin_us_) origin_us_ = time->us;
  const int64_t us = time->us - *origin_us_;
  if (us > kMaxSpanUs || us < -kMaxSpanUs) {
    return InvalidInput("{}: its start is over 26 days away from that of the first event",
                        Where(event));
  }
  return SimTime::FromPs(us * 1'000'000 + time->ps);
}

absl::StatusOr<SimTime> Converter::DurationOf(const Event& event) {
  if (!event.Has(Field::kDuration)) {
    Diagnose(Repair::kMissingDuration, event);
    return SimTime();
  }
  const Field field = event.Has(Field::kExactDuration) ? Field::kExactDuration : Field::kDuration;
  const auto time = json::ParseMicroseconds(event.Text(field));
  if (!time) return InvalidInput("{}: its duration \"dur\" is not a usable number", Where(event));
  if (time->us < 0) {
    return InvalidInput("{}: its duration \"dur\" is negative ({})", Where(event),
                        Excerpt(event.Text(Field::kDuration), 40));
  }
  if (time->us > kMaxSpanUs) {
    return InvalidInput("{}: its duration \"dur\" is over 26 days", Where(event));
  }
  return SimTime::FromPs(time->us * 1'000'000 + time->ps);
}

// Numbers, "stream 7", or any other text, which is then numbered in order of appearance.
int64_t Converter::ThreadNumber(std::string_view text) {
  if (const auto number = json::ParseInteger(text)) return *number;
  const size_t space = text.rfind(' ');
  if (space != std::string_view::npos) {
    if (const auto number = json::ParseInteger(text.substr(space + 1))) return *number;
  }
  const auto next = -1'000'000 - static_cast<int64_t>(named_threads_.size());
  return named_threads_.try_emplace(std::string(text), next).first->second;
}

LaneIndex Converter::CpuLane(const Event& event) {
  const std::string_view thread = event.Text(Field::kThread);
  if (!last_lane_.valid() || thread != last_thread_) {
    last_thread_ = thread;
    last_lane_ = builder_->AddLane(Lane::Kind::kCpuThread, ThreadNumber(thread));
  }
  return last_lane_;
}

absl::StatusOr<LaneIndex> Converter::StreamLane(const Event& event) {
  const std::string_view thread = event.Text(Field::kThread);
  const auto stream = event.Integer(Field::kStream);
  if (!stream && thread.empty()) return InvalidInput("{}: it names no stream", Where(event));
  auto device = event.Integer(Field::kDevice);
  if (!device) device = event.Integer(Field::kProcess);
  const int64_t number = device.value_or(0);
  if (!FitsInt32(number))
    return InvalidInput("{}: device {} is out of range", Where(event), number);
  if (!device_used_) device_used_ = number;
  return builder_->AddLane(Lane::Kind::kStream, stream ? *stream : ThreadNumber(thread),
                           static_cast<int32_t>(number));
}

uint32_t Converter::ProcessOf(const Event& event) {
  const auto next = static_cast<uint32_t>(process_numbers_.size());
  return process_numbers_.try_emplace(std::string(event.Text(Field::kProcess)), next).first->second;
}

absl::Status Converter::AddCall(const Event& event, RankTraceBuilder::NodeSpec spec) {
  const RuntimeCall call = ParseRuntimeCall(spec.name);
  spec.kind = NodeKind::kRuntimeCall;
  spec.detail = static_cast<uint8_t>(call);
  const auto correlation = event.Integer(Field::kCorrelation);
  spec.source_id = static_cast<uint64_t>(
      correlation.value_or(event.Integer(Field::kExternalId).value_or(event.index)));
  const NodeIndex node = builder_->AddNode(spec);
  if (!correlation || *correlation <= 0) return absl::OkStatus();
  if (event.Has(Field::kGrid) || event.Has(Field::kBytes)) {
    issued_by_correlation_.try_emplace(
        *correlation, Issued{KernelLaunchOf(event), event.IntegerOr(Field::kBytes, -1)});
  }
  const uint32_t process = ProcessOf(event);
  const auto [it, inserted] = call_by_correlation_.try_emplace(*correlation, Call{node, process});
  if (inserted) return absl::OkStatus();
  const auto other = static_cast<RuntimeCall>(builder_->detail(it->second.node));
  const uint32_t other_process = it->second.process;
  if (call == RuntimeCall::kLaunchKernel && other == call && other_process != process) {
    const auto first = std::ranges::find_if(
        process_numbers_, [&](const auto& p) { return p.second == other_process; });
    return InvalidInput(
        "{}: process {} made a launch of its correlation, {}, too, so that the file is put "
        "together from several processes and nothing says whose work is whose; give the file of "
        "each",
        Where(event), Excerpt(first->first, 20), *correlation);
  }
  // Driver and runtime may both record a launch; the one that is known to launch counts.
  if (other == RuntimeCall::kOther) it->second = {node, process};
  return absl::OkStatus();
}

absl::Status Converter::AddCpuNode(const Event& event, Category category,
                                   RankTraceBuilder::NodeSpec spec) {
  spec.lane = CpuLane(event);
  if (category == Category::kRuntime) return AddCall(event, spec);
  const auto external = event.Integer(Field::kExternalId);
  const auto step = ParseStepMark(spec.name);
  spec.kind = category == Category::kAnnotation || step ? NodeKind::kAnnotation : NodeKind::kCpuOp;
  if (spec.kind == NodeKind::kCpuOp) spec.detail = static_cast<uint8_t>(CallDetailOf(event));
  spec.source_id = static_cast<uint64_t>(external.value_or(event.index));
  const NodeIndex node = builder_->AddNode(spec);
  if (step && spec.duration == SimTime()) {
    Diagnose(Repair::kStepWithoutDuration, event);  // an iteration of 0 us would be nobody's
  } else if (step && !step_numbers_.insert(*step).second) {
    Diagnose(Repair::kStepGivenTwice, event);
  } else if (step) {
    builder_->AddIteration(*step, node);
    step_marked_ = true;
  } else if (category == Category::kAnnotation && ParseServingStep(spec.name)) {
    serving_steps_.push_back({spec.start, spec.start + spec.duration, node});
  }
  AddTensors(event, node);
  if (const auto source = CommRangeSource(spec.name)) {
    if (comm_ranges_.size() <= spec.lane.value) comm_ranges_.resize(spec.lane.value + 1);
    comm_ranges_[spec.lane.value].push_back(
        {spec.start, spec.start + spec.duration, *source, Describe(event, *source)});
  }
  if (options_.keep_link_keys && !step) {
    link_keys_.push_back({node, event.IntegerOr(Field::kRecordFunctionId, -1),
                          external.value_or(-1), builder_->lanes()[spec.lane.value].id});
  }
  return absl::OkStatus();
}

void Converter::AddTensors(const Event& event, NodeIndex node) {
  for (const InputDims& dims : event.dims) {
    const std::string_view type =
        dims.argument < event.types.size() ? event.types[dims.argument] : std::string_view();
    const DType dtype = ParseDType(type);
    // Scalars, None and lists of numbers have no dimensions and no tensor type.
    if (dims.count == 0 && dtype == DType::kUnknown) continue;
    Tensor tensor;
    tensor.dtype = dtype;
    builder_->AddTensor(node, tensor, std::span(event.dim_values).subspan(dims.begin, dims.count));
  }
  for (const ImpliedOutput& output : ImpliedOutputs(event)) {
    const size_t argument = event.dims[output.like].argument;
    Tensor tensor;
    if (argument < event.types.size()) tensor.dtype = ParseDType(event.types[argument]);
    tensor.is_output = true;
    builder_->AddTensor(node, tensor, output.dims);
  }
}

absl::Status Converter::AddDeviceNode(const Event& event, Category category,
                                      RankTraceBuilder::NodeSpec spec) {
  FORETRACE_ASSIGN_OR_RETURN(spec.lane, StreamLane(event));
  const int64_t correlation = event.IntegerOr(Field::kCorrelation, -1);
  spec.source_id = static_cast<uint64_t>(
      correlation > 0 ? correlation : event.IntegerOr(Field::kExternalId, event.index));
  bool host_kind_known = true;
  bool collective = false;
  CommInfo info;
  if (category == Category::kMemcpy) {
    spec.kind = NodeKind::kMemcpy;
    spec.detail = static_cast<uint8_t>(ParseMemcpyKind(spec.name, host_kind_known));
  } else if (category == Category::kMemset) {
    spec.kind = NodeKind::kMemset;
  } else if (IsCollectiveKernel(spec.name)) {
    collective = true;
    spec.kind = NodeKind::kCollective;  // or a send or receive: known once all is read
    info = Describe(event, CommSource::kKernel);
  } else {
    spec.kind = NodeKind::kKernel;
  }
  const NodeIndex node = builder_->AddNode(spec);
  const int64_t device = event.IntegerOr(Field::kDevice, -1);
  device_nodes_.push_back({node, correlation, host_kind_known, true, device});
  if (collective) {
    collectives_.push_back({node, correlation, std::move(info)});
  } else if (const auto bytes = event.Integer(Field::kBytes); bytes && *bytes >= 0) {
    AddBytes(device_nodes_.back(), Bytes(*bytes), KernelLaunchOf(event).exact_waves_milli);
  } else if (KernelLaunch launch = KernelLaunchOf(event); launch.known()) {
    kernel_launches_.push_back({node, device, launch});
  } else {
    device_nodes_.back().described = false;
  }
  return absl::OkStatus();
}

void Converter::AddBytes(const DeviceNode& device, Bytes bytes,
                         std::optional<uint32_t> exact_waves) {
  builder_->SetWork(device.node, {Flop(), bytes});
  if (builder_->kind(device.node) != NodeKind::kMemcpy ||
      builder_->detail(device.node) != static_cast<uint8_t>(MemcpyKind::kDeviceToDevice)) {
    return;
  }
  KernelLaunch launch = CopyLaunchOf(bytes);
  launch.exact_waves_milli = exact_waves;
  kernel_launches_.push_back({device.node, device.device, launch});
}

// The device side of a synchronising call: completes the call of the same correlation.
void Converter::AddSync(const Event& event) {
  Sync sync;
  sync.correlation = event.IntegerOr(Field::kCorrelation, -1);
  sync.attr.event = event.IntegerOr(Field::kWaitOnEvent, -1);
  sync.attr.waits_for_correlation = event.IntegerOr(Field::kWaitOnCorrelation, -1);
  const int64_t device = event.IntegerOr(Field::kDevice, 0);
  const auto lane = [&](Field field) {
    const int64_t stream = event.IntegerOr(field, -1);
    // CUPTI writes an unknown stream as -1 of 32 bits.
    if (stream < 0 || stream == 0xFFFFFFFF || !FitsInt32(device)) return LaneIndex();
    return builder_->AddLane(Lane::Kind::kStream, stream, static_cast<int32_t>(device));
  };
  sync.attr.stream = lane(Field::kStream);
  sync.attr.waits_for_stream = lane(Field::kWaitOnStream);
  syncs_.push_back(sync);
}

void Converter::NameLane(const Event& event) {
  if (event.Text(Field::kName) != "thread_name") return;
  const std::string_view label = event.Text(Field::kLabel);
  constexpr size_t kMaxLabels = 100'000;
  if (label.empty() || label.size() > 200 || thread_labels_.size() >= kMaxLabels) return;
  if (!json::IsValidUtf8(label)) return;
  // Devices are numbered from 0, and their threads are streams: only CPU threads are named here.
  if (event.IntegerOr(Field::kProcess, 0) < 1000) return;
  thread_labels_.try_emplace(ThreadNumber(event.Text(Field::kThread)), label);
}

}  // namespace foretrace::kineto
