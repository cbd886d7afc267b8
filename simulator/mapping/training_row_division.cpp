#include "simulator/mapping/training_row_division.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/mapping/training_row_text.h"

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
  // DeepSpeed's ZeRO-Offload is of its stage 2 (Ren et al., 2021), ZeRO-Infinity of 3 (Rajbhandari
  // et al., 2021), as is ZeRO++ (Wang et al., 2023).
  constexpr std::pair<std::string_view, int32_t> kWords[] = {{"no shard", 0},
                                                             {"shard grad op", 2},
                                                             {"zero offload", 2},
                                                             {"zero infinity", 3},
                                                             {"zero++", 3},
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
  const bool whole = text == "no" || text == "off" || text == "false" || text == "dp";
  return whole ? 0 : -1;
}

// "2x64", also right behind "hsdp", or the same in three words.
bool ReadProduct(const std::vector<std::string>& words, StatedDivision& stated) {
  const auto take = [&](std::string_view copies, std::string_view shards) {
    const int32_t first = WholeNumber(copies), second = WholeNumber(shards);
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

// Whether the words from `at` on are a number of what holds devices, not of shards.
bool CountsMachines(const std::vector<std::string>& words, size_t at) {
  constexpr std::string_view kMachines[] = {"node",    "nodes", "machine",  "machines",
                                            "servers", "hosts", "instances"};
  return at + 1 < words.size() &&
         std::ranges::find(kMachines, words[at + 1]) != std::end(kMachines);
}

// The number with one of these nouns: before its plural ("4 replicas"), else behind it ("shard
// degree 64", "replicate=4").
int32_t CountOf(const std::vector<std::string>& words, std::string_view one,
                std::string_view many) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] != one && words[i] != many) continue;
    if (words[i] == many && i > 0 && WholeNumber(words[i - 1]) > 0) {
      return WholeNumber(words[i - 1]);
    }
    const size_t behind = i + 1 < words.size() && words[i + 1] == "degree" ? i + 2 : i + 1;
    if (behind < words.size() && WholeNumber(words[behind]) > 0 && !CountsMachines(words, behind)) {
      return WholeNumber(words[behind]);
    }
  }
  return 0;
}

// The number behind one of the terms; 0: none.
int32_t NumberBehind(const std::vector<std::string>& words,
                     std::initializer_list<std::string_view> terms) {
  for (size_t i = 0; i < words.size(); ++i) {
    for (const std::string_view term : terms) {
      const size_t count = TermAt(words, i, term);
      if (count == 0 || i + count >= words.size() || CountsMachines(words, i + count)) continue;
      if (const int32_t number = WholeNumber(words[i + count]); number > 0) return number;
    }
  }
  return 0;
}

// Megatron Core's num_distributed_optimizer_instances; other instances are machines.
int32_t OptimizerInstances(const std::vector<std::string>& words) {
  const int32_t behind = NumberBehind(words, {"optimizer instances"});
  if (behind > 0) return behind;
  for (size_t i = 1; i < words.size(); ++i) {
    if (TermAt(words, i, "optimizer instances") == 0) continue;
    const size_t before = words[i - 1] == "distributed" && i > 1 ? i - 2 : i - 1;
    if (WholeNumber(words[before]) > 0) return WholeNumber(words[before]);
  }
  return 0;
}

// Of software that names no groups: only what can be nothing else, for people also count nodes and
// GPUs there.
void ReadDegrees(const std::string& text, const std::vector<std::string>& words,
                 StatedDivision& stated) {
  stated.shards = NumberBehind(words, {"shard degree", "dp shard"});
  stated.copies = NumberBehind(words, {"replicate degree", "dp replicate"});
  for (size_t at = text.find("shard="); stated.shards == 0 && at != std::string::npos;
       at = text.find("shard=", at + 1)) {
    stated.shards = NumberBehind(TextWords(text.substr(at)), {"shard"});
  }
  const int32_t shards = NumberBehind(words, {"shard"}),
                copies = NumberBehind(words, {"replicate"});
  if (stated.shards == 0 && shards > 0 && copies > 0) {
    stated.shards = shards;
    stated.copies = copies;
  }
  if (stated.copies == 0) stated.copies = OptimizerInstances(words);
}

// MaxText's axes (configs/base.yml): those named fsdp divide the weights within nodes (ici) and
// between them (dcn), along those named data there are copies; -1, which is read as 1, is what is
// left.
void ReadMeshAxes(const std::vector<std::string>& words, StatedDivision& stated) {
  const auto axis = [&](std::string_view links, std::string_view name) {
    const std::string term = std::string(links) + " " + std::string(name);
    const int32_t whole = NumberBehind(words, {term + " parallelism"});
    return whole > 0 ? whole : NumberBehind(words, {term});
  };
  const auto both = [&](std::string_view name) {
    const int32_t within = axis("ici", name), between = axis("dcn", name);
    return within == 0 && between == 0 ? 0 : std::max(within, 1) * std::max(between, 1);
  };
  const auto says = [&](std::initializer_list<std::string_view> terms) {
    return ToldOf(words, terms) != Told::kNothing;
  };
  // Shards within nodes alone leave open who divides, unless it is said what is between nodes.
  const bool whole = says({"ici fsdp*"}) && says({"dcn fsdp*", "dcn data*"});
  if (stated.copies == 0 && both("data") > 1) stated.copies = both("data");
  if (stated.shards == 0 && whole && both("fsdp") > 1) stated.shards = both("fsdp");
  if (stated.zero < 0 && both("fsdp") > 1) stated.zero = 3;
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
  const std::vector<std::string> words = TextWords(text);
  if (!has("hsdp") && !has("hybrid") && !has("mics")) {
    ReadDegrees(text, words, stated);
    ReadMeshAxes(words, stated);
    stated.hybrid = stated.shards > 0 || stated.copies > 0;
    return stated;
  }
  stated.hybrid = true;
  if (ReadProduct(words, stated)) return stated;
  stated.shards = CountOf(words, "shard", "shards");
  // DeepSpeed's mics_shard_size.
  if (stated.shards == 0) stated.shards = CountOf(words, "mics", "size");
  for (const auto& [one, many] :
       {std::pair("replicate", "replicas"), std::pair("replica", "copies")}) {
    if (stated.copies == 0) stated.copies = CountOf(words, one, many);
  }
  return stated;
}

namespace {

// Of a column of copies or shards; 0: not stated, -1: all, which of shards it may say.
int32_t GroupCell(const Fields& f, const std::string& column, bool all, std::string& error) {
  const std::string text = f.Text(column);
  if (all && (text == "-1" || text == "-1.0")) return -1;
  std::string unread;
  const int64_t value = f.Int(column, 0, unread);
  if (!unread.empty() || value > kMaxDegree) {
    if (error.empty()) {
      error = fmt::format("{} '{}' is no number of {} from 1 to {}{}", column, text,
                          all ? "shards" : "copies", kMaxDegree, all ? ", nor -1 (all)" : "");
    }
    return 0;
  }
  return static_cast<int32_t>(value);
}

// What the texts say and the columns, which have to agree.
void AddColumn(const Fields& f, const char* column, int32_t value, int32_t& stated,
               StatedDivision& division, std::string& error) {
  if (value == 0) return;
  if (stated > 0 && stated != value && error.empty()) {
    error = fmt::format("{} '{}' and {} '{}' contradict one another", division.column,
                        f.Text(division.column), column, f.Text(column));
  }
  stated = value;
}

}  // namespace

std::string ShardingOf(const Fields& f) {
  const std::string sharding = f.Text("sharding");
  const bool distributed = sharding.empty() && SaysYes(f, "use_distributed_optimizer");
  return distributed ? "ZeRO-1" : sharding;
}

StatedDivision DivisionOfRow(const Fields& f, const ParallelMapping& m, std::string& error) {
  StatedDivision d = DivisionIn(ShardingOf(f));
  d.column = "sharding";
  const int32_t noted = OptimizerInstances(TextWords(f.Text("note")));
  if (noted > 1 && d.copies == 0) {
    d.column = "note";
    d.copies = noted;
    d.hybrid = true;
  }
  int32_t copies = GroupCell(f, "dp_replicate", false, error);
  int32_t shards = GroupCell(f, "dp_shard", true, error);
  if (!error.empty() || (copies == 0 && shards == 0)) return d;
  const bool all = shards == -1;
  if (all) {
    // What copies that do not divide leave is refused with them (HybridShards).
    shards = copies > 0 && m.data % copies == 0 ? m.data / copies : 0;
    if (copies == 0 && d.hybrid) return d;
    if (copies == 0) shards = m.data;
  }
  // One copy is what Megatron Core has by itself.
  if (copies == 1 && shards == 0) copies = 0;
  if (copies == 0 && shards == 0) return d;
  AddColumn(f, "dp_replicate", copies, d.copies, d, error);
  AddColumn(f, "dp_shard", shards, d.shards, d, error);
  if (!error.empty()) return d;
  d.column = shards > 0 && !all ? "dp_shard" : copies > 0 ? "dp_replicate" : "dp_shard";
  d.by_columns = true;
  const int64_t product = int64_t{std::max(copies, 1)} * std::max(shards, 1);
  const bool one = shards == 1 || (shards == 0 && copies == m.replicas());
  const bool whole = copies == 0 || product == m.data || product == m.replicas();
  if (one && whole && m.context == 1 && m.replicas() > 1) {
    d.whole = true;
    d.hybrid = false;
    if (d.zero > 0) {
      error = fmt::format(
          "{} '{}' and sharding '{}' contradict one another: one shard divides nothing; DDP says "
          "so",
          d.column, f.Text(d.column), f.Text("sharding"));
    }
    d.zero = 0;
    return d;
  }
  d.hybrid = copies > 1 || (shards > 0 && shards != m.data);
  if (d.copies == 0 && shards > 0 && m.data % shards == 0) d.copies = m.data / shards;
  if (d.zero == 0 && !f.Text("sharding").empty() && m.replicas() > 1) {
    error =
        fmt::format("{} '{}' and sharding '{}' contradict one another: what is divided among {}",
                    d.column, f.Text(d.column), f.Text("sharding"),
                    shards > 0 ? fmt::format("{} shards is no DDP", shards) : "others is no DDP");
  }
  return d;
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
