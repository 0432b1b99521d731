// A folder with one sub-folder per class, or a flat one without labels.
#include "cli/error.h"
#include "cli/log.h"
#include "data/listing.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sys/stat.h>

namespace tl::data {

namespace fs = std::filesystem;

namespace {

struct Walk {
  std::vector<std::string> files; // relative to the root
  std::int64_t hidden = 0;
  std::int64_t special = 0; // pipes, sockets, devices, links to nowhere
  std::vector<std::pair<dev_t, ino_t>> above;
};

struct Names {
  std::vector<std::string> folders, files;
};

/// Names in one folder, not yet in order.
Names read_names(const fs::path &folder, Walk &walk) {
  Names names;
  std::error_code failed;
  fs::directory_iterator entry(folder, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name[0] == '.')
      ++walk.hidden;
    else if (entry->is_directory(ignored))
      names.folders.push_back(std::move(name));
    else if (entry->is_regular_file(ignored))
      names.files.push_back(std::move(name));
    else
      ++walk.special;
  }
  if (failed) throw SystemError("read folder " + folder.string(), failed.value());
  return names;
}

/// Everything under `root`/`prefix`, following links to folders.
void collect(const fs::path &root, const std::string &prefix, Walk &walk) {
  const fs::path folder = root / prefix;
  struct stat info = {};
  if (stat(folder.c_str(), &info) != 0) throw SystemError("open " + folder.string(), errno);
  const std::pair<dev_t, ino_t> identity(info.st_dev, info.st_ino);
  if (std::find(walk.above.begin(), walk.above.end(), identity) != walk.above.end())
    throw Error(folder.string() + ": a link leads back to a folder that contains it; remove it");
  walk.above.push_back(identity);
  const Names names = read_names(folder, walk);
  for (const std::string &name : names.files) walk.files.push_back(prefix + "/" + name);
  for (const std::string &name : names.folders) {
    check_interrupt();
    collect(root, prefix + "/" + name, walk);
  }
  walk.above.pop_back();
}

} // namespace

Listing list_folder(const std::string &folder) {
  Listing listing;
  listing.files = files_below(folder);
  Walk walk;
  const Names top = read_names(folder, walk);
  for (const std::string &name : top.folders) collect(folder, name, walk);
  std::vector<ListedFile> files;
  for (const std::string &name : top.files) files.push_back({name, -1});
  for (const std::string &name : walk.files) files.push_back({name, -1});
  list_by_folder(listing, std::move(files), top.folders);
  listing.hidden = walk.hidden;
  if (walk.special > 0)
    listing.notes.push_back(std::to_string(walk.special) + " name(s) that are no regular files ignored");
  return listing;
}

} // namespace tl::data
