#pragma once
// Speculative decoding: a draft model proposes tokens, which the target model checks in one step
// (Leviathan et al. 2023; DFModel, section VIII-B).

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "simulator/base/real_quantities.h"

namespace foretrace::serve {

enum class DraftShape : uint8_t { kNone, kSequence, kTree, kCount };

struct Speculation {
  DraftShape shape = DraftShape::kNone;
  int32_t window = 0;    // tokens that a draft is deep
  int32_t branches = 1;  // kTree: children of every node
  // Probability that the token at a position of the draft is accepted, given that those before it
  // were; the last holds for all that follow. kTree: of one candidate.
  std::vector<double> acceptance;

  bool enabled() const { return shape != DraftShape::kNone; }
  // That one of a position's candidates is accepted: 1 - (1 - a)^branches in a tree.
  double AcceptanceAt(int32_t position) const;
  // Tokens of a step of the target model: the draft's, and one.
  int32_t CheckedTokens() const;
  // Tokens that the draft model makes at one depth: branches^depth in a tree.
  int32_t DraftedAt(int32_t depth) const;
  // Mean of the tokens that a step yields, the target's own included: 1 + sum over positions of the
  // product of acceptances (a geometric series where all are equal).
  double TokensPerStep() const;
  // Draws the tokens of one step, at least 1, the same for equal arguments.
  int32_t Draw(uint64_t request, int32_t sampled) const;
  absl::Status Validate() const;
};

// DFModel's rate for sequences of `window` draft tokens of which the share `accepted` is right:
// (window accepted + 1) / (window draft + target); tokens/s. VIII-B's study, figure 21.
double SequenceRate(int32_t window, double accepted, RealSeconds draft, RealSeconds target);
// The same of a tree with `branches` children a node: its path is right as far as TokensPerStep
// says, and the draft makes every one of its tokens.
double TreeRate(int32_t window, int32_t branches, double accepted, RealSeconds draft,
                RealSeconds target);

}  // namespace foretrace::serve
