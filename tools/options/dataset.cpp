#include "options/dataset.h"

namespace tl::tools {

void add_dataset_options(CLI::App &app, data::SourceOptions &options, const std::string &group) {
  app.add_option("--data-format", options.format,
                 "Kind of data set: auto, folder, csv, list, list0 (NUL), tar, webdataset, safetensors, idx")
      ->type_name("KIND")
      ->capture_default_str()
      ->group(group);
  app.add_option("--missing", options.missing,
                 "Where a WebDataset sample lacks its picture or label: error or skip")
      ->check(CLI::IsMember({"error", "skip"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--classes", options.classes, "Only these classes: names, or ranges like 5-9")
      ->delimiter(',')
      ->type_name("NAME,...")
      ->group(group);
  app.add_option("--limit", options.limit, "At most so many records of each class")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->group(group);
  app.add_option("--split", options.split, "Sub-folder, or prefix of IDX files: train, test")
      ->type_name("NAME")
      ->group(group);
}

} // namespace tl::tools
