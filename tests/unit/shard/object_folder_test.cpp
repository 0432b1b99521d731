// Shards in object stores: what holds for a folder holds there.
#include "support/object_server.h"
#include "support/shard_folder.h"

using namespace tl;
using namespace tl::shard;
using namespace tl::test;

namespace {

struct S3 : FakeS3 {
  using FakeS3::FakeS3;
  const std::string url = "s3://bucket/features", place = "bucket/features/";
};

struct Swift : FakeSwift {
  using FakeSwift::FakeSwift;
  const std::string url = "swift://box/features", place = "box/features/";
};

std::int64_t requests(const WebServer &server, const std::string &method, const std::string &part) {
  const auto all = server.requests();
  return std::count_if(all.begin(), all.end(), [&](const WebRequest &request) {
    return request.method == method && has(request.target, part);
  });
}

} // namespace

TEST_CASE_TEMPLATE("any number of records is read back in order; a second run computes and fetches nothing",
                   Store, S3, Swift) {
  for (const ShardMeta &meta : {values_meta(), files_meta()})
    for (const std::int64_t count : {0, 1, 4, 5, 50}) {
      Store store;
      const SinkReport first = run(store.url, meta, members(0, count), count);
      CHECK(first.shards == (count + 3) / 4);
      CHECK(gives(store.url, meta, members(0, count)));
      const auto fetched = requests(store.server, "GET", "/shard-");
      const SinkReport second = run(store.url + "/", meta, members(0, count), 0);
      CHECK(second.written == 0);
      CHECK(second.changes->unchanged == count);
      CHECK(requests(store.server, "GET", "/shard-") == fetched);
      CHECK(gives(store.url, meta, members(0, count)));
      CHECK(store.objects.count(store.place + ".lock") == 0);
    }
}

TEST_CASE_TEMPLATE("records come, go, move and are pruned", Store, S3, Swift) {
  Store store;
  run(store.url, values_meta(), members(0, 20), 20);
  std::vector<Member> all = members(4, 12);
  std::reverse(all.begin(), all.end()); // rows that lie nowhere side by side
  all.push_back(member(30));
  CHECK(run(store.url, values_meta(), all, 1).changes->removed == 8);
  CHECK(gives(store.url, values_meta(), all));
  const PruneReport pruned = prune(store.url);
  CHECK(pruned.rows == 8);
  CHECK(pruned.shards == 2);
  CHECK(gives(store.url, values_meta(), all));
  CHECK(run(store.url, values_meta(), all, 0).written == 0);
}

TEST_CASE_TEMPLATE("an extraction that dies at any write leaves what was, and is continued", Store, S3,
                   Swift) {
  for (int good = 0; good < 5; ++good) { // writes that succeed: the lock, then shards
    int left = 1000;
    Store store([&](const WebRequest &request) -> std::optional<WebReply> {
      if (request.method != "PUT" || left-- > 0) return std::nullopt;
      return WebReply{403, "", {}};
    });
    for (const bool earlier : {false, true}) {
      if (earlier) {
        left = 1000;
        FolderSink sink(store.url, values_meta(), small_shards());
        extract(sink, values_meta(), members(0, 6));
        sink.finish(0);
      }
      left = good;
      CHECK(message_of([&] {
              FolderSink sink(store.url, values_meta(), small_shards());
              extract(sink, values_meta(), members(0, 30));
              sink.finish(0);
            }) != "");
      if (earlier)
        CHECK(gives(store.url, values_meta(), members(0, 6)));
      else if (good > 0)
        CHECK(has(message_of([&] { FolderSource source(store.url); }), "has not finished"));
    }
    left = 1000;
    FolderSink sink(store.url, values_meta(), small_shards());
    CHECK((good == 0 || has(sink.notes().front(), "did not finish here")));
    extract(sink, values_meta(), members(0, 30));
    sink.finish(0);
    CHECK(gives(store.url, values_meta(), members(0, 30)));
  }
}

TEST_CASE_TEMPLATE("two writers never overwrite each other's shards", Store, S3, Swift) {
  Store store;
  FolderSink first(store.url, values_meta(), small_shards());
  // Not refused by the lock only as another machine's would not be.
  store.objects[store.place + ".lock"] = "1 on another host";
  FolderSink second(store.url, values_meta(), small_shards());
  first.append(make_rows(values_meta(), 0, 4));
  first.finish(0);
  second.append(make_rows(values_meta(), 10, 4));
  CHECK(has(message_of([&] { second.finish(0); }), "another process has written it"));
  CHECK(gives(store.url, values_meta(), members(0, 4)));
}

TEST_CASE_TEMPLATE("a writer of this machine is waited for", Store, S3, Swift) {
  Store store;
  FolderSink sink(store.url, values_meta(), small_shards());
  CHECK(has(message_of([&] { FolderSink other(store.url, values_meta()); }),
            "process " + std::to_string(getpid()) + " on "));
  store.objects[store.place + ".lock"] = "999999999 on nowhere"; // long gone
  FolderSink other(store.url, values_meta());
  CHECK(has(other.notes().front(), "process 999999999 on nowhere did not finish here"));
}

TEST_CASE_TEMPLATE("other features are refused, or replaced when asked for", Store, S3, Swift) {
  Store store;
  run(store.url, values_meta(), members(0, 6), 6);
  CHECK(has(message_of([&] { FolderSink sink(store.url, files_meta()); }), "holds other features"));
  CHECK(gives(store.url, values_meta(), members(0, 6)));
  SinkOptions force = small_shards();
  force.force = true;
  run(store.url, files_meta(), members(0, 6), 6, force);
  CHECK(gives(store.url, files_meta(), members(0, 6)));
}

TEST_CASE_TEMPLATE("damaged, cut and missing shards are found by who reads them", Store, S3, Swift) {
  Store store;
  run(store.url, values_meta(), members(0, 12), 12);
  const std::string name = store.place + test::shard_name(1), whole = store.objects[name];
  for (const std::string &bytes :
       {whole.substr(0, whole.size() - 1), std::string(), std::string(whole.size(), 'x')}) {
    store.objects[name] = bytes;
    CHECK(has(message_of([&] { gives(store.url, values_meta(), members(0, 12)); }), "shard-000001"));
  }
  store.objects.erase(name);
  CHECK(has(message_of([&] { gives(store.url, values_meta(), members(0, 12)); }),
            "missing; run tl-extract again"));
  run(store.url, values_meta(), members(0, 12), 4);
  CHECK(gives(store.url, values_meta(), members(0, 12)));
}

TEST_CASE_TEMPLATE("one object for all features", Store, S3, Swift) {
  Store store;
  const std::string url = store.url + "/all.safetensors";
  const auto sink = create_sink(url, values_meta());
  sink->append(make_rows(values_meta(), 0, 7));
  CHECK(store.objects.empty());
  const SinkReport report = sink->finish(3);
  CHECK(report.bytes == store.objects.at(store.place + "all.safetensors").size());
  const auto source = open_shards(url);
  CHECK(source->expected() == 7);
  CHECK(all_rows(*source).size() == 7);
  CHECK(source->skipped() == 3);
  CHECK_THROWS_AS(open_shards(store.url + "/none.safetensors"), Error);
  CHECK(has(message_of([&] { open_shards(store.url + "/none"); }), "holds no shards"));
}

TEST_CASE("shards come through the interface for streams: rows once, in order") {
  S3 store;
  run(store.url, values_meta(), members(0, 20), 20);
  const auto source = open_shards(store.url);
  CHECK(source->expected() == 20);
  CHECK(all_rows(*source).size() == 20);
  CHECK_FALSE(source->next());
}
