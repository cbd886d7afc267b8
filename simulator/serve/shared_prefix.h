#pragma once
// Prefix ids where only lengths of shared prefixes are known.

#include <span>

#include "simulator/serve/request.h"

namespace foretrace::serve {

// `shared_tokens[i]`: how long a prefix request i has that an earlier one has too. It is taken to
// be that of the latest earlier prompt that is as long in whole blocks (a turn of a conversation
// begins with all of the one before), else of the latest that is at least as long. Gives each
// prompt ids of `block_tokens` tokens.
void ShareEarlierPrefixes(std::span<const int32_t> shared_tokens, int32_t block_tokens,
                          RequestTrace& trace);

}  // namespace foretrace::serve
