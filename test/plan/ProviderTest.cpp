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
