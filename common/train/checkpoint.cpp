#include "train/checkpoint.h"

#include "cli/error.h"
#include "cli/io.h"
#include "data/preprocess.h"
#include "graph/scheme.h"
#include "shard/sealed.h"
#include "json/bytes.h"

#include <algorithm>
#include <filesystem>

namespace tl::train {

namespace {

constexpr const char *kFormat = "tl-checkpoint";

json::Value to_json(const Identity &identity) {
  json::Value classes = json::Value::array();
  for (const std::string &name : identity.classes) classes.push_back(json::escape_bytes(name));
  return {{"network", identity.network.hex()},
          {"scheme", identity.scheme},
          {"preprocess", identity.preprocess},
          {"classes", classes},
          {"records", identity.records ? json::Value(identity.records->hex()) : json::Value(nullptr)},
          {"options", train::to_json(identity.options)}};
}

Identity identity_from_json(const json::Value &document, const std::string &origin) {
  Identity identity;
  identity.network = Digest::from_hex(document.at("network").get<std::string>());
  identity.scheme = document.at("scheme");
  identity.preprocess = document.at("preprocess");
  for (const json::Value &name : document.at("classes"))
    identity.classes.push_back(json::unescape_bytes(name.get<std::string>()));
  if (!document.at("records").is_null())
    identity.records = Digest::from_hex(document.at("records").get<std::string>());
  identity.options = options_from_json(document.at("options"), origin);
  return identity;
}

} // namespace

std::vector<std::string> differences(const Identity &before, const Identity &now) {
  std::vector<std::string> found;
  if (before.scheme != now.scheme)
    found.push_back("the scheme " + json::compact(before.scheme) + " -> " + json::compact(now.scheme));
  else if (before.preprocess != now.preprocess)
    found.push_back("the preprocessing");
  else if (before.network != now.network)
    found.emplace_back("the model");
  if (before.classes != now.classes) found.emplace_back("the classes");
  if (before.records && now.records && *before.records != *now.records)
    found.emplace_back("the records or their labels");
  for (const std::string &change : changes(before.options, now.options)) found.push_back(change);
  return found;
}

Digest records_digest(const std::deque<RecordInfo> &records) {
  std::vector<Digest> all;
  all.reserve(records.size());
  for (const RecordInfo &record : records)
    all.push_back(Hasher().add(record.hash).add(record.label).add(record.id).digest());
  std::sort(all.begin(), all.end());
  Hasher hasher;
  for (const Digest &digest : all) hasher.add(digest);
  return hasher.digest();
}

void save_checkpoint(const std::string &path, const Checkpoint &checkpoint) {
  shard::SafeTensors file;
  file.tensors = checkpoint.state.tensors;
  file.metadata["progress"] = json::compact(checkpoint.state.progress);
  file.metadata["identity"] = json::compact(to_json(checkpoint.identity));
  file.metadata["records"] = json::compact(checkpoint.records);
  file.metadata["best"] = json::compact(checkpoint.best);
  cli::AtomicFile output(path);
  shard::write_sealed(std::move(file), kFormat,
                      [&](const void *data, std::size_t size) { output.write(data, size); });
  output.commit();
}

std::optional<Checkpoint> load_checkpoint(const std::string &path) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return std::nullopt;
  shard::SafeTensors file = shard::parse_sealed(shard::map_file(path), kFormat, path);
  const auto part = [&](const char *key) {
    return json::parse(shard::required(file.metadata, key, path), path);
  };
  Checkpoint checkpoint;
  try {
    checkpoint.identity = identity_from_json(part("identity"), path);
    checkpoint.state.progress = part("progress");
    checkpoint.records = part("records");
    checkpoint.best = part("best");
  } catch (const nlohmann::json::exception &error) {
    throw FormatError(path + ": its metadata are not those of a checkpoint: " + error.what());
  }
  checkpoint.state.tensors = std::move(file.tensors);
  return checkpoint;
}

} // namespace tl::train
