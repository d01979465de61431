// The quantities of a spec: the grammar of runtime/plan/Units.h, which scenarios share.
#pragma once

#include "runtime/plan/Units.h"

namespace pipec::spec {

using units::bandwidthPattern;
using units::decimalText;
using units::durationPattern;
using units::parseBandwidth;
using units::parseDecimal;
using units::parseDuration;
using units::parseInteger;
using units::parsePart;
using units::parseSize;
using units::percentagePattern;
using units::Quantity;
using units::sizePattern;

} // namespace pipec::spec
