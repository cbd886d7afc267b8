#include "simulator/optimise/evolution.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/check.h"

namespace foretrace {
namespace {

struct Individual {
  Genome genome;
  int64_t cost = 0;
};

class Evolution {
 public:
  Evolution(size_t bits, const EvolutionSettings& settings, const GenomeCost& cost)
      : bits_(bits), settings_(settings), cost_(cost), random_(settings.seed) {}

  EvolutionResult Run(const std::stop_token& stop) {
    std::vector<Individual> population = First();
    int32_t idle = 0;
    while (true) {
      const bool first = result_.best_cost.empty();
      const int64_t before = first ? 0 : result_.cost;
      for (Individual& individual : population) individual.cost = CostOf(individual.genome);
      result_.best_cost.push_back(result_.cost);
      idle = !first && result_.cost == before ? idle + 1 : 0;
      ++result_.generations;
      if (bits_ == 0 || idle >= settings_.patience || stop.stop_requested() ||
          result_.generations >= settings_.generations) {
        break;
      }
      population = Next(population);
    }
    return std::move(result_);
  }

 private:
  // The standard's distributions differ between libraries.
  double Uniform() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }
  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }

  std::vector<Individual> First() {
    std::vector<Individual> population(static_cast<size_t>(settings_.population));
    for (size_t i = 0; i < population.size(); ++i) {
      Genome& genome = population[i].genome;
      genome.assign(bits_, i == 1 ? 1 : 0);
      for (size_t bit = 0; i > 1 && bit < bits_; ++bit) genome[bit] = random_() >> 63;
    }
    return population;
  }

  int64_t CostOf(const Genome& genome) {
    const auto [entry, is_new] =
        known_.try_emplace(std::string(genome.begin(), genome.end()), int64_t{0});
    if (is_new) {
      entry->second = cost_(genome);
      if (result_.evaluations++ == 0 || entry->second < result_.cost) {
        result_.cost = entry->second;
        result_.best = genome;
      }
    }
    return entry->second;
  }

  const Individual& Winner(const std::vector<Individual>& population) {
    size_t best = Below(population.size());
    for (int32_t i = 1; i < settings_.tournament; ++i) {
      const size_t other = Below(population.size());
      if (population[other].cost < population[best].cost) best = other;
    }
    return population[best];
  }

  std::vector<Individual> Next(const std::vector<Individual>& population) {
    std::vector<Individual> next;
    for (size_t i = 0; i < population.size(); ++i) next.push_back(Winner(population));
    for (size_t i = 0; i + 1 < next.size(); i += 2) {
      if (Uniform() < settings_.crossover) Cross(next[i].genome, next[i + 1].genome);
    }
    for (Individual& individual : next) {
      if (Uniform() >= settings_.mutation) continue;
      for (uint8_t& bit : individual.genome) {
        if (Uniform() < settings_.flip) bit ^= 1;
      }
    }
    return next;
  }

  // Exchanges what lies between two points.
  void Cross(Genome& a, Genome& b) {
    if (bits_ < 2) return;
    size_t from = Below(bits_), to = Below(bits_);
    if (from > to) std::swap(from, to);
    for (size_t bit = from; bit <= to; ++bit) std::swap(a[bit], b[bit]);
  }

  size_t bits_;
  const EvolutionSettings& settings_;
  const GenomeCost& cost_;
  std::mt19937_64 random_;
  absl::flat_hash_map<std::string, int64_t> known_;
  EvolutionResult result_;
};

}  // namespace

EvolutionResult Evolve(size_t bits, const EvolutionSettings& settings, const GenomeCost& cost,
                       const std::stop_token& stop) {
  FORETRACE_CHECK(settings.population >= 2 && settings.generations >= 1 &&
                  settings.tournament >= 1);
  return Evolution(bits, settings, cost).Run(stop);
}

}  // namespace foretrace
