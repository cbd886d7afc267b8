#include "simulator/calibrate/collective/stand_ins.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace foretrace {
namespace {

// "vllm 0.19.0 custom" as its words and its version.
struct LibraryName {
  std::string words;
  std::vector<int64_t> version;
};
LibraryName Parse(const std::string& library) {
  using Words = std::vector<std::string>;
  LibraryName name;
  for (const std::string& word : Words(absl::StrSplit(library, ' ', absl::SkipEmpty()))) {
    if (word[0] < '0' || word[0] > '9' || !name.version.empty()) {
      name.words += word + " ";
      continue;
    }
    for (const std::string& part : Words(absl::StrSplit(word, '.'))) {
      int64_t number = 0;
      const size_t digits = std::min(part.find_first_not_of("0123456789"), part.size());
      if (!absl::SimpleAtoi(part.substr(0, digits), &number)) break;
      name.version.push_back(number);
    }
  }
  return name;
}

// A sweep that goes on where `own` ends says how time grows there, most of all one of the same
// collective, ranks, type and library: beyond its few sizes a closed form knows neither latency nor
// bandwidth, and all cross the same links. nullptr: none.
const CollectiveModel* ThatGoesOn(const std::vector<CollectiveModel>& models,
                                  const CollectiveModel& own, Bytes edge, Bytes bytes) {
  const CollectiveModel* best = nullptr;
  std::tuple<bool, bool, bool, bool> likeness;
  const std::string words = Parse(own.library).words;
  for (const CollectiveModel& m : models) {
    const bool covers =
        m.min_bytes <= std::min(edge, bytes) && m.max_bytes >= std::max(edge, bytes);
    if (!covers || m.nodes != own.nodes) continue;
    const std::tuple like(m.op == own.op, m.ranks == own.ranks, m.dtype == own.dtype,
                          Parse(m.library).words == words);
    if (best != nullptr && like <= likeness) continue;
    best = &m;
    likeness = like;
  }
  return best;
}

}  // namespace

NearestStack::NearestStack(const CollectiveCalibration* all, const CollectiveModel& key) {
  if (all == nullptr) return;
  const LibraryName wanted = Parse(key.library);
  // By how far the version is, as far as its numbers go.
  const auto distance = [&](const CollectiveModel& model) {
    const std::vector<int64_t> version = Parse(model.library).version;
    std::array<int64_t, 3> away = {};
    for (size_t i = 0; i < away.size(); ++i) {
      const auto at = [&](const std::vector<int64_t>& v) { return i < v.size() ? v[i] : 0; };
      away[i] = std::abs(at(version) - at(wanted.version));
    }
    return away;
  };
  const auto same_kind = [&](const CollectiveModel& m) {
    return m.dtype == key.dtype && m.inplace == key.inplace &&
           Parse(m.library).words == wanted.words;
  };
  std::vector<CollectiveModel> own, versions;
  for (const CollectiveModel& model : all->models()) {
    if (model.op != key.op || !same_kind(model)) continue;
    (model.library == key.library ? own : versions).push_back(model);
  }
  std::ranges::stable_sort(versions, {}, distance);
  if (Answer(all->header(), std::move(own), key)) return;
  // One version at a time, so that ranks are interpolated within it.
  for (size_t i = 0; i < versions.size();) {
    const std::string library = versions[i].library;
    std::vector<CollectiveModel> one;
    for (; i < versions.size() && versions[i].library == library; ++i) one.push_back(versions[i]);
    if (Answer(all->header(), std::move(one), key)) {
      library_ = library;
      return;
    }
  }
  estimator_ = all->Resolve(key.op, key.ranks, key.nodes);
  library_ = "the first measured of any library";
}

bool NearestStack::Answer(const CalibrationHeader& header, std::vector<CollectiveModel> models,
                          const CollectiveModel& key) {
  if (models.empty()) return false;
  subset_ = std::make_unique<CollectiveCalibration>(header, std::move(models));
  estimator_ = subset_->Resolve(key.op, key.ranks, key.nodes);
  return estimator_.covered();
}

RealUs TimeOf(const std::vector<CollectiveModel>& models, const CollectiveModel& own, Bytes bytes) {
  const Bytes edge = std::clamp(bytes, own.min_bytes, own.max_bytes);
  const auto us = [](const CollectiveModel& model, Bytes size) {
    return model.curve.Time(RealBytes(size)).us();
  };
  const CollectiveModel* on = edge == bytes ? nullptr : ThatGoesOn(models, own, edge, bytes);
  return RealUs(on == nullptr ? us(own, bytes) : us(own, edge) * us(*on, bytes) / us(*on, edge));
}

}  // namespace foretrace
