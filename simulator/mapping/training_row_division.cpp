#include "simulator/mapping/training_row_division.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"

namespace foretrace {
namespace {

// Of "ZeRO-1", "zero stage 1", "zero_stage=1", "zs: 1" and "1" the digit; -1: none is there.
int32_t StageOf(const std::string& text) {
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '3'; };
  if (text.size() == 1 && digit(0)) return text[0] - '0';
  for (const std::string_view word : {"stage", "zero", "zs"}) {
    const size_t at = text.find(word);
    if (at == std::string::npos) continue;
    const size_t value = text.find_first_not_of(" -_=:", at + word.size());
    if (digit(value)) return text[value] - '0';
  }
  return -1;
}

// PyTorch's strategies are named in torch/distributed/fsdp/api.py, ShardingStrategy.
int32_t ZeroOf(const std::string& said) {
  if (const int32_t stage = StageOf(said); stage >= 0) return stage;
  std::string text = said;
  std::ranges::replace_if(
      text, [](char c) { return c == '_' || c == '-'; }, ' ');
  // DeepSpeed's ZeRO-Offload is of its stage 2 (Ren et al., 2021).
  constexpr std::pair<std::string_view, int32_t> kWords[] = {{"no shard", 0},
                                                             {"shard grad op", 2},
                                                             {"zero offload", 2},
                                                             {"optim grads params", 3},
                                                             {"mics", 3},
                                                             {"dp replicate", 3},
                                                             {"dp shard", 3},
                                                             {"optim grads", 2},
                                                             {"distributed optim", 1},
                                                             {"dist opt", 1},
                                                             {"dist. opt", 1},
                                                             {"optimizer shard", 1},
                                                             {"shard optimizer", 1},
                                                             {"sharded optimizer", 1},
                                                             {"optimizer state", 1},
                                                             {"fsdp", 3},
                                                             {"hsdp", 3},
                                                             {"hybrid", 3},
                                                             {"full shard", 3},
                                                             {"fully shard", 3},
                                                             {"none", 0},
                                                             {"ddp", 0}};
  for (const auto& [word, zero] : kWords) {
    if (text.find(word) != std::string::npos) return zero;
  }
  return text == "no" || text == "off" || text == "false" ? 0 : -1;
}

// Runs of letters and digits, and each other sign that separates what is not about one thing: the
// number of "HYBRID_SHARD (2 nodes)" is not of shards.
std::vector<std::string> WordsOf(const std::string& text) {
  std::vector<std::string> words;
  bool within = false;
  for (const char c : text) {
    const bool joined = std::string_view(" \t=:_-").find(c) != std::string_view::npos;
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (letter && within) {
      words.back() += c;
    } else if (!joined) {
      words.emplace_back(1, c);
    }
    within = letter;
  }
  return words;
}

// 0: no number.
int32_t NumberOf(std::string_view word) {
  int32_t value = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
  return code == std::errc() && end == word.data() + word.size() ? value : 0;
}

// "2x64", also right behind "hsdp", or the same in three words.
bool ReadMesh(const std::vector<std::string>& words, StatedDivision& stated) {
  const auto take = [&](std::string_view copies, std::string_view shards) {
    const int32_t first = NumberOf(copies), second = NumberOf(shards);
    if (first == 0 || second == 0) return false;
    stated.copies = first;
    stated.shards = second;
    return true;
  };
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (word.starts_with("hsdp")) word.remove_prefix(4);
    const size_t by = word.find('x');
    if (by == std::string_view::npos) continue;
    if (take(word.substr(0, by), word.substr(by + 1))) return true;
    if (word == "x" && i > 0 && i + 1 < words.size() && take(words[i - 1], words[i + 1])) {
      return true;
    }
  }
  return false;
}

// The number with one of these nouns: before its plural ("4 replicas"), else behind it ("shard
// degree 64", "replicate=4").
int32_t CountOf(const std::vector<std::string>& words, std::string_view one,
                std::string_view many) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] != one && words[i] != many) continue;
    if (words[i] == many && i > 0 && NumberOf(words[i - 1]) > 0) return NumberOf(words[i - 1]);
    const size_t behind = i + 1 < words.size() && words[i + 1] == "degree" ? i + 2 : i + 1;
    if (behind < words.size() && NumberOf(words[behind]) > 0) return NumberOf(words[behind]);
  }
  return 0;
}

}  // namespace

StatedDivision DivisionIn(const std::string& sharding) {
  std::string text = LowerCase(sharding);
  constexpr std::string_view kTimes = "\xC3\x97";  // a multiplication sign
  if (const size_t at = text.find(kTimes); at != std::string::npos) {
    text.replace(at, kTimes.size(), "x");
  }
  StatedDivision stated;
  stated.zero = ZeroOf(text);
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  const bool named = has("hsdp") || has("hybrid") || has("mics");
  stated.hybrid = named || has("instances") || has("shard");
  if (!stated.hybrid) return stated;
  const std::vector<std::string> words = WordsOf(text);
  if (ReadMesh(words, stated)) return stated;
  stated.shards = CountOf(words, "shard", "shards");
  // DeepSpeed's mics_shard_size.
  if (stated.shards == 0) stated.shards = CountOf(words, "mics", "size");
  for (const auto& [one, many] :
       {std::pair("replicate", "replicas"), std::pair("replica", "copies"),
        std::pair("instance", "instances")}) {
    if (stated.copies == 0) stated.copies = CountOf(words, one, many);
  }
  // "Sharded states, replicated weights" are no groups.
  stated.hybrid = named || stated.shards > 0 || stated.copies > 0;
  return stated;
}

int32_t HybridShards(const StatedDivision& stated, int32_t within, const ParallelMapping& m,
                     std::string& error) {
  const int32_t replicas = m.replicas();
  const std::string all = fmt::format("{} replicas (dp {} x cp {})", replicas, m.data, m.context);
  const int64_t product = int64_t{stated.copies} * stated.shards;
  int32_t shards = stated.shards;
  if (m.zero == 0) {
    error = "zero 0 divides nothing, within a group of replicas or among all";
  } else if (product > 0 && product == m.data) {
    // Without context parallelism, whose devices divide the weights too (torchtitan's
    // parallel_dims.py, dp_shard_cp).
    shards *= m.context;
  } else if (product > 0 && product != replicas) {
    error =
        fmt::format("{} x {} is {}, but there are {}", stated.copies, stated.shards, product, all);
  } else if (shards > 0 && replicas % shards != 0) {
    error = fmt::format("{} shards do not divide {}", shards, all);
  } else if (stated.copies > 0 && replicas % stated.copies != 0) {
    error = fmt::format("{} copies do not divide {}", stated.copies, all);
  } else if (shards == 0) {
    shards = stated.copies > 0 ? replicas / stated.copies : std::max(within, 1);
  }
  if (error.empty() && (stated.shards > 0 || stated.copies > 0) && shards == 1 && replicas > 1) {
    error = "one shard divides nothing; DDP says so";
  }
  if (!error.empty() || shards <= 1 || shards >= replicas || replicas % shards != 0) return 0;
  return shards;
}

}  // namespace foretrace
