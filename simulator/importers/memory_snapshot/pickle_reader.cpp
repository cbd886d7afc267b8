#include "simulator/importers/memory_snapshot/pickle_reader.h"

#include <bit>
#include <optional>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// Opcodes of data alone.
struct Op {
  enum : uint8_t {
    kMark = '(',
    kStop = '.',
    kBinInt = 'J',
    kBinInt1 = 'K',
    kBinInt2 = 'M',
    kNone = 'N',
    kBinUnicode = 'X',
    kAppend = 'a',
    kAppends = 'e',
    kBinGet = 'h',
    kLongBinGet = 'j',
    kEmptyList = ']',
    kBinPut = 'q',
    kLongBinPut = 'r',
    kSetItem = 's',
    kTuple = 't',
    kEmptyTuple = ')',
    kSetItems = 'u',
    kEmptyDict = '}',
    kBinFloat = 'G',
    kBinBytes = 'B',
    kShortBinBytes = 'C',
    kProto = 0x80,
    kTuple1 = 0x85,
    kTuple2 = 0x86,
    kTuple3 = 0x87,
    kNewTrue = 0x88,
    kNewFalse = 0x89,
    kLong1 = 0x8a,
    kShortBinUnicode = 0x8c,
    kBinUnicode8 = 0x8d,
    kMemoize = 0x94,
    kFrame = 0x95,
  };
};

std::string NameOfOpcode(uint8_t opcode) {
  switch (opcode) {
    case 'c':
      return "GLOBAL, which imports";
    case 'i':
      return "INST, which calls";
    case 'o':
      return "OBJ, which calls";
    case 'R':
      return "REDUCE, which calls";
    case 'b':
      return "BUILD, which calls";
    case 'P':
    case 'Q':
      return "PERSID, which names what is not in the file";
    case 0x81:
      return "NEWOBJ, which makes an object";
    case 0x92:
      return "NEWOBJ_EX, which makes an object";
    case 0x93:
      return "STACK_GLOBAL, which imports";
    default:
      return fmt::format("opcode 0x{:02x}", opcode);
  }
}

class PickleParser {
 public:
  PickleParser(std::string_view bytes, std::string_view context, std::deque<PickleValue>& values)
      : bytes_(bytes), context_(context), values_(values) {}

  absl::StatusOr<PickleRef> Run() {
    if (bytes_.size() < 2 || static_cast<uint8_t>(bytes_[0]) != Op::kProto) {
      return InvalidInput("{}: not a pickle of protocol 2 or later", context_);
    }
    while (at_ < bytes_.size()) {
      const size_t begin = at_;
      const auto opcode = static_cast<uint8_t>(bytes_[at_++]);
      if (opcode == Op::kStop) {
        if (stack_.size() == 1 && marks_.empty()) return stack_.back();
        return Broken(begin, "ends with several values");
      }
      const absl::Status status = Do(opcode);
      if (!status.ok()) return Broken(begin, std::string(status.message()));
    }
    return Broken(at_, "ends within a value");
  }

 private:
  absl::Status Broken(size_t at, std::string_view what) const {
    return InvalidInput("{}: byte {}: {}", context_, at, what);
  }
  static absl::Status Wrong(std::string_view what) {
    return absl::InvalidArgumentError(std::string(what));
  }

  // Little-endian.
  absl::StatusOr<uint64_t> Unsigned(size_t size) {
    if (bytes_.size() - at_ < size) return Wrong("ends within a number");
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes_[at_ + i]);
    at_ += size;
    return value;
  }

  template <typename T>
  absl::Status Push(T value) {
    values_.push_back(PickleValue{std::move(value)});
    stack_.push_back(&values_.back());
    return absl::OkStatus();
  }

  absl::Status PushText(size_t length_bytes) {
    FORETRACE_ASSIGN_OR_RETURN(const uint64_t size, Unsigned(length_bytes));
    if (bytes_.size() - at_ < size) return Wrong("ends within a text");
    at_ += size;
    return Push(std::string(bytes_.substr(at_ - size, size)));
  }

  absl::Status PushLong() {
    FORETRACE_ASSIGN_OR_RETURN(const uint64_t size, Unsigned(1));
    if (size > 8) return PushLarge(size);
    FORETRACE_ASSIGN_OR_RETURN(uint64_t value, Unsigned(size));
    const bool negative = size > 0 && (value >> (8 * size - 1) & 1) != 0;
    if (negative && size < 8) value |= ~uint64_t{0} << (8 * size);
    return Push(static_cast<int64_t>(value));
  }

  // Addresses of the upper half take nine bytes; as their bits in eight.
  absl::Status PushLarge(uint64_t size) {
    if (size > 9 || bytes_.size() - at_ < size || bytes_[at_ + 8] != 0) {
      return Wrong("a number of more than 64 bits");
    }
    FORETRACE_ASSIGN_OR_RETURN(const uint64_t value, Unsigned(8));
    ++at_;
    return Push(static_cast<int64_t>(value));
  }

  absl::Status PushDouble() {
    if (bytes_.size() - at_ < 8) return Wrong("ends within a number");
    uint64_t bits = 0;
    for (size_t i = 0; i < 8; ++i) bits = bits << 8 | static_cast<uint8_t>(bytes_[at_ + i]);
    at_ += 8;
    return Push(std::bit_cast<double>(bits));
  }

  // What lies above the last mark, or above `count` values.
  absl::StatusOr<std::vector<PickleRef>> Pop(std::optional<size_t> count = std::nullopt) {
    if (!count && marks_.empty()) return Wrong("no mark");
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (count && stack_.size() - floor < *count) return Wrong("too few values");
    const size_t begin = count ? stack_.size() - *count : floor;
    if (!count) marks_.pop_back();
    std::vector<PickleRef> values(stack_.begin() + static_cast<ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
    return values;
  }

  absl::Status Fill(absl::StatusOr<std::vector<PickleRef>> popped, bool dictionary) {
    FORETRACE_ASSIGN_OR_RETURN(const std::vector<PickleRef> values, std::move(popped));
    if (stack_.empty()) return Wrong("nothing to fill");
    if (auto* list = std::get_if<PickleValue::List>(&stack_.back()->value);
        list != nullptr && !dictionary) {
      list->items.insert(list->items.end(), values.begin(), values.end());
      return absl::OkStatus();
    }
    auto* dict = std::get_if<PickleValue::Dict>(&stack_.back()->value);
    if (dict == nullptr || !dictionary || values.size() % 2 != 0) {
      return Wrong("fills no container");
    }
    for (size_t i = 0; i < values.size(); i += 2)
      dict->items.emplace_back(values[i], values[i + 1]);
    return absl::OkStatus();
  }

  absl::Status Get(size_t size) {
    FORETRACE_ASSIGN_OR_RETURN(const uint64_t index, Unsigned(size));
    if (index >= memo_.size() || memo_[index] == nullptr) return Wrong("an unknown memo");
    stack_.push_back(memo_[index]);
    return absl::OkStatus();
  }

  absl::Status Put(uint64_t index) {
    if (stack_.empty() || index > memo_.size() + 1024) return Wrong("a memo out of order");
    if (index >= memo_.size()) memo_.resize(index + 1);
    memo_[index] = stack_.back();
    return absl::OkStatus();
  }

  absl::Status Tuple(std::optional<size_t> count) {
    FORETRACE_ASSIGN_OR_RETURN(std::vector<PickleRef> values, Pop(count));
    return Push(PickleValue::List{std::move(values)});
  }

  absl::Status Do(uint8_t opcode);
  absl::Status DoContainer(uint8_t opcode);

  std::string_view bytes_;
  std::string_view context_;
  std::deque<PickleValue>& values_;
  size_t at_ = 0;
  std::vector<PickleRef> stack_;
  std::vector<size_t> marks_;
  std::vector<PickleRef> memo_;
};

absl::Status PickleParser::DoContainer(uint8_t opcode) {
  switch (opcode) {
    case Op::kEmptyList:
    case Op::kEmptyTuple:
      return Push(PickleValue::List());
    case Op::kEmptyDict:
      return Push(PickleValue::Dict());
    case Op::kAppend:
      return Fill(Pop(1), false);
    case Op::kAppends:
      return Fill(Pop(), false);
    case Op::kSetItem:
      return Fill(Pop(2), true);
    case Op::kSetItems:
      return Fill(Pop(), true);
    case Op::kTuple:
      return Tuple(std::nullopt);
    case Op::kTuple1:
      return Tuple(1);
    case Op::kTuple2:
      return Tuple(2);
    case Op::kTuple3:
      return Tuple(3);
    default:
      return Wrong(NameOfOpcode(opcode) + "; only plain data is read");
  }
}

absl::Status PickleParser::Do(uint8_t opcode) {
  switch (opcode) {
    case Op::kProto:
      return Unsigned(1).status();
    case Op::kFrame:
      return Unsigned(8).status();
    case Op::kMark:
      marks_.push_back(stack_.size());
      return absl::OkStatus();
    case Op::kNone:
      return Push(std::monostate());
    case Op::kNewTrue:
    case Op::kNewFalse:
      return Push(opcode == Op::kNewTrue);
    case Op::kBinInt1:
    case Op::kBinInt2: {
      FORETRACE_ASSIGN_OR_RETURN(const uint64_t value, Unsigned(opcode == Op::kBinInt1 ? 1 : 2));
      return Push(static_cast<int64_t>(value));
    }
    case Op::kBinInt: {
      FORETRACE_ASSIGN_OR_RETURN(const uint64_t value, Unsigned(4));
      return Push(static_cast<int64_t>(static_cast<int32_t>(static_cast<uint32_t>(value))));
    }
    case Op::kLong1:
      return PushLong();
    case Op::kBinFloat:
      return PushDouble();
    case Op::kShortBinUnicode:
    case Op::kShortBinBytes:
      return PushText(1);
    case Op::kBinUnicode:
    case Op::kBinBytes:
      return PushText(4);
    case Op::kBinUnicode8:
      return PushText(8);
    case Op::kBinGet:
      return Get(1);
    case Op::kLongBinGet:
      return Get(4);
    case Op::kBinPut:
    case Op::kLongBinPut: {
      FORETRACE_ASSIGN_OR_RETURN(const uint64_t index, Unsigned(opcode == Op::kBinPut ? 1 : 4));
      return Put(index);
    }
    case Op::kMemoize:
      return Put(memo_.size());
    default:
      return DoContainer(opcode);
  }
}

const std::vector<PickleRef> kNoValues;

}  // namespace

const PickleValue* PickleValue::Find(std::string_view key) const {
  const auto* dict = std::get_if<Dict>(&value);
  if (dict == nullptr) return nullptr;
  for (const auto& [k, v] : dict->items) {
    const auto* name = std::get_if<std::string>(&k->value);
    if (name != nullptr && *name == key) return v;
  }
  return nullptr;
}

int64_t PickleValue::Integer(std::string_view key, int64_t absent) const {
  const PickleValue* found = Find(key);
  const auto* number = found == nullptr ? nullptr : std::get_if<int64_t>(&found->value);
  return number == nullptr ? absent : *number;
}

std::string_view PickleValue::Text(std::string_view key) const {
  const PickleValue* found = Find(key);
  const auto* text = found == nullptr ? nullptr : std::get_if<std::string>(&found->value);
  return text == nullptr ? std::string_view() : *text;
}

const std::vector<PickleRef>& PickleValue::list() const {
  const auto* items = std::get_if<List>(&value);
  return items == nullptr ? kNoValues : items->items;
}

const std::vector<PickleRef>& PickleValue::ListOf(std::string_view key) const {
  const PickleValue* found = Find(key);
  return found == nullptr ? kNoValues : found->list();
}

absl::StatusOr<Pickle> Pickle::Read(std::string_view bytes, std::string_view context) {
  Pickle pickle;
  FORETRACE_ASSIGN_OR_RETURN(pickle.root_, PickleParser(bytes, context, pickle.values_).Run());
  return pickle;
}

}  // namespace foretrace
