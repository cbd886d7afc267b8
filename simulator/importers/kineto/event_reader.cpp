#include "simulator/importers/kineto/event_reader.h"

#include "simulator/base/error.h"
#include "simulator/base/utf8.h"

namespace foretrace::kineto {
namespace {

// Metadata beside the events is small; 64 MiB is room for the groups of 100,000 ranks.
constexpr size_t kMaxCapture = size_t{64} << 20;
constexpr size_t kMaxDims = 1 << 20;  // numbers in one event's "Input Dims"

}  // namespace

EventReader::KeyTable EventReader::EventKeys() {
  const auto field = [](Field f) { return KeyMeaning{Target::kField, f}; };
  return {{"ph", field(Field::kPhase)},     {"cat", field(Field::kCategory)},
          {"name", field(Field::kName)},    {"pid", field(Field::kProcess)},
          {"tid", field(Field::kThread)},   {"ts", field(Field::kStart)},
          {"dur", field(Field::kDuration)}, {"args", {Target::kArgs, Field::kCount}}};
}

EventReader::KeyTable EventReader::ArgumentKeys() {
  const auto field = [](Field f) { return KeyMeaning{Target::kField, f}; };
  return {{"name", field(Field::kLabel)},
          {"External id", field(Field::kExternalId)},
          {"external id", field(Field::kExternalId)},
          {"Record function id", field(Field::kRecordFunctionId)},
          {"correlation", field(Field::kCorrelation)},
          {"stream", field(Field::kStream)},
          {"device", field(Field::kDevice)},
          {"wait_on_stream", field(Field::kWaitOnStream)},
          {"wait_on_cuda_event_record_corr_id", field(Field::kWaitOnCorrelation)},
          {"wait_on_cuda_event_id", field(Field::kWaitOnEvent)},
          {"event", field(Field::kEvent)},
          {"event_id", field(Field::kEvent)},
          {"cuda_event_id", field(Field::kEvent)},
          {"bytes", field(Field::kBytes)},
          {"size", field(Field::kBytes)},
          {"Collective name", field(Field::kCollectiveName)},
          {"In msg nelems", field(Field::kInElements)},
          {"Out msg nelems", field(Field::kOutElements)},
          {"Group size", field(Field::kGroupSize)},
          {"dtype", field(Field::kDtype)},
          {"In split size", field(Field::kInSplit)},
          {"Out split size", field(Field::kOutSplit)},
          {"Process Group Name", field(Field::kGroupName)},
          {"Process Group Description", field(Field::kGroupDescription)},
          {"Process Group Ranks", field(Field::kGroupRanks)},
          {"Src Rank", field(Field::kSourceRank)},
          {"Dst Rank", field(Field::kDestinationRank)},
          {"Root Rank", field(Field::kRootRank)},
          {"Seq", field(Field::kSequence)},
          {"blocks per SM", field(Field::kBlocksPerSm)},
          {"warps per SM", field(Field::kWarpsPerSm)},
          {"registers per thread", field(Field::kRegisters)},
          {"shared memory", field(Field::kSharedMemory)},
          {"grid", field(Field::kGrid)},
          {"block", field(Field::kBlock)},
          {"foretrace.ts", field(Field::kExactStart)},
          {"foretrace.dur", field(Field::kExactDuration)},
          {"foretrace.waves", field(Field::kExactWaves)},
          {"Sequence number", field(Field::kSequenceNumber)},
          {"Fwd thread id", field(Field::kForwardThread)},
          {"Bytes", field(Field::kAllocatedBytes)},
          {"Total Allocated", field(Field::kTotalAllocated)},
          {"Total Reserved", field(Field::kTotalReserved)},
          {"Device Type", field(Field::kDeviceType)},
          {"Addr", field(Field::kAddress)},
          {"Input Dims", {Target::kDims, Field::kCount}},
          {"Input dims", {Target::kDims, Field::kCount}},
          {"Input type", {Target::kTypes, Field::kCount}},
          {"Input Strides", {Target::kStrides, Field::kCount}},
          {"Concrete Inputs", {Target::kConcrete, Field::kCount}}};
}

EventReader::EventReader(const std::string& source, json::Reader& reader, EventSink& sink)
    : source_(source),
      reader_(reader),
      sink_(sink),
      event_keys_(EventKeys()),
      argument_keys_(ArgumentKeys()),
      writer_(captured_) {}

bool EventReader::Skip() {
  resume_ = mode_;
  mode_ = Mode::kSkip;
  skip_depth_ = 1;
  return true;
}

void EventReader::BeginCapture(bool object) {
  resume_ = mode_;
  mode_ = Mode::kCapture;
  inner_depth_ = 1;
  captured_.Clear();
  writer_.Reset(captured_);
  if (object) {
    writer_.StartObject();
  } else {
    writer_.StartArray();
  }
}

bool EventReader::EndCaptured() {
  if (captured_.GetSize() > kMaxCapture) {
    return Fail(
        InvalidInput("{}: \"{}\" is larger than {} bytes", source_, header_key_, kMaxCapture));
  }
  if (--inner_depth_ > 0) return true;
  mode_ = resume_;
  absl::Status status =
      sink_.OnHeader(header_key_, std::string_view(captured_.GetString(), captured_.GetSize()));
  return status.ok() || Fail(std::move(status));
}

bool EventReader::Key(std::string_view key) {
  if (mode_ == Mode::kArgs || mode_ == Mode::kEvent) {
    const KeyTable& table = mode_ == Mode::kArgs ? argument_keys_ : event_keys_;
    const KeyMeaning* const meaning = table.Find(key);
    key_ = meaning != nullptr ? *meaning : KeyMeaning{};
    if (meaning == nullptr) {
      key_ = {};
      reader_.SkipValue();
    }
  } else if (mode_ == Mode::kRoot) {
    key_ = {};
    if (key == "traceEvents") {
      key_.target = Target::kEvents;
    } else if (key == "distributedInfo" || key == "deviceProperties" ||
               key == "baseTimeNanoseconds" || key == "foretracePrediction") {
      key_.target = Target::kCapture;
      header_key_ = key;
    } else {
      reader_.SkipValue();
    }
  } else if (mode_ == Mode::kCapture) {
    writer_.Key(key.data(), static_cast<rapidjson::SizeType>(key.size()));
    if (captured_.GetSize() > kMaxCapture) return EndCaptured();
  }
  return true;
}

bool EventReader::StartObject() {
  switch (mode_) {
    case Mode::kSkip:
      ++skip_depth_;
      return true;
    case Mode::kCapture:
      ++inner_depth_;
      writer_.StartObject();
      return true;
    case Mode::kStart:
      mode_ = Mode::kRoot;
      return true;
    case Mode::kRoot:
      if (key_.target != Target::kCapture) return Skip();
      BeginCapture(true);
      return true;
    case Mode::kEvents:
      mode_ = Mode::kEvent;
      event_.Clear();
      event_.duplicate = false;
      ++event_.index;
      event_.offset = reader_.offset();
      return true;
    case Mode::kEvent:
      if (key_.target != Target::kArgs) return Skip();
      mode_ = Mode::kArgs;
      return true;
    default:
      return Skip();
  }
}

bool EventReader::EndObject() {
  switch (mode_) {
    case Mode::kSkip:
      if (--skip_depth_ == 0) mode_ = resume_;
      return true;
    case Mode::kCapture:
      writer_.EndObject();
      return EndCaptured();
    case Mode::kArgs:
      mode_ = Mode::kEvent;
      return true;
    case Mode::kEvent: {
      mode_ = Mode::kEvents;
      absl::Status status = sink_.OnEvent(event_);
      return status.ok() || Fail(std::move(status));
    }
    default:
      return true;
  }
}

bool EventReader::StartArray() {
  switch (mode_) {
    case Mode::kSkip:
      ++skip_depth_;
      return true;
    case Mode::kCapture:
      ++inner_depth_;
      writer_.StartArray();
      return true;
    case Mode::kStart:  // a bare list of events, as other Chrome-trace writers make
      mode_ = Mode::kEvents;
      saw_events_ = true;
      return true;
    case Mode::kRoot:
      if (key_.target == Target::kEvents) {
        if (saw_events_) {
          return Fail(
              InvalidInput("{}: a second \"traceEvents\" at byte {}", source_, reader_.offset()));
        }
        mode_ = Mode::kEvents;
        saw_events_ = true;
        return true;
      }
      if (key_.target != Target::kCapture) return Skip();
      BeginCapture(false);
      return true;
    case Mode::kArgs:
      inner_depth_ = 1;
      argument_ = 0;
      list_seen_ = false;
      switch (key_.target) {
        case Target::kDims:
        case Target::kStrides:
          strides_ = key_.target == Target::kStrides;
          (strides_ ? event_.strides : event_.dims).clear();
          (strides_ ? event_.stride_values : event_.dim_values).clear();
          mode_ = Mode::kDims;
          return true;
        case Target::kTypes:
          event_.types.clear();
          mode_ = Mode::kTypes;
          return true;
        case Target::kConcrete:
          event_.concrete.clear();
          mode_ = Mode::kConcrete;
          return true;
        case Target::kField:
          event_.Set(key_.field) = "[";
          mode_ = Mode::kListText;
          return true;
        default:
          return Skip();
      }
    case Mode::kDims:
      if (++inner_depth_ == 2) list_seen_ = false;
      if (inner_depth_ == 3) list_seen_ = true;
      list_dims_begin_ =
          static_cast<uint32_t>((strides_ ? event_.stride_values : event_.dim_values).size());
      return true;
    default:
      return Skip();
  }
}

bool EventReader::EndArray() {
  switch (mode_) {
    case Mode::kSkip:
      if (--skip_depth_ == 0) mode_ = resume_;
      return true;
    case Mode::kCapture:
      writer_.EndArray();
      return EndCaptured();
    case Mode::kEvents:
      mode_ = Mode::kRoot;
      return true;
    case Mode::kDims:
      EndDimsArray();
      return true;
    case Mode::kTypes:
    case Mode::kConcrete:
      mode_ = Mode::kArgs;
      return true;
    case Mode::kListText:
      event_.Set(key_.field) += ']';
      mode_ = Mode::kArgs;
      return true;
    default:
      return true;
  }
}

// "Input Dims" is a list over arguments of the dimensions of a tensor, or, for a list of tensors,
// of lists of dimensions; "Input Strides" likewise of strides.
void EventReader::EndDimsArray() {
  const int level = inner_depth_--;
  if (level == 1) {
    mode_ = Mode::kArgs;
    return;
  }
  const auto end =
      static_cast<uint32_t>((strides_ ? event_.stride_values : event_.dim_values).size());
  if (level == 3 || (level == 2 && !list_seen_)) {
    (strides_ ? event_.strides : event_.dims)
        .push_back({argument_, list_dims_begin_, end - list_dims_begin_, level == 3});
  }
  if (level == 2) ++argument_;
}

bool EventReader::AddDimension(std::string_view text) {
  if (inner_depth_ == 1) {  // an argument that is not a list
    ++argument_;
    return true;
  }
  auto& values = strides_ ? event_.stride_values : event_.dim_values;
  if (values.size() >= kMaxDims) {
    return Fail(InvalidInput("{}: event {} at byte {}: over {} numbers in \"Input {}\"", source_,
                             event_.index, event_.offset, kMaxDims, strides_ ? "Strides" : "Dims"));
  }
  // A dimension that is no number (a symbolic one) counts as unknown.
  values.push_back(json::ParseInteger(text).value_or(0));
  return true;
}

bool EventReader::SetField(std::string_view text) {
  if (event_.Has(key_.field)) {
    if (mode_ == Mode::kEvent) {
      return Fail(InvalidInput("{}: event {} at byte {}: a key stands twice (second value \"{}\")",
                               source_, event_.index, event_.offset, Excerpt(text, 40)));
    }
    if (event_.Text(key_.field) != text) event_.duplicate = true;
  }
  event_.Set(key_.field) = text;
  return true;
}

bool EventReader::Scalar(std::string_view text, bool is_string) {
  switch (mode_) {
    case Mode::kSkip:
      return true;
    case Mode::kEvent:
    case Mode::kArgs:
      return key_.target == Target::kField ? SetField(text) : true;
    case Mode::kDims:
      return AddDimension(text);
    case Mode::kTypes:
      event_.types.emplace_back(text);
      return true;
    case Mode::kConcrete:
      event_.concrete.emplace_back(text);
      return true;
    case Mode::kListText: {
      std::string& list = event_.Set(key_.field);
      if (list.size() > 1) list += ',';
      list += text;
      return true;
    }
    case Mode::kCapture:
      if (is_string) {
        writer_.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
      } else if (text.empty()) {
        writer_.Null();
      } else {
        writer_.RawValue(text.data(), text.size(), rapidjson::kNumberType);
      }
      return captured_.GetSize() <= kMaxCapture || EndCaptured();
    case Mode::kRoot:
      if (key_.target == Target::kCapture) {
        absl::Status status = sink_.OnHeader(header_key_, text);
        if (!status.ok()) return Fail(std::move(status));
      }
      return true;
    case Mode::kStart:
      return Fail(InvalidInput("{}: the document is one value, not a trace", source_));
    case Mode::kEvents:
      return true;
  }
  return true;
}

}  // namespace foretrace::kineto
