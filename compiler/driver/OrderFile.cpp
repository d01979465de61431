#include "compiler/driver/OrderFile.h"

#include "compiler/driver/Files.h"
#include "runtime/plan/Limits.h"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace pipec {

bool readOrderFile(const std::string &path, emit::Communicator communicator, OrderFile &order, emit::OrderStop &stop,
                   Code &code) {
  std::vector<uint8_t> bytes;
  if (Status status = readBytes(path, limits::kOrderBytes, bytes); !status.ok()) {
    stop.error.message = withoutName(status.message, path);
    code = status.code;
    return false;
  }
  const std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  const bool right = schedule::readCells(text, order.cells, stop.error) &&
                     schedule::checkCells(order.cells, order.index, stop.error) &&
                     emit::proveOrder(order.cells, order.index, communicator, stop);
  code = right ? Code::Ok : stop.error.readable ? Code::Check : Code::Input;
  return right;
}

std::string specOf(const std::string &path, const OrderFile &order) {
  std::vector<std::vector<int32_t>> placement(order.cells.rows.size());
  for (size_t stage = 0; stage != order.index.rankOf.size(); ++stage)
    placement[size_t(order.index.rankOf[stage])].push_back(int32_t(stage));
  // The spec stands beside the order, so that a name is enough.
  const nlohmann::json name = std::filesystem::path(path).filename().string();
  std::string text = fmt::format("pipec: 1\n"
                                 "pipeline: {{ranks: {0}, microbatches: {1}, placement: {2}}}\n"
                                 "costs: {{forward: {3}, backward_input: {3}, backward_weight: {3}}}\n"
                                 "communicator: per_edge\n"
                                 "schedule: {{name: order, file: {4}}}\n",
                                 placement.size(), order.index.microbatches, placement, kOrderUnit,
                                 name.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  const std::string made = path + " (as a spec)";
  keep(made, std::move(text));
  return made;
}

} // namespace pipec
