#pragma once
// Serving engines annotate their steps with what a step's batch holds.

#include <cstdint>
#include <optional>
#include <string_view>

#include "simulator/trace/rank_trace.h"

namespace foretrace {

enum class ServingPhase : uint8_t {
  kPrefill,  // prompts, or chunks of them, alone
  kDecode,   // next tokens alone, also those that verify a draft's
  kMixed,
  kIdle,  // no request: another replica has some
  kUnstated,
  kCount,
};

std::string_view Name(ServingPhase phase);

// What the annotation of an engine's step says; nullopt: it is none. Forms:
//   execute_context_1(512)_generation_8(8)   vLLM's worker: requests (tokens) of either kind
//   execute_new_1_cached_8                   its older form. A prompt's later chunks are `cached`,
//                                            too, so that with any the phase is not stated
//   step[EXTEND bs=1 toks=512]               SGLang: the name of its forward mode. Modes of draft
//                                            models (DRAFT_EXTEND) are no steps of the engine.
std::optional<ServingPhase> ParseServingStep(std::string_view name);

// Of the step of that number on the job's first rank; nullopt: its mark is none of an engine's.
std::optional<ServingPhase> PhaseOfStep(const TraceStore& store, int64_t number);

}  // namespace foretrace
