#pragma once
// Evolution of bit strings: tournament selection, two-point crossover, mutation by flipping bits
// and full replacement of each generation, as Collage searches graph-level placements
// (section 2.4.3, with DEAP's operators; parameters of its program).

#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

namespace foretrace {

using Genome = std::vector<uint8_t>;

struct EvolutionSettings {
  int32_t population = 50;
  int32_t generations = 100;
  // Ends where so many generations in a row found nothing better; never by a clock.
  int32_t patience = 25;
  int32_t tournament = 5;
  double crossover = 0.5;  // of a pair
  double mutation = 0.2;   // of an individual
  double flip = 0.05;      // of a bit of a mutated individual
  uint64_t seed = 64;
};

struct EvolutionResult {
  Genome best;
  int64_t cost = 0;
  int32_t generations = 0;
  int64_t evaluations = 0;         // of genomes that were not met before
  std::vector<int64_t> best_cost;  // after each generation; never rises
};

// The less, the better. Asked once for each genome.
using GenomeCost = std::function<int64_t(const Genome&)>;

// The first two individuals are all zeroes and all ones; of equal costs the one met first is kept.
// Deterministic for a seed. Ends with the best so far once `stop` is asked for.
EvolutionResult Evolve(size_t bits, const EvolutionSettings& settings, const GenomeCost& cost,
                       const std::stop_token& stop = {});

}  // namespace foretrace
