// A command line that another machine sent, as words.
#pragma once

#include <string>
#include <vector>

namespace tl::cli {

/// Splits at spaces and tabs as a shell does, with '...', "..." and \ to quote, and nothing else of a shell:
/// whatever one would expand or act upon is refused. Throws UsageError that names the character.
std::vector<std::string> split_words(const std::string &line);

} // namespace tl::cli
