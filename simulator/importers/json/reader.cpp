#include "simulator/importers/json/reader.h"

#include <algorithm>
#include <cstring>

#include "simulator/base/error.h"
#include "simulator/importers/json/scan.h"

namespace foretrace::json {
namespace {

// The grammar of RFC 8259, section 6.
bool IsNumber(std::string_view text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t begin = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i > begin;
  };
  if (i < text.size() && text[i] == '-') ++i;
  if (i < text.size() && text[i] == '0') {
    ++i;
  } else if (!digits()) {
    return false;
  }
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (!digits()) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (!digits()) return false;
  }
  return i == text.size();
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Four hex digits at `at`; -1 when they are not there.
int32_t HexCode(std::string_view raw, size_t at) {
  if (at + 4 > raw.size()) return -1;
  int32_t code = 0;
  for (size_t i = at; i < at + 4; ++i) {
    const int digit = HexDigit(raw[i]);
    if (digit < 0) return -1;
    code = code * 16 + digit;
  }
  return code;
}

void AppendUtf8(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

}  // namespace

bool Reader::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  return false;
}

bool Reader::FailAt(int64_t offset, std::string_view what) {
  return Fail(InvalidInput("{}: not valid JSON at byte {}: {}", source_.name(), offset, what));
}

bool Reader::Truncated() {
  return Fail(InvalidInput("{}: truncated at byte {}: the JSON document does not end",
                           source_.name(), buffer_offset_ + static_cast<int64_t>(end_)));
}

bool Reader::Refill(size_t& keep) {
  if (exhausted_ || !status_.ok()) return false;
  const size_t kept = end_ - keep;
  if (kept > kMaxToken) {
    return Fail(InvalidInput("{}: a string or number at byte {} is longer than {} bytes",
                             source_.name(), buffer_offset_ + static_cast<int64_t>(keep),
                             kMaxToken));
  }
  // A node is an object with another one for its attributes.
  if (absl::Status few = CheckNodeCount(source_, objects_ / 2); !few.ok()) {
    return Fail(std::move(few));
  }
  auto chunk = source_.Next();
  if (!chunk.ok()) return Fail(chunk.status());
  if (chunk->empty()) {
    exhausted_ = true;
    return false;
  }
  if (kept > 0 && keep > 0) std::memmove(buffer_.data(), buffer_.data() + keep, kept);
  if (buffer_.size() < kept + chunk->size()) {
    buffer_.resize(std::max(kept + chunk->size(), 2 * buffer_.size()));
  }
  std::memcpy(buffer_.data() + kept, chunk->data(), chunk->size());
  buffer_offset_ += static_cast<int64_t>(keep);
  at_ -= keep;
  end_ = kept + chunk->size();
  keep = 0;
  return true;
}

bool Reader::SkipSpace() {
  while (true) {
    at_ = FindNonSpace(buffer_.data(), at_, end_);
    if (at_ < end_) return true;
    size_t keep = at_;
    if (!Refill(keep)) return false;
  }
}

bool Reader::ReadString(std::string_view& view) {
  size_t begin = ++at_;
  bool escaped = false;
  while (true) {
    at_ = FindStringStop(buffer_.data(), at_, end_);
    if (at_ == end_) {
      if (!Refill(begin)) return status_.ok() ? Truncated() : false;
      continue;
    }
    const char c = buffer_[at_];
    if (c == '"') break;
    if (c != '\\') return FailAt(offset(), "a control character within a string");
    escaped = true;
    while (end_ - at_ < 2) {
      if (!Refill(begin)) return status_.ok() ? Truncated() : false;
    }
    at_ += 2;
  }
  view = std::string_view(buffer_.data() + begin, at_ - begin);
  ++at_;
  return !escaped || DecodeEscapes(view, buffer_offset_ + static_cast<int64_t>(begin), view);
}

bool Reader::DecodeEscapes(std::string_view raw, int64_t at, std::string_view& view) {
  decoded_.clear();
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      decoded_ += raw[i];
      continue;
    }
    const char c = raw[++i];
    switch (c) {
      case '"':
      case '\\':
      case '/':
        decoded_ += c;
        break;
      case 'b':
        decoded_ += '\b';
        break;
      case 'f':
        decoded_ += '\f';
        break;
      case 'n':
        decoded_ += '\n';
        break;
      case 'r':
        decoded_ += '\r';
        break;
      case 't':
        decoded_ += '\t';
        break;
      case 'u': {
        int32_t code = HexCode(raw, i + 1);
        if (code < 0) {
          return FailAt(at + static_cast<int64_t>(i), "a damaged \\u escape");
        }
        i += 4;
        if (code >= 0xD800 && code < 0xDC00 && i + 2 < raw.size() && raw[i + 1] == '\\' &&
            raw[i + 2] == 'u') {
          const int32_t low = HexCode(raw, i + 3);
          if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            i += 6;
          }
        }
        // Half a surrogate pair has no meaning of its own: the replacement character.
        AppendUtf8(code >= 0xD800 && code < 0xE000 ? 0xFFFD : static_cast<uint32_t>(code),
                   decoded_);
        break;
      }
      default:
        return FailAt(at + static_cast<int64_t>(i), "an unknown escape");
    }
  }
  view = decoded_;
  return true;
}

bool Reader::ReadLiteral(std::string_view& view) {
  size_t begin = at_;
  while (true) {
    while (at_ < end_ && IsLiteralChar(buffer_[at_])) ++at_;
    if (at_ < end_) break;
    if (!Refill(begin)) {
      if (!status_.ok()) return false;
      break;
    }
  }
  view = std::string_view(buffer_.data() + begin, at_ - begin);
  // Most are numbers, and no number is spelled like the words below.
  if (IsNumber(view)) return true;
  const int64_t at = buffer_offset_ + static_cast<int64_t>(begin);
  if (view == "NaN" || view == "Infinity" || view == "-Infinity" || view == "nan" ||
      view == "inf" || view == "-inf") {
    return FailAt(at, fmt::format("{} is no JSON number", view));
  }
  if (view == "true" || view == "false" || view == "null") return true;
  return FailAt(at, "an invalid value");
}

bool Reader::ParseKey(Handler& handler) {
  std::string_view key;
  if (!ReadString(key) || !handler.Key(key)) return false;
  if (!SkipSpace()) return status_.ok() ? Truncated() : false;
  if (buffer_[at_] != ':') return FailAt(offset(), "a ':' is missing after a key");
  ++at_;
  expect_ = Expect::kValue;
  return true;
}

// Passes over containers without looking at more than strings and brackets.
bool Reader::SkipNested() {
  std::string nesting;
  while (true) {
    const char c = buffer_[at_];
    if (c == '"') {
      // Strings may be long: they need not stay in the buffer whole.
      ++at_;
      while (true) {
        at_ = FindStringStop(buffer_.data(), at_, end_);
        if (at_ < end_ && buffer_[at_] == '"') break;
        if (at_ < end_ && buffer_[at_] != '\\') {
          return FailAt(offset(), "a control character within a string");
        }
        while (end_ - at_ < 2) {
          size_t keep = at_;
          if (!Refill(keep)) return status_.ok() ? Truncated() : false;
        }
        at_ += buffer_[at_] == '\\' ? 2 : 0;
      }
      ++at_;
    } else {
      if (c == '{' || c == '[') {
        if (open_.size() + nesting.size() >= kMaxDepth) {
          return FailAt(offset(), fmt::format("nested deeper than {} levels", kMaxDepth));
        }
        nesting += c;
      } else if (c == '}' || c == ']') {
        if (nesting.empty() || nesting.back() != (c == '}' ? '{' : '[')) {
          return FailAt(offset(), fmt::format("an unexpected '{}'", c));
        }
        nesting.pop_back();
      }
      ++at_;
    }
    if (nesting.empty()) return true;
    if (!SkipSpace()) return status_.ok() ? Truncated() : false;
  }
}

bool Reader::Skip(char c) {
  skip_value_ = false;
  if (c == '{' || c == '[' || c == '"') {
    if (!SkipNested()) return false;
  } else {
    std::string_view ignored;
    if (!ReadLiteral(ignored)) return false;
  }
  AfterValue();
  return true;
}

bool Reader::ParseScalar(Handler& handler, char c) {
  std::string_view text;
  if (c == '"') {
    if (!ReadString(text) || !handler.String(text)) return false;
  } else {
    if (!ReadLiteral(text) || !handler.Literal(text)) return false;
  }
  AfterValue();
  return true;
}

bool Reader::StartsValue(Handler& handler, char c) {
  if (skip_value_) return Skip(c);
  if (c != '{' && c != '[') return ParseScalar(handler, c);
  if (open_.size() >= kMaxDepth) {
    return FailAt(offset(), fmt::format("nested deeper than {} levels", kMaxDepth));
  }
  open_.push_back(c);
  if (c == '{') ++objects_;
  expect_ = c == '{' ? Expect::kKeyOrEnd : Expect::kValueOrEnd;
  const bool go_on = c == '{' ? handler.StartObject() : handler.StartArray();
  ++at_;
  return go_on;
}

bool Reader::Close(Handler& handler, char c) {
  if (open_.empty() || open_.back() != (c == '}' ? '{' : '[')) {
    return FailAt(offset(), fmt::format("an unexpected '{}'", c));
  }
  open_.pop_back();
  ++at_;
  AfterValue();
  return c == '}' ? handler.EndObject() : handler.EndArray();
}

bool Reader::Step(Handler& handler, char c) {
  switch (expect_) {
    case Expect::kValueOrEnd:
      if (c == ']') return Close(handler, c);
      return StartsValue(handler, c);
    case Expect::kValue:
      return StartsValue(handler, c);
    case Expect::kKeyOrEnd:
      if (c == '}') return Close(handler, c);
      [[fallthrough]];
    case Expect::kKey:
      if (c != '"') return FailAt(offset(), "a key is missing");
      return ParseKey(handler);
    case Expect::kCommaOrEnd:
      if (c == ',') {
        ++at_;
        expect_ = open_.back() == '{' ? Expect::kKey : Expect::kValue;
        return true;
      }
      if (c == '}' || c == ']') return Close(handler, c);
      return FailAt(offset(), "a ',' is missing");
    case Expect::kEnd:
      return FailAt(offset(), "bytes after the end of the document");
  }
  return false;
}

absl::Status Reader::Parse(Handler& handler) {
  while (SkipSpace()) {
    if (!Step(handler, buffer_[at_])) break;
  }
  if (!status_.ok()) return status_;
  if (!handler.status().ok()) return handler.status();
  if (expect_ != Expect::kEnd) Truncated();
  return status_;
}

}  // namespace foretrace::json
