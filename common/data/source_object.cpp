// Data sets in an object store: a prefix as a folder, a list, a safetensors file, a tar.
#include "cli/error.h"
#include "cli/log.h"
#include "data/object_files.h"
#include "data/source_tar.h"

#include <algorithm>
#include <set>

namespace tl::data {

namespace {

constexpr std::uint64_t kMaxListBytes = std::uint64_t{1} << 30;

bool has_suffix(const std::string &text, const std::string &suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

/// "a/b.csv" -> "a/"
std::string folder_of(const std::string &key) { return key.substr(0, key.rfind('/') + 1); }

TarInput tar_of(const Store &store, const std::string &key) {
  return {store->name(key), "", [store, key] { return object_stream(store, key); }};
}

/// Of a pattern such as "train-{000..009}.tar"; {} when the key is none.
std::vector<TarInput> matching_tars(const Store &store, const std::string &key) {
  std::vector<TarInput> tars;
  if (key.find('{') == std::string::npos) return tars;
  const std::vector<std::string> keys = expand_braces(key);
  if (keys.front() == key || store->head(key)) return tars;
  for (const std::string &each : keys) tars.push_back(tar_of(store, each));
  return tars;
}

/// The tars of a prefix that is a folder of them; {} when it is none.
std::vector<TarInput> find_tars(const Store &store, const std::string &prefix,
                                const std::vector<object::ObjectInfo> &objects, bool asked) {
  std::vector<std::string> files;
  bool others = false;
  for (const object::ObjectInfo &object : objects) {
    const std::string name = object.key.substr(prefix.size());
    if (name.empty() || name[0] == '.') continue;
    if (name.find('/') == std::string::npos)
      files.push_back(name);
    else
      others = true;
  }
  std::vector<TarInput> tars;
  for (const std::string &name : tars_among(std::move(files), others, asked))
    tars.push_back(tar_of(store, prefix + name));
  return tars;
}

/// The rules of a folder: hidden names, and a key that ends in '/' stands for an empty folder.
Listing list_prefix(const Store &store, const std::string &prefix,
                    const std::vector<object::ObjectInfo> &objects) {
  Listing listing;
  listing.files = objects_below(store, prefix);
  std::vector<ListedFile> files;
  std::set<std::string> folders, hidden;
  std::int64_t nameless = 0;
  for (const object::ObjectInfo &object : objects) {
    const std::string path = object.key.substr(prefix.size()), concealed = hidden_part(path);
    const std::size_t slash = path.find('/');
    if (path.empty()) continue;
    if (slash == 0) {
      ++nameless;
      continue;
    }
    if (path[0] != '.' && slash != std::string::npos) folders.insert(path.substr(0, slash));
    if (!concealed.empty())
      hidden.insert(concealed);
    else if (path.back() != '/')
      files.push_back({path, -1});
  }
  list_by_folder(listing, std::move(files), {folders.begin(), folders.end()});
  listing.hidden = static_cast<std::int64_t>(hidden.size());
  if (nameless > 0)
    listing.notes.push_back(std::to_string(nameless) + " key(s) with nothing before a '/' ignored");
  return listing;
}

std::string text_of(const object::Content &content) {
  return {reinterpret_cast<const char *>(content.data.get()), content.size};
}

Listing list_object(const Store &store, const object::Url &url, const SourceOptions &options) {
  const std::string &key = url.key, spec = url.text();
  if (!options.split.empty())
    throw UsageError(cli::printable(spec) + ": is one object; a split can be chosen in a folder only");
  std::string format = options.format;
  if (is_tar_format(format) || (format == "auto" && is_tar_name(key)))
    return list_tars({tar_of(store, key)}, options, false);
  if (format == "auto" && has_suffix(key, ".safetensors")) format = "safetensors";
  if (format == "safetensors") {
    const object::Content content = store->get(key);
    return list_safetensors(shard::parse_safetensors({content.data, content.size}, cli::printable(spec)),
                            spec);
  }
  object::GetOptions limit;
  limit.limit = kMaxListBytes;
  const std::string text = text_of(store->get(key, limit));
  if (format == "auto") format = has_suffix(key, ".csv") ? "csv" : manifest_format(text);
  Listing listing = list_manifest(spec, text, format);
  listing.files = objects_below(store, folder_of(key));
  open_urls(listing);
  return listing;
}

} // namespace

Listing list_objects(const std::string &spec, const SourceOptions &options) {
  const object::Url url = object::parse_url(spec);
  const std::string &format = options.format;
  if (!may_read_objects())
    throw Error(cli::printable(spec) + ": lies outside of the folder that this process is confined to");
  if (format == "idx")
    throw UsageError(cli::printable(spec) + ": IDX files are read from disk only; copy them, or give a tar");
  const Store store = object::open_store(url);
  const bool may_be_tar = format == "auto" || is_tar_format(format);
  if (may_be_tar)
    if (const std::vector<TarInput> tars = matching_tars(store, url.key); !tars.empty()) {
      if (!options.split.empty())
        throw UsageError(cli::printable(spec) + ": a split can be chosen in a folder of tars only");
      return list_tars(tars, options, true);
    }
  const bool folder = url.key.empty() || url.key.back() == '/';
  const bool list = format == "csv" || format == "list" || format == "list0" || format == "safetensors";
  const bool named =
      has_suffix(url.key, ".csv") || has_suffix(url.key, ".safetensors") || is_tar_name(url.key);
  if (list || (!folder && format != "folder" && named)) return list_object(store, url, options);

  std::string prefix = object::as_folder(url.key);
  if (!options.split.empty()) prefix = object::as_folder(prefix + options.split);
  const std::vector<object::ObjectInfo> objects = store->list(prefix).objects;
  if (!objects.empty()) {
    const bool asked = is_tar_format(format);
    std::vector<TarInput> tars;
    if (may_be_tar) tars = find_tars(store, prefix, objects, asked);
    SourceOptions whole = options;
    whole.split.clear(); // is in the prefix
    return tars.empty() ? list_prefix(store, prefix, objects) : list_tars(tars, whole, true);
  }
  if (!folder && format != "folder" && options.split.empty() && store->head(url.key))
    return list_object(store, url, options);
  throw Error(store->name(prefix) + ": no object has a key that begins so; check the prefix" +
              (options.split.empty() ? "" : " and --split"));
}

} // namespace tl::data
