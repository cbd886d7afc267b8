#include "simulator/importers/kineto/extras_reader.h"

#include <optional>

#include "simulator/importers/json/text.h"

namespace foretrace::kineto {
namespace {

constexpr std::string_view kModule = "nn.Module: ";

std::optional<int64_t> Nanoseconds(const Event& event, Field field) {
  const auto time = json::ParseMicroseconds(event.Text(field));
  // Until the year 2096, as importing allows.
  if (!time || time->us > int64_t{4'000'000'000'000'000} || time->us < 0) return std::nullopt;
  return time->us * 1000 + time->ps / 1000;
}

// A thread by its number, also as "thread 7".
std::optional<int64_t> Thread(const Event& event) {
  const std::string_view text = event.Text(Field::kThread);
  if (const auto number = json::ParseInteger(text)) return number;
  const size_t space = text.rfind(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return json::ParseInteger(text.substr(space + 1));
}

}  // namespace

absl::Status ExtrasReader::OnEvent(const Event& event) {
  const std::string_view name = event.Text(Field::kName);
  const std::string_view category = event.Text(Field::kCategory);
  const auto start = Nanoseconds(event, Field::kStart);
  const auto thread = Thread(event);
  if (!start || !thread) return absl::OkStatus();
  ThreadSpan at{*thread, *start, *start};
  if (event.Text(Field::kPhase) == "i") {
    if (name == "[memory]") AddMemory(event, at);
    return absl::OkStatus();
  }
  const auto duration = Nanoseconds(event, Field::kDuration);
  if (event.Text(Field::kPhase) != "X" || !duration) return absl::OkStatus();
  at.end_ns += *duration;
  if (category == "python_function" || category == "PythonFunction" || category == "Python") {
    AddFrame(event, at);
  } else if (category == "overhead") {
    extras_.overhead_ns += *duration;
  } else if (const auto sequence = event.Integer(Field::kSequenceNumber);
             sequence && *sequence >= 0) {
    extras_.autograd.push_back({at, *sequence, event.IntegerOr(Field::kForwardThread, 0) != 0});
  }
  return absl::OkStatus();
}

absl::Status ExtrasReader::OnHeader(std::string_view key, std::string_view json_text) {
  if (key == "baseTimeNanoseconds") base_ns_ = json::ParseInteger(json_text).value_or(0);
  return absl::OkStatus();
}

void ExtrasReader::AddFrame(const Event& event, const ThreadSpan& at) {
  std::string_view name = event.Text(Field::kName);
  const bool module = name.starts_with(kModule);
  if (module) name.remove_prefix(kModule.size());
  extras_.modules += module ? 1 : 0;
  const auto next = static_cast<uint32_t>(extras_.names.size());
  const auto [it, added] = index_.try_emplace(std::string(name), next);
  if (added) extras_.names.emplace_back(name);
  extras_.frames.push_back({at, it->second, module});
}

void ExtrasReader::AddMemory(const Event& event, const ThreadSpan& at) {
  // No device has such memory; sums of eight million allocations below it do not overflow.
  constexpr int64_t kLargest = int64_t{1} << 40;
  const int64_t bytes = event.IntegerOr(Field::kAllocatedBytes, 0);
  for (const int64_t size : {bytes, event.IntegerOr(Field::kTotalAllocated, 0),
                             event.IntegerOr(Field::kTotalReserved, 0)}) {
    if (size > kLargest || size < -kLargest) return;
  }
  extras_.memory.push_back(
      {at.thread, at.start_ns, bytes, event.IntegerOr(Field::kTotalAllocated, 0),
       event.IntegerOr(Field::kTotalReserved, 0), event.IntegerOr(Field::kAddress, 0),
       event.IntegerOr(Field::kDeviceType, 0) != 0});
}

ProfileExtras ExtrasReader::Finish() {
  const auto shift = [this](ThreadSpan& at) {
    at.start_ns += base_ns_;
    at.end_ns += base_ns_;
  };
  for (ProfileExtras::Frame& frame : extras_.frames) shift(frame.at);
  for (ProfileExtras::Autograd& op : extras_.autograd) shift(op.at);
  for (ProfileExtras::Memory& memory : extras_.memory) memory.at_ns += base_ns_;
  return std::move(extras_);
}

}  // namespace foretrace::kineto
