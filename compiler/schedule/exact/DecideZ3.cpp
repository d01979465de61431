// The problem in Z3's difference logic. A variable is the start of a pass. Microbatches of a stage and kind come in
// order (no loss: exchanging equals changes no time and no count). So what is left to decide is, for each two passes of
// a rank of different stage or kind, which runs first. Memory limits, and that a rank runs one pass at a time, are
// clauses over these decisions.
#include "compiler/schedule/exact/Decide.h"

#include "compiler/schedule/exact/PassGraph.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <z3++.h>

namespace pipec::schedule {

namespace {

/// A literal, or a constant.
struct Literal {
  int32_t variable = -1; // -1: a constant
  bool positive = true;

  Literal operator!() const { return {variable, !positive}; }
  bool isTrue() const { return variable < 0 && positive; }
  bool isFalse() const { return variable < 0 && !positive; }
};

class Formula {
public:
  Formula(const Passes &passes, const Capacities &capacities, const Question &question)
      : passes(passes), capacities(capacities), question(question), solver(context, "QF_IDL") {}

  Decided run(Words &words) {
    if (!passes.isPossible())
      return Decided::No;
    times();
    for (int32_t r = 0; r < passes.ranks(); ++r) {
      order(r);
      if (!capacities.empty())
        memory(r);
    }
    for (int32_t r = 0; r < passes.ranks(); ++r)
      work(r);
    if (left() <= 0 || question.stop.stop_requested())
      return Decided::OutOfTime;
    const std::stop_callback interrupts(question.stop, [this] { context.interrupt(); });
    z3::params parameters(context);
    parameters.set("timeout", unsigned(std::clamp<int64_t>(left(), 1, 1 << 30)));
    solver.set(parameters);
    switch (solver.check()) {
    case z3::unsat:
      return Decided::No;
    case z3::unknown:
      return Decided::OutOfTime;
    case z3::sat:
      break;
    }
    read(words);
    return Decided::Yes;
  }

private:
  const Passes &passes;
  const Capacities &capacities;
  const Question &question;
  z3::context context;
  z3::solver solver;
  std::vector<z3::expr> start; // of a pass
  std::vector<z3::expr> booleans;
  std::map<std::pair<int32_t, int32_t>, Literal> befores;

  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  int64_t left() const {
    return question.milliseconds -
           std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count();
  }

  z3::expr number(Time time) { return context.int_val(int64_t(time)); }
  z3::expr expr(Literal literal) {
    if (literal.variable < 0)
      return context.bool_val(literal.positive);
    return literal.positive ? booleans[size_t(literal.variable)] : !booleans[size_t(literal.variable)];
  }
  Literal fresh() {
    booleans.push_back(
        context.constant(context.int_symbol(passes.count() + int(booleans.size())), context.bool_sort()));
    return {int32_t(booleans.size()) - 1, true};
  }
  void clause(std::initializer_list<Literal> literals) {
    z3::expr_vector terms(context);
    for (const Literal literal : literals) {
      if (literal.isTrue())
        return;
      if (!literal.isFalse())
        terms.push_back(expr(literal));
    }
    solver.add(z3::mk_or(terms));
  }

  /// Data, order of microbatches, and the target.
  void times() {
    for (int32_t i = 0; i < passes.count(); ++i)
      start.push_back(context.constant(context.int_symbol(i), context.int_sort()));
    for (const Passes::Arc &arc : passes.arcs())
      solver.add(start[size_t(arc.to)] - start[size_t(arc.from)] >= number(arc.length));
    for (int32_t i = 0; i < passes.count(); ++i) {
      const z3::expr from = start[size_t(i)] - start[size_t(passes.anchorOf(i))];
      if (i == passes.anchorOf(i))
        continue;
      solver.add(from >= number(passes.earliest(i)));
      solver.add(from <= number(passes.latest(i)));
    }
  }

  /// Of two passes of a rank, whether x runs first.
  Literal before(int32_t x, int32_t y) {
    if (passes.mustPrecede(x, y))
      return {-1, true};
    if (passes.mustPrecede(y, x))
      return {-1, false};
    if (x > y)
      return !before(y, x);
    const auto [place, isNew] = befores.try_emplace({x, y});
    if (isNew)
      place->second = fresh();
    return place->second;
  }

  void order(int32_t rank) {
    const std::vector<int32_t> &lines = passes.linesOf(rank);
    const int32_t m = passes.microbatches();
    for (size_t a = 0; a < lines.size(); ++a)
      for (size_t b = a + 1; b < lines.size(); ++b)
        for (int32_t i = 0; i < m; ++i)
          for (int32_t j = 0; j < m; ++j) {
            const int32_t x = passes.pass(lines[a], i), y = passes.pass(lines[b], j);
            const Literal first = before(x, y);
            if (first.variable < 0) {
              orderedByWindows(first.positive ? x : y, first.positive ? y : x);
            } else {
              solver.add(z3::implies(expr(first), start[size_t(y)] - start[size_t(x)] >= number(passes.length(x))));
              solver.add(z3::implies(expr(!first), start[size_t(x)] - start[size_t(y)] >= number(passes.length(y))));
            }
            if (i + 1 < m) // what runs before y, so do those before it
              clause({!before(passes.pass(lines[a], i + 1), y), first});
            if (j + 1 < m)
              clause({!first, before(x, passes.pass(lines[b], j + 1))});
          }
  }

  /// Says that x runs before y, unless what is said of a neighbouring pass implies it.
  void orderedByWindows(int32_t x, int32_t y) {
    const int32_t m = passes.microbatches();
    if ((y % m > 0 && before(x, y - 1).isTrue()) || (x % m + 1 < m && before(x + 1, y).isTrue()))
      return;
    solver.add(start[size_t(y)] - start[size_t(x)] >= number(passes.length(x)));
  }

  /// A pass starts no earlier than the time that all passes before it on its rank take; likewise for what follows it.
  /// Said for two lines at a time.
  void work(int32_t rank) {
    const std::vector<int32_t> &lines = passes.linesOf(rank);
    const int32_t m = passes.microbatches();
    for (const int32_t own : lines)
      for (int32_t i = 0; i < m && left() > 0; ++i) {
        const int32_t x = passes.pass(own, i);
        for (size_t a = 0; a < lines.size(); ++a)
          for (size_t b = a + 1; b < lines.size(); ++b) {
            if (lines[a] == own || lines[b] == own)
              continue;
            for (int32_t j = 0; j < m; ++j)
              for (int32_t k = 0; k < m; ++k) {
                const int32_t y = passes.pass(lines[a], j), z = passes.pass(lines[b], k);
                const Time least = passes.length(x) * i + passes.length(y) * (j + 1) + passes.length(z) * (k + 1) +
                                   passes.firstOf(rank);
                bound(x, before(y, x), before(z, x), least, true);
                const Time most = passes.lastOf(rank) - passes.length(x) * (m - i) - passes.length(y) * (m - j) -
                                  passes.length(z) * (m - k);
                bound(x, before(x, y), before(x, z), most, false);
              }
          }
      }
  }

  void bound(int32_t x, Literal one, Literal other, Time time, bool isLeast) {
    if (one.isFalse() || other.isFalse() || (isLeast ? time <= passes.earliest(x) : time >= passes.latest(x)))
      return;
    const bool isAnchor = x == passes.anchorOf(x); // at 0
    if (isLeast ? time > (isAnchor ? 0 : passes.latest(x)) : time < passes.earliest(x)) {
      clause({!one, !other});
      return;
    }
    if (isAnchor)
      return;
    const z3::expr from = start[size_t(x)] - start[size_t(passes.anchorOf(x))];
    z3::expr_vector terms(context);
    if (!one.isTrue())
      terms.push_back(expr(!one));
    if (!other.isTrue())
      terms.push_back(expr(!other));
    terms.push_back(isLeast ? from >= number(time) : from <= number(time));
    solver.add(z3::mk_or(terms));
  }

  /// Sums that may be reached, ascending: value -> the literal that is true if the sum reaches it.
  using Sum = std::map<__int128, Literal>;

  /// While a forward runs, its rank holds no more than it may: a totalizer over the lines of the rank (Bailleux and
  /// Boufkhad, 2003; with weights: Joshi, Martins, Manquinho, 2015).
  void memory(int32_t rank) {
    const __int128 most = capacities[size_t(rank)];
    const int32_t m = passes.microbatches();
    for (const int32_t own : passes.linesOf(rank)) {
      if (passes.letterOf(own) != Letter::F)
        continue;
      for (int32_t i = 0; i < m; ++i) {
        const int32_t x = passes.pass(own, i);
        // Held: all begun less what is freed. What is not freed yet counts, of all; so does what has not begun, as
        // less.
        std::vector<Sum> sums;
        __int128 base = __int128(passes.change(own)) * (i + 1);
        for (const int32_t line : passes.linesOf(rank)) {
          if (line == own)
            continue;
          const __int128 change = passes.change(line);
          if (change == 0)
            continue;
          Sum sum;
          for (int32_t j = 0; j < m; ++j) {
            if (change > 0) // j + 1 of them begun
              sum[change * (j + 1)] = before(passes.pass(line, j), x);
            else // j + 1 of them still held
              sum[-change * (j + 1)] = !before(passes.pass(line, m - 1 - j), x);
          }
          if (change < 0)
            base += change * m;
          sums.push_back(std::move(sum));
        }
        limit(sums, most - base);
      }
    }
  }

  void limit(const std::vector<Sum> &sums, __int128 most) {
    Sum all;
    for (const Sum &sum : sums) {
      if (all.empty()) {
        all = sum;
        continue;
      }
      all = added(all, sum, most);
    }
    for (const auto &[value, literal] : all)
      if (value > most)
        clause({!literal});
    if (most < 0)
      clause({});
  }

  Sum added(const Sum &a, const Sum &b, __int128 most) {
    Sum result;
    std::vector<std::pair<__int128, Literal>> left(a.begin(), a.end()), right(b.begin(), b.end());
    left.insert(left.begin(), {0, Literal{}});
    right.insert(right.begin(), {0, Literal{}});
    // All beyond the limit are one.
    const auto capped = [&](__int128 value) { return std::min(value, std::max<__int128>(most, 0) + 1); };
    for (const auto &[x, first] : left)
      for (const auto &[y, second] : right) {
        if (x + y == 0 || first.isFalse() || second.isFalse())
          continue;
        Literal &literal = result.try_emplace(capped(x + y), Literal{-2, true}).first->second;
        if (literal.variable == -2)
          literal = x + y > most ? Literal{-1, false} : fresh();
        clause({!first, !second, literal});
      }
    // Reaching a value is reaching those below it.
    const Literal *below = nullptr;
    for (auto &[value, literal] : result) {
      if (below)
        clause({!literal, *below});
      below = &literal;
    }
    return result;
  }

  void read(Words &words) {
    const z3::model model = solver.get_model();
    std::vector<int64_t> at;
    for (const z3::expr &each : start)
      at.push_back(model.eval(each, true).get_numeral_int64());
    words = passes.words(at);
  }
};

} // namespace

bool canDecide() { return true; }

Decided decide(const Problem &problem, const Capacities &capacities, const Question &question, Words &words) {
  constexpr double kMostClauses = 4e6; // about a gigabyte
  const double m = problem.microbatches, lines = (problem.backward == BackwardMode::Fused ? 2.0 : 3.0) *
                                                 double(problem.stages.size()) / problem.ranks;
  if (problem.ranks * lines * lines * lines / 2 * m * m * m > kMostClauses)
    return Decided::TooLarge;
  const Passes passes(problem, question.objective, question.target);
  try {
    return Formula(passes, capacities, question).run(words);
  } catch (const z3::exception &) { // out of memory, or stopped
    return Decided::OutOfTime;
  }
}

} // namespace pipec::schedule
