// Lines on stderr. Data goes to stdout; everything else comes here.
#pragma once

#include <cstddef>
#include <string>

namespace tl::cli {

/// The name that starts each line on stderr; set once by run().
void set_program_name(const std::string &name);
const std::string &program_name();

/// Suppresses note() (option --quiet); warnings and errors stay.
void set_quiet(bool quiet);
bool quiet();

/// "tl-extract: note: ..." One line; control characters in `text` are escaped.
void note(const std::string &text);
void warn(const std::string &text);
void print_error(const std::string &text);

/// Makes any bytes printable on one line: control characters and invalid UTF-8 become \xNN.
std::string printable(const std::string &bytes);

/// 1536 -> "1.5 KiB"; 0.0123 s -> "12.3 ms".
std::string human_bytes(double bytes);
std::string human_seconds(double seconds);
/// "1 value", "2 values"
std::string counted(std::size_t n, const char *what);

} // namespace tl::cli
