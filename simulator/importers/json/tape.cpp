#include "simulator/importers/json/tape.h"

namespace foretrace::json {

void Tape::Clear() {
  tokens_.clear();
  open_.clear();
  text_.clear();
}

void Tape::Open(Kind kind) {
  open_.push_back(static_cast<uint32_t>(tokens_.size()));
  tokens_.push_back({kind});
}

void Tape::Close() {
  tokens_[open_.back()].end = static_cast<uint32_t>(tokens_.size());
  open_.pop_back();
}

void Tape::Add(Kind kind, std::string_view text) {
  const auto next = static_cast<uint32_t>(tokens_.size()) + 1;
  tokens_.push_back(
      {kind, static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(text.size()), next});
  text_ += text;
}

std::string_view Tape::Text(Ref at) const {
  if (at == kNone || kind(at) == Kind::kObject || kind(at) == Kind::kArray) return {};
  return std::string_view(text_).substr(tokens_[at].begin, tokens_[at].size);
}

Tape::Ref Tape::Member(Ref object, std::string_view key) const {
  if (!IsObject(object)) return kNone;
  for (Ref at = First(object); at != kNone; at = Next(object, at)) {
    if (Text(at) == key) return at + 1;
  }
  return kNone;
}

Tape::Ref Tape::First(Ref container) const {
  if (!IsArray(container) && !IsObject(container)) return kNone;
  return container + 1 < tokens_[container].end ? container + 1 : kNone;
}

Tape::Ref Tape::Next(Ref container, Ref element) const {
  const Ref value = kind(element) == Kind::kKey ? element + 1 : element;
  const Ref next = tokens_[value].end;
  return next < tokens_[container].end ? next : kNone;
}

size_t Tape::Count(Ref container) const {
  size_t count = 0;
  for (Ref at = First(container); at != kNone; at = Next(container, at)) ++count;
  return count;
}

}  // namespace foretrace::json
