#include "cli/log.h"

#include "cli/utf8.h"

#include <cstdio>
#include <mutex>
#include <vector>

namespace tl::cli {

namespace {
std::string g_program = "tl";
bool g_quiet = false;
std::mutex g_mutex;

void line(const char *kind, const std::string &text) {
  const std::string whole = g_program + ": " + kind + printable(text) + "\n";
  std::lock_guard<std::mutex> lock(g_mutex);
  std::fwrite(whole.data(), 1, whole.size(), stderr);
}
} // namespace

void set_program_name(const std::string &name) { g_program = name; }
const std::string &program_name() { return g_program; }
void set_quiet(bool q) { g_quiet = q; }
bool quiet() { return g_quiet; }

void note(const std::string &text) {
  if (!g_quiet) line("note: ", text);
}
void warn(const std::string &text) { line("warning: ", text); }
void print_error(const std::string &text) { line("error: ", text); }

std::string printable(const std::string &bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t n = utf8_length(std::string_view(bytes).substr(i));
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (n == 0 || byte < 0x20 || byte == 0x7F) {
      char hex[5];
      std::snprintf(hex, sizeof hex, "\\x%02x", byte);
      out += hex;
      ++i;
    } else {
      out.append(bytes, i, n);
      i += n;
    }
  }
  return out;
}

std::string human_bytes(double bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text;
}

std::string human_seconds(double seconds) {
  char text[32];
  if (seconds < 1e-3)
    std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  else if (seconds < 1)
    std::snprintf(text, sizeof text, "%.1f ms", seconds * 1e3);
  else if (seconds < 120)
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  else
    std::snprintf(text, sizeof text, "%.1f min", seconds / 60);
  return text;
}

std::string counted(std::size_t n, const char *what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

} // namespace tl::cli
