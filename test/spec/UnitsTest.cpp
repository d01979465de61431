// Quantities are exact: each expected value is the decimal worked out by hand, never through a double.
#include "compiler/spec/SpecUnits.h"

#include <gtest/gtest.h>
#include <regex>

using namespace pipec::spec;

namespace {

struct Case {
  std::string_view text;
  int64_t value;
};

TEST(Units, durationsAreExact) {
  for (auto [text, value] : {Case{"0ms", 0},
                             {"1ps", 1},
                             {"18.522ms", 18'522'000'000},
                             {"0.601ms", 601'000'000},
                             {"601us", 601'000'000},
                             {"0.1us", 100'000},
                             {"10 ms", 10'000'000'000},
                             {"1.000000000001s", 1'000'000'000'001},
                             {"123456.789012345678s", 123'456'789'012'345'678}, // not a double
                             {"999999.999999999999s", 999'999'999'999'999'999},
                             {"1000000s", 1'000'000'000'000'000'000},
                             {"1.10000000000000000000000000ms", 1'100'000'000}}) {
    Quantity quantity = parseDuration(text);
    EXPECT_TRUE(quantity.ok()) << text << ": " << quantity.error;
    EXPECT_EQ(quantity.value, value) << text;
  }
}

TEST(Units, belowOneRoundsHalfUpOnce) {
  for (auto [text, value] : {Case{"0.4ps", 0},
                             {"0.5ps", 1},
                             {"0.499999999999999999ps", 0},
                             {"1.5ps", 2},
                             {"2.5ps", 3},
                             {"0.0005ns", 1},
                             {"0.00049ns", 0},
                             {"0.0000000000005s", 1}})
    EXPECT_EQ(parseDuration(text).value, value) << text;
  EXPECT_EQ(parseSize("0.3KiB").value, 307);    // 307.2
  EXPECT_EQ(parseSize("1.4995kB").value, 1500); // 1499.5
}

TEST(Units, sizesAndBandwidthsAreExact) {
  for (auto [text, value] : {Case{"0B", 0},
                             {"24MB", 24'000'000},
                             {"1.5GiB", 1'610'612'736},
                             {"1.2GiB", 1'288'490'189}, // 1288490188.8
                             {"27MiB", 1024 * 6 * 2304 * 2},
                             {"3kB", 3000},
                             {"2KiB", 2048},
                             {"4TB", 4'000'000'000'000},
                             {"1TiB", int64_t(1) << 40},
                             {"1048576TiB", int64_t(1) << 60}})
    EXPECT_EQ(parseSize(text).value, value) << text << parseSize(text).error;
  for (auto [text, value] : {Case{"12.5GB/s", 12'500'000'000},
                             {"100Gbit/s", 12'500'000'000},
                             {"1Mbit/s", 125'000},
                             {"8kbit/s", 1000},
                             {"1GiB/s", int64_t(1) << 30},
                             {"unlimited", 0}})
    EXPECT_EQ(parseBandwidth(text).value, value) << text << parseBandwidth(text).error;
}

TEST(Units, wrongQuantitiesSayWhatWasExpected) {
  const std::string duration = "expected a duration with a unit (ps, ns, us, ms, s), found ";
  for (std::string text : {"10", "", "ms", "10MB", "10mS", "1e3ms", ".5ms", "5.ms", "010ms", "+1ms", "1,5ms", "10ms ",
                           "--1ms", "-", "10m", "0x10ms", "1_000ms", "nan", "inf"})
    EXPECT_EQ(parseDuration(text).error, duration + "'" + text + "'");
  EXPECT_EQ(parseDuration("-5ms").error, "expected a duration that is not negative, found '-5ms'");
  EXPECT_EQ(parseDuration("1000000.000000000001s").error,
            "expected a duration of at most 10^18 ps, found '1000000.000000000001s'");
  EXPECT_EQ(parseDuration("99999999999999999999999999999999999999999s").error,
            "expected a duration of at most 10^18 ps, found '9999999999999999999999999999999999999999…'");
  EXPECT_EQ(parseDuration("0.1234567890123456789ms").error,
            "expected at most 18 digits after the point, found '0.1234567890123456789ms'");
  EXPECT_EQ(parseSize("24").error, "expected a size with a unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB), found '24'");
  EXPECT_EQ(parseSize("1048577TiB").error, "expected a size of at most 2^60 bytes, found '1048577TiB'");
  EXPECT_EQ(parseBandwidth("1GB").error,
            "expected a bandwidth with a unit (B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s, kbit/s, "
            "Mbit/s, Gbit/s), found '1GB'");
  EXPECT_EQ(parseBandwidth("0.4B/s").error, "expected at least 1B/s, or 'unlimited', found '0.4B/s'");
}

TEST(Units, partsArePercentagesOrDecimals) {
  const std::pair<std::string, int64_t> parts[] = {{"1%", 10'000},      {"0.01", 10'000},     {"0.5 %", 5'000},
                                                   {"0.0001%", 1},      {"1", 1'000'000},     {"0.000001", 1},
                                                   {"100%", 1'000'000}, {"1.250000%", 12'500}};
  for (const auto &[text, millionths] : parts) {
    EXPECT_EQ(parsePart(text, 1, 1'000'000).error, "") << text;
    EXPECT_EQ(parsePart(text, 1, 1'000'000).value, millionths) << text;
    EXPECT_EQ(std::regex_match(text, std::regex(percentagePattern())), text.ends_with('%')) << text;
  }
  for (const std::string text : {"0", "0%", "0.00001%", "0.00015%", "100.0001%", "2", "much", "%", "1 % %", "-1%",
                                 "01%", "1e0%", "1.%", ".5%", "99999999999999999999%"})
    EXPECT_EQ(parsePart(text, 1, 1'000'000).error,
              "expected a percentage from 0.0001% to 100%, at most four digits after the point, or a number from "
              "0.000001 to 1, at most six, found '" +
                  text + "'");
}

TEST(Units, integersAreDecimal) {
  EXPECT_EQ(parseInteger("65536", 1, 65536).value, 65536);
  EXPECT_EQ(parseInteger("0", 0, 9).value, 0);
  EXPECT_EQ(parseInteger("010", 1, 65536).error, "expected an integer without leading zeros, found '010'");
  for (std::string text : {"0", "65537", "-1", "yes", "1.0", "0x10", "1e3", "99999999999999999999999", "", "1 "})
    EXPECT_EQ(parseInteger(text, 1, 65536).error, "expected an integer from 1 to 65536, found '" + text + "'");
}

TEST(Units, controlCharactersAreEscaped) {
  EXPECT_EQ(pipec::units::escaped("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
  EXPECT_EQ(pipec::units::escaped("a\u0080\u009b2J\u00a0é\xc2"), "a\\u0080\\u009b2J\u00a0é\xc2");
  EXPECT_EQ(pipec::units::quoted("\u009b2J"), "'\\u009b2J'");
}

} // namespace
