#include "data/listing.h"

#include "cli/log.h"

#include <algorithm>
#include <map>

namespace tl::data {

namespace {

void add_records(Listing &listing, std::vector<ListedFile> files, std::int64_t label) {
  // std::string compares bytes, in every locale
  std::sort(files.begin(), files.end(), [](const auto &a, const auto &b) { return a.path < b.path; });
  for (ListedFile &file : files) {
    listing.records.push_back({std::move(file.path), label});
    if (file.row >= 0) listing.rows.push_back(file.row);
  }
}

} // namespace

std::string hidden_part(const std::string &path) {
  const std::size_t at = path[0] == '.' ? 0 : path.find("/.");
  return at == std::string::npos ? "" : path.substr(0, path.find('/', at + 1));
}

void list_by_folder(Listing &listing, std::vector<ListedFile> files,
                    const std::vector<std::string> &folders) {
  std::map<std::string, std::vector<ListedFile>> classes;
  for (const std::string &folder : folders) classes[folder];
  std::vector<ListedFile> top;
  for (ListedFile &file : files) {
    const std::size_t slash = file.path.find('/');
    (slash == std::string::npos ? top : classes[file.path.substr(0, slash)]).push_back(std::move(file));
  }
  if (classes.empty()) {
    add_records(listing, std::move(top), -1);
    if (!listing.records.empty()) listing.notes.push_back("no sub-folders, so no labels");
    return;
  }
  if (!top.empty())
    listing.notes.push_back(std::to_string(top.size()) + " file(s) beside the class folders ignored");
  for (auto &[name, members] : classes) {
    if (members.empty()) listing.notes.push_back("class '" + cli::printable(name) + "' has no file");
    add_records(listing, std::move(members), static_cast<std::int64_t>(listing.classes.size()));
    listing.classes.push_back(name);
  }
}

} // namespace tl::data
