#pragma once
// Traces of requests, as services and benchmarks write them.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/serve/request.h"

namespace foretrace::serve {

// By the names of its columns or keys:
//   CSV    arrival_s or arrival_ms, input_tokens, output_tokens; optionally priority, block_hashes
//          (ids between spaces; equal ids are equal prefixes), shared_prefix_tokens (how long a
//          prefix an earlier prompt of the file has too)
//   CSV    TIMESTAMP, ContextTokens, GeneratedTokens                    (Azure)
//   JSONL  timestamp (ms), input_length, output_length, hash_ids        (Mooncake)
//   JSONL  input_toks, output_toks, arrival_time_ns                     (LLMServingSim)
//   JSON   [{conversations: [{from, value}]}]                           (ShareGPT): the first
//          question and answer of each, four characters a token; all arrive at once
// Requests are sorted by arrival, and the first arrives at 0. `prefix_block_tokens` is what one id
// of block_hashes or hash_ids stands for (Mooncake's: 512). `notes` learns what was assumed.
// Errors name file and line: a layout that is none of these, lengths that are not positive, times
// that are negative.
absl::StatusOr<RequestTrace> ReadRequests(const std::string& file, int32_t prefix_block_tokens,
                                          std::vector<std::string>& notes);

// How requests come and how long they are, where no file says.
struct RequestGenerator {
  int32_t count = 100;
  double rate = 0;  // per second, Poisson; 0: all at once
  // Lengths: "512", "uniform:100:900", "lognormal:MEAN:SIGMA" (of the length, and of its
  // logarithm).
  std::string input = "512", output = "128";
  uint64_t seed = 1;
};
absl::StatusOr<RequestTrace> GenerateRequests(const RequestGenerator& generator);

}  // namespace foretrace::serve
