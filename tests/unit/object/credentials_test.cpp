// Where credentials come from, what happens when they expire, and that nobody ever sees them.
#include "object/credentials.h"
#include "support/files.h"
#include "support/object_server.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace tl;
using namespace tl::object;
using namespace tl::test;

namespace {

struct AwsFiles {
  Environment environment{{"AWS_", "HOME"}};
  TempFolder home;
  AwsFiles() { environment.set("HOME", home.path()); }
};

} // namespace

TEST_CASE("settings of S3: the environment, then the profile's two files") {
  AwsFiles files;
  CHECK(has(message_of([] { load_aws_settings(); }), "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"));
  files.home.write(".aws/credentials",
                   "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=S = x\n\n"
                   "[work]\naws_access_key_id=WA\naws_secret_access_key=WS\naws_session_token=WT\n");
  files.home.write(".aws/config",
                   "[default]\nregion = eu-north-1\n; x\n[profile work]\nregion=eu-west-1\r\n"
                   "endpoint_url = https://s3.example:9000/\ns3 =\n  addressing_style = virtual\n");
  AwsSettings settings = load_aws_settings();
  CHECK(settings.key == "A");
  CHECK(settings.secret == "S = x");
  CHECK(settings.token.empty());
  CHECK(settings.region == "eu-north-1");
  CHECK(settings.endpoint.empty());
  files.environment.set("AWS_PROFILE", "work");
  settings = load_aws_settings();
  CHECK(settings.key == "WA");
  CHECK(settings.token == "WT");
  CHECK(settings.region == "eu-west-1");
  CHECK(settings.endpoint == "https://s3.example:9000");
  CHECK(settings.addressing == Addressing::virtual_host);
  files.environment.set("AWS_ACCESS_KEY_ID", "EA");
  files.environment.set("AWS_SECRET_ACCESS_KEY", "ES");
  files.environment.set("AWS_REGION", "us-west-2");
  files.environment.set("AWS_ENDPOINT_URL_S3", "http://here");
  settings = load_aws_settings();
  CHECK(settings.key == "EA");
  CHECK(settings.token.empty()); // never one source's key with another's token
  CHECK(settings.region == "us-west-2");
  CHECK(settings.endpoint == "http://here");
}

TEST_CASE("settings of S3 that cannot be are refused, without saying a secret") {
  AwsFiles files;
  const auto refused = [&](const std::string &config, const std::string &want) {
    files.home.write(".aws/config", config);
    const std::string message = message_of([] { load_aws_settings(); });
    CAPTURE(config);
    CAPTURE(message);
    CHECK(has(message, want));
    CHECK_FALSE(has(message, "topsecret"));
  };
  const std::string keys = "[default]\naws_access_key_id=A\naws_secret_access_key=topsecret\n";
  refused("aws_secret_access_key = topsecret\n", "config:1: neither [SECTION]");
  refused("[default\naws_secret_access_key = topsecret\n", "config:1: ");
  refused(keys + "topsecret\n", "config:4: ");
  refused("[default]\naws_access_key_id=A\n", "has no aws_secret_access_key");
  refused("[default]\nsso_session = x\n", "aws configure export-credentials --profile default");
  refused("[default]\nrole_arn = x\n", "role_arn");
  refused(keys + "endpoint_url = s3.example\n", "must begin with https://");
  refused(keys + "endpoint_url = ftp://s3.example\n", "must begin with https://");
  refused(keys + "endpoint_url = https://me:topsecret@s3.example\n", "holds a user's name");
  refused(keys + "endpoint_url = https://s3.example/path\n", "scheme, host and port");
  refused(keys + "s3 =\n  addressing_style = odd\n", "auto, path or virtual");
  files.environment.set("AWS_PROFILE", "nobody");
  refused(keys, "no profile 'nobody'");
  files.environment.set("AWS_PROFILE", std::nullopt);
  files.environment.set("AWS_ACCESS_KEY_ID", "A");
  refused("", "set both");
}

TEST_CASE("how the bucket is named: path, virtual host, by the endpoint") {
  TempFolder folder;
  const auto target = [&](const char *style) {
    FakeS3 fake;
    fake.environment.set(
        "AWS_CONFIG_FILE",
        folder.write("config", std::string("[default]\ns3 =\n addressing_style = ") + style + "\n"));
    fake.environment.set("AWS_ENDPOINT_URL", "http://localhost:" + fake.server.port());
    StoreOptions options = quick_options();
    options.retry.attempts = 1;
    message_of([&] { fake.open(options)->get("key"); });
    const auto requests = fake.server.requests();
    REQUIRE(requests.size() == 1);
    return requests[0].headers.at("host").substr(0, requests[0].headers.at("host").find(':')) +
           requests[0].target;
  };
  CHECK(target("path") == "localhost/bucket/key");
  CHECK(target("auto") == "localhost/bucket/key");
  CHECK(target("virtual") == "bucket.localhost/key"); // *.localhost is this machine
}

TEST_CASE("requests to S3 are signed; the token of temporary credentials is part of it") {
  FakeS3 fake;
  fake.environment.set("AWS_SESSION_TOKEN", "tok");
  fake.environment.set("AWS_REGION", "eu-north-1");
  fake.open()->put("key", "x");
  const WebRequest request = fake.server.requests().back();
  const std::string &authorization = request.headers.at("authorization");
  CHECK(has(authorization, "AWS4-HMAC-SHA256 Credential=AKEXAMPLE/"));
  CHECK(has(authorization, "/eu-north-1/s3/aws4_request"));
  CHECK(has(authorization, "x-amz-security-token"));
  CHECK(request.headers.at("x-amz-security-token") == "tok");
  CHECK(request.headers.at("x-amz-content-sha256") == "UNSIGNED-PAYLOAD");
  CHECK_FALSE(has(authorization, "verysecret"));
}

TEST_CASE("expired credentials of S3 are read again, once, when there are others") {
  TempFolder folder;
  const auto credentials = [&](const std::string &token) {
    return folder.write(
        "credentials",
        "[default]\naws_access_key_id=A\naws_secret_access_key=S\naws_session_token=" + token + "\n");
  };
  const WebReply expired{
      400, "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>", {}};
  const auto with_token = [&](const std::string &valid) {
    return [=](const WebRequest &request) -> std::optional<WebReply> {
      if (request.headers.at("x-amz-security-token") == valid) return std::nullopt;
      credentials("new"); // as a program that refreshes them would, meanwhile
      return expired;
    };
  };
  for (const char *valid : {"new", "another"}) {
    FakeS3 fake(with_token(valid));
    fake.objects["bucket/key"] = "content";
    fake.environment.set("AWS_ACCESS_KEY_ID", std::nullopt);
    fake.environment.set("AWS_SECRET_ACCESS_KEY", std::nullopt);
    fake.environment.set("AWS_SHARED_CREDENTIALS_FILE", credentials("old"));
    const auto store = fake.open();
    if (std::string(valid) == "new") {
      CHECK(store->get("key").size == 7);
    } else {
      const std::string message = message_of([&] { store->get("key"); });
      CHECK(has(message, "ExpiredToken"));
      CHECK(has(message, "renew them"));
      CHECK(has(message, folder.path("credentials")));
    }
    CHECK(fake.server.requests().size() == 2);
  }
}

TEST_CASE("an expired token of Swift is replaced by a new one, once") {
  for (const bool keystone : {false, true}) {
    FakeSwift fake;
    fake.environment.set("OS_USERNAME", "me");
    fake.environment.set("OS_PASSWORD", "verysecret");
    fake.environment.set("OS_PROJECT_NAME", "project");
    if (keystone) fake.use_keystone();
    const auto store = fake.open();
    store->put("key", "content");
    CHECK(fake.tokens == 1);
    ++fake.tokens; // no longer the valid one
    CHECK(store->get("key").size == 7);
    CHECK(fake.tokens == 3);
  }
  FakeSwift never([](const WebRequest &request) {
    return asks_for_key(request) ? std::optional<WebReply>({401, "<h1>Unauthorized</h1>", {}}) : std::nullopt;
  });
  const std::string message = message_of([&] { never.open()->get("key"); });
  CHECK(message == "swift://box/key: HTTP 401: Unauthorized; check that the user may do this");
  CHECK(never.server.requests().size() == 4); // token, refused, token, refused
}

TEST_CASE("Keystone: a password, an application credential, and the catalogue") {
  FakeSwift fake;
  fake.use_keystone();
  const auto needs = [&](const char *variable) { CHECK(has(message_of([&] { fake.open(); }), variable)); };
  needs("OS_USERNAME");
  fake.environment.set("OS_USERNAME", "me");
  needs("OS_PASSWORD");
  fake.environment.set("OS_PASSWORD", "verysecret");
  needs("OS_PROJECT_NAME");
  fake.environment.set("OS_PROJECT_NAME", "project");
  fake.environment.set("OS_USER_DOMAIN_NAME", "here");
  fake.open()->put("key", "x");
  CHECK(fake.identity ==
        R"({"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"me","domain":)"
        R"({"name":"here"},"password":"verysecret"}}},"scope":{"project":{"name":"project",)"
        R"("domain":{"id":"default"}}}}})");
  fake.environment.set("OS_REGION_NAME", "south");
  CHECK(has(message_of([&] { fake.open()->get("key"); }),
            "no object store with the interface public in region south"));
  fake.environment.set("OS_REGION_NAME", "north");
  CHECK(fake.open()->get("key").size == 1);
  fake.environment.set("OS_APPLICATION_CREDENTIAL_ID", "id");
  needs("OS_APPLICATION_CREDENTIAL_SECRET");
  fake.environment.set("OS_APPLICATION_CREDENTIAL_SECRET", "verysecret");
  CHECK(fake.open()->get("key").size == 1);
  CHECK(fake.identity ==
        R"({"auth":{"identity":{"methods":["application_credential"],"application_credential":)"
        R"({"secret":"verysecret","id":"id"}}}})");
}

TEST_CASE("answers of an authentication server that are none") {
  const std::vector<WebReply> replies = {
      {200, "", {}},
      {200, "[]", {}},
      {201, "{}", {"X-Subject-Token: t"}},
      {201, R"({"token":{"catalog":5}})", {"X-Subject-Token: t"}},
      {201,
       R"({"token":{"catalog":[5,{"type":"object-store"},{"type":"object-store","endpoints":[[]]}]}})",
       {"X-Subject-Token: t"}},
      {404, "", {}},
      {401, "", {}},
      {503, "", {}},
      {200, "", {}, 0, true}};
  for (const WebReply &reply : replies)
    for (const bool keystone : {false, true}) {
      FakeSwift fake([&](const WebRequest &) { return std::optional<WebReply>(reply); });
      fake.environment.set("OS_APPLICATION_CREDENTIAL_ID", "id");
      fake.environment.set("OS_APPLICATION_CREDENTIAL_SECRET", "verysecret");
      if (keystone) fake.use_keystone();
      const std::string message = message_of([&] { fake.open()->get("key"); });
      CAPTURE(reply.status);
      CHECK(has(message, fake.server.url()));
      CHECK_FALSE(has(message, "verysecret"));
    }
}

TEST_CASE("a server that repeats what it was sent gives no secret away") {
  const auto echo = [](const WebRequest &request) -> std::optional<WebReply> {
    if (request.path() == "/auth") return std::nullopt;
    std::string all;
    for (const auto &[name, value] : request.headers) all += name + "=" + value + " ";
    return WebReply{403, "<Error><Code>No</Code><Message>" + all + " verysecret</Message></Error>", {}};
  };
  FakeS3 s3(echo);
  s3.environment.set("AWS_SESSION_TOKEN", "sessiontoken");
  std::string message = message_of([&] { s3.open()->get("key"); });
  CHECK(has(message, "HTTP 403 No: "));
  for (const char *secret : {"verysecret", "sessiontoken", "AKEXAMPLE"}) CHECK_FALSE(has(message, secret));
  // Not even half of one, where a long message is cut.
  FakeS3 cut([](const WebRequest &) {
    const std::string text = std::string(295, 'x') + "verysecret";
    return std::optional<WebReply>(
        {403, "<Error><Code>No</Code><Message>" + text + "</Message></Error>", {}});
  });
  CHECK_FALSE(has(message_of([&] { cut.open()->get("key"); }), "very"));
  FakeSwift swift(echo);
  message = message_of([&] { swift.open()->get("key"); });
  CHECK(has(message, "HTTP 403: "));
  for (const char *secret : {"verysecret", "token1"}) CHECK_FALSE(has(message, secret));
}

TEST_CASE("refusals become one line that says what to do") {
  const auto refusal = [](int status, const std::string &code, std::vector<std::string> headers = {}) {
    FakeS3 fake([=](const WebRequest &) {
      return std::optional<WebReply>(
          {status, "<Error><Code>" + code + "</Code><Message>Because\nof it.</Message></Error>", headers});
    });
    return message_of([&] { fake.open()->get("key"); });
  };
  CHECK(refusal(404, "NoSuchKey") == "s3://bucket/key: HTTP 404 NoSuchKey: Because\\x0aof it");
  CHECK(has(refusal(404, "NoSuchBucket"), "; check the bucket's name and AWS_ENDPOINT_URL"));
  CHECK(has(refusal(403, "SignatureDoesNotMatch"), "; check the credentials (AWS_ACCESS_KEY_ID)"));
  CHECK(has(refusal(403, "AccessDenied"), "may do this"));
  CHECK(has(refusal(403, "RequestTimeTooSkewed"), "clock"));
  CHECK(has(refusal(403, "InvalidObjectState"), "archived"));
  CHECK(has(refusal(301, "PermanentRedirect", {"x-amz-bucket-region: eu-north-1"}),
            "eu-north-1: set AWS_REGION"));
  for (const std::string &message : {refusal(403, "AccessDenied"), refusal(500, "InternalError")})
    CHECK(message.find('\n') == std::string::npos);
}

TEST_CASE("a header cannot be smuggled in by a credential") {
  FakeS3 fake;
  fake.environment.set("AWS_SESSION_TOKEN", "x\r\nx-amz-acl: public-read");
  CHECK(has(message_of([&] { fake.open()->get("key"); }), "line end"));
  CHECK(fake.server.requests().empty());
}
