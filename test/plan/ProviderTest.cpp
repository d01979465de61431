// The provider's map survives the way from the spec's JSON into a plan.
#include "runtime/plan/Provider.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Write.h"
#include "test/plan/MakePlan.h"

#include <flatbuffers/flexbuffers.h>
#include <gtest/gtest.h>

using namespace pipec;

TEST(Provider, MapsListsAndScalars) {
  std::vector<uint8_t> bytes;
  Status status =
      plan::providerOf(R"({"hidden": 256, "name": "a \"b\"", "list": [1, 2.5, true, null], "deep": {"x": -1}})", bytes);
  ASSERT_TRUE(status.ok()) << status.message;
  plan::Plan plan = plan::test::makePlan({});
  plan.provider = bytes;
  plan::Plan loaded;
  ASSERT_TRUE(plan::decode(plan::encode(plan), loaded).ok());
  flexbuffers::Map map = flexbuffers::GetRoot(loaded.provider).AsMap();
  EXPECT_EQ(map["hidden"].AsInt64(), 256);
  EXPECT_EQ(map["name"].AsString().str(), "a \"b\"");
  EXPECT_EQ(map["list"].AsVector().size(), 4u);
  EXPECT_DOUBLE_EQ(map["list"].AsVector()[1].AsDouble(), 2.5);
  EXPECT_EQ(map["deep"].AsMap()["x"].AsInt64(), -1);
}

TEST(Provider, NothingIsAnEmptyBuffer) {
  std::vector<uint8_t> bytes{1};
  ASSERT_TRUE(plan::providerOf("", bytes).ok());
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(plan::providerOf("{", bytes).code, Code::Input);
}

TEST(Provider, ComesBackAsJson) {
  for (const char *json : {R"({"deep":{"x":-1},"hidden":256,"list":[1,2.5,true,null,"a \"b\" \\ ü"],"rate":0.05})",
                           R"([])", R"([1,2,3])", R"([0.5,1e-300])", R"(["a","b"])", R"("text")", R"({})", R"(true)"}) {
    std::vector<uint8_t> bytes;
    ASSERT_TRUE(plan::providerOf(json, bytes).ok()) << json;
    std::string back;
    ASSERT_TRUE(plan::jsonOf(bytes, back).ok()) << json;
    EXPECT_EQ(back, json);
  }
  std::string back;
  ASSERT_TRUE(plan::jsonOf({}, back).ok());
  EXPECT_EQ(back, "null");
}

// Lists of which each holds the one before it twice: small as a file, a gigabyte as text.
TEST(Provider, ABufferThatIsEndlessAsTextIsRefused) {
  flexbuffers::Builder builder;
  size_t root = builder.StartVector();
  builder.Int(1);
  for (int depth = 0; depth < 28; ++depth) {
    flexbuffers::Builder::Value before = builder.LastValue();
    size_t list = builder.StartVector();
    builder.ReuseValue(before);
    builder.ReuseValue(before);
    builder.EndVector(list, false, false);
  }
  builder.EndVector(root, false, false);
  builder.Finish();
  plan::Plan plan = plan::test::makePlan({});
  plan.provider = builder.GetBuffer();
  plan::Plan loaded;
  Status status = plan::decode(plan::encode(plan), loaded);
  ASSERT_TRUE(status.ok()) << status.message;
  std::string back;
  EXPECT_EQ(plan::jsonOf(loaded.provider, back).code, Code::Input);
}
