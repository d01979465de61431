#include "runtime/plan/Provider.h"

#include <flatbuffers/flexbuffers.h>
#include <flatbuffers/idl.h>

namespace pipec::plan {

Status providerOf(const std::string &json, std::vector<uint8_t> &provider) {
  provider.clear();
  if (json.empty())
    return {};
  flatbuffers::Parser parser;
  flexbuffers::Builder builder;
  if (!parser.ParseFlexBuffer(json.c_str(), nullptr, &builder))
    return Status::input("the provider's values: " + parser.error_);
  provider = builder.GetBuffer();
  return {};
}

} // namespace pipec::plan
