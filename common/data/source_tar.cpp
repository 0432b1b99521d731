#include "data/source_tar.h"

#include "cli/error.h"
#include "cli/log.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace tl::data {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxNames = 100'000;
constexpr int kMaxLinks = 40; // one after another, as the kernel follows

/// What is left out, of all tars.
struct Counts {
  std::int64_t hidden = 0, special = 0, absolute = 0;
};

/// "./a//b/" -> "a/b", "/a" -> "a", as tar unpacks. With `..` that leads out, or in a member's own name
/// (`parents` false): false.
bool normalise(const std::string &name, bool parents, std::string &path) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == ".." && (!parents || parts.empty())) return false;
    if (part == "..")
      parts.pop_back();
    else
      parts.push_back(part);
  }
  path.clear();
  for (const std::string &part : parts) path += (path.empty() ? "" : "/") + part;
  return true;
}

/// Finds the files that links mean.
class Links {
public:
  /// `paths`: of each member; must outlive this.
  Links(const std::vector<TarMember> &members, const std::vector<std::string> &paths)
      : members_(members), paths_(paths) {}

  /// The member that is a file; -1 for a link to a folder, to nothing, or out of the archive.
  std::int64_t follow(std::size_t link) {
    for (int hop = 0; hop < kMaxLinks; ++hop) {
      const TarMember &member = members_[link];
      if (member.kind == MemberKind::file) return static_cast<std::int64_t>(link);
      if (member.kind != MemberKind::hard_link && member.kind != MemberKind::symbolic_link) return -1;
      const bool symbolic = member.kind == MemberKind::symbolic_link;
      if (symbolic && member.target[0] == '/') return -1;
      const std::string folder = symbolic ? (fs::path(paths_[link]).parent_path() / "").string() : "";
      std::string target;
      if (!normalise(folder + member.target, true, target)) return -1;
      if (by_path_.empty())
        for (std::size_t i = 0; i < paths_.size(); ++i) by_path_.emplace(paths_[i], i);
      const auto found = by_path_.find(target);
      if (found == by_path_.end()) return -1;
      link = found->second;
    }
    return -1;
  }

private:
  const std::vector<TarMember> &members_;
  const std::vector<std::string> &paths_;
  std::unordered_map<std::string_view, std::size_t> by_path_;
};

std::vector<std::string> member_paths(const TarFiles::Tar &tar, Counts &counts) {
  std::vector<std::string> paths;
  for (const TarMember &member : tar.index.members) {
    std::string path;
    if (!normalise(member.name, false, path))
      throw FormatError(tar.name + ": '" + cli::printable(member.name) +
                        "' has '..' in its name, which would lead out of the folder it is unpacked in");
    counts.absolute += member.name[0] == '/';
    paths.push_back(std::move(path));
  }
  return paths;
}

UnpackedNames unpack_names(const TarFiles::Tar &tar, Counts &counts) {
  const std::vector<TarMember> &members = tar.index.members;
  const std::vector<std::string> paths = member_paths(tar, counts);
  Links links(members, paths);
  UnpackedNames names;
  names.tar = tar.name;
  std::set<std::string> hidden;
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::string &path = paths[i];
    if (path.empty()) continue; // the folder itself
    if (std::string part = hidden_part(path); !part.empty()) {
      hidden.insert(std::move(part));
      continue;
    }
    if (members[i].kind == MemberKind::folder) {
      names.folders.push_back(path);
      continue;
    }
    const std::int64_t file = links.follow(i);
    if (file < 0) {
      ++counts.special;
      continue;
    }
    if (!seen.insert(path).second)
      throw FormatError(tar.name + ": '" + cli::printable(path) +
                        "' is in it twice; pack each file once (tar --append adds a second copy)");
    names.files.push_back({path, tar.first_row + file});
  }
  counts.hidden += static_cast<std::int64_t>(hidden.size());
  return names;
}

/// Of the folder that `tar c FOLDER` packed: as long as all is in one folder that has folders, that is it.
/// Ends in '/', or is empty.
std::string find_root(const UnpackedNames &all, const std::string &split) {
  std::string root;
  for (;;) {
    std::set<std::string> here;
    bool file = false, deeper = false;
    const auto look = [&](const std::string &path, bool folder) {
      if (path.size() <= root.size()) return; // a folder above
      const std::size_t slash = path.find('/', root.size());
      file = file || (slash == std::string::npos && !folder);
      deeper = deeper ||
               (slash != std::string::npos && (folder || path.find('/', slash + 1) != std::string::npos));
      if (here.size() < 2) here.insert(path.substr(root.size(), slash - root.size()));
    };
    for (const ListedFile &one : all.files) look(one.path, false);
    for (const std::string &one : all.folders) look(one, true);
    if (file || !deeper || here.size() != 1 || *here.begin() == split) return root;
    root += *here.begin() + "/";
  }
}

void list_packed_folder(Listing &listing, std::vector<UnpackedNames> tars, const std::string &split) {
  UnpackedNames all = std::move(tars.front());
  for (std::size_t i = 1; i < tars.size(); ++i) {
    std::move(tars[i].files.begin(), tars[i].files.end(), std::back_inserter(all.files));
    std::move(tars[i].folders.begin(), tars[i].folders.end(), std::back_inserter(all.folders));
  }
  std::string root = find_root(all, split);
  if (!split.empty()) root += split + "/";
  std::vector<ListedFile> files;
  std::vector<std::string> folders;
  bool found = split.empty();
  const auto below = [&](const std::string &path) {
    const bool is = path.compare(0, root.size(), root) == 0 && path.size() > root.size();
    found = found || is;
    return is;
  };
  for (ListedFile &file : all.files)
    if (below(file.path)) files.push_back({file.path.substr(root.size()), file.row});
  for (const std::string &folder : all.folders)
    if (below(folder))
      folders.push_back(folder.substr(root.size(), folder.find('/', root.size()) - root.size()));
  if (!found) throw UsageError(all.tar + ": has no folder '" + split + "' for that split");
  if (!root.empty()) listing.notes.push_back("the records are the files below " + cli::printable(root));
  list_by_folder(listing, std::move(files), folders);
}

[[noreturn]] void refuse_damaged(const UnpackedNames &tar, const std::string &damage,
                                 const std::string &format) {
  const bool samples = format == "webdataset" || (format == "auto" && !sample_evidence(tar).empty());
  throw FormatError(tar.tar + ": " + damage + "; before that came " +
                    std::to_string(samples ? count_samples(tar) : tar.files.size()) +
                    (samples ? " sample(s)" : " file(s)"));
}

/// "webdataset" or "tar", with a note.
std::string choose_format(Listing &listing, const std::vector<UnpackedNames> &tars) {
  for (const UnpackedNames &tar : tars)
    if (const std::string member = sample_evidence(tar); !member.empty()) {
      listing.notes.push_back("read as WebDataset samples because of " + cli::printable(member) +
                              "; --data-format tar takes each file for a record");
      return "webdataset";
    }
  listing.notes.push_back("read as a packed folder (--data-format tar)");
  return "tar";
}

/// The names that one pair of braces stands for; {} when it is no pattern.
std::vector<std::string> alternatives(const std::string &inside) {
  std::vector<std::string> found;
  const std::size_t dots = inside.find("..");
  if (dots != std::string::npos) {
    const std::string first = inside.substr(0, dots), last = inside.substr(dots + 2);
    const auto digits = [](const std::string &text) {
      return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == text.npos;
    };
    if (!digits(first) || !digits(last)) return {};
    const int width =
        first[0] == '0' || last[0] == '0' ? static_cast<int>(std::max(first.size(), last.size())) : 1;
    for (long n = std::stol(first); n <= std::stol(last) && found.size() <= kMaxNames; ++n) {
      char text[16];
      std::snprintf(text, sizeof text, "%0*ld", width, n);
      found.push_back(text);
    }
    return found;
  }
  if (inside.find(',') == std::string::npos) return {};
  for (std::size_t begin = 0; begin <= inside.size();) {
    const std::size_t end = std::min(inside.find(',', begin), inside.size());
    found.push_back(inside.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

bool ends_in_one_of(const std::string &name, const std::vector<std::string> &ends) {
  return std::any_of(ends.begin(), ends.end(), [&](const std::string &end) {
    return name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
  });
}

} // namespace

bool is_tar_format(const std::string &format) { return format == "tar" || format == "webdataset"; }

Listing list_tars(const std::vector<TarInput> &inputs, const SourceOptions &options, bool set) {
  Listing listing;
  const auto files = std::make_shared<TarFiles>();
  Counts counts;
  std::vector<UnpackedNames> tars;
  for (const TarInput &input : inputs) {
    const TarFiles::Tar tar = files->add(input);
    tars.push_back(unpack_names(tar, counts));
    if (!tar.index.damage.empty()) refuse_damaged(tars.back(), tar.index.damage, options.format);
  }
  const std::string format = options.format == "auto" ? choose_format(listing, tars) : options.format;
  if (format == "webdataset" && !options.split.empty())
    throw UsageError(inputs.front().name + ": holds samples; a split can be chosen in a folder of tars only");
  if (format == "webdataset")
    list_samples(listing, tars, *files, options, set);
  else
    list_packed_folder(listing, std::move(tars), options.split);
  listing.files = files;
  listing.hidden = counts.hidden;
  if (counts.special > 0)
    listing.notes.push_back(std::to_string(counts.special) +
                            " member(s) that are no files, or links to none in the tar, ignored");
  if (counts.absolute > 0)
    listing.notes.push_back("the '/' before " + std::to_string(counts.absolute) + " name(s) left out");
  return listing;
}

std::vector<std::string> expand_braces(const std::string &text) {
  std::vector<std::string> names;
  for (std::size_t open = text.find('{'); open != std::string::npos; open = text.find('{', open + 1)) {
    const std::size_t close = text.find('}', open);
    if (close == std::string::npos) break;
    const std::vector<std::string> inside = alternatives(text.substr(open + 1, close - open - 1));
    if (inside.empty()) continue;
    for (const std::string &rest : expand_braces(text.substr(close + 1)))
      for (const std::string &one : inside) {
        if (names.size() >= kMaxNames) throw UsageError(text + ": stands for more than 100,000 names");
        names.push_back(text.substr(0, open) + one + rest);
      }
    std::sort(names.begin(), names.end());
    return names;
  }
  return {text};
}

bool is_tar_name(const std::string &name) {
  static const std::vector<std::string> kTars = {".tar",     ".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2",
                                                 ".tar.lz4", ".tar.lz", ".tgz",    ".txz",     ".tzst"};
  return ends_in_one_of(name, kTars);
}

std::vector<std::string> tars_in_folder(const std::string &folder, bool asked) {
  std::vector<std::string> files;
  bool others = false;
  std::error_code failed;
  fs::directory_iterator entry(folder, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name[0] == '.') continue;
    if (entry->is_regular_file(ignored))
      files.push_back(name);
    else
      others = true;
    if (others && !asked) return {};
  }
  if (failed) throw SystemError("read folder " + folder, failed.value());
  return tars_among(std::move(files), others, asked);
}

std::vector<std::string> tars_among(std::vector<std::string> files, bool others, bool asked) {
  static const std::vector<std::string> kText = {".txt", ".json", ".csv", ".tsv", ".md", ".idx", ".index"};
  std::vector<std::string> tars;
  for (const std::string &name : files) {
    if (is_tar_name(name)) tars.push_back(name);
    others = others || !(is_tar_name(name) || ends_in_one_of(name, kText));
  }
  if (others && !asked) return {};
  if (tars.empty() && asked) tars = std::move(files);
  std::sort(tars.begin(), tars.end());
  return tars;
}

bool resembles_tar(const std::string &head) {
  return begins_tar(head) || !packing(head).empty() || head.compare(0, 4, "PK\x03\x04") == 0;
}

} // namespace tl::data
