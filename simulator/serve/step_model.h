#pragma once
// What one step of an engine takes on its devices.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "simulator/base/estimate.h"
#include "simulator/base/real_quantities.h"
#include "simulator/serve/attention_window.h"

namespace foretrace::serve {

// A request's new tokens of a step, and what of it is in the cache before.
struct PrefillChunk {
  int32_t tokens = 0;
  int32_t cached = 0;
};

// Tokens of one step, of one data-parallel rank. Decodes are sequences that get few tokens each:
// one, or with speculation the window and one.
struct StepBatch {
  std::vector<PrefillChunk> prefills;
  int32_t decodes = 0;
  int32_t tokens_per_decode = 1;
  int64_t decode_cached = 0;      // tokens in the cache, of all decodes
  int32_t decode_cached_max = 0;  // of one
  // Of each; empty where only the sum is known, and all are taken for alike.
  std::vector<int32_t> decode_lengths;
  // Tokens of the steps that run together with it on engines that share its experts.
  std::vector<int32_t> peer_tokens;
  bool peer_prompts = false;  // some of them hold a prompt

  void Clear() {
    prefills.clear(), decode_lengths.clear(), peer_tokens.clear();
    decodes = 0, decode_cached = 0, decode_cached_max = 0, peer_prompts = false;
  }
  void AddDecode(int32_t cached) {
    ++decodes;
    decode_lengths.push_back(cached);
    decode_cached += cached;
    decode_cached_max = decode_cached_max > cached ? decode_cached_max : cached;
  }
  // Tokens in the cache that the decodes attend to.
  int64_t DecodeCached(const AttentionWindow& window) const;
  int32_t sequences() const { return decodes + static_cast<int32_t>(prefills.size()); }
  // Positions whose next token is sampled: the last of each prompt, chunks included, and all that
  // decodes check.
  int32_t logits() const {
    return decodes * tokens_per_decode + static_cast<int32_t>(prefills.size());
  }
  int32_t prefill_tokens() const {
    int32_t sum = 0;
    for (const PrefillChunk& chunk : prefills) sum += chunk.tokens;
    return sum;
  }
  int32_t tokens() const { return prefill_tokens() + decodes * tokens_per_decode; }
  bool empty() const { return decodes == 0 && prefills.empty(); }
};

// What a step's time is made of.
enum class StepPart : uint8_t {
  kDense,
  kAttention,
  kStates,
  kExperts,
  kHead,
  kCommunication,
  kCount
};
std::string_view Name(StepPart part);

// By part, and by where the numbers come from.
struct StepTime {
  // Of a device of the step, above what it takes when idle; 0: not known.
  double joules = 0;
  std::array<RealUs, static_cast<size_t>(StepPart::kCount)> parts = {};
  std::array<RealUs, static_cast<size_t>(EstimateSource::kCount)> sources = {};
  RealUs extrapolated;

  void Add(StepPart part, RealUs time, EstimateSource source, bool is_extrapolated = false) {
    parts[static_cast<size_t>(part)] += time;
    sources[static_cast<size_t>(source)] += time;
    if (is_extrapolated) extrapolated += time;
  }
  void Add(const StepTime& other) {
    for (size_t i = 0; i < parts.size(); ++i) parts[i] += other.parts[i];
    for (size_t i = 0; i < sources.size(); ++i) sources[i] += other.sources[i];
    extrapolated += other.extrapolated;
    joules += other.joules;
  }
  RealUs total() const {
    RealUs sum;
    for (const RealUs part : parts) sum += part;
    return sum;
  }
  double us() const { return total().us(); }
  double share(EstimateSource source) const {
    const RealUs all = total();
    return all > RealUs() ? sources[static_cast<size_t>(source)] / all : 0;
  }
};

// Thread-safe and deterministic.
class StepModel {
 public:
  virtual ~StepModel() = default;
  // Of a batch that is not empty.
  virtual StepTime Time(const StepBatch& batch) const = 0;
  // Where its numbers come from, for reports.
  virtual std::string Source() const = 0;
};

}  // namespace foretrace::serve
