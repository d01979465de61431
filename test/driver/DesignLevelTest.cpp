// The design level is verified in every build: a design that is none makes no module, and is said to be none.
#include "compiler/driver/DesignLevel.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace pipec {
namespace {

class DesignLevel : public testing::Test {
protected:
  DesignLevel() {
    context.loadDialect<pipe::PipeDialect>();
    spec.sources = {"spec.yaml"};
    spec.figures.set(plan::Figure::Backward);
    design.problem.ranks = 2;
    design.problem.rankOf = {0, 1};
    design.problem.stages.resize(2);
    design.problem.staticBytes = design.problem.workspace = {0, 0};
    using enum schedule::Letter;
    design.order.emplace().words = {{{0, F}, {0, BW}}, {{1, F}, {1, BW}}};
  }

  /// The module's text, or what is wrong.
  std::string made() {
    std::string text;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) { text += diagnostic.str(); });
    if (OwningOpRef<ModuleOp> module = designLevel(spec, design, context)) {
      llvm::raw_string_ostream stream(text);
      module->print(stream);
    }
    return text;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  spec::Spec spec;
  Design design;
};

TEST_F(DesignLevel, OrdersAreWrittenAsOneReadsThem) {
  EXPECT_NE(made().find("problem <placement = [0, 1], microbatches = 1> orders ["), std::string::npos) << made();
  EXPECT_NE(made().find("#pipe.order<F1 BW1>]"), std::string::npos) << made();
}

TEST_F(DesignLevel, WrongProblem) {
  design.problem.rankOf = {0, 0};
  design.problem.microbatches = 0;
  EXPECT_EQ(made(), "expected 'microbatches' between 1 and 1048576, found 0");
}

TEST_F(DesignLevel, WrongNumberOfOrders) {
  design.order->words.pop_back();
  EXPECT_EQ(made(), "'pipe.pipeline' op expected an order for each of its 2 ranks, found 1");
}

TEST_F(DesignLevel, WrongPass) {
  design.problem.stages[1].forward = -7;
  EXPECT_NE(made().find("expected a cost between 0 and"), std::string::npos) << made();
}

} // namespace
} // namespace pipec
