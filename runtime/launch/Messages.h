// All messages between the controller, the processes of a run and the clients of its control socket. A message is a
// struct with named fields. Its kind holds the message's name, directions and largest size. Encoding, decoding and
// dispatch (messages/Code.h) come from the list of all structs (All).
//
// On the wire a message is a header and a CBOR object of its fields. Decoding trusts nothing: a message that is nested
// too deep, lacks a field, has an unknown field, or a field of another type or range is refused with the reason.
//
// Controller and process send, in this order:
//   process:    Listening
//   controller: Table
//   process:    Offer, where its transport has one, to which the controller answers Offers; Ready
//   controller: Start, Permit …
//   process:    Progress …, Saved …, (where it has nothing to do: Waits; and once the others are done, the controller:
//               Rest) Report
//   controller: Finish
// at any time after the start:
//   controller: Prepare, Drop, Measure, Decision, Layers
//   process:    Prepared, Measured, Paced, Stop
// with a host, at any time:
//   process:    Put, Swap, Finishes
//   controller: Text, Swapped
// at any time:
//   process:    Failed, Clock, Asks, Does (also to other processes)
//   controller: End, Clock, Asks, Does
//
// A client sends Load, LoadFor, Swap, Adapt, AskPlan, AskStatus or Stop. The controller answers Done or Refused, and
// sends Alive while the answer takes long.
#pragma once

#include "runtime/launch/messages/FromController.h"
#include "runtime/launch/messages/FromRanks.h"
#include "runtime/launch/messages/OfControl.h"
#include "runtime/launch/messages/OfWaits.h"

namespace pipec::runtime::messages {

/// All messages. Header::kind is an index into this list.
using All = std::tuple<Listening, Offer, Ready, Progress, Saved, Prepared, Measured, Paced, Waits, Report, Failed, Put,
                       Finishes, Clock, Table, Offers, Start, Permit, Prepare, Drop, Measure, Decision, Layers, Rest,
                       Finish, End, Text, Swapped, Swap, Stop, Load, LoadFor, Adapt, AskStatus, AskPlan, Done, Refused,
                       Alive, Asks, Does>;

template <typename... Each> constexpr auto kindsOf(std::tuple<Each...> *) {
  return std::array<Kind, sizeof...(Each)>{Each::kind...};
}
inline constexpr auto kKinds = kindsOf(static_cast<All *>(nullptr));

} // namespace pipec::runtime::messages
