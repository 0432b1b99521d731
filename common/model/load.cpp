#include "model/load.h"

#include "cli/error.h"
#include "cli/io.h"

#include <torch/script.h>

#include <caffe2/serialize/inline_container.h>

namespace tl::model {

namespace {

bool contains(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

const char *const kExport =
    "export the whole module with torch.jit.trace(...).save() or torch.jit.script(...).save()";

/// What LibTorch's own message leaves unsaid: which kind of file this is.
void check_archive(const std::string &path) {
  char magic[4] = {};
  {
    const cli::Descriptor file = cli::open_input(path);
    const std::size_t n = cli::read_full(file.get(), magic, sizeof magic, path);
    if (n == 0) throw FormatError(path + ": empty file; " + kExport);
  }
  const std::string start(magic, sizeof magic);
  if (start.substr(0, 2) == "\x80\x02" || start.substr(0, 2) == "\x80\x04")
    throw FormatError(path + ": a pickle (old torch.save), not TorchScript; " + kExport);
  if (start != std::string("PK\x03\x04", 4)) throw FormatError(path + ": not a TorchScript file; " + kExport);
  caffe2::serialize::PyTorchStreamReader reader(path);
  if (!reader.hasRecord("constants.pkl"))
    throw FormatError(path + ": " +
                      (reader.hasRecord("data.pkl")
                           ? "a state_dict or torch.save archive has no code to run; "
                           : "a zip archive, but not TorchScript; ") +
                      kExport);
}

[[noreturn]] void refuse(const std::string &path, const std::string &what) {
  const std::string line = first_line(what);
  if (contains(what, "failed finding central directory") || contains(what, "invalid header or archive") ||
      contains(what, "failed reading file") || contains(what, "file not found"))
    throw FormatError(path + ": truncated or damaged archive (" + line + "); copy the file again");
  if (contains(what, "maximum supported version") || contains(what, "kMaxSupportedFileFormatVersion") ||
      contains(what, "version_ <="))
    throw FormatError(path + ": written by a newer LibTorch than this one reads (" + line +
                      "); export it again with an older version");
  if (contains(what, "Unknown builtin op") || contains(what, "unknown builtin op") ||
      contains(what, "Couldn't find an operator"))
    throw FormatError(path + ": uses an operator that LibTorch does not have (" + line +
                      "); export a model of standard operators");
  throw FormatError(path + ": cannot be loaded as TorchScript: " + line);
}

} // namespace

std::string first_line(const std::string &what) {
  std::string line;
  for (std::size_t begin = 0; begin < what.size();) { // the first line with any text
    const std::size_t end = std::min(what.find('\n', begin), what.size());
    line = what.substr(begin, end - begin);
    if (line.find_first_not_of(" \t:.") != std::string::npos) break;
    begin = end + 1;
  }
  const std::size_t source = line.find("] . "); // "[enforce fail at file.cc:1] . message"
  if (line.compare(0, 13, "[enforce fail") == 0 && source != std::string::npos) line.erase(0, source + 4);
  const std::size_t place = line.find(" (Exception raised from");
  if (place != std::string::npos) line.resize(place);
  while (!line.empty() && (line.back() == ':' || line.back() == ' ' || line.back() == '.')) line.pop_back();
  return line;
}

torch::jit::Module load_torchscript(const std::string &path) {
  try {
    check_archive(path);
    torch::jit::Module module = torch::jit::load(path, at::kCPU);
    // A file saved in training mode loads in training mode: dropout and batch statistics would be on.
    module.eval();
    return module;
  } catch (const c10::Error &error) {
    refuse(path, error.what_without_backtrace());
  } catch (const torch::jit::ErrorReport &error) {
    refuse(path, error.what());
  } catch (const Error &) {
    throw;
  } catch (const std::exception &error) { // caffe2's reader and the pickle parser throw many kinds
    refuse(path, error.what());
  }
}

} // namespace tl::model
